// For every format, and at every place inside a call, the grammar finds an end that completes it.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/chat/constraint.h"
#include "tenon/format/definition.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::chat {
namespace {

using vocab::TokenId;

constexpr std::string_view kNested = R"({"type": "object", "additionalProperties": false,
  "properties": {"text": {"type": "string"}, "n": {"type": "integer", "minimum": 10},
    "o": {"type": "object", "properties": {"s": {"type": "string", "minLength": 2},
      "unit": {"enum": ["celsius", "kelvin"]}}, "required": ["s", "unit"],
      "additionalProperties": false},
    "list": {"type": "array", "minItems": 2, "items": {"type": "number"}}},
  "required": ["text", "n", "o", "list"]})";
constexpr std::string_view kOptional = R"({"type": "object", "additionalProperties": false,
  "properties": {"a": {"type": "string"}, "b": {"type": "boolean"},
    "date": {"type": "string", "pattern": "^[0-9]{4}-[01][0-9]$"}}, "required": ["date"]})";

constexpr std::string_view kBounded = R"({"type": "object", "additionalProperties": false,
  "properties": {"from": {"type": "string", "minLength": 2, "maxLength": 12},
    "day": {"type": "string", "format": "date"},
    "seats": {"type": "integer", "minimum": 1, "maximum": 9},
    "class": {"enum": ["economy", "business"]}, "window": {"type": "boolean"},
    "note": {"type": ["string", "null"], "maxLength": 20}},
  "required": ["from", "day", "seats"]})";

const std::shared_ptr<const vocab::Tokenizer>& close_calls_tokenizer() {
  static const auto kTokenizer = *vocab::load_tokenizer(std::filesystem::path(TENON_SOURCE_DIR) /
                                                        "models" / "tenon-tiny.gguf");
  return kTokenizer;
}

message::ChatRequest close_calls_request() {
  message::ChatRequest request;
  request.tools = {{.name = "deep_one", .parameters = *json::parse(kNested)},
                   {.name = "flat", .parameters = *json::parse(kOptional)},
                   {.name = "book", .parameters = *json::parse(kBounded)},
                   {.name = "bare"}};
  request.tool_choice.mode = message::ToolMode::required;
  return request;
}

// Empty if it is a complete call of request() that its schema allows.
std::string fault_of(const std::string& name, const std::string& arguments) {
  const std::map<std::string, std::string_view> schemas = {{"deep_one", kNested},
                                                           {"flat", kOptional},
                                                           {"book", kBounded},
                                                           {"bare", R"({"type": "object"})"}};
  const auto found = schemas.find(name);
  if (found == schemas.end()) return "no tool is called " + name;
  const auto value = json::parse(arguments);
  if (!value) return "no JSON: " + arguments;
  const auto schema = *schema::Schema::compile(*json::parse(found->second), {});
  const auto valid = schema->is_valid(*value);
  return valid && *valid ? "" : name + " does not take " + arguments;
}

std::string written(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += close_calls_tokenizer()->bytes(token);
  return text;
}

class Ends : public ::testing::TestWithParam<std::shared_ptr<const format::Format>> {};

void expect_ends(const std::shared_ptr<const format::Format>& format, bool in_any_form) {
  const Constraints constraints(
      format, *close_calls_tokenizer(),
      {.with_others = in_any_form ? format : nullptr, .required_in_others = in_any_form});
  const auto constraint = constraints.of(close_calls_request(), "");
  ASSERT_TRUE(constraint && constraint->grammar);
  format::ParseOptions options;
  for (const message::Tool& tool : close_calls_request().tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  for (const std::string& marker : format::markers(*format)) {
    if (close_calls_tokenizer()->control_token(marker)) options.control_markers.push_back(marker);
  }
  std::vector<std::uint32_t> mask(grammar::mask_words(close_calls_tokenizer()->size()));
  std::mt19937 dice(5 + proof_seed());
  const int count = is_long_test() ? 200 : 2;
  std::size_t longest = 0;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    // Some random tokens that the grammar allows; then the end.
    grammar::Matcher matcher(constraint->grammar);
    std::vector<TokenId> tokens;
    const std::size_t most = dice() % 60;
    while (tokens.size() < most && !matcher.is_complete()) {
      ASSERT_TRUE(matcher.fill_mask(mask));
      std::vector<TokenId> legal;
      for (TokenId id = 0; static_cast<std::size_t>(id) < close_calls_tokenizer()->size(); ++id) {
        const bool is_legal = (mask[static_cast<std::size_t>(id) / 32] >> id % 32 & 1) != 0;
        if (is_legal && !close_calls_tokenizer()->ends_generation(id)) legal.push_back(id);
      }
      if (legal.empty()) break;
      // Closing quotes and brackets would hardly ever be chosen at random.
      std::ranges::shuffle(legal, dice);
      if (dice() % 4 == 0) {
        std::ranges::stable_sort(legal, {}, [](TokenId id) {
          return close_calls_tokenizer()->bytes(id).find_first_of("\"<}]),") ==
                 std::string_view::npos;
        });
      }
      ASSERT_TRUE(matcher.accept(legal.front()));
      tokens.push_back(legal.front());
    }
    const auto end = matcher.tokens_to_end();
    ASSERT_TRUE(end) << end.error().message << " after " << written(tokens);
    longest = std::max(longest, end->size());
    tokens.insert(tokens.end(), end->begin(), end->end());

    const std::string text = written(tokens);
    format::StreamParser parser(format, options);
    std::vector<message::ChatEvent> events;
    for (const TokenId token : *end) EXPECT_TRUE(matcher.accept(token));
    for (const TokenId token : tokens) {
      parser.feed(close_calls_tokenizer()->bytes(token), close_calls_tokenizer()->is_control(token),
                  events);
    }
    EXPECT_TRUE(matcher.is_accepting()) << text;
    parser.finish(false, events);
    std::size_t calls = 0;
    message::ToolCall call;
    for (const message::ChatEvent& event : events) {
      if (const auto* begin = std::get_if<message::CallBegin>(&event)) call = {.name = begin->name};
      const auto* arguments = std::get_if<message::CallArguments>(&event);
      if (arguments != nullptr) call.arguments += arguments->text;
      const auto* ended = std::get_if<message::CallEnd>(&event);
      if (ended == nullptr) continue;
      ++calls;
      EXPECT_FALSE(ended->incomplete) << text;
      // With several parameters, Python and XML formats do not constrain all of a schema.
      if (!format::is_exact(*format)) continue;
      EXPECT_EQ(fault_of(call.name, call.arguments), "") << text;
    }
    EXPECT_GE(calls, 1U) << text;
  }
  EXPECT_LT(longest, 400U);
}

TEST_P(Ends, AreThereWhereverACallIs) {
  expect_ends(GetParam(), /*in_any_form=*/false);
}
TEST_P(Ends, AreThereInOtherFormsToo) {
  expect_ends(with_fallbacks(*GetParam(), format::Fallbacks::all, format::AnswerMode::held),
              /*in_any_form=*/true);
}

std::vector<std::shared_ptr<const format::Format>> writable() {
  auto formats = format::all();
  std::erase_if(formats, [](const auto& format) { return format->syntaxes.empty(); });
  return formats;
}

INSTANTIATE_TEST_SUITE_P(OfEveryFormat, Ends, ::testing::ValuesIn(writable()),
                         [](const auto& test) { return test.param->info.name; });

}  // namespace
}  // namespace tenon::chat
