#include "tenon/grammar/front/dispatch.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "tenon/base/budget.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/syntax.h"

namespace tenon::grammar {

namespace {

using regex::CodePointSet;

NodeId any_character(Rules& rules) {
  return rules.add(node::Characters{CodePointSet::all()});
}

using Ways = std::vector<std::pair<std::string, NodeId>>;  // ordered by trigger

// The end of the character of UTF-8 that begins at `at`.
std::size_t end_of_character(std::string_view text, std::size_t at) {
  const auto goes_on = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; };
  do ++at;
  while (at < text.size() && goes_on(text[at]));
  return at;
}

// One of the triggers, of which the first `from` bytes are equal and have been read, and what comes
// after it. Common beginnings are read once, so that only distinct characters are waited for.
NodeId one_of(Rules& rules, std::span<const Ways::value_type> ways, std::size_t from) {
  const std::string& first = ways.front().first;
  const std::string& last = ways.back().first;
  if (ways.size() == 1) return rules.sequence({rules.literal(first.substr(from)), ways[0].second});
  std::size_t shared = from;
  while (shared < first.size()) {
    const std::size_t end = end_of_character(first, shared);
    if (first.compare(shared, end - shared, last, shared, end - shared) != 0) break;
    shared = end;
  }
  std::vector<NodeId> branches;
  while (!ways.empty()) {
    const std::string& trigger = ways.front().first;
    const std::size_t end = shared < trigger.size() ? end_of_character(trigger, shared) : shared;
    const std::string_view begin = std::string_view(trigger).substr(0, end);
    const auto is_other = [&](const auto& way) {
      return end == shared ? way.first != trigger : !way.first.starts_with(begin);
    };
    const auto count =
        static_cast<std::size_t>(std::ranges::find_if(ways, is_other) - ways.begin());
    branches.push_back(one_of(rules, ways.first(count), shared));
    ways = ways.subspan(count);
  }
  const NodeId rest = rules.choice(std::move(branches));
  return shared == from ? rest
                        : rules.sequence({rules.literal(first.substr(from, shared - from)), rest});
}

// What the text before a trigger must not end with, so that no stop ends within the trigger: with
// "<<" as stop and trigger, the text "<<<" has its trigger at the beginning. Nothing: a stop lies
// within the trigger and ends before it does.
std::optional<std::set<std::string>> ends_before(const std::string& trigger,
                                                 const std::vector<std::string>& stops) {
  std::set<std::string> ends;
  const std::string_view begun = std::string_view(trigger).substr(0, trigger.size() - 1);
  for (const std::string& stop : stops) {
    if (begun.find(stop) != begun.npos) return std::nullopt;
    // The shortest end comes first: one that ends with another says nothing more.
    std::vector<std::string_view> of_stop;
    for (std::size_t size = std::min(stop.size(), trigger.size()); size-- > 1;) {
      if (!stop.ends_with(begun.substr(0, size))) continue;
      const std::string_view end = std::string_view(stop).substr(0, stop.size() - size);
      const auto is_in_end = [&](std::string_view other) { return end.ends_with(other); };
      if (std::ranges::none_of(of_stop, is_in_end)) of_stop.push_back(end);
    }
    ends.insert(of_stop.begin(), of_stop.end());
  }
  return ends;
}

// Text in which one of `stops` has ended before its last character.
NodeId with_early_stop(Rules& rules, const std::vector<std::string>& stops) {
  std::vector<NodeId> words;
  words.reserve(stops.size());
  for (const std::string& stop : stops) words.push_back(rules.literal(stop));
  const NodeId more = rules.repeat(any_character(rules), 1, node::kUnbounded);
  return rules.sequence({rules.add(node::Text{}), rules.choice(std::move(words)), more});
}

// Text that ends with `trigger`, but no text of `late`: so no stop ends before the trigger does.
NodeId up_to(Rules& rules, const std::string& trigger, NodeId late) {
  const NodeId all = rules.sequence({rules.add(node::Text{}), rules.literal(trigger)});
  return rules.add(node::Lexeme{rules.add(node::Both{{all, rules.add(node::Complement{late})}})});
}

// `text` that does not end with one of `ends`. It is covered (node::Lexeme): plain `text` follows
// wherever this may come.
NodeId text_before(Rules& rules, NodeId text, const std::set<std::string>& ends) {
  if (ends.empty()) return text;
  std::vector<NodeId> words;
  for (const std::string& end : ends) words.push_back(rules.literal(end));
  const NodeId ended = rules.sequence({rules.add(node::Text{}), rules.choice(std::move(words))});
  const NodeId other = rules.add(node::Both{{text, rules.add(node::Complement{ended})}});
  return rules.add(node::Lexeme{.part = other, .is_covered = true});
}

NodeId dispatched(Rules& rules, NodeId text, NodeId first, NodeId next, bool at_least_one,
                  bool only_first) {
  if (only_first) return at_least_one ? first : rules.choice({text, next});
  const NodeId more = rules.repeat(next, 0, node::kUnbounded);
  return at_least_one ? rules.sequence({first, more, text}) : rules.sequence({more, text});
}

// The smallest automaton that reads the suffixes of a text, and so every part of it: A. Blumer et
// al., The smallest automaton recognizing the subwords of a text, Theor. Comput. Sci. 40, 1985.
class SuffixAutomaton {
 public:
  struct State {
    std::size_t length = 0;
    std::optional<std::size_t> link;
    std::map<std::size_t, std::size_t> next;  // by letter
  };

