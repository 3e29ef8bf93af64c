#include "tenon/grammar/shape.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <set>

#include "tenon/json/decimal.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/language.h"
#include "tenon/regex/lengths.h"
#include "tenon/regex/spelling.h"
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

std::optional<Counts> both(const Counts& a, const Counts& b) {
  const Counts result{std::max(a.least, b.least), std::min(a.most, b.most)};
  return result.least <= result.most ? std::optional(result) : std::nullopt;
}

// NUL is barred in strings, so that a value with one is the same as none.
bool is_written(std::string_view text) {
  return text.find('\0') == std::string_view::npos;
}

// Without doubles.
template <class T>
void merge_sorted(std::vector<T>& into, std::vector<T> from) {
  if (from.empty()) return;
  for (std::vector<T>* list : {&into, &from}) {
    if (!std::ranges::is_sorted(*list)) std::ranges::sort(*list);
  }
  std::vector<T> both;
  both.reserve(into.size() + from.size());
  std::ranges::set_union(into, from, std::back_inserter(both));
  both.erase(std::unique(both.begin(), both.end()), both.end());
  into = std::move(both);
}

// Counts outside of `counts`.
std::vector<Counts> outside(const Counts& counts) {
  std::vector<Counts> result;
  if (counts.least > 0) result.push_back({.least = 0, .most = counts.least - 1});
  if (counts.most != Counts::kUnbounded) result.push_back({.least = counts.most + 1});
  return result;
}

bool is_less_number(const std::string& a, const std::string& b) {
  return json::compare(json::decimal_of(a), json::decimal_of(b)) < 0;
}

// In order, without doubles.
void sort_numbers(std::vector<std::string>& numbers) {
  std::ranges::sort(numbers, is_less_number);
  const auto is_same = [](const std::string& a, const std::string& b) {
    return json::compare(json::decimal_of(a), json::decimal_of(b)) == 0;
  };
  numbers.erase(std::unique(numbers.begin(), numbers.end(), is_same), numbers.end());
}

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t bytes = words.size() * sizeof(std::string);
  for (const std::string& word : words) bytes += word.size();
  return bytes;
}

std::uint32_t bounded(std::uint64_t count) {
  return count >= ExprSet::kUnbounded ? ExprSet::kUnbounded : static_cast<std::uint32_t>(count);
}

}  // namespace

template <class Shape>
struct Shapes::Memo {
  std::map<std::pair<Term, bool>, Alternatives<Shape>> known;
  std::map<Term, std::vector<Shape>> settled;
};
template <>
Shapes::Memo<NumberShape>& Shapes::memo() {
  return *number_memo_;
}
template <>
Shapes::Memo<ArrayShape>& Shapes::memo() {
  return *array_memo_;
}
template <>
Shapes::Memo<ObjectShape>& Shapes::memo() {
  return *object_memo_;
}

Shapes::Shapes(std::shared_ptr<const schema::Schema> schema, std::shared_ptr<ExprSet> exprs,
               Limits limits)
    : terms_(std::move(schema)),
      exprs_(std::move(exprs)),
      limits_(limits),
      any_character_(
          regex::utf8_spelling(*exprs_, regex::CodePointSet{{1, 0xD7FF}, {0xE000, 0x10FFFF}})),
      any_text_(exprs_->repeat(any_character_, 0, ExprSet::kUnbounded)),
      number_memo_(std::make_unique<Memo<NumberShape>>()),
      array_memo_(std::make_unique<Memo<ArrayShape>>()),
      object_memo_(std::make_unique<Memo<ObjectShape>>()) {}

Shapes::~Shapes() = default;

void Shapes::fail(Error error) {
  if (error_) return;
  error_ = std::move(error);
  if (on_error_) on_error_(*error_);
}

// The expressions' own limit.
void Shapes::fail_by_limit() {
  if (const Status status = exprs_->status(); !status) fail(status.error());
}

// ---- null, false, true --------------------------------------------------------------------------

Constants Shapes::constants(Term term) {
  const auto known = constants_.find(term);
  if (known != constants_.end()) return known->second;
  Constants result;
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      break;
    case Terms::Kind::anything:
      result.set();
      break;
    case Terms::Kind::node:
      result = constants(terms_.definition(terms_.node_of(term)));
      break;
    case Terms::Kind::rules: {
      const schema::Node& node = terms_.schema().node(terms_.node_of(term));
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
      const json::Value& value = terms_.value_of(term);
      result[0] = value.is_null();
      if (value.if_bool() != nullptr) result[*value.if_bool() ? 2 : 1] = true;
      break;
    }
    case Terms::Kind::all_of:
    case Terms::Kind::any_of: {
      const bool all = terms_.kind(term) == Terms::Kind::all_of;
      const auto parts = terms_.parts_of(term);
      const std::vector<Term> copy(parts.begin(), parts.end());
      if (all) result.set();
      for (const Term part : copy) {
        const Constants one = constants(part);
        result = all ? result & one : result | one;
      }
      break;
    }
    case Terms::Kind::negation:
      result = ~constants(terms_.parts_of(term)[0]);
      break;
  }
  constants_.emplace(term, result);
  return result;
}

// ---- Strings ------------------------------------------------------------------------------------

struct Shapes::Automaton {
  Automaton(ExprSet& exprs, Expr language) : dfa(exprs, language), lengths(dfa) {}

  regex::Dfa::State after(std::string_view text) {
    regex::Dfa::State state = regex::Dfa::kStart;
    for (const char c : text) state = dfa.step(state, static_cast<std::uint8_t>(c));
    return state;
  }

  regex::Dfa dfa;
  regex::Lengths lengths;
};

Shapes::Automaton& Shapes::automaton(Expr language) {
  auto& known = automata_[language];
  if (!known) known = std::make_unique<Automaton>(*exprs_, language);
  return *known;
}

Expr Shapes::strings(Term term) {
  return exprs_->both(any_text_, language_of(string_shape(term)));
}

const StringShape& Shapes::text(Term term) {
  const auto known = texts_.find(term);
  if (known != texts_.end()) return known->second;
  StringShape shape = string_shape(term);
  if (!shape.values) {
    if (!shape.is_text) shape.language = exprs_->both(any_text_, shape.language);
    shape.is_text = true;
    // Where the automaton is too large to be counted, a length is one more part of the language.
    if (shape.length != Counts{} && shape.language != any_text_ && !can_count(shape)) {
      shape.language = language_of(shape.language, shape.length);
      shape.length = {};
    }
    std::vector<std::string> excluded = std::exchange(shape.excluded, {});
    std::erase_if(excluded, [&](const std::string& word) { return !holds(shape, word); });
    if (std::ranges::all_of(excluded, [&](const auto& word) { return goes_on(shape, word); })) {
      shape.excluded = std::move(excluded);
    } else {
      shape.language =
          exprs_->both(shape.language, exprs_->complement(language_of(std::span(excluded))));
    }
  }
  return texts_.emplace(term, std::move(shape)).first->second;
}

const StringShape& Shapes::string_shape(Term term) {
  const auto known = string_shapes_.find(term);
  if (known != string_shapes_.end()) return known->second;
  StringShape shape = compute_string_shape(term);
  if (terms_.kind(term) == Terms::Kind::all_of) {  // others are as large as the schema at most
    bytes_of_words_ += 3 * bytes_of(shape.excluded);
    if (shape.values) bytes_of_words_ += 3 * bytes_of(*shape.values);
  }
  return string_shapes_.emplace(term, std::move(shape)).first->second;
}

