// Proves that no choice from the masks leads to a wrong call: samplers that do what
// models do at their worst, over a vocabulary as large as a model's, in every format. Each call
// must be one of the tools', valid by its schema, and no mask may be empty. Quick: a few calls over
// the bundled model's vocabulary; with TENON_LONG=1 100,000 of each format over Llama-3's (a
// hundredth of it under sanitizers).
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"
#include "tenon/format/answers_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/sample_tools_for_test.h"
#include "tenon/format/stream_parser.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

namespace tenon::format {
namespace {

using vocab::TokenId;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kAdversaryShare = 100;
#else
constexpr std::size_t kAdversaryShare = 1;
#endif

/// A model's tokenizer, and what all grammars over it share.
struct Vocabulary {
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::shared_ptr<grammar::VocabIndex> index;
  std::vector<TokenId> spaces;     // tokens of white space alone
  std::vector<TokenId> by_length;  // the longest first
};

std::optional<Vocabulary> load(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  Vocabulary made{.tokenizer = *vocab::load_tokenizer(path)};
  made.index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(*made.tokenizer));
  const vocab::Tokenizer& tokenizer = *made.tokenizer;
  for (std::size_t i = 0; i < tokenizer.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view bytes = tokenizer.bytes(id);
    if (tokenizer.is_control(id) || bytes.empty()) continue;
    made.by_length.push_back(id);
    if (bytes.find_first_not_of(" \t\r\n") == std::string_view::npos) made.spaces.push_back(id);
  }
  std::ranges::stable_sort(made.by_length, [&](TokenId a, TokenId b) {
    return tokenizer.bytes(a).size() > tokenizer.bytes(b).size();
  });
  return made;
}

/// The bundled model's; in long tests that of Llama 3 if it is there.
const std::optional<Vocabulary>& vocabulary() {
  static const auto kLoaded = [] {
    const std::filesystem::path root = TENON_SOURCE_DIR;
    if (is_long_test()) {
      auto large = load(folder_of(Data::large) / "vocab" / "llama3" / "tokenizer.json");
      if (large) return large;
      std::cerr << why_skipped(Data::large) << ": the vocabulary is the bundled model's\n";
    }
    return load(root / "models" / "tenon-tiny.gguf");
  }();
  return kLoaded;
}

enum class Manner : std::uint8_t { uniform, end_first, white_space_first, longest_first };

/// Chooses tokens from masks.
class Adversary {
 public:
  Adversary(const Vocabulary& of, const Format& format)
      : of_(of), mask_(grammar::mask_words(of.tokenizer->size())) {
    // What ends something: without it a text of random tokens would hardly end. Those of texts
    // first.
    std::vector<std::string> ends;
    const Syntax& syntax = format.syntaxes.front();
    // What stands behind each slot of a parameter; its key may be in it.
    for (const char* key : {"text", "n", "x", "flag", "unit", "items", "item", "id", "s", "tags",
                            "note", "v", "d", "m", "p", "e", "o", "a.b-c"}) {
      std::size_t slots = 0;
      ends.emplace_back();
      for (const Piece& piece : syntax.parameter) {
        const bool is_text = piece.kind == Piece::Kind::literal || piece.kind == Piece::Kind::space;
        const bool is_key_again = piece.kind == Piece::Kind::key && slots > 1;
        if (!is_text && !is_key_again) ++slots;
        if (!is_text && !is_key_again) ends.emplace_back();
        if (is_text) ends.back() += piece.text;
        if (is_key_again) ends.back() += key;
      }
    }
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    ends.push_back(syntax.string_quote);
    for (const Pattern* pattern : {&syntax.call, &syntax.close}) {
      ends.emplace_back();
      for (const Piece& piece : *pattern) {
        const bool is_text = piece.kind == Piece::Kind::literal || piece.kind == Piece::Kind::space;
        ends.back() = is_text ? ends.back() + piece.text : "";
      }
    }
    ends.insert(ends.end(), format.reasoning_close.begin(), format.reasoning_close.end());
    for (const char* end : {"\"", "'", "}", "]", ")"}) ends.emplace_back(end);
    std::erase(ends, "");
    for (const std::string& end : ends) {
      std::vector<TokenId> ids;
      if (of.tokenizer->encode(end, vocab::Controls::on, false, ids)) closers_.push_back(ids);
    }
  }

