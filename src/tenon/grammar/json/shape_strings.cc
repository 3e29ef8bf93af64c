// Shapes of strings. The shape of a term has either a list of values, or a language (regex/expr.h)
// with a range of lengths and a list of excluded words; all of these hold together.
//
// string_shape() goes down the term once and remembers the result of each part: rules of a node
// become a language and a length (string_rules), all_of() intersects, any_of() joins, negation()
// complements. Lists stay lists as long as they can: a list that meets a language is filtered
// (narrowed), because enum values are many and an automaton of them is dear. text() makes the shape
// that is read: valid UTF-8 without NUL, and a length that can be counted beside the automaton, or
// else is part of the language.

#include <algorithm>
#include <bit>

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_parts.h"
#include "tenon/regex/language.h"
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

}  // namespace

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
    // If the automaton is too large for counting, the length becomes part of the language.
    if (shape.length != Counts{} && shape.language != any_text_ && !can_count(shape)) {
      shape.language = language_of(shape.language, shape.length);
      shape.length = {};
    }
    std::vector<std::string> excluded = std::exchange(shape.excluded, {});
    spend(2 * excluded.size());
    std::erase_if(excluded, [&](const std::string& word) { return !holds(shape, word); });
    if (std::ranges::all_of(excluded, [&](const auto& word) { return goes_on(shape, word); })) {
      shape.excluded = std::move(excluded);
    } else {
      shape.language =
          exprs_->both(shape.language, exprs_->complement(language_of(std::span(excluded))));
    }
  }
  fail_by_limit();
  return texts_.emplace(term, std::move(shape)).first->second;
}

const StringShape& Shapes::string_shape(Term term) {
  const auto known = string_shapes_.find(term);
  if (known != string_shapes_.end()) return known->second;
  const Level level(*this);
  StringShape shape = level ? compute_string_shape(term) : StringShape{.values = {{}}};
  if (terms_.kind(term) == Terms::Kind::all_of) {  // others are at most as large as the schema
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
      return string_shape(definition(term));
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
      shapes.reserve(parts.size());
      for (const Term part : parts) {
        const StringShape& shape = string_shape(part);
        if (!spend(1 + kStepsPerWord * words_of(shape))) return {.values = {{}}};
        shapes.push_back(shape);
      }
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
      // For a list of values, each one is checked below.
      shape.is_superset |= format->also != nullptr && !node.values;
    }
    shape.language = exprs_->all_of(all);
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

StringShape Shapes::narrowed(std::vector<std::string> values, std::span<const StringShape> by) {
  for (const StringShape& shape : by) {
    // Each is looked for by halves in the lists, and read by the automaton.
    constexpr std::size_t kBytesPerStep = 4;
    const auto halves = static_cast<std::uint64_t>(std::bit_width(words_of(shape)));
    if (!spend(values.size() * (2 + 2 * halves) + bytes_of(values) / kBytesPerStep)) break;
    std::erase_if(values, [&](const std::string& value) { return !holds(shape, value); });
  }
  const bool is_superset =
      std::ranges::any_of(by, [](const StringShape& shape) { return shape.is_superset; });
  return {.values = std::move(values), .is_superset = is_superset};
}

StringShape Shapes::all_of(std::vector<StringShape> shapes) {
  spend(kStepsPerWord * join_exclusions(shapes));
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
    spend(1 + kStepsPerWord * (result.excluded.size() + shape.excluded.size()));
    merge_sorted(result.excluded, shape.excluded);
  }
  result.language = exprs_->all_of(languages);
  return result;
}

StringShape Shapes::any_of(std::vector<StringShape> shapes) {
  std::erase_if(shapes, [](const auto& s) { return s.values && s.values->empty(); });
  if (shapes.empty()) return {.values = {{}}};
  if (shapes.size() == 1) return std::move(shapes.front());
  if (const auto most = std::ranges::find_if(shapes, is_all_but_some); most != shapes.end()) {
    std::vector<std::string> excluded = std::move(most->excluded);
    shapes.erase(most);
    spend(excluded.size() * shapes.size());
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
  spend(2 * values.size());
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
  const Level level(*this);
  const bool result = level && compute_strings_need_check(term);
  strings_need_check_.emplace(term, result);
  return result;
}

bool Shapes::compute_strings_need_check(Term term) {
  if (terms_.kind(term) == Terms::Kind::node) {
    return strings_need_check(definition(term));
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
  fail_by_limit();  // after that, languages are empty
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

// Whether `text`, which is in the shape, is a prefix of a longer text of it. If that holds for all
// excluded texts, it also holds for every prefix of one: the longest text to which it leads is not
// excluded.
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
  fail_by_limit();
  return live && *live;
}

}  // namespace tenon::grammar