StringShape Shapes::compute_string_shape(Term term) {
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      break;
    case Terms::Kind::anything:
      return {};
    case Terms::Kind::node:
      return string_shape(terms_.definition(terms_.node_of(term)));
    case Terms::Kind::rules:
      return string_rules(terms_.node_of(term));
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
      for (const Term part : parts) shapes.push_back(string_shape(part));
      return terms_.kind(term) == Terms::Kind::all_of ? all_of(std::move(shapes))
                                                      : any_of(std::move(shapes));
    }
    case Terms::Kind::negation:
      return negation(string_shape(terms_.parts_of(term)[0]));
  }
  return {.values = {{}}};
}

StringShape Shapes::string_rules(NodeId id) {
  const schema::Node& node = terms_.schema().node(id);
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
      // Of a list of values, each is looked at below.
      shape.is_superset |= format->also != nullptr && !node.values;
    }
    shape.language = exprs_->all_of(all);
  }
  if (!node.values) return shape;
  std::vector<std::string> values;
  for (const json::Value& value : node.values->values()) {
    const std::string* const text = value.if_string();
    if (text == nullptr || !is_written(*text) ||
        (format != nullptr && format->also != nullptr && !format->also(*text))) {
      continue;
    }
    values.push_back(*text);
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return narrowed(std::move(values), std::span(&shape, 1));
}

StringShape Shapes::narrowed(std::vector<std::string> values, std::span<const StringShape> by) {
  for (const StringShape& shape : by) {
    std::erase_if(values, [&](const std::string& value) { return !holds(shape, value); });
  }
  const bool is_superset =
      std::ranges::any_of(by, [](const StringShape& shape) { return shape.is_superset; });
  return {.values = std::move(values), .is_superset = is_superset};
}

StringShape Shapes::all_of(std::vector<StringShape> shapes) {
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
    merge_sorted(result.excluded, shape.excluded);
  }
  result.language = exprs_->all_of(languages);
  return result;
}

StringShape Shapes::any_of(std::vector<StringShape> shapes) {
  const auto is_all_but_some = [](const StringShape& shape) {
    return !shape.values && shape.language == ExprSet::kAnything && shape.length == Counts{};
  };
  std::erase_if(shapes, [](const auto& s) { return s.values && s.values->empty(); });
  if (shapes.empty()) return {.values = {{}}};
  if (shapes.size() == 1) return std::move(shapes.front());
  if (const auto most = std::ranges::find_if(shapes, is_all_but_some); most != shapes.end()) {
    std::vector<std::string> excluded = std::move(most->excluded);
    shapes.erase(most);
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
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (languages.empty()) return {.values = std::move(values)};
  if (!values.empty()) languages.push_back(language_of(std::span<const std::string>(values)));
  return {.language = exprs_->any_of(languages), .is_text = is_text, .is_superset = is_superset};
}

StringShape Shapes::negation(const StringShape& shape) {
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
  return {.language = exprs_->complement(language_of(shape))};
}

bool Shapes::can_count(const StringShape& shape) {
  return automaton(shape.language)
      .lengths.is_live(regex::Dfa::kStart, shape.length.least, shape.length.most)
      .has_value();
}

Expr Shapes::language_of(Expr language, const Counts& length) {
  if (length == Counts{}) return language;
  return exprs_->both(language,
                      exprs_->repeat(any_character_, bounded(length.least), bounded(length.most)));
}

Expr Shapes::language_of(const StringShape& shape) {
  if (shape.values) return language_of(std::span<const std::string>(*shape.values));
  std::vector<Expr> all{language_of(shape.language, shape.length)};
  if (!shape.excluded.empty()) {
    all.push_back(exprs_->complement(language_of(std::span<const std::string>(shape.excluded))));
  }
  return exprs_->all_of(all);
}

Expr Shapes::language_of(std::span<const std::string> words) {
  std::vector<Expr> literals;
  for (const std::string& word : words) literals.push_back(exprs_->literal(word));
  return exprs_->any_of(literals);
}

bool Shapes::strings_need_check(Term term) {
  const auto known = strings_need_check_.find(term);
  if (known != strings_need_check_.end()) return known->second;
  const bool result = compute_strings_need_check(term);
  strings_need_check_.emplace(term, result);
  return result;
}

bool Shapes::compute_strings_need_check(Term term) {
  if (terms_.kind(term) == Terms::Kind::node) {
    return strings_need_check(terms_.definition(terms_.node_of(term)));
  }
  if (terms_.kind(term) == Terms::Kind::rules) {
    const schema::Node& node = terms_.schema().node(terms_.node_of(term));
    return !node.values && node.strings && node.strings->asserted_format != nullptr &&
           node.strings->asserted_format->also != nullptr;
  }
  const auto span = terms_.parts_of(term);
  const std::vector<Term> parts(span.begin(), span.end());
  return std::ranges::any_of(parts, [&](Term part) { return strings_need_check(part); });
}

Expr Shapes::pattern_language(const std::string& pattern) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  Budget budget("pattern", {.max_steps = kMaxPatternSteps});
  Expr result = ExprSet::kNothing;
  const auto failed = [&](const Error& error) {
    constexpr std::size_t kShown = 80;
    const std::string shown = pattern.size() > kShown ? pattern.substr(0, kShown) + "..." : pattern;
    fail({error.code, "pattern '" + shown + "': " + error.message});
  };
  const auto syntax = regex::parse(pattern, regex::Dialect::ecma262, budget);
  if (!syntax) {
    failed(syntax.error());
  } else if (const auto language = regex::language_of(*exprs_, *syntax, regex::Extent::part)) {
    result = *language;
  } else {
    failed(language.error());
  }
  patterns_.emplace(pattern, result);
  return result;
}

bool Shapes::holds(Expr language, std::string_view text) {
  if (language == ExprSet::kAnything) return true;
  Automaton& of = automaton(language);
  const regex::Dfa::State state = of.after(text);
  if (state == regex::Dfa::kFailed) fail_by_limit();
  return of.dfa.is_accepting(state);
}

bool Shapes::holds(const StringShape& shape, std::string_view text) {
  if (shape.values) return std::ranges::binary_search(*shape.values, text);
  const auto characters = static_cast<std::uint64_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  return characters >= shape.length.least && characters <= shape.length.most &&
         !std::ranges::binary_search(shape.excluded, text) && holds(shape.language, text);
}

bool Shapes::is_live(Expr language) {
  if (language == ExprSet::kNothing) return false;
  if (!exprs_->may_be_nothing(language)) return true;
  const Expected<bool> live = automaton(language).dfa.is_live(regex::Dfa::kStart);
  if (!live) fail_by_limit();
  return live && *live;
}

bool Shapes::is_satisfiable(const StringShape& shape) {
  if (shape.values) return !shape.values->empty();
  if (shape.length == Counts{}) return is_live(shape.language);
  if (shape.language == any_text_) return true;
  const Expected<bool> live =
      automaton(shape.language)
          .lengths.is_live(regex::Dfa::kStart, shape.length.least, shape.length.most);
  if (!live) fail(live.error());
  return live && *live;
}

// Whether `text`, which is in the shape, begins a longer text of it. If all excluded texts do, then
// so does every beginning of one: the longest that it leads to is not excluded.
bool Shapes::goes_on(const StringShape& shape, std::string_view text) {
  Automaton& of = automaton(shape.language);
  const auto read = static_cast<std::uint64_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  const std::uint64_t least =
      std::max<std::uint64_t>(shape.length.least > read ? shape.length.least - read : 0, 1);
  const std::uint64_t most =
      shape.length.most == Counts::kUnbounded ? Counts::kUnbounded : shape.length.most - read;
  const Expected<bool> live = of.lengths.is_live(of.after(text), least, most);
  if (!live) fail(live.error());
  return live && *live;
}