  /// The tokens of an answer without the end token; nothing if it is getting long. Fails the test
  /// where no token can come next.
  std::optional<std::vector<TokenId>> answer(const std::shared_ptr<grammar::Grammar>& grammar,
                                             Manner manner, std::mt19937& dice) {
    constexpr std::size_t kSoon = 40;
    constexpr std::size_t kMost = 1500;
    grammar::Matcher matcher(grammar);
    std::vector<TokenId> tokens;
    while (tokens.size() < kMost) {
      const bool is_hasty = tokens.size() > kSoon;
      if (is_hasty && matcher.is_accepting()) return tokens;
      if (is_hasty && close(matcher, tokens, dice)) continue;
      if (matcher.is_complete()) return tokens;  // not every vocabulary here has an end token
      const Status filled = matcher.fill_mask(mask_);
      EXPECT_TRUE(filled) << filled.error().message;
      if (!filled) return std::nullopt;
      const bool wants_end = manner == Manner::end_first || dice() % 4 == 0;
      const bool may_end = matcher.is_accepting();
      for (const TokenId end : of_.index->vocab().ends()) EXPECT_EQ(is_legal(end), may_end) << end;
      if (wants_end && may_end) return tokens;
      const std::optional<TokenId> token = choose(is_hasty ? Manner::uniform : manner, dice);
      if (!token) {  // only ends are left
        EXPECT_TRUE(may_end);
        return tokens;
      }
      EXPECT_TRUE(matcher.accept(*token)) << *token;
      tokens.push_back(*token);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool is_legal(TokenId id) const {
    const auto at = static_cast<std::size_t>(id);
    return (mask_[at / 32] >> at % 32 & 1U) != 0;
  }

  std::optional<TokenId> choose(Manner manner, std::mt19937& dice) {
    const auto first_legal = [&](const std::vector<TokenId>& among) -> std::optional<TokenId> {
      const auto found = std::ranges::find_if(among, [&](TokenId id) { return is_legal(id); });
      return found == among.end() ? std::nullopt : std::optional(*found);
    };
    std::optional<TokenId> token;
    if (manner == Manner::white_space_first) token = first_legal(of_.spaces);
    // A text of one token for ever is no more than one of a few.
    if (manner == Manner::longest_first && dice() % 8 != 0) token = first_legal(of_.by_length);
    return token ? token : any_legal(dice);
  }

  // Any of what ends something.
  bool close(grammar::Matcher& matcher, std::vector<TokenId>& tokens, std::mt19937& dice) {
    std::ranges::shuffle(closers_, dice);
    for (const std::vector<TokenId>& closer : closers_) {
      if (matcher.validate_draft(closer) != closer.size()) continue;
      for (const TokenId token : closer) {
        EXPECT_TRUE(matcher.accept(token));
        tokens.push_back(token);
      }
      return true;
    }
    return false;
  }

  // But no end token.
  std::optional<TokenId> any_legal(std::mt19937& dice) {
    for (const TokenId end : of_.index->vocab().ends()) {
      grammar::clear_bit(mask_, end);
    }
    // Where many are legal one is soon hit; to count them all takes longer than the mask.
    for (int tries = 0; tries < 64; ++tries) {
      const auto id = static_cast<TokenId>(dice() % of_.tokenizer->size());
      if (is_legal(id)) return id;
    }
    few_.clear();
    for (std::size_t at = 0; at < mask_.size(); ++at) {
      for (std::uint32_t word = mask_[at]; word != 0; word &= word - 1) {
        few_.push_back(static_cast<TokenId>(at * 32) + std::countr_zero(word));
      }
    }
    return few_.empty() ? std::nullopt : std::optional(few_[dice() % few_.size()]);
  }

  const Vocabulary& of_;
  std::vector<std::uint32_t> mask_;
  std::vector<TokenId> few_;
  std::vector<std::vector<TokenId>> closers_;
};

/// Empty: calls that are as they should be, and nothing else.
std::string fault_of(const Outcome& outcome) {
  if (outcome.calls.empty()) return "no call";
  if (!outcome.content.empty()) return "content " + ::testing::PrintToString(outcome.content);
  for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
    const auto& [name, arguments] = outcome.calls[i];
    if (const std::string fault = fault_of_call(name, arguments); !fault.empty()) return fault;
    if (outcome.incomplete[i]) return "incomplete";
  }
  return "";
}

class Adversaries : public ::testing::TestWithParam<std::shared_ptr<const Format>> {};

TEST_P(Adversaries, GetNoCallThatIsWrong) {
  ASSERT_TRUE(vocabulary());
  const auto& format = GetParam();
  const vocab::Tokenizer& tokenizer = *vocabulary()->tokenizer;
  const auto rules = tool_grammar(*format, tools().list, {.mode = message::ToolMode::required},
                                  {.tokenizer = &tokenizer});
  ASSERT_TRUE(rules) << rules.error().message;
  const auto grammar = grammar::Grammar::make(
      [rules = *rules, index = vocabulary()->index](grammar::Machine& machine) {
        return grammar::add_rules(machine, rules, index->vocab());
      },
      vocabulary()->index);
  ASSERT_TRUE(grammar) << grammar.error().message;
  ParseOptions options = tools().options;
  for (const std::string& marker : markers(*format)) {
    if (tokenizer.control_token(marker)) options.control_markers.push_back(marker);
  }
  StreamParser parser(format, options);
  Adversary adversary(*vocabulary(), *format);

  const std::size_t wanted = is_long_test() ? 25'000 / kAdversaryShare : 8;
  std::size_t calls = 0;
  std::size_t unfinished = 0;
  std::mt19937 dice(11);
  for (const Manner manner :
       {Manner::uniform, Manner::end_first, Manner::white_space_first, Manner::longest_first}) {
    std::size_t faults = 0;
    for (std::size_t made = 0; made < wanted && faults < 2 && !HasFatalFailure();) {
      const auto tokens = adversary.answer(*grammar, manner, dice);
      if (!tokens) {
        if (++unfinished > 20 * wanted + 20) break;
        continue;
      }
      parser.reset();
      std::vector<message::ChatEvent> events;
      std::string text;
      for (const TokenId token : *tokens) {
        text += tokenizer.bytes(token);
        parser.feed(tokenizer.bytes(token), tokenizer.is_control(token), events);
      }
      parser.finish(false, events);
      made += std::max<std::size_t>(parser.call_count(), 1);
      calls += parser.call_count();
      const std::string fault = fault_of(outcome_of(events));
      if (fault.empty()) continue;
      ++faults;
      ADD_FAILURE() << "manner " << static_cast<int>(manner) << ": " << fault << "\n  of " << text;
    }
  }
  EXPECT_GE(calls, 4 * wanted) << unfinished << " answers had no end";
  if (is_long_test()) std::cout << calls << " calls, " << unfinished << " answers without end\n";
}

/// Texts that might be calls in another spelling: a call with white space, escapes, signs and
/// additional words, or without some of its bytes.
class Spellings {
 public:
  explicit Spellings(unsigned seed) : dice_(seed) {}

