#include "tenon/regex/language.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon::regex {
namespace {

using Kind = Node::Kind;

// Translates each piece of a pattern together with what follows it, from the end of the pattern to
// its beginning. So a look ahead is an intersection with what follows, a negative one is an
// intersection with a complement, and "$" leaves only the empty text of what follows. A look behind
// is a guard (see expr.h).
class Translator {
 public:
  Translator(ExprSet& exprs, const Syntax& syntax, const Spelling& spelling)
      : exprs_(exprs),
        syntax_(syntax),
        spelling_(spelling),
        sets_(syntax.sets.size()),
        texts_(syntax.nodes.size()),
        conditions_(syntax.nodes.size()) {}

  // An atomic group asks which way matches and not only whether one does, which a language cannot
  // say. For Extent::part any text may come before and after.
  Expected<Expr> translate(Extent extent) {
    if (syntax_.nodes[syntax_.root].is_ordered) {
      fail("possessive quantifiers and atomic groups are not supported");
    }
    number_conditions();
    Expr result = ExprSet::kNothing;
    if (!failure_ && extent == Extent::whole) {
      result = follow(syntax_.root, {ExprSet::kEpsilon}).any;
    } else if (!failure_) {
      result = exprs_.concat(any_text(), follow(syntax_.root, {ExprSet::kAnything}).any);
    }
    if (!failure_) result = exprs_.located(result, before_);
    if (Status status = exprs_.status(); !status) return Unexpected(status.error());
    if (failure_) return Unexpected(*std::move(failure_));
    return result;
  }

 private:
  // What follows a piece. In a loop every round must consume something: an empty round that only
  // looks adds no text, and would put the loop at its own beginning. So there are two versions.
  struct Rest {
    Expr any = ExprSet::kNothing;    // without that condition
    Expr needy = ExprSet::kNothing;  // if the round has consumed nothing so far
  };

  void fail(std::string what) {
    if (!failure_) failure_ = Error{Errc::unsupported, "pattern: " + std::move(what)};
  }
  bool is_stopped() const { return failure_ || !exprs_.status(); }

  Expr any_text() {
    return exprs_.repeat(spelling_(exprs_, CodePointSet::all()), 0, ExprSet::kUnbounded);
  }

  // The texts of the piece `id`, each followed by `rest`: of "ab" and the rest c* it is abc*.
  // Pieces without a position are made once (text) and put in front.
  Rest follow(NodeId id, Rest rest) {
    const Node& node = syntax_.nodes[id];
    if (is_stopped()) return {};
    if (!node.has_position) return follow_text(text(id), rest);
    switch (node.kind) {
      case Kind::sequence:
        return follow_sequence(node, rest);
      case Kind::choice:
        return follow_choice(node, rest);
      case Kind::repeat:
        return follow_repeat(node, rest);
      case Kind::begin:
        return on_both(rest, [&](Expr expr) { return guarded(id, expr); });
      case Kind::end:
        if (is_behind_) fail("'$' in a look behind is not supported");
        return on_both(rest, [&](Expr expr) { return exprs_.both(ExprSet::kEpsilon, expr); });
      case Kind::look:
        if (!node.is_behind) return follow_look_ahead(node, rest);
        return on_both(rest, [&](Expr expr) { return guarded(id, expr); });
      default:
        return {};
    }
  }

  template <class Change>
  static Rest on_both(const Rest& rest, const Change& change) {
    return {change(rest.any), change(rest.needy)};
  }

  // `text` must not be open.
  Rest follow_text(Expr text, const Rest& rest) {
    Rest result{exprs_.concat(text, rest.any)};
    if (!is_in_loop_) return result;
    result.needy = exprs_.concat(exprs_.non_empty(text), rest.any);
    if (exprs_.is_nullable(text)) result.needy = exprs_.either(result.needy, rest.needy);
    return result;
  }

  Rest follow_sequence(const Node& node, Rest rest) {
    const auto has_position = [&](NodeId part) { return syntax_.nodes[part].has_position; };
    for (std::size_t end = node.parts.size(); end > 0 && !is_stopped();) {
      // In a loop it matters of each part whether it is empty.
      std::size_t begin = end;
      while (begin > (is_in_loop_ ? end - 1 : 0) && !has_position(node.parts[begin - 1])) --begin;
      if (begin == end) {
        rest = follow(node.parts[--end], rest);
      } else {
        rest = follow_text(text_of_all(std::span(node.parts).subspan(begin, end - begin)), rest);
        end = begin;
      }
    }
    return rest;
  }

