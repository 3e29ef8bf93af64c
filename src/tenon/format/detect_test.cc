#include "tenon/format/detect.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/definition.h"
#include "tenon/format/registry.h"

namespace tenon::format {
namespace {

const message::ToolCall kFirst{.id = "probeid01", .name = "add", .arguments = R"({"a": "x"})"};
const message::ToolCall kSecond{.id = "probeid02", .name = "mul", .arguments = R"({"b": "y z"})"};

CallSample one(std::string text, std::string before = "") {
  return {std::move(before), std::move(text), {kFirst}};
}
CallSample two(std::string text) {
  return {"", std::move(text), {kFirst, kSecond}};
}

struct DetectRow {
  std::string_view name;
  std::vector<CallSample> samples;
  std::string_view chat_template;
  std::vector<std::string> vocabulary;
  std::string_view model_name;
  bool has_tool_template;
  std::string_view format;  // "": none
  DecidedBy by;
  std::string_view evidence;  // a part of it
};

const DetectRow kDetectRows[] = {
    {"NothingIsKnown",
     {},
     "{{ messages }}",
     {},
     "acme/plain",
     false,
     "",
     DecidedBy::nothing,
     "writes no calls"},

    // A call that is read back.
    {"ARenderedCall",
     {one("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>")},
     "",
     {},
     "",
     false,
     "hermes",
     DecidedBy::call,
     "\"<tool_call>\\n{"},
    {"WinsOverMarkersVocabularyAndName",
     {one("[TOOL_CALLS]add[ARGS]{\"a\": \"x\"}")},
     "<tool_call></tool_call>",
     {"<tool_call>", "</tool_call>"},
     "hermes",
     true,
     "mistral_v11",
     DecidedBy::call,
     ""},
    {"WhatIsLeftUnreadDecides",  // the bare object is the bare array's, too, but for the brackets
     {one("[{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}]")},
     "",
     {},
     "",
     false,
     "xlam",
     DecidedBy::call,
     ""},
    {"TheSecondSampleDecides",
     {one("<tool_calls>\n{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}\n</tool_calls>"),
      two("<tool_calls>\n{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}\n"
          "{\"name\": \"mul\", \"arguments\": {\"b\": \"y z\"}}\n</tool_calls>")},
     "",
     {},
     "",
     false,
     "minimax_m1",
     DecidedBy::call,
     ""},
    {"TheNameOfTheArgumentsDecides",
     {one("{\"name\": \"add\", \"parameters\": {\"a\": \"x\"}}")},
     "",
     {},
     "",
     false,
     "llama3_json",
     DecidedBy::call,
     ""},
    {"AFrameAroundTheCallDoesNotMatter",
     {one("<|im_start|>assistant\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}\n"
          "</tool_call><|im_end|>\n")},
     "",
     {},
     "",
     false,
     "hermes",
     DecidedBy::call,
     ""},
    {"ReasoningMayBeOpenInThePrompt",
     {one("\n</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}\n"
          "</tool_call>",
          "<|im_start|>assistant\n<think>\n")},
     "",
     {},
     "",
     false,
     "hermes",
     DecidedBy::call,
     ""},
    {"OtherArgumentsAreNoMatch",
     {one("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"\"}}\n</tool_call>")},
     "",
     {},
     "",
     false,
     "",
     DecidedBy::nothing,
     "no known format reads"},
    {"APythonListOfMessagesIsNoCall",
     {one("[{'role': 'assistant', 'content': '', 'tool_calls': [{'type': 'function', 'function': "
          "{'name': 'add', 'arguments': {'a': 'x'}}}]}]")},
     "",
     {},
     "",
     false,
     "",
     DecidedBy::nothing,
     "no known format reads"},

    // Markers.
    {"MarkersOfTheTemplate",
     {},
     "'<tool_call>\\n' + tc | tojson + '\\n</tool_call>'",
     {},
     "",
     false,
     "hermes",
     DecidedBy::markers,
     "the template has '<tool_call>' '</tool_call>'"},
    {"TheMostSpecificMarkersWin",
     {},
     "<tool_call> <function= <parameter= </tool_call>",
     {},
     "",
     false,
     "qwen3_coder",
     DecidedBy::markers,
     "'<parameter='"},
    {"MarkersOfWhatCannotReadTheRenderedCallDoNotCount",
     {one("<call>add a=x</call>")},
     "<tool_call></tool_call>",
     {},
     "",
     false,
     "",
     DecidedBy::nothing,
     "no known format reads"},
    {"MarkersCountWhereTheTemplateGarblesArguments",  // as some write strings without quotes
     {one("<|tool_call_start|>[add(a=x)]<|tool_call_end|>")},
     "<|tool_call_start|>",
     {},
     "",
     false,
     "lfm2",
     DecidedBy::markers,
     ""},
    {"MarkersOfTheVocabulary",
     {},
     "{{ messages }}",
     {"<eos>", "<tool_call>", "</tool_call>"},
     "",
     false,
     "hermes",
     DecidedBy::vocabulary,
     "the vocabulary has '<tool_call>'"},
    {"TheMarkerThatBeginsACallAlone",  // as of a renamed model without a template
     {},
     "",
     {"<eos>", "<start_function_call>"},
     "acme/renamed",
     false,
     "functiongemma",
     DecidedBy::vocabulary,
     "the vocabulary has '<start_function_call>'"},
    {"TheMarkerThatBeginsACallGoesBeforeTheName",
     {},
     "",
     {"<|tool_call>"},
     "acme/hermes",
     false,
     "gemma4",
     DecidedBy::vocabulary,
     "the vocabulary has '<|tool_call>'"},
    {"TheTemplateGoesBeforeTheVocabulary",
     {},
     "[TOOL_CALLS] [ARGS]",
     {"<tool_call>", "</tool_call>"},
     "",
     false,
     "mistral_v11",
     DecidedBy::markers,
     ""},

    // Name and kind of template, as in the rules that come with genai_config.json.
    {"TheModelsName",
     {},
     "",
     {},
     "NousResearch/Hermes-3",
     false,
     "hermes",
     DecidedBy::name,
     "the model's name has 'hermes'"},
    {"ATemplateForTools", {}, "...", {}, "acme/x", true, "json", DecidedBy::tool_template, ""},
    {"TheNameGoesBeforeTheTemplateForTools",
     {},
     "...",
     {},
     "NousResearch/Hermes-3",
     true,
     "hermes",
     DecidedBy::name,
     ""},
};

class Detect : public testing::TestWithParam<DetectRow> {};

TEST_P(Detect, IsDecidedByTheFirstThatCan) {
  const DetectRow& row = GetParam();
  const Detection found =
      detect({.samples = row.samples,
              .chat_template = row.chat_template,
              .in_vocabulary =
                  [&row](std::string_view marker) {
                    return std::ranges::any_of(row.vocabulary, [marker](const std::string& token) {
                      return token.find(marker) != std::string::npos;
                    });
                  },
              .model_name = row.model_name,
              .has_tool_template = row.has_tool_template});
  EXPECT_EQ(found.format == nullptr ? "" : info(*found.format).name, row.format) << found.evidence;
  EXPECT_EQ(name_of(found.by), name_of(row.by));
  EXPECT_NE(found.evidence.find(row.evidence), std::string::npos) << found.evidence;
}

INSTANTIATE_TEST_SUITE_P(Rows, Detect, testing::ValuesIn(kDetectRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Detect, GoesByTheResponseTemplateWhereNothingIsRead) {
  const auto imported =
      compile("name = 'mine'\n[[syntax]]\ncall = '<call>${name}${arguments}</call>'", "x");
  ASSERT_TRUE(imported) << imported.error().message;
  const struct {
    std::string_view name;
    std::vector<CallSample> samples;
    DecidedBy by;
  } rows[] = {
      {"NoCallIsWritten", {}, DecidedBy::response_template},
      {"ItReadsTheCall", {one("<call>add{\"a\": \"x\"}</call>")}, DecidedBy::response_template},
      {"ItDoesNotReadTheCall", {one("<call>add a=x</call>")}, DecidedBy::nothing},
      {"AnotherReadsTheCall",
       {one("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>")},
       DecidedBy::call},
  };
  for (const auto& row : rows) {
    const Detection found = detect({.samples = row.samples, .imported = *imported});
    EXPECT_EQ(name_of(found.by), name_of(row.by)) << row.name << ": " << found.evidence;
  }
}

/// What a format writes is its own, or another's that reads it as well and writes it the same.
TEST(Detect, FindsEveryFormatByWhatItWrites) {
  for (const auto& format : all()) {
    if (format->syntaxes.empty()) continue;  // another test's
    std::vector<CallSample> samples;
    for (const auto& calls : {std::vector{kFirst}, std::vector{kFirst, kSecond}}) {
      if (calls.size() > 1 && !info(*format).parallel) continue;
      const auto text = render_calls(*format, calls);
      ASSERT_TRUE(text) << text.error().message;
      samples.push_back({"", *text, calls});
    }
    const std::vector<CallSample> written = samples;
    const Detection found = detect({.samples = std::move(samples)});
    ASSERT_NE(found.format, nullptr) << info(*format).name << ": " << found.evidence;
    EXPECT_EQ(found.by, DecidedBy::call);
    if (found.format == format) continue;
    for (const CallSample& sample : written) {
      EXPECT_EQ(render_calls(*found.format, sample.calls).value_or(""), sample.text)
          << info(*format).name << " is taken for " << info(*found.format).name;
    }
  }
}

}  // namespace
}  // namespace tenon::format