  explicit SuffixAutomaton(const std::vector<std::size_t>& letters) {
    for (const std::size_t letter : letters) extend(letter);
  }
  [[nodiscard]] const std::vector<State>& states() const { return states_; }

 private:
  // The usual construction, letter by letter: linear in the number of letters, with at most twice
  // as many states.
  void extend(std::size_t letter) {
    const std::size_t made = states_.size();
    states_.push_back({.length = states_[last_].length + 1, .link = 0, .next = {}});
    std::optional<std::size_t> at = last_;
    last_ = made;
    while (at && !states_[*at].next.contains(letter)) {
      states_[*at].next[letter] = made;
      at = states_[*at].link;
    }
    if (!at) return;
    const std::size_t known = states_[*at].next[letter];
    if (states_[known].length == states_[*at].length + 1) {
      states_[made].link = known;
      return;
    }
    const std::size_t split = states_.size();
    State copy = states_[known];
    copy.length = states_[*at].length + 1;
    states_.push_back(std::move(copy));
    for (; at; at = states_[*at].link) {
      const auto next = states_[*at].next.find(letter);
      if (next == states_[*at].next.end() || next->second != known) break;
      next->second = split;
    }
    states_[known].link = split;
    states_[made].link = split;
  }

  std::vector<State> states_{State{}};
  std::size_t last_ = 0;
};

}  // namespace

std::string excess(const Dispatch& dispatch) {
  // Each trigger is compared with each stop, and its characters become nodes in each other.
  constexpr std::size_t kMostBytes = 1024;
  constexpr std::size_t kMostCompared = std::size_t{1} << 26U;
  std::size_t bytes = 0;
  std::size_t longest = 0;
  for (const Dispatch::Way& way : dispatch.ways) {
    bytes += way.trigger.size();
    longest = std::max(longest, way.trigger.size());
  }
  for (const std::string& stop : dispatch.stops) longest = std::max(longest, stop.size());
  if (longest > kMostBytes) {
    return "a trigger, or a text that ends the free text, has " + std::to_string(longest) +
           " bytes, and may have " + std::to_string(kMostBytes);
  }
  if (!dispatch.stops.empty() && bytes > kMostCompared / dispatch.stops.size()) {
    return "there are too many triggers and texts that end the free text: " +
           std::to_string(dispatch.ways.size()) + " and " + std::to_string(dispatch.stops.size());
  }
  return {};
}

NodeId add_dispatch(Rules& rules, NodeId text, NodeId tag, bool at_least_one, bool only_first) {
  return dispatched(rules, text, tag, rules.sequence({text, tag}), at_least_one, only_first);
}

// For the machine all free text is one lexeme, followed by any of the triggers; only triggers with
// which a stop can overlap have texts of their own before them. With a lexeme for each trigger, as
// it is printed, 60 triggers took 66 ms to compile and 124 ms for the first mask; this way they
// take 5 and 0.5 ms (Llama-3 vocabulary, CPU time, 2 busy cores, 2026-11-30).
NodeId add_dispatch(Rules& rules, Dispatch dispatch) {
  std::map<std::string, std::vector<NodeId>> by_trigger;
  for (const Dispatch::Way& way : dispatch.ways) by_trigger[way.trigger].push_back(way.rest);
  Ways ways;
  std::map<std::set<std::string>, Ways> by_ends;
  std::vector<NodeId> printed_firsts;
  std::vector<NodeId> printed_nexts;
  const NodeId late = with_early_stop(rules, dispatch.stops);
  for (auto& [trigger, rests] : by_trigger) {
    const NodeId rest = rules.choice(std::move(rests));
    ways.emplace_back(trigger, rest);
    if (const auto ends = ends_before(trigger, dispatch.stops)) {
      by_ends[*ends].push_back(ways.back());
    }
    printed_firsts.push_back(rules.sequence({rules.literal(trigger), rest}));
    printed_nexts.push_back(rules.sequence({up_to(rules, trigger, late), rest}));
  }
  const NodeId text = rules.add(node::Lexeme{rules.add(node::Text{dispatch.stops})});
  std::vector<NodeId> nexts;
  for (const auto& [ends, those] : by_ends) {
    nexts.push_back(rules.sequence({text_before(rules, text, ends), one_of(rules, those, 0)}));
  }
  const NodeId first = ways.empty() ? rules.choice({}) : one_of(rules, ways, 0);
  const NodeId read = dispatched(rules, text, first, rules.choice(std::move(nexts)),
                                 dispatch.at_least_one, dispatch.only_first);
  const NodeId printed_text = rules.add(node::Text{std::move(dispatch.stops)});
  const NodeId printed = dispatched(rules, printed_text, rules.choice(std::move(printed_firsts)),
                                    rules.choice(std::move(printed_nexts)), dispatch.at_least_one,
                                    dispatch.only_first);
  return rules.add(node::Forms{.read = read, .printed = printed});
}