  Rest follow_choice(const Node& node, const Rest& rest) {
    std::vector<Expr> any;
    std::vector<Expr> needy;
    for (const NodeId part : node.parts) {
      const Rest way = follow(part, rest);
      any.push_back(way.any);
      needy.push_back(way.needy);
    }
    return {exprs_.any_of(any), exprs_.any_of(needy)};
  }

  // Appends `min` rounds, then optional ones.
  Rest follow_repeat(const Node& node, const Rest& rest) {
    const NodeId part = node.parts.front();
    Rest result = node.max == Syntax::kUnbounded ? follow_loop(part, rest)
                                                 : follow_options(part, node.max - node.min, rest);
    for (std::uint32_t i = 0; i < node.min && !is_stopped(); ++i) {
      const Rest longer = follow(part, result);
      // A round that changes nothing (it only looks) changes nothing the next time either.
      if (longer.any == result.any && longer.needy == result.needy) break;
      result = longer;
    }
    return result;
  }

  // A loop is opened first, with its conditions and whether it can be empty, and gets its body when
  // that is made, because the body refers to it: L = round L | rest.
  Rest follow_loop(NodeId part, const Rest& rest) {
    const std::uint32_t conditions = conditions_[part] | exprs_.conditions(rest.any);
    const Expr loop = exprs_.open_loop(conditions, exprs_.is_nullable(rest.any));
    const Expr round = follow_round(part, loop);
    exprs_.close_loop(loop, exprs_.either(round, rest.any));
    return {loop, exprs_.either(round, rest.needy)};
  }

  // x{0,3} from the inside out: (x (x (x)?)?)?, where each round consumes something.
  Rest follow_options(NodeId part, std::uint32_t count, const Rest& rest) {
    Rest result = rest;
    for (std::uint32_t i = 0; i < count && !is_stopped(); ++i) {
      const Expr round = follow_round(part, result.any);
      const Expr longer = exprs_.either(round, rest.any);
      if (longer == result.any) break;
      result = {longer, exprs_.either(round, rest.needy)};
    }
    return result;
  }

  // Appends one round that is not empty.
  Expr follow_round(NodeId part, Expr after) {
    const bool was_in_loop = std::exchange(is_in_loop_, true);
    const Expr result = follow(part, {after, ExprSet::kNothing}).needy;
    is_in_loop_ = was_in_loop;
    return result;
  }

  Rest follow_look_ahead(const Node& node, const Rest& rest) {
    if (is_behind_) fail("a look ahead in a look behind is not supported");
    // What is inside the look consumes nothing of the loop around it.
    const bool was_in_loop = std::exchange(is_in_loop_, false);
    Expr ahead = follow(node.parts.front(), {ExprSet::kAnything}).any;
    is_in_loop_ = was_in_loop;
    if (node.is_negative) ahead = exprs_.complement(ahead);
    return on_both(rest, [&](Expr expr) { return exprs_.both(ahead, expr); });
  }

  // ---- pieces without a position ----------------------------------------------------------------

  Expr text(NodeId id) {
    std::optional<Expr>& known = texts_[id];
    if (!known) known = text_of(syntax_.nodes[id]);
    return *known;
  }

  Expr text_of(const Node& node) {
    switch (node.kind) {
      case Kind::set: {
        std::optional<Expr>& known = sets_[node.set];
        if (!known) known = spelling_(exprs_, syntax_.sets[node.set]);
        return *known;
      }
      case Kind::sequence:
        return text_of_all(node.parts);
      case Kind::choice: {
        std::vector<Expr> choices;
        choices.reserve(node.parts.size());
        for (const NodeId part : node.parts) choices.push_back(text(part));
        return exprs_.any_of(choices);
      }
      case Kind::repeat:
        return exprs_.repeat(text(node.parts.front()), node.min, node.max);
      default:
        return ExprSet::kNothing;
    }
  }

