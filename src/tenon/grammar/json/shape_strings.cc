// Shapes of strings. The shape of a term has either a list of values, or a language (regex/expr.h)
// with a range of lengths and a list of excluded words; all of these hold together.
//
// shape() goes down the term once and remembers the result of each part: rules of a node
// become a language and a length (string_rules), all_of() intersects, any_of() joins, negation()
// complements. Lists stay lists as long as they can: a list that meets a language is filtered
// (narrowed), because enum values are many and an automaton of them is dear. text() makes the shape
// that is read: valid UTF-8 without NUL, and a length that can be counted beside the automaton, or
// else is part of the language.

#include "tenon/grammar/json/shape_strings.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>
#include <tuple>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/regex/dfa.h"
#include "tenon/regex/language.h"
#include "tenon/regex/lengths.h"
#include "tenon/regex/syntax.h"
#include "tenon/schema/formats.h"

namespace tenon::grammar {

using regex::Expr;
using regex::ExprSet;
using schema::Counts;
using schema::NodeId;
using schema::Type;

namespace {

constexpr std::uint64_t kMaxPatternSteps = 2'000'000;

// Strings cannot contain NUL here, so a value with NUL counts as impossible.
bool is_written(std::string_view text) {
  return text.find('\0') == std::string_view::npos;
}

// For a text that is copied or merged.
constexpr std::uint64_t kStepsPerWord = 3;

std::size_t words_of(const StringShape& shape) {
  return shape.excluded.size() + (shape.values ? shape.values->size() : 0);
}

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t bytes = words.size() * sizeof(std::string);
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}

// `not: {enum: [...]}`, and what items that must differ leave of each other.
bool is_all_but_some(const StringShape& shape) {
  return !shape.values && shape.language == ExprSet::kAnything && shape.length == Counts{};
}

// Makes one shape of those that only exclude words, because items that must differ exclude one word
// each. Returns the number of their words.
std::size_t join_exclusions(std::vector<StringShape>& shapes) {
  if (std::ranges::count_if(shapes, is_all_but_some) < 2) return 0;
  StringShape joined;
  for (StringShape& shape : shapes) {
    if (!is_all_but_some(shape)) continue;
    joined.excluded.insert(joined.excluded.end(), shape.excluded.begin(), shape.excluded.end());
    joined.is_text |= shape.is_text;
    joined.is_superset |= shape.is_superset;
  }
  std::ranges::sort(joined.excluded);
  const auto repeated = std::ranges::unique(joined.excluded);
  joined.excluded.erase(repeated.begin(), repeated.end());
  std::erase_if(shapes, is_all_but_some);
  const std::size_t words = joined.excluded.size();
  shapes.push_back(std::move(joined));
  return words;
}

std::uint32_t bounded(std::uint64_t count) {
  return count >= ExprSet::kUnbounded ? ExprSet::kUnbounded : static_cast<std::uint32_t>(count);
}

std::uint64_t characters_of(std::string_view text) {
  const auto is_first = [](char byte) {
    return (static_cast<std::uint8_t>(byte) & 0xC0U) != 0x80U;
  };
  return static_cast<std::uint64_t>(std::ranges::count_if(text, is_first));
}

// How many of `most` are left after `read` of them.
std::uint64_t left_of(std::uint64_t most, std::uint64_t read) {
  return most == Counts::kUnbounded ? Counts::kUnbounded : most - read;
}
std::uint64_t missing_of(std::uint64_t least, std::uint64_t read) {
  return least > read ? least - read : 0;
}

}  // namespace

// The automaton of a language, made once and asked in many ways.
struct StringShapes::Automaton {
  Automaton(regex::ExprSet& exprs, regex::Expr language) : dfa(exprs, language), lengths(dfa) {}

  regex::Dfa::State after(std::string_view text) {
    regex::Dfa::State state = regex::Dfa::kStart;
    for (const char c : text) state = dfa.step(state, static_cast<std::uint8_t>(c));
    return state;
  }

  regex::Dfa dfa;
  regex::Lengths lengths;
};

StringShapes::StringShapes(ShapeWork& work)
    : work_(work), terms_(work.terms()), exprs_(work.exprs()) {}

StringShapes::~StringShapes() = default;

StringShapes::Automaton& StringShapes::automaton(Expr language) {
  auto& known = automata_[language];
  if (!known) known = std::make_unique<Automaton>(exprs_, language);
  return *known;
}

Expr StringShapes::language(Term term) {
  return exprs_.both(work_.any_text(), language_of(shape(term)));
}