// ---- Alternatives -------------------------------------------------------------------------------

const std::vector<NumberShape>& Shapes::numbers(Term term) {
  return settled<NumberShape>(term);
}
const std::vector<ArrayShape>& Shapes::arrays(Term term) {
  return settled<ArrayShape>(term);
}
const std::vector<ObjectShape>& Shapes::objects(Term term) {
  return settled<ObjectShape>(term);
}

template <class Shape>
const std::vector<Shape>& Shapes::settled(Term term) {
  auto& settled = memo<Shape>().settled;
  if (const auto known = settled.find(term); known != settled.end()) return known->second;
  const Alternatives<Shape> found = alternatives<Shape>(term, false);
  std::vector<Shape> shapes;
  if (found) {
    for (const Shape& shape : *found) {
      if (is_possible(shape)) shapes.push_back(shape);
    }
  } else {
    shapes.emplace_back().needs_check = true;
  }
  return settled.emplace(term, std::move(shapes)).first->second;
}

template <class Shape>
const Shapes::Alternatives<Shape>& Shapes::alternatives(Term term, bool negated) {
  auto& known = memo<Shape>().known;
  if (const auto found = known.find({term, negated}); found != known.end()) return found->second;
  Alternatives<Shape> result = compute<Shape>(term, negated);
  return known.emplace(std::pair(term, negated), std::move(result)).first->second;
}

template <class Shape>
Shapes::Alternatives<Shape> Shapes::compute(Term term, bool negated) {
  const std::vector<Shape> everything(1);
  Shape* const type = nullptr;
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      return negated ? everything : std::vector<Shape>{};
    case Terms::Kind::anything:
      return negated ? std::vector<Shape>{} : everything;
    case Terms::Kind::node: {
      const NodeId id = terms_.node_of(term);
      Alternatives<Shape> meant = alternatives<Shape>(terms_.definition(id), negated);
      return meant ? meant : checked<Shape>(id, negated);
    }
    case Terms::Kind::rules:
      return rules_of(terms_.node_of(term), negated, type);
    case Terms::Kind::value:
      return value_of(terms_.value_of(term), negated, type);
    case Terms::Kind::negation:
      return alternatives<Shape>(terms_.parts_of(term)[0], !negated);
    case Terms::Kind::all_of:
    case Terms::Kind::any_of:
      break;
  }
  const auto span = terms_.parts_of(term);
  std::vector<std::pair<Term, bool>> parts;
  for (const Term part : span) parts.emplace_back(part, negated);
  if ((terms_.kind(term) == Terms::Kind::all_of) != negated) return conjunction<Shape>(parts);
  std::vector<Shape> result;
  for (const auto& [part, sign] : parts) {
    const Alternatives<Shape>& found = alternatives<Shape>(part, sign);
    if (!found) return std::nullopt;
    result.insert(result.end(), found->begin(), found->end());
    if (result.size() > limits_.max_union) unite(result);
    if (result.size() > limits_.max_union) return std::nullopt;
  }
  unite(result);
  return result;
}

// What is left of a node that has too many alternatives: its own rules, and a check.
template <class Shape>
Shapes::Alternatives<Shape> Shapes::checked(NodeId id, bool negated) {
  Shape check;
  check.needs_check = true;
  if (negated) return std::vector<Shape>{check};
  const Alternatives<Shape>& own = alternatives<Shape>(terms_.rules(id), false);
  std::vector<Shape> result;
  for (const Shape& shape : *own) {
    if (auto met = meet(shape, check)) result.push_back(std::move(*met));
  }
  return result;
}

// A product, in which a negated part costs nothing where it says nothing: if what it negates has
// nothing in common with an alternative, that stays as it is. This is how `oneOf` of disjoint
// branches stays as small as `anyOf`.
template <class Shape>
Shapes::Alternatives<Shape> Shapes::conjunction(const std::vector<std::pair<Term, bool>>& parts) {
  std::vector<std::pair<Term, bool>> order = parts;
  const auto is_negative = [&](const std::pair<Term, bool>& part) {
    return (terms_.kind(part.first) == Terms::Kind::negation) != part.second;
  };
  std::stable_partition(order.begin(), order.end(), [&](const auto& p) { return !is_negative(p); });
  std::vector<Shape> result(1);
  std::size_t tests = 0;
  for (const auto& part : order) {
    std::vector<Shape> next;
    const Alternatives<Shape>* opposite = nullptr;
    if (is_negative(part)) {
      opposite = &alternatives<Shape>(part.first, !part.second);
    }
    const Alternatives<Shape>* found = nullptr;
    for (const Shape& shape : result) {
      if (opposite != nullptr && *opposite) {
        if (tests > limits_.max_tests || tests_ > limits_.max_all_tests) return std::nullopt;
      }
      if (opposite != nullptr && *opposite &&
          std::ranges::none_of(**opposite, [&](const Shape& other) {
            ++tests;
            ++tests_;
            const auto met = meet(shape, other);
            return met && !is_surely_impossible(*met);
          })) {
        next.push_back(shape);
        continue;
      }
      if (found == nullptr) found = &alternatives<Shape>(part.first, part.second);
      if (!*found) return std::nullopt;
      // A union that meets a single shape does not grow; products do.
      const std::size_t most =
          std::max({limits_.max_alternatives, result.size(), (*found)->size()});
      for (const Shape& other : **found) {
        if (auto met = meet(shape, other)) next.push_back(std::move(*met));
        if (next.size() > most) return std::nullopt;
      }
    }
    result = std::move(next);
    if (result.empty()) break;
  }
  return result;
}

// An answer that rests on a term under question being unsatisfiable is none.
template <class Shape>
bool Shapes::is_surely_impossible(const Shape& shape) {
  const std::size_t before = std::exchange(lowest_assumed_, kNothingAssumed);
  const bool possible = is_possible(shape);
  const bool assumed = lowest_assumed_ != kNothingAssumed;
  lowest_assumed_ = std::min(lowest_assumed_, before);
  return !possible && !assumed;
}

// ---- Numbers ------------------------------------------------------------------------------------

std::vector<NumberShape> Shapes::rules_of(NodeId id, bool negated, NumberShape*) {
  const schema::Node& node = terms_.schema().node(id);
  const bool integers = node.types.contains(Type::integer);
  const bool fractions = node.types.contains(Type::fraction);
  bool is_left_out = false;
  if (node.numbers && is_relaxed_) {
    for_each_too_long(*node.numbers, [&](const char*, const Error&) { is_left_out = true; });
  } else if (node.numbers) {
    check_places(node);
  }
  const auto is_written = [&](const std::string& number) {
    return !is_left_out || grammar::check_places(number).has_value();
  };
  std::vector<NumberShape> result;
  std::vector<std::string> values;
  if (node.values) {
    for (const json::Value& value : node.values->values()) {
      if (value.if_number() != nullptr) values.push_back(value.if_number()->text);
    }
  }
  if (negated) {
    if ((!integers && !fractions) || is_left_out) return std::vector<NumberShape>(1);
    if (!integers) result.push_back({{.multiples = {"1"}}});
    if (!fractions) result.push_back({{.no_multiples = {"1"}}});
    if (node.values) result.push_back({{.excluded = std::move(values)}});
    if (node.numbers) {
      const schema::NumberRules& rules = *node.numbers;
      if (rules.minimum) {
        result.push_back(
            {{.maximum = NumberSet::Bound{rules.minimum->value.text, !rules.minimum->exclusive}}});
      }
      if (rules.maximum) {
        result.push_back(
            {{.minimum = NumberSet::Bound{rules.maximum->value.text, !rules.maximum->exclusive}}});
      }
      if (rules.multiple_of) result.push_back({{.no_multiples = {rules.multiple_of->text}}});
    }
    return result;
  }
  if (!integers && !fractions) return result;
  NumberShape shape;
  if (!fractions) shape.set.multiples.emplace_back("1");
  if (!integers) shape.set.no_multiples.emplace_back("1");
  shape.set.integers_are_spelled = node.integers_are_spelled();
  if (node.numbers) {
    const schema::NumberRules& rules = *node.numbers;
    if (rules.minimum && is_written(rules.minimum->value.text)) {
      shape.set.minimum = {rules.minimum->value.text, rules.minimum->exclusive};
    }
    if (rules.maximum && is_written(rules.maximum->value.text)) {
      shape.set.maximum = {rules.maximum->value.text, rules.maximum->exclusive};
    }
    if (rules.multiple_of && is_written(rules.multiple_of->text)) {
      shape.set.multiples.push_back(rules.multiple_of->text);
    }
  }
  if (!node.values) return {std::move(shape)};
  if (auto met = meet(shape, {of_values(std::move(values))})) result.push_back(std::move(*met));
  return result;
}

