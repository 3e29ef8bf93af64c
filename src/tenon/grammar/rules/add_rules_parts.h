#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/spelling.h"
#include "tenon/vocab/vocab.h"

/// What the two sources of add_rules() share: add_rules.cc, whose opening describes the passes, and
/// add_rules_stops.cc, which is the second pass.
namespace tenon::grammar::adding {

using regex::CodePointSet;
using regex::Expr;
using regex::ExprSet;
using vocab::TokenId;

using ItemId = std::uint32_t;

constexpr Limits kExprLimits{.max_steps = 5'000'000, .max_bytes = std::uint64_t{24} << 20};

/// What nodes become: frames that are being made.
struct Item {
  enum class Kind : std::uint8_t { lexeme, leaf, sequence, choice, repeat, rule };
  Kind kind = Kind::choice;
  bool can_be_empty = false;
  bool can_be_read = false;
  bool is_covered = false;  // for a lexeme: see node::Lexeme
  std::uint32_t what = 0;   // lexeme: its expression; leaf: its node; rule: its number
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  std::vector<ItemId> parts;
};

/// The passes, and the data that they share.
class Adder {
 public:
  Adder(Machine& machine, const Rules& rules, const vocab::Vocab& vocab,
        std::vector<Relaxed>* relaxed)
      : machine_(machine),
        rules_(rules),
        vocab_(vocab),
        relaxed_(relaxed),
        exprs_(machine.new_exprs(kExprLimits)) {}

  Expected<FrameId> add();

 private:
  // For a regular node.
  struct Language {
    Expr expr = ExprSet::kNothing;
    std::uint32_t height = 0;
    std::uint64_t size = 0;
    std::uint64_t states = 0;    // of its automaton, estimated
    bool is_read_apart = false;  // its parts are read one by one, unless it is part of a lexeme
  };
  // P_k and B_k of the opening: a text of rule `begin` of the cycle, followed by `rest`.
  struct Pair {
    std::uint32_t begin;
    ItemId rest;
  };
  struct Corners {
    std::vector<Pair> pairs;
    std::vector<ItemId> others;
  };

  template <class F>
  void for_each_part(const Node& node, F f) const;
  template <class F>
  void for_each_part(const Item& item, F f) const;

  void find_reachable();
  void find_languages();
  [[nodiscard]] std::optional<Language> language_of(const Node& node);
  [[nodiscard]] Expr expr_of(const Node& node);
  void count_states(const Node& node, Language& language) const;
  [[nodiscard]] Expr expr_of_pattern(const node::Pattern& pattern);
  [[nodiscard]] Expr new_expr_of_pattern(const node::Pattern& pattern);
  [[nodiscard]] Expr characters() {
    return exprs_->repeat(regex::utf8_spelling(*exprs_, CodePointSet::all()), 0,
                          ExprSet::kUnbounded);
  }
  [[nodiscard]] Expr text_of_tokens(const node::Tokens& tokens) {
    return exprs_->non_empty(languages_[tokens.part]->expr);
  }
  [[nodiscard]] Status check_terminals() const;

  ItemId add_item(Item item);
  ItemId sequence(std::vector<ItemId> parts);
  ItemId choice(std::vector<ItemId> parts);
  ItemId rule_item(RuleId rule);
  RuleId add_rule();
  void make_items();
  void join_repetitions(NodeId id);
  [[nodiscard]] std::optional<Expr> expr_of_lexeme(NodeId id) const;
  [[nodiscard]] Expr expr_repeated_by(NodeId id) const;
  Item item_of(NodeId id);
  Item json_item(NodeId id, const node::Json& json);
  [[nodiscard]] bool is_text_of_rules(const node::Both& both) const;
  void leave_out_stops();
  void find_what_can_be_empty();
  void make_non_empty();
  ItemId non_empty(ItemId id);
  ItemId non_empty_sequence(const std::vector<ItemId>& parts);
  [[nodiscard]] bool has_text(Expr expr);
  void find_what_can_be_read();
  void find_read();
  /// True if its automaton is never walked.
  [[nodiscard]] bool is_part_of_lexeme(ItemId id) const {
    return id >= kFirstNode && id - kFirstNode < is_read_.size() && !is_read_[id - kFirstNode];
  }

  [[nodiscard]] std::vector<std::vector<RuleId>> first_rules();
  void remove_left_recursion();
  void rewrite(const std::vector<RuleId>& cycle);
  ItemId without_steps(ItemId text, ItemId begin, std::unordered_map<ItemId, ItemId>& done,
                       int depth);
  Corners corners_of(ItemId body);
  ItemId rest_of(std::span<const ItemId> parts, ItemId rest);
  [[nodiscard]] bool is_too_large();

  FrameId frame_of(ItemId id);
  FrameId frame_of_leaf(NodeId id);
  FrameId frame_of_tokens(const node::Token& token);
  void set_frame(ItemId id);
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }

  static constexpr ItemId kNothing = 0;  // cannot be read
  static constexpr ItemId kEmpty = 1;
  static constexpr ItemId kFirstNode = 2;

  class Stopping;

  Machine& machine_;
  const Rules& rules_;
  const vocab::Vocab& vocab_;
  std::vector<Relaxed>* relaxed_;  // null: the caller does not want them
  std::shared_ptr<ExprSet> exprs_;
  // By source, dialect and Pattern::in_json. The sources are those of rules_.
  std::map<std::tuple<std::string_view, regex::Dialect, bool>, Expr> exprs_of_patterns_;
  std::vector<bool> is_reachable_;                   // by node
  std::vector<bool> is_read_;                        // by node
  std::vector<std::optional<Language>> languages_;   // by node
  std::vector<Item> items_;                          // by node from kFirstNode on, then new ones
  std::vector<ItemId> bodies_;                       // by rule, then new ones
  std::vector<std::pair<RuleId, NodeId>> texts_;     // of texts without stops, to be made
  std::vector<ItemId> non_empty_;                    // by item, for the items of nodes
  std::vector<std::optional<RuleId>> non_empty_of_;  // by rule: the rule for its other readings
  std::vector<RuleId> base_;             // by rule: itself, or the rule whose other readings it has
  std::vector<std::uint32_t> in_cycle_;  // by rule: its number in the cycle that is being rewritten
  std::vector<std::optional<FrameId>> frames_;  // by item
  std::vector<ItemId> frames_to_set_;
  std::map<std::pair<Expr, bool>, FrameId> frame_of_lexeme_;  // bool: is_covered
  std::unordered_map<NodeId, FrameId> json_frames_;
  std::optional<Error> unsatisfiable_;  // of the first schema that no value fits
  std::unordered_map<std::string_view, std::vector<TokenId>> tokens_;  // by name, made when needed
  std::optional<Error> error_;
};

}  // namespace tenon::grammar::adding