// An excluded word matters only if the language has it, so words are looked up after the language
// and its lengths are settled.
const StringShape& StringShapes::text(Term term) {
  const auto known = texts_.find(term);
  if (known != texts_.end()) return known->second;
  StringShape shape = this->shape(term);
  if (!shape.values) {
    if (!shape.is_text) shape.language = exprs_.both(work_.any_text(), shape.language);
    shape.is_text = true;
    // If the automaton is too large for counting, the length becomes part of the language.
    if (shape.length != Counts{} && shape.language != work_.any_text() && !can_count(shape)) {
      shape.language = language_of(shape.language, shape.length);
      shape.length = {};
    }
    std::vector<std::string> excluded = std::exchange(shape.excluded, {});
    work_.spend(2 * excluded.size());
    std::erase_if(excluded, [&](const std::string& word) { return !holds(shape, word); });
    // Every excluded word goes on to a longer text, so a scanner can leave them out at their ends.
    // Otherwise a prefix of one may be a dead end, and the automaton must know the words.
    if (std::ranges::all_of(excluded, [&](const auto& word) { return goes_on(shape, word); })) {
      shape.excluded = std::move(excluded);
    } else {
      shape.language =
          exprs_.both(shape.language, exprs_.complement(language_of(std::span(excluded))));
    }
  }
  work_.fail_by_limit();
  return texts_.emplace(term, std::move(shape)).first->second;
}

const StringShape& StringShapes::shape(Term term) {
  const auto known = shapes_.find(term);
  if (known != shapes_.end()) return known->second;
  const ShapeWork::Level level(work_);
  // After an error: no strings at all.
  StringShape shape = level ? compute(term) : StringShape{.values = {{}}};
  if (terms_.kind(term) == Terms::Kind::all_of) {  // others are at most as large as the schema
    bytes_of_words_ += 3 * bytes_of(shape.excluded);
    if (shape.values) bytes_of_words_ += 3 * bytes_of(*shape.values);
  }
  return shapes_.emplace(term, std::move(shape)).first->second;
}

StringShape StringShapes::compute(Term term) {
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      break;
    case Terms::Kind::anything:
      return {};
    case Terms::Kind::node:
      return shape(work_.definition(term));
    case Terms::Kind::rules:
      return rules_of(terms_.node_of(term));
    case Terms::Kind::value:
      if (const std::string* text = terms_.value_of(term).if_string(); text && is_written(*text)) {
        return {.values = {{*text}}};
      }
      break;
    case Terms::Kind::all_of:
    case Terms::Kind::any_of: {
      const auto span = terms_.parts_of(term);
      const std::vector<Term> parts(span.begin(), span.end());
      std::vector<StringShape> shapes;
      shapes.reserve(parts.size());
      for (const Term part : parts) {
        const StringShape& shape = this->shape(part);
        if (!work_.spend(1 + kStepsPerWord * words_of(shape))) return {.values = {{}}};
        shapes.push_back(shape);
      }
      return terms_.kind(term) == Terms::Kind::all_of ? all_of(std::move(shapes))
                                                      : any_of(std::move(shapes));
    }
    case Terms::Kind::negation:
      return negation(shape(terms_.parts_of(term)[0]));
  }
  return {.values = {{}}};
}

