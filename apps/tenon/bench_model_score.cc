#include "bench_model_score.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/chat/call_check.h"
#include "tenon/regex/unicode.h"
#include "tenon/schema/schema.h"

// How an answer is judged
//
// A row says which calls it wants, which it allows, or that it wants none, and which words the text
// must have. given_of() sums up an answer; judge() compares the two. Several calls may come in any
// order, so made calls are matched with wanted ones as in a bipartite graph (are_wanted). Arguments
// are compared exactly, and loosely: texts without case, blanks around them and a last full stop.
// Tally adds up verdicts, each with the baselines of its row: what a random choice among the tools
// would get, what always calling the first tool would, and what never calling would.

namespace tenon::app::bench {
namespace {

using message::ToolCall;

// ---- texts, loosely

// The smallest code point that differs from this one by case alone; ASCII becomes lower case.
char32_t folded(char32_t code_point) {
  if (code_point >= 0x80) {
    code_point = regex::case_closed({{code_point, code_point}}).ranges().front().first;
  }
  return code_point >= U'A' && code_point <= U'Z' ? code_point - U'A' + U'a' : code_point;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// The text without differences of case.
std::u32string folded(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const utf8::Decoded character = utf8::decode(text);
    const std::size_t length = std::max<std::size_t>(character.length, 1);
    out += character.length == 0 ? U'\uFFFD' : folded(character.code_point);
    text.remove_prefix(length);
  }
  return out;
}

std::u32string loosely(std::string_view text) {
  text = trimmed(text);
  if (text.ends_with('.')) text = trimmed(text.substr(0, text.size() - 1));
  return folded(text);
}

// ---- calls beside those that are wanted

using Same = std::function<bool(const json::Value&, const json::Value&)>;

// A call with its arguments parsed; null if they are not JSON.
struct Made {
  std::string_view name;
  json::Value arguments;
};

bool has_argument(const json::Value* found, const WantedArgument& wanted, const Same& same) {
  if (found == nullptr) return wanted.may_be_absent;
  return std::ranges::any_of(wanted.accepted,
                             [&](const json::Value& value) { return same(*found, value); });
}

// The call has all wanted arguments with accepted values, and no others.
bool is_call(const Made& made, const WantedCall& wanted, const Same& same) {
  const json::Object* const arguments = made.arguments.if_object();
  if (made.name != wanted.name || arguments == nullptr) return false;
  std::size_t known = 0;
  for (const WantedArgument& argument : wanted.arguments) {
    const json::Value* const found = arguments->find(argument.key);
    if (!has_argument(found, argument, same)) return false;
    if (found != nullptr) ++known;
  }
  return known == arguments->size();
}

// fits[i][k]: i may be paired with k.
using Fits = std::vector<std::vector<bool>>;

// Finds a partner for `i` that is free, or whose owner can take another (Kuhn's augmenting paths).
bool find_one(std::size_t i, const Fits& fits, std::vector<std::optional<std::size_t>>& owners,
              std::vector<bool>& seen) {
  for (std::size_t k = 0; k < owners.size(); ++k) {
    if (!fits[i][k] || seen[k]) continue;
    seen[k] = true;
    if (!owners[k] || find_one(*owners[k], fits, owners, seen)) {
      owners[k] = i;
      return true;
    }
  }
  return false;
}

// Whether each row of `fits` can have a column of its own.
bool have_one_each(const Fits& fits, std::size_t choices) {
  std::vector<std::optional<std::size_t>> owners(choices);
  for (std::size_t i = 0; i < fits.size(); ++i) {
    std::vector<bool> seen(choices);
    if (!find_one(i, fits, owners, seen)) return false;
  }
  return true;
}

// Whether every call is wanted or allowed, every wanted call is made, and no call counts twice. If
// all of one side and some of the other can each be paired, there is one pairing that covers both
// (Mendelsohn and Dulmage, 1958), so the two sides are tested separately.
bool are_wanted(const std::vector<Made>& made, const Wanted& wanted,
                const std::function<bool(const Made&, const WantedCall&)>& is_it) {
  const std::size_t most = wanted.calls.size() + wanted.optional.size();
  // Too few or too many calls cannot fit, and this keeps the tables small.
  if (made.size() < wanted.calls.size() || made.size() > most) return false;
  Fits of_made(made.size(), std::vector<bool>(most));
  Fits of_wanted(wanted.calls.size(), std::vector<bool>(made.size()));
  for (std::size_t i = 0; i < made.size(); ++i) {
    for (std::size_t k = 0; k < most; ++k) {
      const bool is_due = k < wanted.calls.size();
      const WantedCall& call = is_due ? wanted.calls[k] : wanted.optional[k - wanted.calls.size()];
      of_made[i][k] = is_it(made[i], call);
      if (is_due) of_wanted[k][i] = of_made[i][k];
    }
  }
  return have_one_each(of_made, most) && have_one_each(of_wanted, made.size());
}

// ---- calls and the schemas of their tools

bool fits(const ToolCall& call, const message::ChatRequest& request) {
  const auto tool = std::ranges::find(request.tools, call.name, &message::Tool::name);
  if (tool == request.tools.end()) return false;
  const auto arguments = json::parse(call.arguments);
  if (!arguments || arguments->if_object() == nullptr) return false;
  if (tool->parameters.is_null()) return arguments->if_object()->empty();
  const auto schema = schema::Schema::compile(tool->parameters);
  // A schema that Tenon cannot compile counts as satisfied.
  return !schema || chat::fault_of(call.arguments, **schema).empty();
}

// ---- words in a text

char32_t at(const std::u32string& text, std::size_t place) {
  return place < text.size() ? text[place] : U'\0';  // also for the place before the first
}

bool is_digit(char32_t code_point) {
  return code_point >= U'0' && code_point <= U'9';
}

// Whether it is a letter of a script with upper and lower case, in a folded text.
bool is_cased(char32_t code_point) {
  static const std::shared_ptr<const regex::CodePointSet> kCased = regex::characters_with("LC");
  return code_point >= 0x80 ? kCased->contains(code_point)
                            : (code_point >= U'a' && code_point <= U'z');
}

// Whether a word that ends in `edge` continues with `next` and the character `behind` it.
bool goes_on(char32_t edge, char32_t next, char32_t behind) {
  if (is_cased(edge)) return is_cased(next);
  if (!is_digit(edge)) return false;
  return is_digit(next) || ((next == U'.' || next == U',') && is_digit(behind));
}

bool is_one_of(std::string_view code, std::span<const std::string_view> codes) {
  return std::ranges::find(codes, code) != codes.end();
}

}  // namespace

Given given_of(const message::Fold& fold) {
  constexpr std::array<std::string_view, 3> kBroken = {"broken_call", "unknown_tool",
                                                       "leaked_marker"};
  constexpr std::array<std::string_view, 2> kBrokenOff = {"spoilt_call", "incomplete_call"};
  Given given{.text = fold.message().text(),
              .calls = fold.message().tool_calls,
              .is_cut = fold.finish().reason == message::FinishReason::length};
  for (const message::Diagnostic& diagnostic : fold.diagnostics()) {
    given.has_broken_call = given.has_broken_call || is_one_of(diagnostic.code, kBroken);
    given.is_whole = given.is_whole && !is_one_of(diagnostic.code, kBrokenOff);
    given.is_json = given.is_json && diagnostic.code != "mended_arguments" &&
                    diagnostic.code != "broken_call" && diagnostic.code != "leaked_marker";
  }
  for (const ToolCall& call : given.calls) {
    const auto arguments = json::parse(call.arguments);
    given.is_json = given.is_json && arguments && arguments->if_object() != nullptr;
  }
  const auto& incomplete = fold.incomplete();
  given.is_whole = given.is_whole && std::ranges::find(incomplete, true) == incomplete.end();
  // A call of no tool may have been JSON, which is not known; a call that was cut was not JSON.
  const bool is_cut_call = given.has_broken_call && given.is_cut;
  given.is_json = given.is_json && given.is_whole && !is_cut_call;
  return given;
}

// Texts are compared loosely at any depth; numbers, booleans and the order of lists exactly.
bool is_same_loosely(const json::Value& a, const json::Value& b) {
  if (a.if_string() != nullptr && b.if_string() != nullptr) {
    return loosely(*a.if_string()) == loosely(*b.if_string());
  }
  if (a.if_array() != nullptr && b.if_array() != nullptr) {
    return std::ranges::equal(*a.if_array(), *b.if_array(), is_same_loosely);
  }
  if (a.if_object() != nullptr && b.if_object() != nullptr) {
    return a.if_object()->size() == b.if_object()->size() &&
           std::ranges::all_of(*a.if_object(), [&](const json::Member& member) {
             const json::Value* const other = b.find(member.key);
             return other != nullptr && is_same_loosely(member.value, *other);
           });
  }
  return a == b;
}

// As a word of its own: "3" is in "3 days" and not in "13 days", "32" or "3.5".
bool stands_in(std::string_view what, std::string_view text) {
  const std::u32string wanted = folded(what);
  const std::u32string all = folded(text);
  if (wanted.empty()) return true;
  for (std::size_t begin = all.find(wanted); begin != std::u32string::npos;
       begin = all.find(wanted, begin + 1)) {
    const std::size_t end = begin + wanted.size();
    if (!goes_on(wanted.front(), at(all, begin - 1), at(all, begin - 2)) &&
        !goes_on(wanted.back(), at(all, end), at(all, end + 1))) {
      return true;
    }
  }
  return false;
}

// A refusal is wrong in every respect. A row without wanted calls is right if the answer abstains;
// one that wants "any call" if the calls are valid.
Verdict judge(const Row& row, const Given& given) {
  Verdict verdict;
  if (!given.refusal.empty()) return verdict;
  const Wanted& wanted = row.wanted;
  // Arguments that are not JSON become null, which equals no wanted call.
  std::vector<Made> made;
  for (const ToolCall& call : given.calls) {
    auto arguments = json::parse(call.arguments);
    made.push_back({call.name, arguments ? *std::move(arguments) : json::Value()});
  }
  const bool is_clean = !given.has_broken_call;
  const auto are = [&](const Same& same) {
    return is_clean && are_wanted(made, wanted, [&](const Made& call, const WantedCall& other) {
             return is_call(call, other, same);
           });
  };
  verdict.calls = !given.calls.empty() || given.has_broken_call;
  // A call that is broken or cut is one that the model wanted to make, and not one that it has
  // made.
  verdict.has_call = !given.calls.empty() && given.is_whole;
  verdict.is_json = verdict.calls && given.is_json;
  verdict.is_valid = verdict.calls && is_clean && given.is_whole &&
                     std::ranges::all_of(given.calls, [&](const ToolCall& call) {
                       return fits(call, row.request);
                     });
  verdict.mentions = std::ranges::all_of(wanted.mentions, [&](const auto& group) {
    return std::ranges::any_of(
        group, [&](const std::string& text) { return stands_in(text, given.text); });
  });
  switch (wanted.kind) {
    case Wanted::Kind::calls:
      verdict.has_tools =
          is_clean && are_wanted(made, wanted, [](const Made& call, const WantedCall& other) {
            return call.name == other.name;
          });
      verdict.is_exact = are(std::equal_to<json::Value>());
      verdict.is_loose = verdict.is_exact || are(is_same_loosely);
      verdict.is_right = verdict.is_exact;
      break;
    case Wanted::Kind::none:
      verdict.abstains = are(std::equal_to<json::Value>());
      verdict.is_right = verdict.abstains;
      break;
    case Wanted::Kind::any_call:
      verdict.is_right = verdict.is_valid;
      break;
  }
  verdict.is_right = verdict.is_right && verdict.mentions;
  return verdict;
}

void Figure::add(bool is_so, double by_chance, double by_first, double by_silence) {
  ++of;
  count += is_so ? 1 : 0;
  chance += by_chance;
  first += by_first;
  never += by_silence;
}

Figure& Figure::operator+=(const Figure& other) {
  count += other.count;
  of += other.of;
  chance += other.chance;
  first += other.first;
  never += other.never;
  return *this;
}

double chance_of_tools(const Row& row) {
  const auto tools = static_cast<double>(row.request.tools.size());
  // k calls can be drawn in as many orders as can be told apart: k! / (k1! k2! ...).
  std::map<std::string_view, double> drawn;
  double chance = 1;
  double calls = 0;
  for (const WantedCall& call : row.wanted.calls) {
    chance *= ++calls / ++drawn[call.name] / tools;
  }
  return chance;
}

void Tally::add(const Row& row, const Given& given, const Verdict& verdict) {
  ++requests;
  refused += given.refusal.empty() ? 0 : 1;
  cut += given.is_cut ? 1 : 0;
  if (verdict.calls) {
    // Whether a call is JSON and valid is asked only where there is one.
    json.add(verdict.is_json);
    valid.add(verdict.is_valid);
  }
  if (row.wanted.kind != Wanted::Kind::none) called.add(verdict.has_call);
  const auto tools = static_cast<double>(row.request.tools.size());
  switch (row.wanted.kind) {
    case Wanted::Kind::calls: {
      const double chance = chance_of_tools(row);
      const bool are_first = std::ranges::all_of(row.wanted.calls, [&](const WantedCall& call) {
        return call.name == row.request.tools.front().name;
      });
      const double first = are_first ? 1 : 0;
      tool.add(verdict.has_tools, chance, first);
      exact.add(verdict.is_exact, chance, first);
      loose.add(verdict.is_loose, chance, first);
      right.add(verdict.is_right, chance, first);
      break;
    }
    case Wanted::Kind::none: {
      const double first = row.request.tools.empty() ? 1 : 0;
      // Not to call is one choice more beside the tools.
      abstains.add(verdict.abstains, 1 / (tools + 1), first, 1);
      right.add(verdict.is_right, 1 / (tools + 1), first, row.wanted.mentions.empty() ? 1 : 0);
      break;
    }
    case Wanted::Kind::any_call:
      // Any call is right, so a random choice fails only by not calling.
      right.add(verdict.is_right, tools / (tools + 1), row.request.tools.empty() ? 0 : 1);
      break;
  }
}

Tally& Tally::operator+=(const Tally& other) {
  requests += other.requests;
  refused += other.refused;
  cut += other.cut;
  called += other.called;
  json += other.json;
  valid += other.valid;
  tool += other.tool;
  exact += other.exact;
  loose += other.loose;
  abstains += other.abstains;
  right += other.right;
  return *this;
}

}  // namespace tenon::app::bench