  Expr text_of_all(std::span<const NodeId> parts) {
    std::vector<Expr> texts;
    texts.reserve(parts.size());
    bool is_word = true;  // characters alone, whose states are one by one anyway
    for (const NodeId part : parts) {
      texts.push_back(text(part));
      is_word = is_word && syntax_.nodes[part].kind == Kind::set;
    }
    if (!is_word) return concat_all(exprs_, texts);
    Expr result = ExprSet::kEpsilon;
    for (std::size_t i = texts.size(); i-- > 0;) result = exprs_.concat(texts[i], result);
    return result;
  }

  // ---- what stands before -----------------------------------------------------------------------

  // Parts come before the nodes that hold them, so a look behind may hold others.
  void number_conditions() {
    for (NodeId id = 0; id < syntax_.nodes.size() && !is_stopped(); ++id) {
      const Node& node = syntax_.nodes[id];
      if (node.kind == Kind::begin) {
        set_condition(id, ExprSet::kEpsilon);
      } else if (node.kind == Kind::look && node.is_behind) {
        // What stands before is a language of its own: any text that ends with a text of the part.
        is_behind_ = true;
        const Rest before = follow(node.parts.front(), {ExprSet::kEpsilon});
        is_behind_ = false;
        set_condition(id, exprs_.concat(any_text(), before.any));
      } else {
        for (const NodeId part : node.parts) conditions_[id] |= conditions_[part];
      }
    }
  }

  // Equal texts before share one condition.
  void set_condition(NodeId id, Expr before) {
    const auto found = std::ranges::find(before_, before);
    const auto condition = static_cast<ExprSet::Condition>(found - before_.begin());
    if (condition == ExprSet::kMaxConditions) {
      return fail("more than " + std::to_string(ExprSet::kMaxConditions) +
                  " different looks behind are not supported");
    }
    if (found == before_.end()) before_.push_back(before);
    conditions_[id] = std::uint32_t{1} << condition;
  }

  // Guards a `begin` or a look behind.
  Expr guarded(NodeId id, Expr expr) {
    const auto condition = static_cast<ExprSet::Condition>(std::countr_zero(conditions_[id]));
    return exprs_.guarded(condition, syntax_.nodes[id].is_negative, expr);
  }

  ExprSet& exprs_;
  const Syntax& syntax_;
  const Spelling& spelling_;
  std::vector<std::optional<Expr>> sets_;  // as spelled
  // By node; nothing if its meaning depends on the position.
  std::vector<std::optional<Expr>> texts_;
  std::vector<std::uint32_t> conditions_;  // by node: bit i if it depends on condition i
  std::vector<Expr> before_;               // for each condition, the texts after which it holds
  bool is_in_loop_ = false;                // Rest::needy matters
  bool is_behind_ = false;
  std::optional<Error> failure_;
};

// How often the last `size` parts stand at the end of `parts`, one round behind the other.
std::size_t rounds_at_end(std::span<const Expr> parts, std::size_t size) {
  const auto last = parts.last(size);
  std::size_t rounds = 0;
  while (parts.size() >= size && std::ranges::equal(parts.last(size), last)) {
    parts = parts.first(parts.size() - size);
    ++rounds;
  }
  return rounds;
}

}  // namespace

Expr concat_all(ExprSet& exprs, std::span<const Expr> parts) {
  constexpr std::size_t kLongestRound = 8;  // parts
  constexpr std::size_t kFewestRounds = 4;
  Expr result = ExprSet::kEpsilon;
  while (!parts.empty()) {
    // The shortest round first: "abababab" has four rounds of two parts.
    std::size_t size = 1;
    std::size_t rounds = rounds_at_end(parts, size);
    while (rounds < kFewestRounds && size < std::min(kLongestRound, parts.size())) {
      rounds = rounds_at_end(parts, ++size);
    }
    if (rounds < kFewestRounds) {
      result = exprs.concat(parts.back(), result);
      parts = parts.first(parts.size() - 1);
      continue;
    }
    const Expr round = concat_all(exprs, parts.last(size));
    const auto times = static_cast<std::uint32_t>(rounds);
    result = exprs.concat(exprs.repeat(round, times, times), result);
    parts = parts.first(parts.size() - rounds * size);
  }
  return result;
}

Expected<Expr> language_of(ExprSet& exprs, const Syntax& syntax, Extent extent,
                           const Spelling& spelling) {
  return Translator(exprs, syntax, spelling).translate(extent);
}

}  // namespace tenon::regex