StringShape StringShapes::rules_of(NodeId id) {
  const schema::Node& node = work_.node(id);
  if (!node.types.contains(Type::string)) return {.values = {{}}};
  StringShape shape;
  const schema::Format* format = nullptr;
  if (node.strings) {
    const schema::StringRules& rules = *node.strings;
    if (rules.length.least > rules.length.most) return {.values = {{}}};
    shape.length = rules.length;
    format = rules.asserted_format;
    std::vector<Expr> all;
    if (rules.pattern && relaxed_patterns_.contains(rules.pattern->text)) {
      shape.is_superset = true;
    } else if (rules.pattern) {
      all.push_back(pattern_language(rules.pattern->text));
    }
    if (format != nullptr) {
      all.push_back(pattern_language(format->pattern.text));
      // For a list of values, each one is checked below.
      shape.is_superset |= format->also != nullptr && !node.values;
    }
    shape.language = exprs_.all_of(all);
  }
  if (!node.values) return shape;
  std::vector<std::string> values;
  for (const json::Value& value : node.values->values()) {
    const std::string* const text = value.if_string();
    if (text != nullptr && is_written(*text)) values.push_back(*text);
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  StringShape result = narrowed(std::move(values), std::span(&shape, 1));
  // What a format requires beyond its pattern is asked only for texts of the pattern.
  if (format != nullptr && format->also != nullptr) {
    std::erase_if(*result.values, [&](const std::string& value) { return !format->also(value); });
  }
  return result;
}

// The values that all shapes of `by` hold. No automaton of the values is made.
StringShape StringShapes::narrowed(std::vector<std::string> values,
                                   std::span<const StringShape> by) {
  for (const StringShape& shape : by) {
    // Each is looked for by halves in the lists, and read by the automaton.
    constexpr std::size_t kBytesPerStep = 4;
    const auto halves = static_cast<std::uint64_t>(std::bit_width(words_of(shape)));
    if (!work_.spend(values.size() * (2 + 2 * halves) + bytes_of(values) / kBytesPerStep)) break;
    std::erase_if(values, [&](const std::string& value) { return !holds(shape, value); });
  }
  const bool is_superset =
      std::ranges::any_of(by, [](const StringShape& shape) { return shape.is_superset; });
  return {.values = std::move(values), .is_superset = is_superset};
}

// An intersection. One list makes the result a list; otherwise languages are intersected, lengths
// too, and excluded words are joined.
StringShape StringShapes::all_of(std::vector<StringShape> shapes) {
  work_.spend(kStepsPerWord * join_exclusions(shapes));
  const auto list =
      std::ranges::find_if(shapes, [](const auto& s) { return s.values.has_value(); });
  if (list != shapes.end()) return narrowed(std::move(*std::exchange(list->values, {})), shapes);
  StringShape result;
  std::vector<Expr> languages;
  for (const StringShape& shape : shapes) {
    const auto length = both(result.length, shape.length);
    if (!length) return {.values = {{}}};
    result.length = *length;
    result.is_text |= shape.is_text;
    result.is_superset |= shape.is_superset;
    languages.push_back(shape.language);
    work_.spend(1 + kStepsPerWord * (result.excluded.size() + shape.excluded.size()));
    merge_sorted(result.excluded, shape.excluded);
  }
  result.language = exprs_.all_of(languages);
  return result;
}

// A union. With one that has all texts but some words, it is all texts but the words that no other
// shape has. Otherwise lengths and excluded words become part of the languages.
StringShape StringShapes::any_of(std::vector<StringShape> shapes) {
  std::erase_if(shapes, [](const auto& s) { return s.values && s.values->empty(); });
  if (shapes.empty()) return {.values = {{}}};
  if (shapes.size() == 1) return std::move(shapes.front());
  if (const auto most = std::ranges::find_if(shapes, is_all_but_some); most != shapes.end()) {
    std::vector<std::string> excluded = std::move(most->excluded);
    shapes.erase(most);
    work_.spend(excluded.size() * shapes.size());
    std::erase_if(excluded, [&](const std::string& word) {
      return std::ranges::any_of(shapes, [&](const auto& shape) { return holds(shape, word); });
    });
    const bool is_superset =
        std::ranges::any_of(shapes, [](const StringShape& shape) { return shape.is_superset; });
    return {.excluded = std::move(excluded), .is_superset = is_superset};
  }
  std::vector<std::string> values;
  std::vector<Expr> languages;
  bool is_text = true;
  const bool is_superset =
      std::ranges::any_of(shapes, [](const StringShape& shape) { return shape.is_superset; });
  for (const StringShape& shape : shapes) {
    if (shape.values) {
      values.insert(values.end(), shape.values->begin(), shape.values->end());
    } else {
      languages.push_back(language_of(shape));
      is_text = is_text && (shape.is_text || shape.length != Counts{});
    }
  }
  work_.spend(2 * values.size());
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (languages.empty()) return {.values = std::move(values)};
  if (!values.empty()) languages.push_back(language_of(std::span<const std::string>(values)));
  return {.language = exprs_.any_of(languages), .is_text = is_text, .is_superset = is_superset};
}

// The cheap cases first: lists become excluded words and the reverse, and a range of lengths
// becomes the two beside it. Only then is an automaton complemented. A superset says nothing of its
// complement: a text within it may be outside of the term too, so every text stays possible.
StringShape StringShapes::negation(const StringShape& shape) {
  if (shape.is_superset) return {.is_superset = true};
  if (shape.values) return {.excluded = *shape.values};
  if (shape.language == ExprSet::kAnything && shape.length == Counts{}) {
    return {.values = shape.excluded};
  }
  if (shape.language == ExprSet::kAnything && shape.excluded.empty()) {
    std::vector<StringShape> others;
    for (const Counts& length : outside(shape.length)) others.push_back({.length = length});
    return any_of(std::move(others));
  }
  return {.language = exprs_.complement(language_of(shape))};
}

// Whether lengths can be asked beside the automaton, or it is too large for that.
bool StringShapes::can_count(const StringShape& shape) {
  return automaton(shape.language)
      .lengths.is_live(regex::Dfa::kStart, shape.length.least, shape.length.most)
      .has_value();
}

Expr StringShapes::language_of(Expr language, const Counts& length) {
  if (length == Counts{}) return language;
  return exprs_.both(
      language, exprs_.repeat(work_.any_character(), bounded(length.least), bounded(length.most)));
}

Expr StringShapes::language_of(const StringShape& shape) {
  if (shape.values) return language_of(std::span<const std::string>(*shape.values));
  std::vector<Expr> all{language_of(shape.language, shape.length)};
  if (!shape.excluded.empty()) {
    all.push_back(exprs_.complement(language_of(std::span<const std::string>(shape.excluded))));
  }
  return exprs_.all_of(all);
}

Expr StringShapes::language_of(std::span<const std::string> words) {
  std::vector<Expr> literals;
  for (const std::string& word : words) literals.push_back(exprs_.literal(word));
  return exprs_.any_of(literals);
}

bool StringShapes::needs_check(Term term) {
  const auto known = need_check_.find(term);
  if (known != need_check_.end()) return known->second;
  const ShapeWork::Level level(work_);
  const bool result = level && compute_needs_check(term);
  need_check_.emplace(term, result);
  return result;
}

bool StringShapes::compute_needs_check(Term term) {
  if (terms_.kind(term) == Terms::Kind::node) {
    return needs_check(work_.definition(term));
  }
  if (terms_.kind(term) == Terms::Kind::rules) {
    const schema::Node& node = work_.node(terms_.node_of(term));
    return !node.values && node.strings && node.strings->asserted_format != nullptr &&
           node.strings->asserted_format->also != nullptr;
  }
  const auto span = terms_.parts_of(term);
  const std::vector<Term> parts(span.begin(), span.end());
  return std::ranges::any_of(parts, [&](Term part) { return needs_check(part); });
}

Expr StringShapes::pattern_language(const std::string& pattern) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  Budget budget("pattern", {.max_steps = kMaxPatternSteps});
  Expr result = ExprSet::kNothing;
  const auto failed = [&](const Error& error) {
    constexpr std::size_t kShown = 80;
    const std::string shown = pattern.size() > kShown ? pattern.substr(0, kShown) + "..." : pattern;
    work_.fail({error.code, "pattern '" + shown + "': " + error.message});
  };
  const auto syntax = regex::parse(pattern, regex::Dialect::ecma262, budget);
  if (!syntax) {
    failed(syntax.error());
  } else if (const auto language = regex::language_of(exprs_, *syntax, regex::Extent::part)) {
    result = *language;
  } else {
    failed(language.error());
  }
  patterns_.emplace(pattern, result);
  return result;
}