std::vector<NumberShape> Shapes::value_of(const json::Value& value, bool negated, NumberShape*) {
  const json::Number* number = value.if_number();
  if (negated) {
    NumberShape shape;
    if (number != nullptr) shape.set.excluded.push_back(number->text);
    return {std::move(shape)};
  }
  if (number == nullptr) return {};
  return {{of_values({number->text})}};
}

template <class Use>
void Shapes::for_each_too_long(const schema::NumberRules& rules, const Use& use) {
  const auto check = [&](const char* keyword, const std::string& number) {
    if (const Status checked = grammar::check_places(number); !checked) {
      use(keyword, checked.error());
    }
  };
  if (rules.minimum) {
    check(rules.minimum->exclusive ? "exclusiveMinimum" : "minimum", rules.minimum->value.text);
  }
  if (rules.maximum) {
    check(rules.maximum->exclusive ? "exclusiveMaximum" : "maximum", rules.maximum->value.text);
  }
  if (rules.multiple_of) check("multipleOf", rules.multiple_of->text);
}

// Numbers that are written here have so many places at most.
void Shapes::check_places(const schema::Node& node) {
  for_each_too_long(*node.numbers, [&](const char* keyword, const Error& error) {
    fail({error.code, node.location + "/" + keyword + ": " + error.message});
  });
}

void Shapes::check() {
  for (NodeId id = 0; id < terms_.schema().size() && !error_; ++id) {
    if (terms_.schema().node(id).numbers) check_places(terms_.schema().node(id));
  }
}

std::vector<Relaxed> Shapes::relax() {
  std::vector<Relaxed> relaxed;
  for (NodeId id = 0; id < terms_.schema().size(); ++id) {
    const schema::Node& node = terms_.schema().node(id);
    if (node.numbers) {
      for_each_too_long(*node.numbers, [&](const char* keyword, const Error& error) {
        relaxed.push_back({node.location, keyword, error.message});
      });
    }
    if (!node.strings || !node.strings->pattern) continue;
    const std::string& pattern = node.strings->pattern->text;
    pattern_language(pattern);
    if (!error_) continue;
    relaxed.push_back({node.location, "pattern", error_->message});
    relaxed_patterns_.insert(pattern);
    error_.reset();
  }
  is_relaxed_ = true;
  return relaxed;
}

// The numbers of `values` that can be written.
NumberSet Shapes::of_values(std::vector<std::string> values) {
  for (const std::string& value : values) {
    const Status checked = grammar::check_places(value);
    if (!checked)
      fail({checked.error().code, "the value " + value + " " + checked.error().message});
  }
  sort_numbers(values);
  return {.values = std::move(values)};
}

std::optional<NumberShape> Shapes::meet(const NumberShape& a, const NumberShape& b) {
  NumberShape result = a;
  const auto tighter = [](std::optional<NumberSet::Bound>& into,
                          const std::optional<NumberSet::Bound>& from, bool is_minimum) {
    if (!from) return;
    if (!into) {
      into = from;
      return;
    }
    const auto order = json::compare(json::decimal_of(from->value), json::decimal_of(into->value));
    if (order == 0) {
      into->exclusive = into->exclusive || from->exclusive;
    } else if ((order > 0) == is_minimum) {
      into = from;
    }
  };
  tighter(result.set.minimum, b.set.minimum, true);
  tighter(result.set.maximum, b.set.maximum, false);
  merge_sorted(result.set.multiples, b.set.multiples);
  merge_sorted(result.set.no_multiples, b.set.no_multiples);
  merge_sorted(result.set.excluded, b.set.excluded);
  result.set.integers_are_spelled |= b.set.integers_are_spelled;
  result.needs_check |= b.needs_check;
  if (a.set.values && b.set.values) {
    result.set.values.emplace();
    std::ranges::set_intersection(*a.set.values, *b.set.values,
                                  std::back_inserter(*result.set.values), is_less_number);
  } else if (b.set.values) {
    result.set.values = b.set.values;
  }
  if (result.set.values) return settled(std::move(result));
  if (result.set.minimum && result.set.maximum) {
    const auto order = json::compare(json::decimal_of(result.set.minimum->value),
                                     json::decimal_of(result.set.maximum->value));
    if (order > 0) return std::nullopt;
    if (order == 0 && (result.set.minimum->exclusive || result.set.maximum->exclusive ||
                       !result.set.contains(result.set.minimum->value))) {
      return std::nullopt;
    }
  }
  return result;
}

// With a list of values nothing else matters any more, but for how integers are spelled.
std::optional<NumberShape> Shapes::settled(NumberShape shape) {
  NumberSet rest = std::move(shape.set);
  std::vector<std::string> values = std::move(*rest.values);
  rest.values.reset();
  std::erase_if(values, [&](const std::string& value) { return !rest.contains(value); });
  if (values.empty()) return std::nullopt;
  shape.set = {.values = std::move(values), .integers_are_spelled = rest.integers_are_spelled};
  if (rest.integers_are_spelled) shape.set.multiples = {"1"};
  return shape;
}

// Lists of values become one list.
void Shapes::unite(std::vector<NumberShape>& shapes) {
  const auto is_list = [](const NumberShape& shape) {
    return shape.set.values && !shape.needs_check && !shape.set.integers_are_spelled;
  };
  const auto lists = std::stable_partition(shapes.begin(), shapes.end(), std::not_fn(is_list));
  if (shapes.end() - lists < 2) return;
  std::vector<std::string> values;
  for (auto list = lists; list != shapes.end(); ++list) {
    values.insert(values.end(), list->set.values->begin(), list->set.values->end());
  }
  shapes.erase(lists, shapes.end());
  sort_numbers(values);
  shapes.push_back({{.values = std::move(values)}});
}

bool Shapes::is_possible(const NumberShape& shape) {
  if (shape.set.values) return !shape.set.values->empty();
  if (const Status checked = check_steps(shape.set); !checked) {
    fail(checked.error());
    return false;
  }
  return make_number_scanner(shape.set)->start() != Scanner::kDead;
}

// ---- Arrays -------------------------------------------------------------------------------------

