#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/regex/byte_set.h"

/// Languages over bytes as extended regular expressions, and their derivatives.
///
/// Sources: J. Brzozowski, Derivatives of Regular Expressions, JACM 11 (1964); S. Owens, J. Reppy,
/// A. Turon, Regular-expression derivatives re-examined, JFP 19 (2009); for guards, which depend on
/// the place in the text: I. Varatalu, M. Veanes, J. Ernits, RE#, POPL (2025).
namespace tenon::regex {

/// A language: the index of an expression in its ExprSet. Equal expressions have equal indices;
/// different ones may still be the same language.
using Expr = std::uint32_t;

/// 128 bits that tell languages apart.
struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Fingerprint&) const = default;
};

/// The fingerprint of what `text` describes. Like all fingerprints it is made with a random seed of
/// this process, so an attacker cannot choose two things with one fingerprint.
[[nodiscard]] Fingerprint fingerprint_of(std::string_view text);

/// Owns expressions and makes new ones from them.
///
///     ExprSet exprs({.max_steps = 1'000'000, .max_bytes = 16 << 20});
///     const Expr digits = exprs.repeat(exprs.bytes(ByteSet::range('0', '9')), 1, 19);
///     const Expr not_zero = exprs.both(digits, exprs.complement(exprs.literal("0")));
///     exprs.is_nullable(exprs.derivative(not_zero, '7'));   // true: "7" is in the language
///     if (Status status = exprs.status(); !status) ...
///
/// Nothing is unrolled: a repetition of a million costs as much as one of two. Once a limit is
/// reached, every function that makes an expression returns kNothing and status() is the error;
/// expressions made before stay correct. For one thread at a time; a copy is independent.
class ExprSet {
 public:
  static constexpr Expr kNothing = 0;   ///< The empty language.
  static constexpr Expr kEpsilon = 1;   ///< The empty string alone.
  static constexpr Expr kAnything = 2;  ///< Every string of bytes.
  static constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

  explicit ExprSet(const Limits& limits);

  // ---- making expressions -----------------------------------------------------------------------

  [[nodiscard]] Expr bytes(const ByteSet& set);  ///< One byte of `set`.
  [[nodiscard]] Expr literal(std::string_view text);
  [[nodiscard]] Expr concat(Expr first, Expr second);
  [[nodiscard]] Expr any_of(std::span<const Expr> exprs);
  [[nodiscard]] Expr all_of(std::span<const Expr> exprs);  ///< kAnything for an empty span.
  [[nodiscard]] Expr either(Expr a, Expr b) { return any_of(std::array{a, b}); }
  [[nodiscard]] Expr both(Expr a, Expr b) { return all_of(std::array{a, b}); }
  /// Every string of bytes that is not in `expr`.
  [[nodiscard]] Expr complement(Expr expr);
  /// `min` to `max` (kUnbounded: any number) strings of `expr`.
  [[nodiscard]] Expr repeat(Expr expr, std::uint32_t min, std::uint32_t max);
  /// The non-empty strings of `expr`.
  [[nodiscard]] Expr non_empty(Expr expr);

  // ---- asking -----------------------------------------------------------------------------------

