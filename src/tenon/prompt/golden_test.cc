#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tenon/jinja/template.h"
#include "tenon/prompt/prompt.h"
#include "tenon/prompt/render_batch.h"

/// Real templates over real conversations, against what transformers renders; and that no byte of a
/// conversation ever counts as the template's. The reference data lie beside the repository.
namespace tenon::prompt {
namespace {

const std::string kData = std::string(TENON_SOURCE_DIR) + "/../shared/data/templates/";

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json::Value parsed(std::string_view text) {
  Expected<json::Value> value = json::parse(text);
  EXPECT_TRUE(value) << text.substr(0, 200);
  return value ? *std::move(value) : json::Value();
}

struct Source {
  std::shared_ptr<const jinja::Template> compiled;  // null: does not compile
  json::Object tokens;
};

class Goldens : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::ifstream(kData + "manifest.jsonl")) {
      GTEST_SKIP() << "NO REFERENCE DATA at " << kData << ": real templates were not checked";
    }
    std::istringstream manifest(read(kData + "manifest.jsonl"));
    for (std::string line; std::getline(manifest, line);) {
      const json::Value row = parsed(line);
      Source source;
      const auto compiled = jinja::Template::compile(read(kData + *row.find("file")->if_string()));
      if (compiled) source.compiled = *compiled;
      for (const char* token : {"bos", "eos"}) {
        if (const std::string* text = row.find(token)->if_string()) {
          source.tokens[std::string(token) + "_token"] = *text;
        }
      }
      sources_[*row.find("template")->if_string()] = std::move(source);
    }
    const json::Value conversations = parsed(read(kData + "conversations.json"));
    for (const json::Value& conversation : *conversations.if_array()) {
      conversations_[*conversation.find("id")->if_string()] =
          *conversation.find("context")->if_object();
    }
  }

  [[nodiscard]] json::Object context_of(const Source& source,
                                        const std::string& conversation) const {
    json::Object context = conversations_.at(conversation);
    for (const json::Member& token : source.tokens) context[token.key] = token.value;
    return context;
  }

  std::map<std::string, Source> sources_;
  std::map<std::string, json::Object> conversations_;
  PromptOptions options_{.now_unix_s = 1795176000};  // 2026-11-20 12:00:00
};

TEST_F(Goldens, AreRenderedToTheByte) {
  std::istringstream goldens(read(kData + "goldens_public.jsonl"));
  std::size_t count = 0;
  for (std::string line; std::getline(goldens, line); ++count) {
    const json::Value golden = parsed(line);
    const std::string& name = *golden.find("template")->if_string();
    const std::string& conversation = *golden.find("conv")->if_string();
    const Source& source = sources_.at(name);
    const bool renders = *golden.find("ok")->if_bool();
    if (!source.compiled) {
      EXPECT_FALSE(renders) << name << " does not compile";
      continue;
    }
    const auto prompt =
        render_context(*source.compiled, context_of(source, conversation), options_);
    ASSERT_EQ(prompt.has_value(), renders)
        << name << " over " << conversation << ": " << (prompt ? "" : prompt.error().message);
    if (renders) {
      ASSERT_EQ(prompt->text, *golden.find("output")->if_string())
          << name << " over " << conversation;
    }
  }
  EXPECT_GT(count, 10000U);
}

// U+E000, which no template holds, behind every string of a conversation that is no keyword of it.
constexpr std::string_view kMark = "\xEE\x80\x80";

void mark(json::Value& value, std::string_view key) {
  if (std::string* text = value.if_string()) {
    if (key != "role" && key != "type") text->append(kMark);
  } else if (json::Array* array = value.if_array()) {
    for (json::Value& item : *array) mark(item, key);
  } else if (json::Object* object = value.if_object()) {
    const json::Object before = *object;
    for (const json::Member& member : before) mark(*object->find(member.key), member.key);
  }
}

TEST_F(Goldens, NoByteOfTheConversationCountsAsTheTemplates) {
  std::size_t marks = 0;
  for (const auto& [name, source] : sources_) {
    if (!source.compiled) continue;
    for (const auto& [id, conversation] : conversations_) {
      json::Object context = conversation;
      for (const json::Member& member : conversation) {
        mark(*context.find(member.key), member.key);
      }
      for (const json::Member& token : source.tokens) context[token.key] = token.value;
      const auto prompt = render_context(*source.compiled, std::move(context), options_);
      if (!prompt) continue;
      for (const jinja::Span& span : prompt->spans) {
        const bool is_marked =
            std::string_view(prompt->text).substr(span.begin, span.end - span.begin).find(kMark) !=
            std::string_view::npos;
        marks += is_marked;
        ASSERT_TRUE(span.is_data || !is_marked) << name << " over " << id << " at " << span.begin;
      }
    }
  }
  EXPECT_GT(marks, 10000U);
}

TEST_F(Goldens, EveryLanguageCaseHolds) {
  const json::Value fallback = parsed(read(kData + "jinja_context.json"));
  std::istringstream cases(read(kData + "jinja_public.jsonl"));
  std::stringstream requests;
  std::vector<json::Value> rows;
  for (std::string line; std::getline(cases, line);) {
    json::Value row = parsed(line);
    json::Object request{{"id", static_cast<std::int64_t>(rows.size())},
                         {"template", *row.find("template")},
                         {"now", "2026-11-20T12:00:00"}};
    const bool has_own = row.find("context")->if_object() != nullptr;
    request["context"] = has_own ? *row.find("context") : fallback;
    if (const json::Value* options = row.find("options"); options != nullptr)
      request["options"] = *options;
    requests << json::to_string(request) << '\n';
    rows.push_back(std::move(row));
  }
  std::stringstream answers;
  render_batch(requests, answers);
  std::size_t at = 0;
  for (std::string line; std::getline(answers, line); ++at) {
    const json::Value answer = parsed(line);
    const json::Value& row = rows.at(at);
    if (row.find("address_in_output") != nullptr) continue;
    const json::Value* output = answer.find("output");
    EXPECT_EQ(output != nullptr, *row.find("ok")->if_bool()) << line << json::to_string(row);
    if (output != nullptr && *row.find("ok")->if_bool()) {
      EXPECT_EQ(*output->if_string(), *row.find("output")->if_string()) << json::to_string(row);
    }
  }
  EXPECT_EQ(at, rows.size());
}

}  // namespace
}  // namespace tenon::prompt