std::vector<ArrayShape> Shapes::rules_of(NodeId id, bool negated, ArrayShape*) {
  const schema::Node& node = terms_.schema().node(id);
  std::vector<ArrayShape> result;
  if (!node.types.contains(Type::array)) {
    return negated ? std::vector<ArrayShape>(1) : std::vector<ArrayShape>{};
  }
  if (node.values && negated) return no_values_of<ArrayShape>(*node.values, node.arrays != nullptr);
  if (node.values) return values_of<ArrayShape>(id);
  if (!node.arrays) return std::vector<ArrayShape>(negated ? 0 : 1);
  const schema::ArrayRules& rules = *node.arrays;
  const auto counts_items = [&] { return rules.contains && rules.contained != Counts{}; };
  if (!negated) {
    ArrayShape shape{.length = rules.length};
    for (const NodeId item : rules.prefix) shape.prefix.push_back(terms_.node(item));
    if (rules.items) shape.items = terms_.node(*rules.items);
    if (counts_items()) {
      shape.contained.push_back({.term = terms_.node(*rules.contains), .counts = rules.contained});
    }
    shape.unique = rules.unique;
    shape.needs_check = rules.unevaluated.has_value();
    return {std::move(shape)};
  }
  for (const Counts& counts : outside(rules.length)) result.push_back({.length = counts});
  for (std::size_t i = 0; i < rules.prefix.size(); ++i) {
    ArrayShape shape{.length = {.least = i + 1}};
    shape.prefix.assign(i, Terms::kAnything);
    shape.prefix.push_back(terms_.negation(terms_.node(rules.prefix[i])));
    result.push_back(std::move(shape));
  }
  if (rules.items) {
    const Term violated = terms_.negation(terms_.node(*rules.items));
    result.push_back(
        {.contained = {{.term = violated, .from = rules.prefix.size(), .counts = {.least = 1}}}});
  }
  if (counts_items()) {
    const Term term = terms_.node(*rules.contains);
    for (const Counts& counts : outside(rules.contained)) {
      result.push_back({.contained = {{.term = term, .counts = counts}}});
    }
  }
  if (rules.unevaluated) result.push_back({.needs_check = true});
  if (rules.unique) result.push_back({.length = {.least = 2}, .needs_check = true});
  return result;
}

// Of a node with an enum, whose values are held against all of the node at once. Many of them are
// one alternative with a check.
template <class Shape>
std::vector<Shape> Shapes::values_of(NodeId id) {
  Shape* const type = nullptr;
  const schema::Node& node = terms_.schema().node(id);
  std::vector<const json::Value*> fitting;
  for (const json::Value& value : node.values->values()) {
    if (value_of(value, false, type).empty()) continue;
    const Expected<bool> valid = terms_.schema().is_valid(id, value);
    if (!valid) fail(valid.error());
    if (valid && *valid) fitting.push_back(&value);
  }
  if (fitting.size() > limits_.max_alternatives) return {superset_of(fitting, type)};
  std::vector<Shape> result;
  for (const json::Value* value : fitting) {
    result.push_back(std::move(value_of(*value, false, type).front()));
  }
  return result;
}

// What is none of the values, or breaks other rules.
template <class Shape>
std::vector<Shape> Shapes::no_values_of(const schema::Enumeration& values, bool has_rules) {
  constexpr std::size_t kMaxProduct = 3;
  Shape* const type = nullptr;
  std::vector<Shape> result(1);
  std::size_t count = 0;
  for (const json::Value& value : values.values()) {
    if (value_of(value, false, type).empty()) continue;
    if (has_rules || ++count > kMaxProduct) {
      result.resize(1);
      result[0] = {};
      result[0].needs_check = true;
      return result;
    }
    std::vector<Shape> next;
    for (const Shape& shape : result) {
      for (const Shape& other : value_of(value, true, type)) {
        if (auto met = meet(shape, other)) next.push_back(std::move(*met));
      }
    }
    result = std::move(next);
  }
  return result;
}

ArrayShape Shapes::superset_of(const std::vector<const json::Value*>& values, ArrayShape*) {
  ArrayShape shape{.length = {.least = Counts::kUnbounded, .most = 0}, .needs_check = true};
  std::vector<std::vector<Term>> items;
  for (const json::Value* value : values) {
    const json::Array& array = *value->if_array();
    shape.length.least = std::min<std::uint64_t>(shape.length.least, array.size());
    shape.length.most = std::max<std::uint64_t>(shape.length.most, array.size());
    items.resize(shape.length.most);
    for (std::size_t i = 0; i < array.size(); ++i) items[i].push_back(terms_.value(array[i]));
  }
  for (std::vector<Term>& item : items) shape.prefix.push_back(terms_.any_of(std::move(item)));
  return shape;
}

ObjectShape Shapes::superset_of(const std::vector<const json::Value*>& values, ObjectShape*) {
  ObjectShape shape{.count = {.least = Counts::kUnbounded, .most = 0}, .needs_check = true};
  std::map<std::string, std::vector<Term>, std::less<>> members;
  for (const json::Value* value : values) {
    const json::Object& object = *value->if_object();
    shape.count.least = std::min<std::uint64_t>(shape.count.least, object.size());
    shape.count.most = std::max<std::uint64_t>(shape.count.most, object.size());
    for (const json::Member& member : object) {
      members[member.key].push_back(terms_.value(member.value));
    }
  }
  for (auto& [name, terms] : members) {
    if (terms.size() == values.size()) shape.required.push_back(name);
    shape.extra.emplace(name, terms_.any_of(std::move(terms)));
  }
  return shape;
}

std::vector<ArrayShape> Shapes::value_of(const json::Value& value, bool negated, ArrayShape*) {
  const json::Array* array = value.if_array();
  if (array == nullptr) return negated ? std::vector<ArrayShape>(1) : std::vector<ArrayShape>{};
  std::vector<ArrayShape> result;
  if (!negated) {
    ArrayShape shape{.length = {array->size(), array->size()}};
    for (const json::Value& item : *array) shape.prefix.push_back(terms_.value(item));
    result.push_back(std::move(shape));
    return result;
  }
  for (const Counts& counts : outside({array->size(), array->size()})) {
    result.push_back({.length = counts});
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    ArrayShape shape{.length = {.least = i + 1}};
    shape.prefix.assign(i, Terms::kAnything);
    shape.prefix.push_back(terms_.negation(terms_.value((*array)[i])));
    result.push_back(std::move(shape));
  }
  return result;
}

std::optional<ArrayShape> Shapes::meet(const ArrayShape& a, const ArrayShape& b) {
  const auto length = both(a.length, b.length);
  if (!length) return std::nullopt;
  ArrayShape result{.length = *length,
                    .contained = a.contained,
                    .unique = a.unique || b.unique,
                    .needs_check = a.needs_check || b.needs_check};
  for (const ArrayShape::Contained& contained : b.contained) {
    if (std::ranges::find(result.contained, contained) == result.contained.end()) {
      result.contained.push_back(contained);
    }
  }
  if (result.contained.size() > limits_.max_counted) {
    result.contained.resize(limits_.max_counted);
    result.needs_check = true;
  }
  const std::size_t prefix = std::max(a.prefix.size(), b.prefix.size());
  for (std::size_t i = 0; i < prefix; ++i) {
    result.prefix.push_back(terms_.all_of({i < a.prefix.size() ? a.prefix[i] : a.items,
                                           i < b.prefix.size() ? b.prefix[i] : b.items}));
  }
  result.items = terms_.all_of({a.items, b.items});
  return result;
}

bool Shapes::is_satisfiable(const ArrayShape& shape) {
  return can_end(shape, most_items(shape), 0, std::vector<std::uint64_t>(shape.contained.size()));
}