  /// Whether the empty string is in `expr`.
  [[nodiscard]] bool is_nullable(Expr expr) const { return nodes_[expr].nullable == Nullable::yes; }
  /// The strings that may follow `byte`: { w : byte w is in `expr` }.
  [[nodiscard]] Expr derivative(Expr expr, std::uint8_t byte) { return derivative(expr, byte, 0); }
  /// False: `expr` certainly has a string. True: not known.
  [[nodiscard]] bool may_be_nothing(Expr expr) const { return !nodes_[expr].is_inhabited; }
  /// A class number for each byte: bytes of one class make no difference to `expr` and all its
  /// derivatives. Numbers start at 0 without gaps.
  [[nodiscard]] std::array<std::uint8_t, 256> byte_classes(Expr expr) const;
  /// Bytes that are in some string of `expr`, and perhaps more; no string has a byte outside this
  /// set.
  [[nodiscard]] ByteSet alphabet(Expr expr);
  /// Bytes that end some string of `expr`, and perhaps more; no string ends in a byte outside this
  /// set. For a language that anything may follow (`concat(expr, kAnything)`), the bytes that end
  /// its shortest strings. Decided by the structure alone.
  [[nodiscard]] ByteSet last_bytes(Expr expr);
  /// `expr` as the texts of `text`, which holds all of them, without those that begin in certain
  /// ways. Each byte sequence that leads out of `expr`, but not out of `text`, has a byte of
  /// `signs`.
  struct AllBut {
    Expr text;
    ByteSet signs;
  };
  /// Nothing if `expr` is made in another way, or does not contain the empty string.
  [[nodiscard]] std::optional<AllBut> as_all_but(Expr expr);
  /// Every string of `expr` has at least so many bytes; kUnbounded if the number is too large to
  /// count.
  [[nodiscard]] std::uint32_t least_bytes(Expr expr) const { return nodes_[expr].least; }
  /// True: every text of more than some number of bytes is in `expr`; set_text() says what a text
  /// is. The intersection of two such languages is such a language too. False: not known.
  [[nodiscard]] bool holds_long_texts(Expr expr) const { return nodes_[expr].holds_long; }
  /// Declares that `expr` is the language of all texts. Call it before other expressions are made
  /// from it.
  void set_text(Expr expr) { nodes_[expr].holds_long = expr != kNothing; }
  /// True: `expr` certainly has a text. False: not known. It looks further than may_be_nothing()
  /// and costs more.
  [[nodiscard]] bool has_text(Expr expr) const;
  /// Any sequence of so many plain characters (common_characters.h) begins some string of `expr`;
  /// kUnbounded: any number of them; 0: not known. Decided by the structure alone.
  [[nodiscard]] std::uint32_t absorbed_characters(Expr expr) const { return nodes_[expr].absorbed; }
  /// Equal fingerprints mean the same language, also in different sets. All zero: no fingerprint.
  [[nodiscard]] Fingerprint fingerprint(Expr expr) const { return nodes_[expr].fingerprint; }
  /// `expr` as `min` to `max` repetitions of `part`; nothing if it is not made so.
  struct Counts {
    std::uint32_t min, max;
  };
  [[nodiscard]] std::optional<Counts> as_repetition_of(Expr part, Expr expr) const;
  /// Every derivative of `expr` that is not empty has a string of at most so many bytes without
  /// NUL. Nothing: not known. Quick, because it is decided by the structure alone, without looking
  /// into intersections and complements.
  [[nodiscard]] std::optional<std::uint64_t> completion_bound(Expr expr) const;
  /// A repetition without end, such as `.*`. All texts of `expr` are made of its characters, and
  /// each text of `expr` begins one of its texts, so the same texts can come first in both.
  /// Nothing: not known. Decided by the structure alone, like completion_bound.
  [[nodiscard]] std::optional<Expr> free_part(Expr expr) const;
  /// Whether a text of `repetition`, a result of free_part(), can be made one character longer, so
  /// that longer texts have every length. False: not known.
  [[nodiscard]] bool grows_by_one(Expr repetition) const;
  /// `expr` in which every repetition of at most kFew to more than kFew times is so long that no
  /// text reaches its end. The same texts can come first in both, except those that pass through a
  /// repetition more than kFew times. Nothing: there is no such repetition, or its effect is not
  /// simple (intersections, complements). Decided by the structure alone.
  [[nodiscard]] std::optional<Expr> with_far_counts(Expr expr);
  /// Whether all these derivatives of an expression with far counts are within the first kFew
  /// rounds of every repetition.
  [[nodiscard]] bool are_counts_far(std::span<const Expr> derivatives) const;
  static constexpr std::uint32_t kFew = 4;
  /// The parts of an intersection; for any other expression, itself alone.
  [[nodiscard]] std::span<const Expr> intersected(const Expr& expr) const {
    return nodes_[expr].kind == Kind::all_of ? list_of(nodes_[expr]) : std::span(&expr, 1);
  }
  [[nodiscard]] Status status() const;
  /// Expressions made from now on count against these limits.
  void set_limits(const Limits& limits);
  /// Counts bytes that an owner keeps beside the expressions; false if the limit is reached.
  [[nodiscard]] bool take_bytes(std::uint64_t bytes) { return budget_.take_bytes(bytes); }
  /// The bytes used since the limits were set.
  [[nodiscard]] std::uint64_t bytes_used() const { return budget_.bytes_used(); }

  // ---- what depends on the place in the text ----------------------------------------------------
  //
  // An open expression is a language that differs from place to place: it holds guards, each of
  // which admits its expression only where a condition holds for the text before. located() makes
  // it a language. All parts may be open, except the first part of concat() and the part of
  // repeat().