bool StringShapes::holds(Expr language, std::string_view text) {
  if (language == ExprSet::kAnything) return true;
  Automaton& of = automaton(language);
  const regex::Dfa::State state = of.after(text);
  if (state == regex::Dfa::kFailed) work_.fail_by_limit();
  return of.dfa.is_accepting(state);
}

bool StringShapes::holds(const StringShape& shape, std::string_view text) {
  if (shape.values) return std::ranges::binary_search(*shape.values, text);
  const std::uint64_t characters = characters_of(text);
  return characters >= shape.length.least && characters <= shape.length.most &&
         !std::ranges::binary_search(shape.excluded, text) && holds(shape.language, text);
}

bool StringShapes::is_surely_endless(Expr language) {
  return is_live(language) && automaton(language).lengths.is_endless(regex::Dfa::kStart);
}

bool StringShapes::is_live(Expr language) {
  work_.fail_by_limit();  // after that, languages are empty
  if (language == ExprSet::kNothing) return false;
  if (!exprs_.may_be_nothing(language)) return true;
  const Expected<bool> live = automaton(language).dfa.is_live(regex::Dfa::kStart);
  if (!live) work_.fail_by_limit();
  return live && *live;
}

bool StringShapes::is_satisfiable(const StringShape& shape) {
  if (shape.values) return !shape.values->empty();
  if (shape.length == Counts{}) return is_live(shape.language);
  if (shape.language == work_.any_text()) return true;
  const Expected<bool> live =
      automaton(shape.language)
          .lengths.is_live(regex::Dfa::kStart, shape.length.least, shape.length.most);
  if (!live) work_.fail(live.error());
  return live && *live;
}