// An item that nothing fits ends the array before it.
std::uint64_t Shapes::most_items(const ArrayShape& shape) {
  std::uint64_t most = shape.length.most;
  for (std::size_t i = 0; i < shape.prefix.size() && i < most; ++i) {
    if (!is_satisfiable(shape.prefix[i])) most = i;
  }
  if (most <= shape.prefix.size()) return most;
  if (!is_satisfiable(shape.items)) return shape.prefix.size();
  if (shape.unique && shape.prefix.empty()) {
    if (const auto size = finite_size(shape.items)) most = std::min(most, *size);
  }
  return most;
}

bool Shapes::can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                     std::span<const std::uint64_t> fitting) {
  if (shape.length.least > most || count > most) return false;
  for (std::size_t i = 0; i < shape.contained.size(); ++i) {
    if (!can_end(shape, most, count, shape.contained[i], fitting[i])) return false;
  }
  return true;
}

// Whether `more` items can follow so that in the end the right number of them fits: those that
// have to are forced hits, those that may are possible ones, and any number between will do.
bool Shapes::can_end(const ArrayShape& shape, std::uint64_t most, std::uint64_t count,
                     const ArrayShape::Contained& contained, std::uint64_t fitting) {
  if (contained.counts.least > contained.counts.most || fitting > contained.counts.most) {
    return false;
  }
  const std::uint64_t least_hits =
      contained.counts.least > fitting ? contained.counts.least - fitting : 0;
  const std::uint64_t most_hits = contained.counts.most == Counts::kUnbounded
                                      ? Counts::kUnbounded
                                      : contained.counts.most - fitting;
  if (count >= shape.length.least && least_hits == 0) return true;
  std::uint64_t forced = 0;
  std::uint64_t possible = 0;
  const std::uint64_t uniform = std::max<std::uint64_t>(shape.prefix.size(), contained.from);
  for (;; ++count) {
    if (count >= shape.length.least && possible >= least_hits) return true;
    if (count >= most) return false;
    const Term item = count < shape.prefix.size() ? shape.prefix[count] : shape.items;
    if (count < contained.from) {
      if (!is_satisfiable(item)) return false;
      continue;
    }
    const bool may_fit = is_satisfiable(terms_.all_of({item, contained.term}));
    const bool may_not_fit = is_satisfiable(terms_.all_of({item, terms_.negation(contained.term)}));
    if (!may_fit && !may_not_fit) return false;
    if (!may_not_fit && ++forced > most_hits) return false;
    if (may_fit) ++possible;
    if (count < uniform) continue;
    // From here on all items are alike.
    const std::uint64_t wanted = possible < least_hits ? least_hits - possible : 0;
    if (wanted > 0 && !may_fit) return false;
    const std::uint64_t missing =
        shape.length.least > count + 1 ? shape.length.least - count - 1 : 0;
    const std::uint64_t more = std::max(wanted, missing);
    if (more > most - count - 1) return false;
    return may_not_fit || more <= most_hits - forced;
  }
}

// ---- Objects ------------------------------------------------------------------------------------

std::vector<ObjectShape> Shapes::rules_of(NodeId id, bool negated, ObjectShape*) {
  const schema::Node& node = terms_.schema().node(id);
  std::vector<ObjectShape> result;
  if (!node.types.contains(Type::object)) {
    return negated ? std::vector<ObjectShape>(1) : std::vector<ObjectShape>{};
  }
  // What `dependents` says: the name is missing, or all of the object fits.
  const auto with = [](const std::string& name, Term term) {
    ObjectShape shape;
    shape.extra[name] = term;
    if (term != Terms::kNothing) shape.required = {name};
    return shape;
  };
  const auto without = [&](const std::string& name) { return with(name, Terms::kNothing); };
  if (negated) {
    const bool has_rules = node.objects != nullptr || !node.dependents.empty();
    if (node.values) return no_values_of<ObjectShape>(*node.values, has_rules);
    for (const schema::DependentNode& dependent : node.dependents) {
      const auto& inner = alternatives<ObjectShape>(terms_.node(dependent.node), true);
      if (!inner) return {{.needs_check = true}};
      for (const ObjectShape& shape : *inner) {
        if (auto met = meet(shape, with(dependent.name, Terms::kAnything))) {
          result.push_back(std::move(*met));
        }
      }
    }
    if (!node.objects) return result;
    const schema::ObjectRules& rules = *node.objects;
    for (const std::string& name : rules.required) result.push_back(without(name));
    for (const schema::Property& property : rules.properties) {
      const Term violated = terms_.negation(terms_.node(property.node));
      if (violated != Terms::kNothing) result.push_back(with(property.name, violated));
    }
    for (const Counts& counts : outside(rules.count)) result.push_back({.count = counts});
    for (const schema::DependentNames& names : rules.dependent_names) {
      for (const std::string& name : names.required) {
        if (auto met = meet(with(names.name, Terms::kAnything), without(name))) {
          result.push_back(std::move(*met));
        }
      }
    }
    const auto some = [&](Expr names, Term violated) {
      if (violated != Terms::kNothing) result.push_back({.some = {{names, violated}}});
    };
    std::vector<Expr> listed;
    for (const schema::Property& property : rules.properties) {
      listed.push_back(exprs_->literal(property.name));
    }
    for (const schema::PatternProperty& pattern : rules.pattern_properties) {
      listed.push_back(pattern_language(pattern.pattern.text));
      some(listed.back(), terms_.negation(terms_.node(pattern.node)));
    }
    if (rules.additional) {
      some(exprs_->complement(exprs_->any_of(listed)),
           terms_.negation(terms_.node(*rules.additional)));
    }
    if (rules.names) {
      const Term names = terms_.node(*rules.names);
      some(exprs_->complement(string_language(names)), Terms::kAnything);
      if (strings_need_check(names) || string_shape(names).is_superset) {
        result.push_back({.count = {.least = 1}, .needs_check = true});
      }
    }
    if (rules.unevaluated) result.push_back({.count = {.least = 1}, .needs_check = true});
    return result;
  }

  if (node.values) return values_of<ObjectShape>(id);
  result.emplace_back();
  if (node.objects) {
    const schema::ObjectRules& rules = *node.objects;
    ObjectShape& shape = result.back();
    if (!rules.properties.empty() || !rules.pattern_properties.empty() || rules.additional) {
      shape.rules.push_back(id);
    }
    merge_sorted(shape.required, rules.required);
    if (rules.names) {
      shape.names.push_back(terms_.node(*rules.names));
      shape.needs_check = strings_need_check(shape.names.back());
    }
    shape.count = rules.count;
    shape.needs_check |= rules.unevaluated.has_value();
  }
  const auto split = [&](const std::string& name, const std::vector<ObjectShape>& present) {
    if (result.size() * (present.size() + 1) > limits_.max_alternatives) {
      for (ObjectShape& shape : result) shape.needs_check = true;
      return;
    }
    std::vector<ObjectShape> next;
    for (const ObjectShape& shape : result) {
      if (auto met = meet(shape, without(name))) next.push_back(std::move(*met));
      for (const ObjectShape& other : present) {
        if (auto met = meet(shape, other)) next.push_back(std::move(*met));
      }
    }
    result = std::move(next);
  };
  if (node.objects) {
    for (const schema::DependentNames& names : node.objects->dependent_names) {
      ObjectShape present = with(names.name, Terms::kAnything);
      merge_sorted(present.required, names.required);
      split(names.name, {present});
    }
  }
  for (const schema::DependentNode& dependent : node.dependents) {
    const auto& inner = alternatives<ObjectShape>(terms_.node(dependent.node), false);
    std::vector<ObjectShape> present;
    if (!inner) {
      for (ObjectShape& shape : result) shape.needs_check = true;
      continue;
    }
    for (const ObjectShape& shape : *inner) {
      if (auto met = meet(shape, with(dependent.name, Terms::kAnything))) {
        present.push_back(std::move(*met));
      }
    }
    split(dependent.name, present);
  }
  return result;
}