  using Condition = std::uint32_t;  ///< Index in the parameter `before` of located().
  static constexpr Condition kMaxConditions = 16;

  [[nodiscard]] bool is_open(Expr expr) const { return conditions(expr) != 0; }
  /// Bit i: it holds a guard of condition i.
  [[nodiscard]] std::uint32_t conditions(Expr expr) const { return nodes_[expr].conditions; }
  /// `expr` where the condition holds (with `is_negative`: where it does not hold).
  [[nodiscard]] Expr guarded(Condition condition, bool is_negative, Expr expr);
  /// A loop without a body yet, which depends at most on the conditions of the mask. A loop is for
  /// cases that repeat() cannot express, because an open expression takes in what follows it.
  [[nodiscard]] Expr open_loop(std::uint32_t conditions, bool is_nullable);
  /// Gives `loop` its body, which must not begin with the loop itself and must be nullable as the
  /// loop was declared.
  void close_loop(Expr loop, Expr body) {
    if (loop != kNothing) loop_bodies_[nodes_[loop].first] = body;
  }
  /// `expr` at the beginning of a text. Condition i holds after the texts of before[i], which may
  /// depend on conditions below i.
  [[nodiscard]] Expr located(Expr expr, std::span<const Expr> before);

 private:
  // A list of a kind is in lists_ from `second` on.
  enum class Kind : std::uint8_t {
    nothing,
    epsilon,
    bytes,       // first: in byte_sets_
    concat,      // first, which is no concat, and second
    any_of,      // first: length of the list of parts, which are ascending
    all_of,      // same
    complement,  // first
    repeat,      // first, min, max
    guarded,     // first, min: condition, max: 1 if negative
    loop,        // first: in loop_bodies_
    located,     // first; the list: the texts before, min of them
  };
  // In this order, so that an intersection has the least of its parts and a union the greatest.
  enum class Nullable : std::uint8_t { no, depends, yes };

  struct Node {
    Kind kind = Kind::nothing;
    Nullable nullable = Nullable::no;
    bool is_inhabited = false;  // false: not known
    bool is_bounded = false;    // the length of its strings is bounded; false: not known
    bool holds_long = false;    // it has every text of more than some number of bytes; false: not
                                // known
    bool is_plain = false;      // it has every plain character as a string; false: not known
    std::uint32_t conditions = 0;  // bit i: its meaning depends on condition i
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::uint32_t min = 0;
    std::uint32_t max = 0;
    std::uint32_t least = 0;  // bytes
    std::uint32_t completion =
        kUnbounded;  // the most bytes that a derivative needs to reach its end; kUnbounded: not
                     // known, and `least` is then the length of a shortest string
    std::uint32_t absorbed = 0;  // absorbed_characters()
    Fingerprint fingerprint;
  };

  // An expression as {min,max} of another; every expression is {1,1} of itself.
  struct Repetition {
    Expr of;
    std::uint32_t min;
    std::uint32_t max;
    bool is_repeat;
  };

  // An open-addressed table from keys to expressions.
  class Table {
   public:
    [[nodiscard]] const Expr* find(std::uint64_t key) const;
    void insert(std::uint64_t key, Expr value, Budget& budget);

   private:
    static constexpr std::uint64_t kFree = ~std::uint64_t{0};
    struct Entry {
      std::uint64_t key = kFree;
      Expr value = 0;
    };
    void place(const Entry& entry);

    std::vector<Entry> entries_;
    std::size_t used_ = 0;
  };

  class Settling;

  static constexpr bool has_list(Kind kind) {
    return kind == Kind::any_of || kind == Kind::all_of || kind == Kind::located;
  }
  static constexpr bool has_first(Kind kind) {
    return kind == Kind::concat || kind == Kind::complement || kind == Kind::repeat ||
           kind == Kind::guarded || kind == Kind::located;
  }
  std::span<const Expr> list_of(const Node& node) const {
    return std::span(lists_).subspan(node.second,
                                     node.kind == Kind::located ? node.min : node.first);
  }
  Expr head(Expr expr) const {
    return nodes_[expr].kind == Kind::concat ? nodes_[expr].first : expr;
  }
  Expr tail(Expr expr) const {
    return nodes_[expr].kind == Kind::concat ? nodes_[expr].second : kEpsilon;
  }
  Repetition repetition(Expr expr) const {
    const Node& node = nodes_[expr];
    if (node.kind != Kind::repeat) return {expr, 1, 1, false};
    return {node.first, node.min, node.max, true};
  }
  static bool holds(const Node& guarded, std::uint32_t holding) {
    return (holding >> guarded.min & 1) != guarded.max;
  }
  static std::uint64_t key_of(Expr expr, unsigned byte, std::uint32_t holding) {
    return std::uint64_t{expr} << 32 | std::uint64_t{byte} << kMaxConditions | holding;
  }
  bool is_spent() const { return budget_.is_spent(); }