bool StringShapes::goes_on(const StringShape& shape, std::string_view text) {
  Automaton& of = automaton(shape.language);
  const std::uint64_t read = characters_of(text);
  const std::uint64_t least = std::max<std::uint64_t>(missing_of(shape.length.least, read), 1);
  const std::uint64_t most = left_of(shape.length.most, read);
  const Expected<bool> live = of.lengths.is_live(of.after(text), least, most);
  if (!live) work_.fail(live.error());
  work_.fail_by_limit();
  return live && *live;
}

std::optional<Error> StringShapes::relax(const std::string& pattern) {
  static_cast<void>(pattern_language(pattern));
  std::optional<Error> error = work_.take_error();
  if (error) relaxed_patterns_.insert(pattern);
  return error;
}

// Shortest first: of the prefixes found so far the one with the shortest text goes on. Each of them
// leads to a text of its own, so no more are kept than texts are wanted.
bool StringShapes::find_some(const StringShape& shape, std::size_t most, Fuel& fuel,
                             std::vector<json::Value>& into) {
  if (shape.values) {
    for (const std::string& text : *shape.values) {
      if (into.size() >= most) return false;
      into.emplace_back(text);
    }
    return true;
  }
  struct Begun {
    std::uint64_t total;  // characters of the shortest text that begins so
    std::uint64_t left;   // those that are still to come
    std::string text;
    regex::Dfa::State state;
    auto operator<=>(const Begun&) const = default;
  };
  // What the bytes of one class lead to.
  struct Step {
    bool is_known = false;
    bool is_live = false;
    std::uint64_t left = 0;
    regex::Dfa::State state = regex::Dfa::kFailed;
  };
  Automaton& of = automaton(shape.language);
  bool knows_lengths = true;  // a search that found none would find none again
  const auto left_at = [&](regex::Dfa::State state) -> std::uint64_t {
    if (!knows_lengths) return 0;
    const Expected<std::uint32_t> shortest = of.lengths.shortest(state);
    knows_lengths = shortest.has_value();
    return shortest ? *shortest : 0;
  };
  // So many prefixes lead to so many different texts, of which the excluded ones do not count. What
  // is beyond is dropped, the longest first.
  const std::size_t width = most + shape.excluded.size() + 1;
  bool is_all = true;
  std::set<Begun> open{{0, 0, "", regex::Dfa::kStart}};
  std::vector<Step> steps;  // [class, and whether the byte goes on with a character]
  while (!open.empty()) {
    const Begun from = std::move(open.extract(open.begin()).value());
    const std::uint64_t characters = characters_of(from.text);
    if (of.dfa.is_accepting(from.state) && characters >= shape.length.least &&
        characters <= shape.length.most && !std::ranges::binary_search(shape.excluded, from.text)) {
      if (into.size() >= most) return false;
      into.emplace_back(from.text);
    }
    steps.assign(2 * of.dfa.class_count(), {});
    std::size_t added = 0;
    for (unsigned byte = 1; byte < 256; ++byte) {
      const bool is_new = (byte & 0xC0U) != 0x80U;
      const std::uint64_t read = characters + (is_new ? 1 : 0);
      if (read > shape.length.most) continue;
      Step& step = steps[2 * of.dfa.byte_classes()[byte] + (is_new ? 1 : 0)];
      if (!step.is_known) {
        step.is_known = true;
        step.state = of.dfa.step(from.state, static_cast<std::uint8_t>(byte));
        const Expected<bool> live = of.lengths.is_live(
            step.state, missing_of(shape.length.least, read), left_of(shape.length.most, read));
        if (!live) return false;
        step.is_live = *live;
        if (*live) step.left = std::max(left_at(step.state), missing_of(shape.length.least, read));
      }
      if (!step.is_live) continue;
      const std::uint64_t total = read + step.left;
      if (open.size() == width) {
        is_all = false;
        const auto last = std::prev(open.end());
        if (std::tie(total, step.left) >= std::tie(last->total, last->left)) continue;
        open.erase(last);
      }
      open.insert({total, step.left, from.text + static_cast<char>(byte), step.state});
      ++added;
    }
    if (!work_.spend(1 + steps.size() / 2 + kStepsPerWord * added) || !fuel.burn()) return false;
  }
  work_.fail_by_limit();
  return is_all && !work_.error();
}