std::vector<ObjectShape> Shapes::value_of(const json::Value& value, bool negated, ObjectShape*) {
  const json::Object* object = value.if_object();
  if (object == nullptr) return negated ? std::vector<ObjectShape>(1) : std::vector<ObjectShape>{};
  std::vector<ObjectShape> result;
  ObjectShape whole{.count = {object->size(), object->size()}};
  for (const json::Member& member : *object) {
    const Term equal = terms_.value(member.value);
    if (negated) {
      ObjectShape missing;
      missing.extra[member.key] = Terms::kNothing;
      result.push_back(std::move(missing));
      ObjectShape other{.required = {member.key}};
      other.extra[member.key] = terms_.negation(equal);
      result.push_back(std::move(other));
    } else {
      whole.extra[member.key] = equal;
      merge_sorted(whole.required, {member.key});
    }
  }
  if (!negated) return {std::move(whole)};
  for (const Counts& counts : outside(whole.count)) result.push_back({.count = counts});
  return result;
}

std::optional<ObjectShape> Shapes::meet(const ObjectShape& a, const ObjectShape& b) {
  const auto count = both(a.count, b.count);
  if (!count) return std::nullopt;
  ObjectShape result = a;
  result.count = *count;
  merge_sorted(result.rules, b.rules);
  merge_sorted(result.required, b.required);
  merge_sorted(result.names, b.names);
  result.needs_check |= b.needs_check;
  for (const ObjectShape::Some& some : b.some) {
    if (std::ranges::find(result.some, some) == result.some.end()) result.some.push_back(some);
  }
  if (result.some.size() > limits_.max_counted) {
    result.some.resize(limits_.max_counted);
    result.needs_check = true;
  }
  for (const auto& [name, term] : b.extra) {
    const auto [place, is_new] = result.extra.try_emplace(name, term);
    if (!is_new) place->second = terms_.all_of({place->second, term});
  }
  for (const std::string& name : result.required) {
    const auto extra = result.extra.find(name);
    if (extra != result.extra.end() && extra->second == Terms::kNothing) return std::nullopt;
  }
  if (result.required.size() > result.count.most) return std::nullopt;
  return result;
}

// What the rules of `node` ask of the value of `name`.
Term Shapes::member(const schema::Node& node, std::string_view name) {
  const schema::ObjectRules& rules = *node.objects;
  std::vector<Term> all;
  if (const schema::Property* property = rules.find(name))
    all.push_back(terms_.node(property->node));
  for (const schema::PatternProperty& pattern : rules.pattern_properties) {
    const Expected<bool> matches = pattern.pattern.regex->contains_match(name);
    if (!matches) fail(matches.error());
    if (matches && *matches) all.push_back(terms_.node(pattern.node));
  }
  if (all.empty() && rules.additional) all.push_back(terms_.node(*rules.additional));
  return terms_.all_of(std::move(all));
}

Expr Shapes::name_language(const ObjectShape& shape) {
  std::vector<Expr> all{any_text_};
  for (const Term names : shape.names) all.push_back(string_language(names));
  return exprs_->all_of(all);
}

// The names that all names of a schema are among, where they are few.
std::vector<std::string> Shapes::all_names(const ObjectShape& shape) {
  for (const Term names : shape.names) {
    const StringShape& strings = string_shape(names);
    if (strings.values) return *strings.values;
  }
  return {};
}

std::vector<std::pair<std::string, Term>> Shapes::named(const ObjectShape& shape) {
  std::vector<std::string> names;  // in the order of the schema, which is that of `schema` order
  std::map<std::string, std::vector<Term>, std::less<>> terms;
  const auto add = [&](const std::string& name) -> std::vector<Term>& {
    const auto [place, is_new] = terms.try_emplace(name);
    if (is_new) names.push_back(name);
    return place->second;
  };
  std::vector<NodeId> wider;  // rules that say something of names they do not list
  for (const NodeId id : shape.rules) {
    const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
    const bool is_wider = rules.additional || !rules.pattern_properties.empty();
    if (is_wider) wider.push_back(id);
    for (const schema::Property& property : rules.properties) {
      std::vector<Term>& all = add(property.name);
      if (!is_wider) all.push_back(terms_.node(property.node));
    }
  }
  for (const auto& [name, term] : shape.extra) add(name).push_back(term);
  for (const std::string& name : shape.required) add(name);
  for (const std::string& name : all_names(shape)) add(name);
  const Expr allowed = shape.names.empty() ? ExprSet::kAnything : name_language(shape);
  std::vector<std::pair<std::string, Term>> result;
  for (std::string& name : names) {
    std::vector<Term>& all = terms.find(name)->second;
    for (const NodeId id : wider) all.push_back(member(terms_.schema().node(id), name));
    Term term = terms_.all_of(std::move(all));
    if (!holds(allowed, name)) term = Terms::kNothing;
    result.emplace_back(std::move(name), term);
  }
  return result;
}

std::vector<Shapes::OtherNames> Shapes::others(const ObjectShape& shape, bool& needs_check) {
  std::vector<std::string> patterns;
  for (const NodeId id : shape.rules) {
    const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
    for (const auto& pattern : rules.pattern_properties) patterns.push_back(pattern.pattern.text);
  }
  std::sort(patterns.begin(), patterns.end());
  patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
  std::vector<std::string> known;
  for (auto& [name, term] : named(shape)) known.push_back(std::move(name));
  const Expr allowed = name_language(shape);
  if (patterns.size() > limits_.max_patterns) {
    needs_check = true;
    return apart({allowed, {}, Terms::kAnything}, known, shape.some);
  }

  std::vector<OtherNames> result;
  for (std::uint32_t matched = 0; matched < 1U << patterns.size(); ++matched) {
    const auto matches = [&](const std::string& pattern) {
      const auto index = std::ranges::lower_bound(patterns, pattern) - patterns.begin();
      return (matched >> index & 1U) != 0;
    };
    std::vector<Term> all;
    for (const NodeId id : shape.rules) {
      const schema::ObjectRules& rules = *terms_.schema().node(id).objects;
      bool any = false;
      for (const auto& pattern : rules.pattern_properties) {
        if (!matches(pattern.pattern.text)) continue;
        any = true;
        all.push_back(terms_.node(pattern.node));
      }
      if (!any && rules.additional) all.push_back(terms_.node(*rules.additional));
    }
    const Term value = terms_.all_of(std::move(all));
    if (!is_satisfiable(value)) continue;
    std::vector<Expr> languages{allowed};
    for (const std::string& pattern : patterns) {
      const Expr language = pattern_language(pattern);
      languages.push_back(matches(pattern) ? language : exprs_->complement(language));
    }
    for (OtherNames& names : apart({exprs_->all_of(languages), {}, value}, known, shape.some)) {
      result.push_back(std::move(names));
    }
  }
  return result;
}

// By which of the languages of `some` hold them.
std::vector<Shapes::OtherNames> Shapes::apart(const OtherNames& names,
                                              const std::vector<std::string>& known,
                                              std::span<const ObjectShape::Some> some) {
  std::vector<OtherNames> result;
  for (std::uint32_t within = 0; within < 1U << some.size(); ++within) {
    std::vector<Expr> languages{names.names};
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Expr language = some[i].names;
      languages.push_back((within >> i & 1U) != 0 ? language : exprs_->complement(language));
    }
    for (OtherNames& one : without({exprs_->all_of(languages), {}, names.value, within}, known)) {
      result.push_back(std::move(one));
    }
  }
  return result;
}

