#include "tenon/grammar/json/shape.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "tenon/grammar/json/shape_parts.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/spelling.h"

namespace tenon::grammar {

using regex::Expr;
using regex::ExprSet;
using schema::Counts;
using schema::NodeId;
using schema::Type;
// Shapes of terms: what a boolean expression over a schema means for each type of value
// (docs/masks.md, "Types are taken apart first"). A term's shapes of one type are a list of
// alternatives, each a conjunction. They are computed from the term's parts: a union joins the
// lists, an intersection is the product of the lists with merged shapes, and a negation is computed
// by De Morgan's laws, where a negated node has one alternative for each rule that may be broken.
// shape_strings.cc, shape_numbers.cc, shape_arrays.cc and shape_objects.cc make and merge the
// shapes of one type; this file has what is the same for all.
//
// Products can explode, so their size is limited. Where a limit is reached the alternatives are
// replaced by one that allows more and has needs_check set: the finished value is then compared
// with its term (fits).
//
// Whether a term has any value is the least fixpoint: a term that is being asked for counts as
// unsatisfiable, and answers that depend on that are kept only when nothing above them is open
// (settled). All questions count steps against one limit, after which every answer is quick and
// meaningless and error() is set.

namespace {

void exclude(const json::Value& value, NumberShape& from) {
  if (value.if_number() != nullptr) from.set.excluded.push_back(value.if_number()->text);
}
void exclude(const json::Value& value, ArrayShape& from) {
  if (value.if_array() != nullptr) from.excluded.push_back(&value);
}
void exclude(const json::Value& value, ObjectShape& from) {
  if (value.if_object() != nullptr) from.excluded.push_back(&value);
}
std::vector<std::string>& excluded_of(NumberShape& shape) {
  return shape.set.excluded;
}
template <class Shape>
std::vector<const json::Value*>& excluded_of(Shape& shape) {
  return shape.excluded;
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
      object_memo_(std::make_unique<Memo<ObjectShape>>()) {
  exprs_->set_text(any_text_);
}

Shapes::~Shapes() = default;

void Shapes::fail(Error error) {
  if (error_) return;
  error_ = std::move(error);
  if (on_error_) on_error_(*error_);
}

bool Shapes::spend(std::uint64_t steps) {
  constexpr std::uint64_t kTellAfter = 1000;
  steps_ += steps + terms_.take_steps();
  const bool is_enough = on_steps_ ? steps_ > kTellAfter && !on_steps_(std::exchange(steps_, 0))
                                   : steps_ > limits_.max_steps;
  if (is_enough) {
    fail({Errc::limit_exceeded, "schema: too many steps to find out which values fit"});
  }
  return !error_;
}

// The limit of the expressions was reached.
void Shapes::fail_by_limit() {
  if (const Status status = exprs_->status(); !status) fail(status.error());
}

Term Shapes::definition(Term node) {
  const Term meant = terms_.definition(terms_.node_of(node));
  if (terms_.error()) fail(*terms_.error());
  return meant;
}

// ---- null, false, true --------------------------------------------------------------------------

Constants Shapes::constants(Term term) {
  const auto known = constants_.find(term);
  if (known != constants_.end()) return known->second;
  const Level level(*this);
  if (!level) return {};
  Constants result;
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      break;
    case Terms::Kind::anything:
      result.set();
      break;
    case Terms::Kind::node:
      result = constants(definition(term));
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
      const Level level(*this);
      if (!level) return std::nullopt;
      Alternatives<Shape> meant = alternatives<Shape>(definition(term), negated);
      if (!meant) meant = checked<Shape>(terms_.node_of(term), negated);
      if (!negated) add_unevaluated(terms_.node_of(term), *meant);
      return meant;
    }
    case Terms::Kind::rules:
      return rules_of(terms_.node_of(term), negated, type);
    case Terms::Kind::value:
      return value_of(terms_.value_of(term), negated, type);
    case Terms::Kind::negation: {
      Alternatives<Shape> result = alternatives<Shape>(terms_.parts_of(term)[0], !negated);
      if (result && !negated) {
        for (Shape& shape : *result) forget_evaluated(shape);
      }
      return result;
    }
    case Terms::Kind::all_of:
    case Terms::Kind::any_of:
      break;
  }
  const Level level(*this);
  if (!level) return std::nullopt;
  const auto span = terms_.parts_of(term);
  std::vector<std::pair<Term, bool>> parts;
  for (const Term part : span) parts.emplace_back(part, negated);
  if ((terms_.kind(term) == Terms::Kind::all_of) != negated) return conjunction<Shape>(parts);
  std::vector<Shape> result;
  for (const auto& [part, sign] : parts) {
    const Alternatives<Shape>& found = alternatives<Shape>(part, sign);
    if (!found || !spend(1 + found->size())) return std::nullopt;
    result.insert(result.end(), found->begin(), found->end());
    if (result.size() > limits_.max_union) unite(result);
    if (result.size() > limits_.max_union) return std::nullopt;
  }
  unite(result);
  return result;
}

// The replacement for a node with too many alternatives: its own rules, and a check.
template <class Shape>
Shapes::Alternatives<Shape> Shapes::checked(NodeId id, bool negated) {
  Shape check;
  check.needs_check = true;
  if constexpr (!std::is_same_v<Shape, NumberShape>) check.evaluates_more = true;
  if (negated) return std::vector<Shape>{check};
  const Alternatives<Shape>& own = alternatives<Shape>(terms_.rules(id), false);
  std::vector<Shape> result;
  for (const Shape& shape : *own) {
    if (auto met = meet(shape, check)) result.push_back(std::move(*met));
  }
  return result;
}

// The product of alternatives with a negated part. If the negated shape has nothing in common with
// an alternative, that alternative stays as it is. So `oneOf` with disjoint branches stays as small
// as `anyOf`.
template <class Shape>
Shapes::Alternatives<Shape> Shapes::conjunction(const std::vector<std::pair<Term, bool>>& parts) {
  std::vector<std::pair<Term, bool>> order = parts;
  const auto is_negative = [&](const std::pair<Term, bool>& part) {
    return (terms_.kind(part.first) == Terms::Kind::negation) != part.second;
  };
  std::stable_partition(order.begin(), order.end(), [&](const auto& p) { return !is_negative(p); });
  std::vector<Shape> result(1);
  std::size_t tests = 0;
  Shape but = without_values(order, static_cast<Shape*>(nullptr));
  for (const auto& part : order) {
    if (!spend(1 + result.size())) return std::nullopt;
    std::vector<Shape> next;
    const Alternatives<Shape>* opposite = nullptr;
    if (is_negative(part)) {
      opposite = &alternatives<Shape>(part.first, !part.second);
    }
    const Alternatives<Shape>* found = nullptr;
    for (const Shape& shape : result) {
      if (opposite != nullptr && *opposite) {
        if (tests > limits_.max_tests || tests_ > limits_.max_all_tests || error_) {
          return std::nullopt;
        }
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
      // A union with a single shape does not grow; products do.
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
  if (excluded_of(but).empty()) return result;
  std::vector<Shape> rest;
  for (const Shape& shape : result) {
    if (auto met = meet(shape, but)) rest.push_back(std::move(*met));
  }
  return rest;
}

// Removes all excluded values from `parts` at once, because items that must differ from earlier
// ones have many.
template <class Shape>
Shape Shapes::without_values(std::vector<std::pair<Term, bool>>& parts, Shape*) {
  Shape but;
  if constexpr (!std::is_same_v<Shape, NumberShape>) {
    if (!limits_.excludes_values) return but;
  }
  const auto is_no_value = [&](const std::pair<Term, bool>& part) {
    const bool is_negation = terms_.kind(part.first) == Terms::Kind::negation;
    const Term term = is_negation ? terms_.parts_of(part.first)[0] : part.first;
    if (terms_.kind(term) != Terms::Kind::value || is_negation == part.second) return false;
    exclude(terms_.value_of(term), but);
    return true;
  };
  std::erase_if(parts, is_no_value);
  std::ranges::sort(excluded_of(but));
  return but;
}

// An answer that depends on an open term being unsatisfiable is not kept.
template <class Shape>
bool Shapes::is_surely_impossible(const Shape& shape) {
  const std::size_t before = std::exchange(lowest_assumed_, kNothingAssumed);
  const bool possible = is_possible(shape);
  const bool assumed = lowest_assumed_ != kNothingAssumed;
  lowest_assumed_ = std::min(lowest_assumed_, before);
  return !possible && !assumed;
}

// For shape_objects.cc.
template const Shapes::Alternatives<ObjectShape>& Shapes::alternatives<ObjectShape>(Term term,
                                                                                    bool negated);

// ---- Whole values -------------------------------------------------------------------------------

// The cost of a validation is not known before, so it is given more and more steps.
bool Shapes::is_valid(NodeId id, const json::Value& value) {
  constexpr std::uint64_t kGrowth = 16;
  constexpr std::uint64_t kUsual = 20;
  schema::ValidateOptions options;
  const std::uint64_t most = options.limits.max_steps;
  for (options.limits.max_steps = kUsual * kGrowth; spend(options.limits.max_steps / kGrowth);
       options.limits.max_steps *= kGrowth) {
    options.limits.max_steps = std::min(options.limits.max_steps, most);
    const Expected<bool> valid = terms_.schema().is_valid(id, value, options);
    if (valid) return *valid;
    if (valid.error().code != Errc::limit_exceeded || options.limits.max_steps == most) {
      fail(valid.error());
    }
  }
  return false;
}

bool Shapes::fits(Term term, const json::Value& value) {
  switch (terms_.kind(term)) {
    case Terms::Kind::nothing:
      return false;
    case Terms::Kind::anything:
      return true;
    case Terms::Kind::node:
      return is_valid(terms_.node_of(term), value);
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
      break;  // within definitions only
  }
  return false;
}

// Not through settled(), because of compute_satisfiable().
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

// ---- Lists of values ----------------------------------------------------------------------------

// The alternatives of a node with an enum, whose values are validated against the whole node. Many
// values become one alternative with a check.
template <class Shape>
std::vector<Shape> Shapes::values_of(NodeId id) {
  Shape* const type = nullptr;
  const schema::Node& node = terms_.schema().node(id);
  std::vector<const json::Value*> fitting;
  for (const json::Value& value : node.values->values()) {
    if (value_of(value, false, type).empty()) continue;
    if (is_valid(id, value)) fitting.push_back(&value);
  }
  if (fitting.size() > limits_.max_alternatives) return {superset_of(fitting, type)};
  std::vector<Shape> result;
  result.reserve(fitting.size());
  for (const json::Value* value : fitting) {
    result.push_back(std::move(value_of(*value, false, type).front()));
  }
  return result;
}

// The values that are not in the enum, or break other rules of the node.
template <class Shape>
std::vector<Shape> Shapes::no_values_of(NodeId id, bool has_rules) {
  constexpr std::size_t kMaxProduct = 3;
  Shape* const type = nullptr;
  std::vector<Shape> result(1);
  std::size_t count = 0;
  for (const json::Value& value : terms_.schema().node(id).values->values()) {
    if (value_of(value, false, type).empty()) continue;
    if (limits_.excludes_values) {
      if (is_valid(id, value)) result[0].excluded.push_back(&value);
      continue;
    }
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
  if (limits_.excludes_values) std::ranges::sort(result[0].excluded);
  return result;
}

// For shape_arrays.cc and shape_objects.cc.
template std::vector<ArrayShape> Shapes::values_of(NodeId id);
template std::vector<ObjectShape> Shapes::values_of(NodeId id);
template std::vector<ArrayShape> Shapes::no_values_of(NodeId, bool);
template std::vector<ObjectShape> Shapes::no_values_of(NodeId, bool);

// ---- Satisfiability -----------------------------------------------------------------------------

bool Shapes::is_satisfiable(Term term) {
  if (term == Terms::kAnything) return true;
  if (term == Terms::kNothing) return false;
  const Level level(*this);
  if (!level || !spend(1)) return true;
  if (const auto known = satisfiable_.find(term); known != satisfiable_.end()) return known->second;
  if (const auto above = in_question_.find(term); above != in_question_.end()) {
    lowest_assumed_ = std::min(lowest_assumed_, above->second);
    return false;
  }
  const std::size_t depth = in_question_.size();
  in_question_.emplace(term, depth);
  const std::size_t assumed_before = std::exchange(lowest_assumed_, kNothingAssumed);
  const bool guessed_before = std::exchange(has_guessed_, false);
  const bool result = compute_satisfiable(term);
  const bool is_guess = result && has_guessed_;
  has_guessed_ = is_guess || guessed_before;
  in_question_.erase(term);
  if (is_guess) {
    lowest_assumed_ = assumed_before;
  } else if (result || lowest_assumed_ >= depth) {
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
  // Not through settled(), because results under an assumption must not be kept.
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

// A node that every value of `node`, or a part of it, must fit and that no value fits.
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

// ---- What cannot be written
// ----------------------------------------------------------------------

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
      for (const auto& [keyword, error] : too_long(*node.numbers)) {
        relaxed.push_back({node.location, keyword, error.message});
      }
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

}  // namespace tenon::grammar
