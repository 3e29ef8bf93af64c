#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/shape_work.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// Null, false and true of a term.
class ConstantShapes {
 public:
  explicit ConstantShapes(ShapeWork& work) : work_(work) {}
  [[nodiscard]] Constants of(Term term);

 private:
  ShapeWork& work_;
  std::map<Term, Constants> known_;
};

/// How much a search for values may still try.
struct Fuel {
  std::size_t left = 0;

  /// Uses one piece; false: nothing is left.
  bool burn() {
    if (left > 0) --left;
    return left > 0;
  }
};

/// The strings of a term.
class StringShapes {
 public:
  explicit StringShapes(ShapeWork& work);
  ~StringShapes();

  /// The contents of strings, as valid UTF-8 without NUL: as one language, which lengths and long
  /// lists make large; and for scanners, where `excluded` are only prefixes of other texts.
  [[nodiscard]] regex::Expr language(Term term);
  [[nodiscard]] const StringShape& text(Term term);
  /// The shape that text() is made of; its language may have texts that are not valid UTF-8.
  [[nodiscard]] const StringShape& shape(Term term);
  /// The language of shape().
  [[nodiscard]] regex::Expr shape_language(Term term) { return language_of(shape(term)); }
  /// Strings also need a check, because a format is more than its pattern.
  [[nodiscard]] bool needs_check(Term term);
  /// The size of the lists of strings that texts can make longer: as they are, as text() returns
  /// them, and in the scanners made from them.
  [[nodiscard]] std::size_t bytes_of_words() const { return bytes_of_words_; }

  [[nodiscard]] bool is_satisfiable(const StringShape& shape);
  /// True if `text` is in the language.
  [[nodiscard]] bool holds(regex::Expr language, std::string_view text);
  [[nodiscard]] bool holds(const StringShape& shape, std::string_view text);
  [[nodiscard]] bool is_live(regex::Expr language);
  /// The language has texts of any number of characters. False: a short search did not find it out.
  [[nodiscard]] bool is_surely_endless(regex::Expr language);
  /// Whether `text`, which is in the shape, is a prefix of a longer text of it. If that holds for
  /// all excluded texts, it also holds for every prefix of one: the longest text to which it leads
  /// is not excluded.
  [[nodiscard]] bool goes_on(const StringShape& shape, std::string_view text);
  /// The text is not a string of the term, or is a prefix of very many of them.
  [[nodiscard]] bool has_many_longer(Term term, std::string_view text);
  /// The term has more strings than kMany / 2. False: not known.
  [[nodiscard]] bool has_many(Term term);
  static constexpr std::size_t kMany = 1024;
  /// Adds texts of the shape to `into`, the shortest first, until there are `most`. False: there
  /// may be more.
  bool find_some(const StringShape& shape, std::size_t most, Fuel& fuel,
                 std::vector<json::Value>& into);

  [[nodiscard]] regex::Expr language_of(std::span<const std::string> words);
  [[nodiscard]] regex::Expr pattern_language(const std::string& pattern);
  /// Leaves the pattern out from now on if it cannot be understood, and returns the reason.
  std::optional<Error> relax(const std::string& pattern);

 private:
  struct Automaton;
  Automaton& automaton(regex::Expr language);
  StringShape compute(Term term);
  StringShape rules_of(schema::NodeId id);
  StringShape narrowed(std::vector<std::string> values, std::span<const StringShape> by);
  StringShape all_of(std::vector<StringShape> shapes);
  StringShape any_of(std::vector<StringShape> shapes);
  StringShape negation(const StringShape& shape);
  bool can_count(const StringShape& shape);
  regex::Expr language_of(regex::Expr language, const schema::Counts& length);
  regex::Expr language_of(const StringShape& shape);
  bool has_many_after(const StringShape& shape, std::uint32_t state, std::uint64_t read);
  bool has_many_texts(Automaton& of, std::uint32_t state, std::uint64_t least, std::uint64_t most);
  bool compute_needs_check(Term term);

  ShapeWork& work_;
  Terms& terms_;
  regex::ExprSet& exprs_;
  std::map<Term, StringShape> shapes_;
  std::map<Term, StringShape> texts_;
  std::size_t bytes_of_words_ = 0;
  std::map<Term, bool> need_check_;
  std::map<std::string, regex::Expr, std::less<>> patterns_;
  std::set<std::string, std::less<>> relaxed_patterns_;
  std::map<regex::Expr, std::unique_ptr<Automaton>> automata_;
  std::map<std::tuple<regex::Expr, std::uint32_t, std::uint64_t, std::uint64_t>, bool> many_texts_;
};

}  // namespace tenon::grammar
