#include "tenon/format/model_files.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"

namespace tenon::format {
namespace {

json::Value parsed(std::string_view text) {
  return text.empty() ? json::Value() : *json::parse(text);
}

TEST(GenaiConfig, NamesTheFormat) {
  const struct {
    std::string_view config;
    std::string_view format;
    std::string_view error;
  } rows[] = {
      {R"({"model_type": "generator", "tool_call_format": "functiongemma"})", "functiongemma", ""},
      {R"({"tool_call_format": "qwen2.5"})", "hermes", ""},
      {R"({"model_type": "generator"})", "", ""},
      {R"({"tool_call_format": ""})", "", ""},
      {R"({"tool_call_format": null})", "", ""},
      {R"({"tool_call_format": "klingon"})", "",
       "unknown tool_call_format: klingon; `tenon formats` lists those that there are"},
      {R"({"tool_call_format": 3})", "", "tool_call_format must be a string"},
  };
  for (const auto& row : rows) {
    const auto format = format_of_genai_config(parsed(row.config));
    EXPECT_EQ(format ? "" : format.error().message, row.error);
    if (format) {
      EXPECT_EQ(*format == nullptr ? "" : info(**format).name, row.format);
    }
  }
}

TEST(GenaiConfig, KeepsWhatItHad) {
  const struct {
    std::string_view old;
    std::string_view config;
  } rows[] = {
      {"", R"({"model_type":"generator","tool_call_format":"hermes"})"},
      {R"({"tool_call_format": "json", "search": {"top_k": 5}})",
       R"({"tool_call_format":"hermes","search":{"top_k":5},"model_type":"generator"})"},
      {R"({"model_type": "phi"})", R"({"model_type":"phi","tool_call_format":"hermes"})"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(json::to_string(with_format(parsed(row.old), find("hermes").get())), row.config);
  }
}

TEST(MarkersOfAModel, ComeFromItsFiles) {
  constexpr std::string_view kPlain =
      "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>";
  const struct {
    std::string_view name;
    std::string_view special_tokens_map;
    std::string_view tokenizer_config;
    std::string_view text;  // "": the error is
    std::string_view error;
  } rows[] = {
      {"NoFiles", "", "", kPlain, ""},
      {"NothingNamed", R"({"bos_token": "<bos>"})", "{}", kPlain, ""},
      {"TheMap", R"({"start_function_call": "<c>", "end_function_call": "</c>", "escape": "<e>"})",
       R"({"start_function_call": "<no>", "end_function_call": "</no>"})",
       "<c>call:f{a:<e>x<e>}</c>", ""},
      {"ThenTheConfig", R"({"bos_token": "<bos>"})",
       R"({"start_function_call": {"content": "<c>"}, "end_function_call": {"content": "</c>"}})",
       "<c>call:f{a:<escape>x<escape>}</c>", ""},
      {"AMapThatLacksOneDoesNotCount", R"({"start_function_call": "<a>"})",
       R"({"start_function_call": "<c>", "end_function_call": "</c>"})",
       "<c>call:f{a:<escape>x<escape>}</c>", ""},
      {"MarkersMayChangePlaces",
       R"({"start_function_call": "<end_function_call>", "end_function_call": "<start_function_call>"})",
       "", "<end_function_call>call:f{a:<escape>x<escape>}<start_function_call>", ""},
      {"Missing", R"({"start_function_call": "<c>"})", "{}", "",
       "missing required tokens: end_function_call"},
      {"Quotes", R"({"start_function_call": "\"", "end_function_call": "</c>"})", "", "",
       "cannot stand for '<start_function_call>'"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto format = with_markers_of(find("functiongemma"), parsed(row.special_tokens_map),
                                        parsed(row.tokenizer_config));
    if (!row.error.empty()) {
      ASSERT_FALSE(format);
      EXPECT_NE(format.error().message.find(row.error), std::string::npos)
          << format.error().message;
      continue;
    }
    ASSERT_TRUE(format) << format.error().message;
    EXPECT_EQ(render_calls(**format, {{"", "f", R"({"a": "x"})"}}).value_or(""), row.text);
    StreamParser parser(*format, {.tools = {"f"}});
    std::vector<message::ChatEvent> events;
    parser.feed(row.text, false, events);
    parser.finish(false, events);
    EXPECT_EQ(parser.call_count(), 1U);
  }
}

}  // namespace
}  // namespace tenon::format