// `names` less the known ones; nothing if that leaves none. They are taken out of the language only
// where they have to be, because that makes an automaton of all of them.
std::vector<Shapes::OtherNames> Shapes::without(OtherNames names,
                                                const std::vector<std::string>& known) {
  if (!is_live(names.names)) return {};
  const StringShape shape{.language = names.names};
  if (std::ranges::all_of(known, [&](const auto& name) {
        return !holds(names.names, name) || goes_on(shape, name);
      })) {
    names.but = known;
    return {std::move(names)};
  }
  names.names = exprs_->both(names.names,
                             exprs_->complement(language_of(std::span<const std::string>(known))));
  if (!is_live(names.names)) return {};
  return {std::move(names)};
}

bool Shapes::is_satisfiable(const ObjectShape& shape) {
  if (shape.count.least > shape.count.most || shape.required.size() > shape.count.most)
    return false;
  std::uint64_t possible = 0;
  std::vector<bool> found(shape.some.size());
  std::vector<bool> found_in_required(shape.some.size());
  for (const auto& [name, term] : named(shape)) {
    const bool is_required = std::ranges::binary_search(shape.required, name);
    const bool fits = is_satisfiable(term);
    if (fits) ++possible;
    if (!fits && is_required) return false;
    for (std::size_t i = 0; i < shape.some.size() && fits; ++i) {
      const ObjectShape::Some& some = shape.some[i];
      if (!holds(some.names, name) || !is_satisfiable(terms_.all_of({term, some.value}))) continue;
      found[i] = true;
      if (is_required) found_in_required[i] = true;
    }
  }
  if (possible >= shape.count.least && shape.some.empty()) return true;
  bool needs_check = false;
  const std::vector<OtherNames> all_others = others(shape, needs_check);
  for (std::size_t i = 0; i < shape.some.size(); ++i) {
    for (const OtherNames& names : all_others) {
      const bool is_within = (names.some >> i & 1U) != 0;
      if (is_within && is_satisfiable(terms_.all_of({names.value, shape.some[i].value}))) {
        found[i] = true;
      }
    }
    if (!found[i]) return false;
    if (!found_in_required[i] && shape.required.size() + 1 > shape.count.most) return false;
  }
  return possible >= shape.count.least || !all_others.empty();
}

// ---- Whole values -------------------------------------------------------------------------------

bool Shapes::fits(Term term, const json::Value& value) {
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      return false;
    case Terms::Kind::anything:
      return true;
    case Terms::Kind::node: {
      const Expected<bool> valid = terms_.schema().is_valid(terms_.node_of(term), value);
      if (!valid) fail(valid.error());
      return valid && *valid;
    }
    case Terms::Kind::value:
      return terms_.value_of(term) == value;
    case Terms::Kind::negation:
      return !fits(terms_.parts_of(term)[0], value);
    case Terms::Kind::all_of:
      return std::ranges::all_of(terms_.parts_of(term),
                                 [&](Term part) { return fits(part, value); });
    case Terms::Kind::any_of:
      return std::ranges::any_of(terms_.parts_of(term),
                                 [&](Term part) { return fits(part, value); });
    case Terms::Kind::rules:
      break;  // only within definitions
  }
  return false;
}

// Not through settled(), for which see compute_satisfiable().
std::optional<std::uint64_t> Shapes::finite_size(Term term) {
  const StringShape& strings = string_shape(term);
  if (!strings.values) return std::nullopt;
  std::uint64_t size = constants(term).count() + strings.values->size();
  const Alternatives<NumberShape>& numbers = alternatives<NumberShape>(term, false);
  if (!numbers) return std::nullopt;
  for (const NumberShape& shape : *numbers) {
    const std::optional<std::uint64_t> count = most_values(shape.set);
    if (!count) return std::nullopt;
    size += *count;
  }
  const auto is_none = [&]<class Shape>(Shape*) {
    const Alternatives<Shape>& found = alternatives<Shape>(term, false);
    return found && found->empty();
  };
  if (!is_none(static_cast<ArrayShape*>(nullptr)) || !is_none(static_cast<ObjectShape*>(nullptr))) {
    return std::nullopt;
  }
  return size;
}

// ---- Satisfiability -----------------------------------------------------------------------------

bool Shapes::is_satisfiable(Term term) {
  if (term == Terms::kAnything) return true;
  if (term == Terms::kNothing) return false;
  if (const auto known = satisfiable_.find(term); known != satisfiable_.end()) return known->second;
  if (const auto above = in_question_.find(term); above != in_question_.end()) {
    lowest_assumed_ = std::min(lowest_assumed_, above->second);
    return false;
  }
  const std::size_t depth = in_question_.size();
  in_question_.emplace(term, depth);
  const std::size_t assumed_before = std::exchange(lowest_assumed_, kNothingAssumed);
  const bool result = compute_satisfiable(term);
  in_question_.erase(term);
  if (result || lowest_assumed_ >= depth) {
    satisfiable_.emplace(term, result);
    lowest_assumed_ = assumed_before;
  } else {
    lowest_assumed_ = std::min(lowest_assumed_, assumed_before);
  }
  return result;
}

bool Shapes::compute_satisfiable(Term term) {
  if (constants(term).any()) return true;
  if (is_satisfiable(text(term))) return true;
  // Not through settled(): what is judged under an assumption must not be kept.
  const auto some = [&]<class Shape>(Shape*) {
    const Alternatives<Shape> found = alternatives<Shape>(term, false);
    return !found || std::ranges::any_of(*found, [&](const Shape& s) { return is_possible(s); });
  };
  return some(static_cast<NumberShape*>(nullptr)) || some(static_cast<ArrayShape*>(nullptr)) ||
         some(static_cast<ObjectShape*>(nullptr));
}

Error Shapes::unsatisfiable() {
  const schema::Schema& schema = terms_.schema();
  std::set<NodeId> seen;
  std::optional<NodeId> at = schema.root();
  std::string place;
  while (at && seen.insert(*at).second) {
    place = schema.node(*at).location;
    at = blamed_within(schema.node(*at));
  }
  std::string message = "no value fits the schema";
  if (!place.empty()) message += ", since none fits " + place;
  return {Errc::unsatisfiable, std::move(message)};
}

// A node that every value of `node`, or one in it, must fit, and none does.
std::optional<NodeId> Shapes::blamed_within(const schema::Node& node) {
  std::vector<NodeId> needed = node.all_of;
  if (node.any_of.size() == 1) needed.push_back(node.any_of[0]);
  if (node.one_of.size() == 1) needed.push_back(node.one_of[0]);
  if (const auto& rules = node.arrays; rules && node.types == schema::Types(Type::array)) {
    for (std::size_t i = 0; i < rules->prefix.size() && i < rules->length.least; ++i) {
      needed.push_back(rules->prefix[i]);
    }
    if (rules->items && rules->prefix.size() < rules->length.least) needed.push_back(*rules->items);
  }
  if (const auto& rules = node.objects; rules && node.types == schema::Types(Type::object)) {
    for (const std::string& name : rules->required) {
      if (const schema::Property* const property = rules->find(name)) {
        needed.push_back(property->node);
      } else if (rules->additional && rules->pattern_properties.empty()) {
        needed.push_back(*rules->additional);
      }
    }
  }
  const auto found =
      std::ranges::find_if(needed, [&](NodeId id) { return !is_satisfiable(terms_.node(id)); });
  return found == needed.end() ? std::nullopt : std::optional(*found);
}

}  // namespace tenon::grammar