// P without P followed by at least one character: P & ~(P .+).
NodeId add_shortest(Rules& rules, NodeId part) {
  const NodeId longer =
      rules.sequence({part, rules.repeat(any_character(rules), 1, node::kUnbounded)});
  return rules.add(
      node::Lexeme{rules.add(node::Both{{part, rules.add(node::Complement{longer})}})});
}

// Leaves out texts that go on although a text of at least `most` characters has ended: P & ~((P &
// .{most,}) .+).
NodeId add_max_chars(Rules& rules, NodeId part, std::uint32_t most) {
  const NodeId any = any_character(rules);
  const NodeId ended = rules.add(node::Both{{part, rules.repeat(any, most, node::kUnbounded)}});
  const NodeId beyond = rules.sequence({ended, rules.repeat(any, 1, node::kUnbounded)});
  return rules.add(
      node::Lexeme{rules.add(node::Both{{part, rules.add(node::Complement{beyond})}})});
}

NodeId add_max_tokens(Rules& rules, NodeId part, std::uint32_t most) {
  // If the part can be empty, so can this.
  const NodeId some = rules.add(node::Tokens{rules.add(node::Lexeme{part}), most});
  const NodeId empty = rules.add(node::Lexeme{rules.add(node::Both{{part, rules.literal("")}})});
  return rules.choice({empty, some});
}

Expected<NodeId> add_pattern(Rules& rules, std::string_view source, std::string flags) {
  Budget budget("regex", {.max_steps = 10'000'000, .max_bytes = 64 << 20});
  constexpr auto kDialect = regex::Dialect::ecma262;
  std::string rest(source);
  // As in Python, flags for the whole pattern may come first.
  if (rest.starts_with("(?")) {
    const std::size_t end = rest.find_first_not_of("ims", 2);
    if (end != rest.npos && end > 2 && rest[end] == ')') {
      flags += rest.substr(2, end - 2);
      rest.erase(0, end + 1);
    }
  }
  // (?P<n>...) becomes (?<n>...).
  for (std::size_t at = rest.find("(?P<"); at != rest.npos; at = rest.find("(?P<", at + 1)) {
    const bool is_escaped = at > 0 && rest[at - 1] == '\\';
    if (!is_escaped) rest.erase(at + 2, 1);
  }
  // It is parsed by itself first, so that places in errors are places in the source.
  if (const auto parsed = regex::parse(rest, kDialect, budget); !parsed) {
    return Unexpected(parsed.error());
  }
  std::ranges::sort(flags);
  const auto twice = std::ranges::unique(flags);
  flags.erase(twice.begin(), twice.end());
  if (!flags.empty()) rest = "(?" + flags + ":" + rest + ")";
  return rules.add(node::Pattern{std::move(rest), kDialect});
}

NodeId add_substring(Rules& rules, const std::vector<std::string>& chunks) {
  std::map<std::string, std::size_t> numbers;  // of distinct chunks
  std::vector<std::size_t> letters;
  for (const std::string& chunk : chunks) {
    if (!chunk.empty()) letters.push_back(numbers.try_emplace(chunk, numbers.size()).first->second);
  }
  std::vector<NodeId> texts(numbers.size());
  for (const auto& [chunk, letter] : numbers) texts[letter] = rules.literal(chunk);
  // Each state becomes a rule that may end, because a run may end after any chunk.
  const SuffixAutomaton automaton(letters);
  const auto& states = automaton.states();
  std::vector<RuleId> names;
  names.reserve(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) names.push_back(rules.declare("rest"));
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::vector<NodeId> ways{rules.literal("")};
    for (const auto& [letter, next] : states[i].next) {
      ways.push_back(rules.sequence({texts[letter], rules.add(node::Rule{names[next]})}));
    }
    rules.define(names[i], rules.choice(std::move(ways)));
  }
  return rules.add(node::Rule{names[0]});
}

}  // namespace tenon::grammar