  std::uint64_t hash(const Node& node, std::span<const Expr> list) const;
  // Whether it and each derivative that is not empty has a string without NUL. Decided by the
  // structure alone.
  [[nodiscard]] bool can_be_completed(Expr expr) const {
    return nodes_[expr].completion != kUnbounded;
  }
  enum class Where : std::uint8_t { anywhere, at_the_end };
  ByteSet find_bytes(Expr expr, Where where, unsigned depth);
  std::optional<ByteSet> find_signs(Expr expr, unsigned depth);
  [[nodiscard]] ByteSet single_bytes(Expr expr) const;
  [[nodiscard]] bool is_made_of(Expr expr, Expr character, const ByteSet& ascii, unsigned depth,
                                std::size_t& visits) const;
  template <class Visit>
  void for_each_node(std::span<const Expr> exprs, const Visit& visit) const;
  std::optional<Expr> far(Expr expr, std::unordered_map<Expr, Expr>& known, unsigned depth);
  Fingerprint make_fingerprint(const Node& node, std::span<const Expr> list) const;
  std::uint32_t count_least(const Node& node, std::span<const Expr> list) const;
  bool find_bounded(const Node& node, std::span<const Expr> list) const;
  bool find_long(const Node& node, std::span<const Expr> list) const;
  bool find_plain(const Node& node, std::span<const Expr> list) const;
  std::uint32_t find_completion(const Node& node, std::span<const Expr> list) const;
  std::uint32_t find_absorbed(const Node& node, std::span<const Expr> list) const;
  void find_out(Node& node, std::span<const Expr> list) const;
  bool is_every_text(Expr expr) const {
    return nodes_[expr].kind == Kind::repeat && nodes_[expr].min == 0 && nodes_[expr].holds_long;
  }
  bool is_same(const Node& known, const Node& node, std::span<const Expr> list) const;
  void grow_index();
  Expr intern(Node node, std::span<const Expr> list = {});

  Expr concat_one(Expr first, Expr second);
  bool flatten(Kind kind, std::span<const Expr> exprs, std::vector<Expr>& parts);
  void absorb(Kind inner, std::vector<Expr>& parts) const;
  Expr list(Kind kind, std::span<const Expr> parts);
  bool join_bytes_by_tail(std::vector<Expr>& parts);
  bool join_by_head(std::vector<Expr>& parts);
  Expr any_of_tails(std::vector<Expr> tails);
  bool join_repeats(std::vector<Expr>& parts);
  static bool replace(std::vector<Expr>& parts, std::vector<Expr>& gone, std::span<const Expr> by);
  template <class Join>
  bool join_groups(std::vector<std::pair<Expr, Expr>>& keyed, std::vector<Expr>& parts,
                   const Join& join);

  Expr derivative(Expr expr, std::uint8_t byte, std::uint32_t holding);
  Expr derivative_of(Expr expr, std::uint8_t byte, std::uint32_t holding);
  Expr derivative_of_concat(Expr expr, std::uint8_t byte, std::uint32_t holding);
  bool is_nullable(Expr expr, std::uint32_t holding);
  bool is_nullable_here(const Node& node, std::uint32_t holding);
  std::uint32_t holding(std::span<const Expr> before);

  Budget budget_;
  std::vector<Node> nodes_;
  std::vector<Expr> lists_;
  std::vector<ByteSet> byte_sets_;
  std::vector<Expr> loop_bodies_;
  std::vector<Expr> index_;                  // nodes_ by hash, open-addressed; kNothing: free
  Table derivatives_;                        // by expression, byte and conditions that hold
  std::map<std::vector<Expr>, Expr> tails_;  // in order, to any_of() of them
  std::unordered_map<Expr, ByteSet> alphabets_;
  std::unordered_map<Expr, ByteSet> last_bytes_;
  std::unordered_map<Expr, std::optional<ByteSet>> signs_;
};

}  // namespace tenon::regex
