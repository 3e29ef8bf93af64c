#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/reference_for_test.h"
#include "tenon/vocab/tokenizer_file.h"

/// Proves that no text from outside becomes a control token. Every control token of a vocabulary is
/// put into every place of a conversation that is data, rendered by every template, and tokenised.
/// Runs over our own templates and vocabularies. Over the large set it runs with the bundled
/// model's vocabulary and every twentieth template; with TENON_LONG=1 with all templates, and with
/// the vocabularies of large models.
namespace tenon::prompt {
namespace {

using Ids = std::vector<vocab::TokenId>;

/// A place of a conversation with data: a string, or the first key of an object.
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

/// Templates and conversations of a set, and a vocabulary in a folder.
struct Subject {
  std::string name;
  Data data = Data::own;
  std::filesystem::path vocabulary;
};

class TaintProof : public testing::TestWithParam<Subject> {};

TEST_P(TaintProof, NoDataBecomesAControlToken) {
  const Data data = GetParam().data;
  if (!is_there(data)) GTEST_SKIP() << why_skipped(data);
  const bool is_whole = is_long_test() || data == Data::own;
  const auto templates = reference_templates(data);
  const auto tokenizer = vocab::load_tokenizer(GetParam().vocabulary.string());
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

  const auto conversations = reference_conversations(data);
  Sample sample(data == Data::own ? 2 : 1);
  std::size_t number = 0;
  std::size_t prompts = 0;
  std::ptrdiff_t most = 0;
  for (const auto& [name, reference] : templates) {
    if (!is_whole && number++ % 20 != 0) continue;
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
        if (!is_whole && !is_shaped) continue;
        for (const Place& place : places) {
          if (!sample.takes_next()) continue;
          const auto render = [&](const std::string& text) {
            json::Object attacked = with_text_at(context, place, text);
            attacked["bos_token"] = reference.bos_token;
            attacked["eos_token"] = reference.eos_token;
            return (*compiled)->render_context(std::move(attacked),
                                               {.shape = is_shaped, .now_unix_s = 1795176000});
          };
          const auto attacked = render(all_controls);
          if (!attacked) continue;
          const std::ptrdiff_t found = controls_of(*attacked);
          const auto harmless = render("x");
          std::ptrdiff_t allowed = harmless ? controls_of(*harmless) : 0;
          if (found > allowed) {  // with an empty text the template may write more of its own
            const auto empty = render("");
            allowed = std::max(allowed, empty ? controls_of(*empty) : 0);
          }
          most = std::max(most, allowed);
          ++prompts;
          EXPECT_LE(found, allowed) << name << " over " << id << " at " << place.pointer;
        }
      }
    }
  }
  EXPECT_GT(prompts, is_long_test() ? (data == Data::own ? 300U : 20'000U) : 150U);
  EXPECT_GT(most, 5);  // the vocabulary has control tokens of some templates
}

// Where no data has a marker in it, the ids are those of the whole text, every marker a token: what
// the model's own tokenizer gives for the rendered text.
TEST_P(TaintProof, IdsAreThoseOfTheWholeText) {
  const Data data = GetParam().data;
  if (!is_there(data)) GTEST_SKIP() << why_skipped(data);
  const auto tokenizer = vocab::load_tokenizer(GetParam().vocabulary.string());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::size_t number = 0;
  std::size_t prompts = 0;
  std::size_t controls = 0;
  std::size_t different = 0;
  const auto conversations = reference_conversations(data);
  for (const auto& [name, reference] : reference_templates(data)) {
    if (!is_long_test() && data != Data::own && number++ % 20 != 0) continue;
    const auto compiled = ChatTemplate::compile(
        reference.source,
        {.name = name, .bos_token = reference.bos_token, .eos_token = reference.eos_token});
    if (!compiled) continue;
    for (const auto& [id, context] : conversations) {
      // Their data spells markers, which must not become tokens.
      if (id == "marks" || id.starts_with("special_tokens")) continue;
      json::Object with_tokens = context;
      with_tokens["bos_token"] = reference.bos_token;
      with_tokens["eos_token"] = reference.eos_token;
      const auto prompt =
          (*compiled)->render_context(std::move(with_tokens), {.now_unix_s = 1795176000});
      if (!prompt) continue;
      Ids ids;
      Ids whole;
      ASSERT_TRUE(tokenize(**tokenizer, *prompt, ids));
      ASSERT_TRUE((*tokenizer)->encode(prompt->text, vocab::Controls::on, true, whole));
      if (ids.size() == whole.size() + 1) ids.erase(ids.begin());  // bos, which the text lacks
      ++prompts;
      controls += static_cast<std::size_t>(std::ranges::count_if(
          ids, [&](vocab::TokenId token) { return (*tokenizer)->is_control(token); }));
      if (ids == whole) continue;
      const auto at = std::ranges::mismatch(ids, whole).in1 - ids.begin();
      if (++different <= 20) {
        std::string near;
        for (auto i = std::max<std::ptrdiff_t>(0, at - 3);
             i < std::min<std::ptrdiff_t>(at + 4, std::ssize(ids)); ++i) {
          near += std::string((*tokenizer)->bytes(ids[static_cast<std::size_t>(i)])) + "|";
        }
        std::cout << name << " over " << id << ": other ids from " << at << " on: " << near << '\n';
      }
    }
  }
  std::cout << prompts - different << " of " << prompts << " prompts with " << controls
            << " control tokens have the ids of their whole text\n";
  EXPECT_GT(prompts, 0U);
  EXPECT_EQ(different, 0U);
}

std::vector<Subject> subjects() {
  const std::filesystem::path tiny =
      std::filesystem::path(TENON_SOURCE_DIR) / "models" / "tenon-tiny.gguf";
  const auto vocabulary = [](Data data, const char* name) {
    return folder_of(data) / "vocab" / name / "tokenizer.json";
  };
  std::vector<Subject> all = {
      {"Own", Data::own, tiny},
      {"OwnBytes", Data::own, vocabulary(Data::own, "bytes")},
      {"OwnPieces", Data::own, vocabulary(Data::own, "pieces")},
      {"Large", Data::large, tiny},
  };
  for (const char* name : {"qwen2", "llama3", "gemma4"}) {
    if (is_long_test()) all.push_back({name, Data::large, vocabulary(Data::large, name)});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sets, TaintProof, testing::ValuesIn(subjects()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon::prompt
