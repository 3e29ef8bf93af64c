#include "tenon/batch/mask.h"

#include <cmath>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/batch/grammar_request.h"
#include "tenon/batch/line.h"
#include "tenon/batch/tool_request.h"
#include "tenon/batch/validate.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/lines.h"
#include "tenon/schema/schema.h"

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

Status check_mask_members(const json::Object& request) {
  if (request.contains("tools")) {
    return json::check_members(
        request, {"tools", "format", "tool_choice", "parallel_tool_calls", "prompt_tail",
                  "whitespace", "property_order", "lenient", "tests"});
  }
  if (request.contains("grammar")) {
    return json::check_members(request, {"grammar", "syntax", "tests", "special"});
  }
  return json::check_members(
      request, {"schema", "draft", "documents", "assert_format", "whitespace", "property_order",
                "unicode_escapes", "lenient", "tests", "special"});
}

}  // namespace

Expected<grammar::Rules> MaskBatch::rules_of(const json::Object& request) const {
  if (!request.contains("tools")) return requested_rules(request, kDefaults);
  const auto options = requested_options(request, kDefaults);
  if (!options) return Unexpected(options.error());
  return requested_calls(request, *options, *tokenizer_);
}

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
  std::vector<std::uint32_t> mask(grammar::mask_words(index_->vocab().size()));
  if (const Status filled = grammar::Matcher(*grammar).fill_mask(mask); !filled) {
    return Unexpected(filled.error());
  }
  const double first_mask_us = us_since(compiled);

  json::Array verdicts;
  json::Array mask_us;
  for (std::vector<TokenId>& text : texts) {
    grammar::Matcher matcher(*grammar);
    std::int64_t at = 0;
    bool accepted = true;
    if (!index_->vocab().ends().empty()) text.push_back(index_->vocab().ends()[0]);
    for (const TokenId token : text) {
      const double before = cpu_us();
      if (const Status filled = matcher.fill_mask(mask); !filled) {
        // The text so far leaves nothing that fits: that is a verdict on the text, not an error.
        if (filled.error().code != Errc::unsatisfiable) return Unexpected(filled.error());
      }
      mask_us.emplace_back(us_since(before));
      accepted = has_bit(mask, token);
      if (!accepted) break;
      if (!matcher.accept(token)) {
        // The token was in the mask, so this is a limit.
        Error limit = matcher.error().value_or(Error{Errc::limit_exceeded, "grammar: a limit"});
        limit.message += ", at byte " + std::to_string(at) + " of the text";
        return Unexpected(std::move(limit));
      }
      at += static_cast<std::int64_t>(index_->vocab().bytes(token).size());
    }
    json::Object verdict{{"accepted", accepted}};
    if (!accepted) verdict["at"] = at;
    verdicts.emplace_back(std::move(verdict));
  }
  json::Object answer;
  answer["compile_us"] = compile_us;
  answer["first_mask_us"] = first_mask_us;
  answer["tests"] = std::move(verdicts);
  answer["mask_us"] = std::move(mask_us);
  if (*lenient) answer["relaxed"] = answer_of(std::move(relaxed));
  return answer;
}

int MaskBatch::run(std::istream& in, std::ostream& out) {
  json::answer_lines(in, out, [this](const json::Object& request) { return answer(request); });
  return 0;
}

}  // namespace tenon::batch