  std::string of(std::string text) {
    for (std::size_t times = dice_() % 4; times > 0; --times) text = changed(std::move(text));
    return text;
  }

 private:
  std::string changed(std::string text) {
    const auto any_of = [this](std::initializer_list<const char*> list) {
      return std::string(list.begin()[dice_() % list.size()]);
    };
    const std::size_t at = dice_() % (text.size() + 1);
    switch (dice_() % 7) {
      case 0:
        return text.insert(at, any_of({" ", "\n", "\t", "  ", "\r", "\n\n"}));
      case 1: {
        const std::size_t space = text.find_first_of(" \n", at);
        return space == std::string::npos ? text : text.erase(space, 1);
      }
      case 2:
      case 3:
        return escaped(std::move(text), at);
      case 4:
        return text.insert(at, any_of({"/", "\\", "'", "\"", "-", ".", "0", ":", ","}));
      case 5:
        return any_of({"Hi ", "\n\n", "{", "[", "(", "<", "{\"a\": ", "[\"", " "}) + text;
      default:
        return text.erase(std::min(at, text.size()), 1 + dice_() % 6);
    }
  }
  std::string escaped(std::string text, std::size_t at) {
    const std::size_t letter = text.find_first_of("abcdefgilmnorstuwy_", at);
    if (letter == std::string::npos) return text;
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(text[letter]);
    return text.replace(letter, 1, std::string("\\u00") + kHex[code / 16] + kHex[code % 16]);
  }

  std::mt19937 dice_;
};

// Whatever the parser makes a call of is held to its schema, also where the answer may be text.
TEST_P(Adversaries, GetNoWrongCallTakenForText) {
  const auto& format = GetParam();
  const auto schema = json::parse(
      R"({"type": "object", "properties": {"city": {"type": "integer"}}, "required": ["city"],
          "additionalProperties": false})");
  const std::vector<message::Tool> list{{.name = "get_weather", .parameters = *schema},
                                        {.name = "all", .parameters = *schema}};
  const auto compiled = *schema::Schema::compile(*schema, {});
  const ParseOptions options{.tools = {"get_weather", "all"}, .schemas = {*schema, *schema}};
  const Answers answers(*format, {}, false, true, list);
  StreamParser parser(format, options);
  Spellings spellings(5);
  const std::size_t wanted = is_long_test() ? 20'000 : 40;
  std::size_t faults = 0;
  for (const Syntax& syntax : format->syntaxes) {
    Format one = *format;
    one.syntaxes = {syntax};
    for (const char* const arguments : {R"({"bogus": 1})", R"({"city": "x"})"}) {
      const auto call = render_calls(one, {{"call00001", "get_weather", arguments}});
      ASSERT_TRUE(call) << call.error().message;
      for (std::size_t i = 0; i < wanted && faults < 3; ++i) {
        const std::string text = spellings.of(*call);
        parser.reset();
        const Outcome outcome = outcome_of(events_of(parser, text, text.size() + 1));
        const bool is_wrong = std::ranges::any_of(outcome.calls, [&](const auto& made) {
          const auto value = json::parse(made.second);
          return !value || !compiled->is_valid(*value).value_or(false);
        });
        if (!is_wrong || !answers.hold(text)) continue;
        ++faults;
        ADD_FAILURE() << ::testing::PrintToString(outcome) << "\n  of " << text;
      }
    }
  }
}

std::vector<std::shared_ptr<const Format>> adversary_writable() {
  auto formats = all();
  std::erase_if(formats, [](const auto& format) { return format->syntaxes.empty(); });
  return formats;
}

INSTANTIATE_TEST_SUITE_P(OfEveryFormat, Adversaries, ::testing::ValuesIn(adversary_writable()),
                         [](const auto& test) { return test.param->info.name; });

}  // namespace
}  // namespace tenon::format
