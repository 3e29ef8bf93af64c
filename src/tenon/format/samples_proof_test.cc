// The proof that grammar, parser and renderer of a format are one: random walks through the grammar
// of some tools, each of whose sentences must parse to calls of these tools with arguments that
// their schemas take, and nothing else; and what is written of these calls must be a sentence that
// parses to them again. Quick: some hundred sentences; with TENON_LONG=1 100,000 of each format (a
// hundredth of it under sanitizers).
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/answers_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/sample_tools_for_test.h"
#include "tenon/format/space.h"
#include "tenon/format/stream_parser.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/json/value.h"

namespace tenon::format {
namespace {

using vocab::TokenId;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kSamplesShare = 100;
#else
constexpr std::size_t kSamplesShare = 1;
#endif

/// Walks through a grammar. A step is the end, a piece of the format's own text, a byte that texts
/// are made of, or, where none of these fits, what is forced, or any token of the mask.
class Walker {
 public:
  Walker(const Format& format, const Answers& answers) : answers_(answers) {
    for (std::string literal : format.literals) {
      while (!literal.empty() && literal.front() == '\n') literal.erase(0, 1);
      pieces_.push_back(std::move(literal));
    }
    for (const Syntax& syntax : format.syntaxes) {
      for (const Pattern* pattern :
           {&syntax.open, &syntax.call, &syntax.parameter, &syntax.separator, &syntax.close}) {
        std::string all;
        for (const Piece& piece : *pattern) {
          if (piece.kind != Piece::Kind::literal && piece.kind != Piece::Kind::space) {
            pieces_.push_back(std::exchange(all, {}));
          } else {
            all += piece.text;
          }
        }
        pieces_.push_back(std::move(all));
      }
      for (std::size_t i = 1; i < syntax.parameter.size(); ++i) {
        if (syntax.parameter[i - 1].kind == Piece::Kind::value) {
          closers_.push_back(std::string(trimmed(syntax.parameter[i].text)));
        }
      }
    }
    for (const char* common : {"\"", "\\n", "\\\"", "\\\\", "}",    "]",  ", ", "é", "😀", "'",
                               "</", ">",   "true", "None", "null", "\n", " ",  "0", "12", "-1"}) {
      pieces_.emplace_back(common);
    }
    std::erase(pieces_, "");
    if (!format.reasoning_close.empty()) closers_.push_back(format.reasoning_close.front());
    std::erase(closers_, "");
  }

  /// The tokens of a sentence; nothing if it gets too long to be one soon.
  std::optional<std::vector<TokenId>> walk(std::mt19937& dice) {
    grammar::Matcher matcher = answers_.matcher();
    std::vector<TokenId> sentence;
    const TokenId end = *answers_.tokenizer().eos();
    while (sentence.size() < kMaxTokens) {
      // Long sentences come to an end: by what ends something, and no further letters.
      const bool is_hasty = sentence.size() > 40;
      if (matcher.is_accepting() && dice() % 3 != 0) return sentence;
      if (dice() % 4 == 0 || is_hasty) {
        const auto& pieces = is_hasty && dice() % 2 == 0 ? closers_ : pieces_;
        if (accept_piece(matcher, pieces[dice() % pieces.size()], sentence)) continue;
      }
      const auto letter =
          static_cast<TokenId>(" !\"',-./0123456789:<>ABZ[\\]_`abnrtuz{|}~\n"[dice() % 42]);
      if (!is_hasty && matcher.accept(letter)) {
        sentence.push_back(letter);
        continue;
      }
      const std::string forced = matcher.forced_bytes(64);
      if (!forced.empty()) {
        if (!accept_all(matcher, forced, sentence)) return std::nullopt;
        continue;
      }
      std::vector<TokenId> allowed = allowed_tokens(matcher);
      std::erase(allowed, end);
      if (allowed.empty()) return matcher.is_accepting() ? std::optional(sentence) : std::nullopt;
      const TokenId token = allowed[dice() % allowed.size()];
      if (!matcher.accept(token)) return std::nullopt;
      sentence.push_back(token);
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMaxTokens = 2000;

  static bool accept_all(grammar::Matcher& matcher, std::string_view bytes,
                         std::vector<TokenId>& sentence) {
    for (const char byte : bytes) {
      const auto token = static_cast<TokenId>(static_cast<unsigned char>(byte));
      if (!matcher.accept(token)) return false;
      sentence.push_back(token);
    }
    return true;
  }

  /// All of the piece, as its control token where it is one, or nothing of it.
  bool accept_piece(grammar::Matcher& matcher, const std::string& piece,
                    std::vector<TokenId>& sentence) const {
    if (const auto control = answers_.tokenizer().control_token(piece)) {
      if (!matcher.accept(*control)) return false;
      sentence.push_back(*control);
      return true;
    }
    const std::size_t before = sentence.size();
    if (accept_all(matcher, piece, sentence)) return true;
    matcher.rollback(sentence.size() - before);
    sentence.resize(before);
    return false;
  }

  [[nodiscard]] std::vector<TokenId> allowed_tokens(grammar::Matcher& matcher) const {
    const std::size_t size = answers_.tokenizer().size();
    std::vector<std::uint32_t> mask(grammar::mask_words(size));
    const Status filled = matcher.fill_mask(mask);
    EXPECT_TRUE(filled) << filled.error().message;
    std::vector<TokenId> allowed;
    for (std::size_t id = 0; id < size; ++id) {
      if ((mask[id / 32] >> id % 32 & 1U) != 0) allowed.push_back(static_cast<TokenId>(id));
    }
    return allowed;
  }

  const Answers& answers_;
  std::vector<std::string> pieces_;
  std::vector<std::string> closers_{"\"", "\"", "}", "]", ")"};
};

/// What the parser makes of the tokens, each fed by itself.
Outcome parsed(StreamParser& parser, const vocab::Tokenizer& tokenizer,
               const std::vector<TokenId>& sentence) {
  parser.reset();
  std::vector<message::ChatEvent> events;
  for (const TokenId token : sentence) {
    parser.feed(tokenizer.bytes(token), tokenizer.is_control(token), events);
  }
  parser.finish(false, events);
  return outcome_of(events);
}

std::string text_of(const vocab::Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += tokenizer.bytes(token);
  return text;
}

/// Arguments with their values compared as JSON: keys in any order, 1.0 as it is written.
bool same_calls(const Calls& a, const Calls& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    const auto left = json::parse(one.second);
    const auto right = json::parse(other.second);
    return one.first == other.first && left && right && *left == *right;
  });
}

/// A grammar and a parser of one format.
struct Side {
  Side(const std::shared_ptr<const Format>& format, bool has_controls)
      : answers(*format, {.mode = message::ToolMode::required}, has_controls, true, tools().list),
        parser(format, options_of(*format, has_controls)) {}