bool StringShapes::has_many(Term term) {
  const StringShape& shape = text(term);
  if (shape.values || shape.excluded.size() > kMany / 2 || needs_check(term)) return false;
  return has_many_after(shape, regex::Dfa::kStart, 0);
}

bool StringShapes::has_many_longer(Term term, std::string_view text) {
  const StringShape& shape = this->text(term);
  if (shape.values) return !std::ranges::binary_search(*shape.values, text);
  if (!holds(shape, text)) return true;
  if (needs_check(term)) return false;
  return has_many_after(shape, automaton(shape.language).after(text), characters_of(text));
}

// Whether so many characters, which led to `state`, are a prefix of very many texts.
bool StringShapes::has_many_after(const StringShape& shape, std::uint32_t state,
                                  std::uint64_t read) {
  const std::uint64_t least = missing_of(shape.length.least, read);
  // Short strings are enough.
  constexpr std::uint64_t kLonger = 12;
  const std::uint64_t most = std::min(left_of(shape.length.most, read), std::max(least, kLonger));
  const auto key = std::tuple(shape.language, state, least, most);
  if (const auto known = many_texts_.find(key); known != many_texts_.end()) return known->second;
  const bool result = has_many_texts(automaton(shape.language), state, least, most);
  return many_texts_.emplace(key, result).first->second;
}

// Breadth first: each prefix that has not been expanded leads to a text of its own.
bool StringShapes::has_many_texts(Automaton& of, std::uint32_t from, std::uint64_t least,
                                  std::uint64_t most) {
  constexpr std::size_t kMostTried = 200;  // prefixes, with 255 bytes each
  constexpr std::uint64_t kStepsPerTried = 40;
  struct Begun {
    regex::Dfa::State state;
    std::uint64_t read;
  };
  std::vector<Begun> begun{{from, 0}};
  for (std::size_t tried = 0; tried < begun.size(); ++tried) {
    if (begun.size() - tried >= kMany) return true;
    if (tried == kMostTried || !work_.spend(kStepsPerTried)) return false;
    const Begun at = begun[tried];
    for (unsigned byte = 1; byte < 256; ++byte) {
      const std::uint64_t read = at.read + ((byte & 0xC0U) != 0x80U ? 1 : 0);
      if (read > most) continue;
      const auto state = of.dfa.step(at.state, static_cast<std::uint8_t>(byte));
      const Expected<bool> live =
          of.lengths.is_live(state, missing_of(least, read), left_of(most, read));
      if (!live) return false;
      if (*live) begun.push_back({state, read});
    }
  }
  return false;
}

// ---- null, false, true --------------------------------------------------------------------------

Constants ConstantShapes::of(Term term) {
  Terms& terms = work_.terms();
  const auto known = known_.find(term);
  if (known != known_.end()) return known->second;
  const ShapeWork::Level level(work_);
  if (!level) return {};
  Constants result;
  switch (terms.kind(term)) {
    case Terms::Kind::nothing:
      break;
    case Terms::Kind::anything:
      result.set();
      break;
    case Terms::Kind::node:
      result = of(work_.definition(term));
      break;
    case Terms::Kind::rules: {
      const schema::Node& node = work_.node(terms.node_of(term));
      result[0] = node.types.contains(Type::null);
      result[1] = result[2] = node.types.contains(Type::boolean);
      if (node.values) {
        result[0] = result[0] && node.values->contains(json::Value(nullptr));
        result[1] = result[1] && node.values->contains(json::Value(false));
        result[2] = result[2] && node.values->contains(json::Value(true));
      }
      break;
    }
    case Terms::Kind::value: {
      const json::Value& value = terms.value_of(term);
      result[0] = value.is_null();
      if (value.if_bool() != nullptr) result[*value.if_bool() ? 2 : 1] = true;
      break;
    }
    case Terms::Kind::all_of:
    case Terms::Kind::any_of: {
      const bool all = terms.kind(term) == Terms::Kind::all_of;
      const auto parts = terms.parts_of(term);
      const std::vector<Term> copy(parts.begin(), parts.end());
      if (all) result.set();
      for (const Term part : copy) {
        const Constants one = of(part);
        result = all ? result & one : result | one;
      }
      break;
    }
    case Terms::Kind::negation:
      result = ~of(terms.parts_of(term)[0]);
      break;
  }
  known_.emplace(term, result);
  return result;
}

}  // namespace tenon::grammar
