#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/reference_for_test.h"
#include "tenon/vocab/tokenizer_file.h"

/// The proof that no text from outside becomes a control token: every control token of a
/// vocabulary, in every place of a conversation that is data, through every template, down to token
/// ids. Quick: the vocabulary of the bundled model and every twentieth template; with TENON_LONG=1
/// all templates and those of large models.
namespace tenon::prompt {
namespace {

using Ids = std::vector<vocab::TokenId>;

/// A place of a conversation that holds data: a string, or the first key of an object.
struct Place {
  std::string pointer;
  bool is_key = false;
};

// Roles are words of the protocol, which the API checks.
void find_places(const json::Value& value, const std::string& pointer, std::vector<Place>& places) {
  if (value.if_string() != nullptr) {
    places.push_back({pointer});
  } else if (const json::Array* array = value.if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      find_places((*array)[i], pointer + "/" + std::to_string(i), places);
    }
  } else if (const json::Object* object = value.if_object()) {
    if (pointer.ends_with("/arguments") || pointer.ends_with("/properties")) {
      places.push_back({pointer, true});
    }
    for (const json::Member& member : *object) {
      if (member.key != "role") find_places(member.value, pointer + "/" + member.key, places);
    }
  }
}

json::Object with_text_at(const json::Object& context, const Place& place,
                          const std::string& text) {
  json::Value whole = context;
  auto* found = const_cast<json::Value*>(json::at_pointer(whole, place.pointer));
  if (!place.is_key) {
    *found = text;
  } else if (json::Object* object = found->if_object(); !object->empty()) {
    std::vector<json::Member> members = object->members();
    members[0].key = text;
    *object = json::Object(std::move(members));
  }
  return *whole.if_object();
}

class TaintProof : public testing::TestWithParam<const char*> {};

TEST_P(TaintProof, NoDataBecomesAControlToken) {
  const auto templates = reference_templates();
  if (templates.empty()) GTEST_SKIP() << "NO REFERENCE DATA: nothing was proved";
  const auto tokenizer = vocab::load_tokenizer(std::string(TENON_SOURCE_DIR) + GetParam());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;

  std::string all_controls;
  for (vocab::TokenId id = 0; static_cast<std::size_t>(id) < (*tokenizer)->size(); ++id) {
    if ((*tokenizer)->is_control(id)) all_controls += std::string((*tokenizer)->bytes(id)) + "x";
  }
  ASSERT_GT(all_controls.size(), 20U);
  const auto controls_of = [&](const Prompt& prompt) {
    Ids ids;
    EXPECT_TRUE(tokenize(**tokenizer, prompt, ids));
    return std::count_if(ids.begin(), ids.end(),
                         [&](vocab::TokenId id) { return (*tokenizer)->is_control(id); });
  };

  const auto conversations = reference_conversations();
  std::size_t number = 0;
  std::size_t prompts = 0;
  std::ptrdiff_t most = 0;
  for (const auto& [name, reference] : templates) {
    if (!is_long_test() && number++ % 20 != 0) continue;
    const auto compiled = ChatTemplate::compile(
        reference.source,
        {.name = name, .bos_token = reference.bos_token, .eos_token = reference.eos_token});
    if (!compiled) continue;
    for (const char* id : {"multi_step_done_es", "reasoning_multi_step", "documents_tools"}) {
      if (!is_long_test() && id != std::string_view("multi_step_done_es")) continue;
      json::Object context = conversations.at(id);
      std::vector<Place> places;
      find_places(context, "", places);
      for (const bool is_shaped : {true, false}) {
        if (!is_long_test() && !is_shaped) continue;
        for (const Place& place : places) {
          const auto render = [&](const std::string& text) {
            json::Object attacked = with_text_at(context, place, text);
            attacked["bos_token"] = reference.bos_token;
            attacked["eos_token"] = reference.eos_token;
            return (*compiled)->render_context(std::move(attacked),
                                               {.shape = is_shaped, .now_unix_s = 1795176000});
          };
          const auto harmless = render("x");
          const auto empty = render("");
          const auto attacked = render(all_controls);
          if (!attacked) continue;
          const std::ptrdiff_t allowed =
              std::max(harmless ? controls_of(*harmless) : 0, empty ? controls_of(*empty) : 0);
          most = std::max(most, allowed);
          ++prompts;
          EXPECT_LE(controls_of(*attacked), allowed)
              << name << " over " << id << " at " << place.pointer;
        }
      }
    }
  }
  EXPECT_GT(prompts, is_long_test() ? 20'000U : 200U);
  EXPECT_GT(most, 5);  // the vocabulary has control tokens of some templates
}

INSTANTIATE_TEST_SUITE_P(Quick, TaintProof, testing::Values("/models/tenon-tiny.gguf"));
INSTANTIATE_TEST_SUITE_P(
    Long, TaintProof,
    testing::ValuesIn(is_long_test()
                          ? std::vector<const char*>{"/../shared/data/vocab/qwen2/tokenizer.json",
                                                     "/../shared/data/vocab/llama3/tokenizer.json",
                                                     "/../shared/data/vocab/gemma4/tokenizer.json"}
                          : std::vector<const char*>{}));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TaintProof);

}  // namespace
}  // namespace tenon::prompt