  static ParseOptions options_of(const Format& format, bool has_controls) {
    ParseOptions options = tools().options;
    if (has_controls) options.control_markers = format.special;
    return options;
  }

  Answers answers;
  StreamParser parser;
};

/// Empty: the sentence is what it should be. Otherwise what is wrong. What is written of it goes to
/// `plain`, to which markers are text: in strings of the sentence they are.
std::string fault_of(const Format& format, Side& side, Side& plain,
                     const std::vector<TokenId>& sentence) {
  const Outcome outcome = parsed(side.parser, side.answers.tokenizer(), sentence);
  const std::string text = text_of(side.answers.tokenizer(), sentence);
  const bool has_reasoning =
      format.reasoning_starts_open ||
      std::any_of(format.reasoning_open.begin(), format.reasoning_open.end(),
                  [&](const std::string& open) { return text.starts_with(open); });
  if (outcome.calls.empty()) return "no call";
  if (!outcome.content.empty()) return "content " + ::testing::PrintToString(outcome.content);
  for (const std::string& code : outcome.codes) {
    // Undeclared names may come twice where each stands by itself, and what looks
    // like a call in the reasoning may be reported as no call.
    const bool is_expected = code == "repeated_key" || has_reasoning;
    if (!is_expected) return "diagnostic " + code;
  }
  if (!format.info.parallel && outcome.calls.size() > 1) return "several calls";
  std::vector<message::ToolCall> calls;
  for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
    const auto& [name, arguments] = outcome.calls[i];
    if (const std::string fault = fault_of_call(name, arguments); !fault.empty()) return fault;
    if (outcome.incomplete[i]) return "incomplete";
    calls.push_back({"", name, arguments});
  }
  auto written = render_calls(format, calls, {.tools = tools().list});
  if (!written) return "not written: " + written.error().message;
  // Text in JSON may hold what ends a parameter: such a call is written in the form with JSON.
  for (const Syntax& form : format.forms) {
    if (plain.answers.hold(*written)) break;
    auto other = render_calls_in(format, form, calls, {.tools = tools().list});
    if (other && plain.answers.hold(*other)) written = std::move(other);
  }
  if (!plain.answers.hold(*written)) return "no sentence is what is written of it: " + *written;
  std::vector<TokenId> tokens;
  for (const char byte : *written) tokens.push_back(static_cast<unsigned char>(byte));
  const Outcome again = parsed(plain.parser, plain.answers.tokenizer(), tokens);
  if (!same_calls(again.calls, outcome.calls)) {
    return "written as " + *written + ", and read as " + ::testing::PrintToString(again);
  }
  return "";
}

class Samples : public ::testing::TestWithParam<std::shared_ptr<const Format>> {};

TEST_P(Samples, ParseToTheCallsThatTheyAre) {
  const std::size_t wanted = is_long_test() ? 100'000 / kSamplesShare : 20;
  const auto& format = GetParam();
  std::mt19937 dice(7);
  Side with_controls(format, true);
  Side plain(format, false);
  std::size_t sentences = 0;
  std::size_t calls = 0;
  std::size_t tokens = 0;
  for (Side* side : {&with_controls, &plain}) {
    Walker walker(*format, side->answers);
    const std::size_t enough = sentences + wanted / 2;
    std::size_t faults = 0;
    for (std::size_t tries = 0; tries < 2 * wanted && sentences < enough && faults < 2; ++tries) {
      const auto sentence = walker.walk(dice);
      if (!sentence) continue;
      ++sentences;
      tokens += sentence->size();
      const std::string fault = fault_of(*format, *side, plain, *sentence);
      calls += side->parser.call_count();
      if (fault.empty()) continue;
      ++faults;
      ADD_FAILURE() << (side == &plain ? "" : "with control tokens: ") << fault << "\n  of "
                    << text_of(side->answers.tokenizer(), *sentence);
    }
  }
  if (is_long_test()) {
    std::cout << sentences << " sentences with " << calls << " calls, " << tokens << " tokens\n";
  }
  EXPECT_EQ(sentences, wanted);
}

std::vector<std::shared_ptr<const Format>> samples_writable() {
  auto formats = all();
  std::erase_if(formats, [](const auto& format) { return format->syntaxes.empty(); });
  return formats;
}

INSTANTIATE_TEST_SUITE_P(OfEveryGrammar, Samples, ::testing::ValuesIn(samples_writable()),
                         [](const auto& test) { return test.param->info.name; });

}  // namespace
}  // namespace tenon::format
