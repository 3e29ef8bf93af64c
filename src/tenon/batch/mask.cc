#include "tenon/batch/mask.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/batch/grammar_request.h"
#include "tenon/batch/line.h"
#include "tenon/batch/tool_request.h"
#include "tenon/batch/validate.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/lines.h"
#include "tenon/schema/schema.h"

// Lines of `tenon mask --batch`: a grammar, and texts (`tests`) that are matched token by token as
// an engine would. For each token the mask is made, and the token must be in it; the answer says
// whether the text and the end of the turn were allowed, and how long each mask took. `walks` go
// the other way: they choose tokens out of the masks, which gives texts of the grammar. Times are
// CPU time of this thread, so other programs disturb them less.

namespace tenon::batch {

using vocab::TokenId;

namespace {

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// To the nanosecond, since the clock has no more digits.
double us_since(double begun) {
  return std::round((cpu_us() - begun) * 1e3) / 1e3;
}

// For lines without these options.
constexpr grammar::JsonOptions kDefaults{.whitespace = grammar::JsonOptions::Whitespace::any};

bool has_bit(std::span<const std::uint32_t> mask, TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  return (mask[id / 32] >> id % 32 & 1U) != 0;
}

// The members of each kind of line; a member of another kind would have no effect.
Status check_mask_members(const json::Object& request) {
  if (request.contains("tools")) {
    return json::check_members(
        request, {"tools", "format", "tool_choice", "parallel_tool_calls", "prompt_tail",
                  "whitespace", "property_order", "lenient", "tests", "walks"});
  }
  if (request.contains("grammar")) {
    return json::check_members(request, {"grammar", "syntax", "tests", "special", "walks"});
  }
  return json::check_members(
      request, {"schema", "draft", "documents", "assert_format", "whitespace", "property_order",
                "unicode_escapes", "lenient", "tests", "special", "walks"});
}

struct Walk {
  std::uint32_t seed = 0;
  std::size_t most = 0;  // tokens
};

// `"walks": [{"seed": 7, "most": 100}]`. The bounds keep a line from taking hours.
Expected<std::vector<Walk>> walks_of(const json::Object& request) {
  constexpr std::size_t kMostWalks = 100;
  constexpr std::int64_t kMostTokens = 10'000;
  std::vector<Walk> walks;
  const json::Value* const member = request.find("walks");
  if (member == nullptr) return walks;
  const json::Array* const all = member->if_array();
  if (all == nullptr || all->size() > kMostWalks) {
    return Unexpected(wrong_member(
        "walks", "must be an array of at most " + std::to_string(kMostWalks) + " objects"));
  }
  const auto number_in = [](const json::Value& walk, std::string_view name) {
    const json::Value* const found = walk.find(name);
    const json::Number* const number = found == nullptr ? nullptr : found->if_number();
    return number == nullptr ? std::optional<std::int64_t>() : number->to_int64();
  };
  for (const json::Value& each : *all) {
    const auto number = number_in(each, "seed");
    const auto tokens = number_in(each, "most");
    if (!number || !std::in_range<std::uint32_t>(*number) || !tokens || *tokens < 0 ||
        *tokens > kMostTokens) {
      return Unexpected(wrong_member(
          "walks",
          "each must have a seed from 0 to 4294967295 and most, a number of tokens up to " +
              std::to_string(kMostTokens)));
    }
    walks.push_back({static_cast<std::uint32_t>(*number), static_cast<std::size_t>(*tokens)});
  }
  return walks;
}

// Chooses among the tokens of a mask: any, one of the shortest or one of the longest of a few. Each
// walk has one of these habits, since texts of any tokens rarely come to the end of a string, and
// those of short tokens are no words.
class Chooser {
 public:
  explicit Chooser(std::uint32_t seed) : random_(seed), habit_(seed % 3) {}

  // -1: the mask is empty.
  TokenId choose(std::span<const std::uint32_t> mask, const vocab::Vocab& vocab) {
    allowed_.clear();
    for (std::size_t word = 0; word < mask.size(); ++word) {
      for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
        allowed_.push_back(static_cast<TokenId>(word * 32) + std::countr_zero(bits));
      }
    }
    if (allowed_.empty()) return -1;
    const auto any = [&] { return allowed_[random_() % allowed_.size()]; };
    TokenId best = any();
    for (int i = 0; habit_ != 0 && i < 7; ++i) {
      const TokenId other = any();
      const bool is_shorter = vocab.bytes(other).size() < vocab.bytes(best).size();
      if (is_shorter == (habit_ == 1)) best = other;
    }
    return best;
  }

 private:
  std::mt19937 random_;
  std::uint32_t habit_;
  std::vector<TokenId> allowed_;
};

}  // namespace

Expected<grammar::Rules> MaskBatch::rules_of(const json::Object& request) const {
  if (!request.contains("tools")) return requested_rules(request, kDefaults);
  const auto options = requested_options(request, kDefaults);
  if (!options) return Unexpected(options.error());
  return requested_calls(request, *options, *tokenizer_);
}

// The answer has the figures in the order of the work: compile_us, first_mask_us, and mask_us with
// one number for each token of all tests and walks.
Expected<json::Object> MaskBatch::answer(const json::Object& request) {
  if (const Status known = check_mask_members(request); !known) return Unexpected(known.error());
  static const json::Array kNoTests;
  const json::Array* tests = &kNoTests;
  if (const json::Value* member = request.find("tests")) {
    tests = member->if_array();
    if (tests == nullptr) return Unexpected(wrong_member("tests", "must be an array"));
  }
  const auto special = flag(request, "special", false);
  if (!special) return Unexpected(special.error());
  const bool has_controls = *special || request.contains("tools");
  const auto controls = has_controls ? vocab::Controls::on : vocab::Controls::off;
  std::vector<std::vector<TokenId>> texts;
  for (const json::Value& test : *tests) {
    const json::Value* const text = test.find("text");
    if (text == nullptr || text->if_string() == nullptr) {
      return Unexpected(wrong_member("tests", "each must have the string text"));
    }
    const Status encoded =
        tokenizer_->encode(*text->if_string(), controls, true, texts.emplace_back());
    if (!encoded) return Unexpected(encoded.error());
  }

  const auto lenient = flag(request, "lenient", false);
  if (!lenient) return Unexpected(lenient.error());
  const auto walks = walks_of(request);
  if (!walks) return Unexpected(walks.error());

  // From here on times are measured. The grammar is made without a cache, so each line pays for its
  // own.
  const double begun = cpu_us();
  auto rules = rules_of(request);
  if (!rules) return Unexpected(rules.error());
  std::vector<grammar::Relaxed> relaxed;
  const auto build = [rules = *std::move(rules), &relaxed, this](grammar::Machine& machine) {
    relaxed.clear();  // the grammar is made again, and leaves the same out
    return grammar::add_rules(machine, rules, index_->vocab(), &relaxed);
  };
  const auto grammar = grammar::Grammar::make(build, index_);
  if (!grammar) return Unexpected(grammar.error());
  const double compile_us = us_since(begun);
  const double compiled = cpu_us();
  // The first mask is timed apart, with a matcher of its own: it fills the caches of the grammar.
  std::vector<std::uint32_t> mask(grammar::mask_words(index_->vocab().size()));
  if (const Status filled = grammar::Matcher(*grammar).fill_mask(mask); !filled) {
    return Unexpected(filled.error());
  }
  const double first_mask_us = us_since(compiled);

  json::Array verdicts;
  json::Array mask_us;
  const auto fill = [&](grammar::Matcher& matcher) -> Status {
    const double before = cpu_us();
    const Status filled = matcher.fill_mask(mask);
    mask_us.emplace_back(us_since(before));
    // The text so far leaves nothing that fits: that is a verdict on the text, not an error.
    if (!filled && filled.error().code != Errc::unsatisfiable) return Unexpected(filled.error());
    return {};
  };
  // A token of the mask that is not accepted: a limit, at a byte of the text.
  const auto limit_at = [](const grammar::Matcher& matcher, std::int64_t at) {
    Error limit = matcher.error().value_or(Error{Errc::limit_exceeded, "grammar: a limit"});
    limit.message += ", at byte " + std::to_string(at) + " of the text";
    return Unexpected(std::move(limit));
  };
  for (std::vector<TokenId>& text : texts) {
    grammar::Matcher matcher(*grammar);
    std::int64_t at = 0;
    bool accepted = true;
    // A text is accepted if the turn may end behind it.
    if (!index_->vocab().ends().empty()) text.push_back(index_->vocab().ends()[0]);
    for (const TokenId token : text) {
      if (const Status filled = fill(matcher); !filled) return Unexpected(filled.error());
      accepted = has_bit(mask, token);
      if (!accepted) break;
      if (!matcher.accept(token)) return limit_at(matcher, at);
      at += static_cast<std::int64_t>(index_->vocab().bytes(token).size());
    }
    json::Object verdict{{"accepted", accepted}};
    if (!accepted) verdict["at"] = at;
    verdicts.emplace_back(std::move(verdict));
  }
  // The other way round: tokens are chosen from the masks until the text ends or is long enough.
  json::Array walked;
  for (const Walk& walk : *walks) {
    grammar::Matcher matcher(*grammar);
    Chooser chooser(walk.seed);
    std::string text;
    for (std::size_t i = 0; i < walk.most && !matcher.is_finished(); ++i) {
      if (const Status filled = fill(matcher); !filled) return Unexpected(filled.error());
      const TokenId token = chooser.choose(mask, index_->vocab());
      if (token < 0) break;
      if (!matcher.accept(token)) return limit_at(matcher, static_cast<std::int64_t>(text.size()));
      if (!matcher.is_finished()) text += index_->vocab().bytes(token);
    }
    walked.push_back(
        json::Object{{"text", utf8::sanitized(text)}, {"ended", matcher.is_finished()}});
  }
  json::Object answer;
  answer["compile_us"] = compile_us;
  answer["first_mask_us"] = first_mask_us;
  answer["tests"] = std::move(verdicts);
  answer["mask_us"] = std::move(mask_us);
  if (request.contains("walks")) answer["walks"] = std::move(walked);
  if (*lenient) answer["relaxed"] = answer_of(std::move(relaxed));
  return answer;
}

int MaskBatch::run(std::istream& in, std::ostream& out) {
  json::answer_lines(in, out, [this](const json::Object& request) { return answer(request); });
  return 0;
}

}  // namespace tenon::batch
