#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/json/decimal.h"
#include "tenon/json/pointer.h"
#include "tenon/schema/formats.h"
#include "tenon/schema/numbers.h"
#include "tenon/schema/schema.h"
#include "tenon/schema/sentences.h"
#include "tenon/schema/values.h"

// Validates an instance by walking the nodes of the compiled schema beside it. A check returns
// whether the instance passes; with violations_ it also writes down each violation and goes on,
// without it the first failure ends the walk. Branches of anyOf, oneOf, not and if are first asked
// for their verdict alone (would_pass), and only a failure that the user can act on is explained.
//
// The unevaluated* keywords need to know which items and members other rules have looked at.
// Evaluated is a bit for each; it is made only below a node that asks, and merged from a branch
// only if that branch passes.
//
// Nodes that several ways lead to keep their results for each value (told_), because branches that
// meet again below would take time exponential in the depth. Steps, depth and memory count against
// a budget, so that a hostile schema or instance ends with an error.
namespace tenon::schema {
namespace {

// A place in the instance: a list from the inside out, on the stack of the checks.
struct Path {
  const Path* parent = nullptr;
  const std::string* key = nullptr;
  std::size_t index = 0;
};

// A JSON Pointer (RFC 6901), made only for a violation. The root has no step.
std::string pointer_of(const Path* path) {
  std::vector<const Path*> way;
  for (; path->parent != nullptr; path = path->parent) way.push_back(path);
  std::string out;
  for (auto step = way.rbegin(); step != way.rend(); ++step) {
    out.push_back('/');
    if ((*step)->key == nullptr) {
      out.append(std::to_string((*step)->index));
      continue;
    }
    json::append_pointer_key(out, *(*step)->key);
  }
  return out;
}

// The items or members of one instance that some rule has looked at; the unevaluated* keywords
// apply to the others. It is kept only if one of them needs it.
class Evaluated {
 public:
  explicit Evaluated(const json::Value& instance)
      : done_(instance.if_array() != nullptr    ? instance.if_array()->size()
              : instance.if_object() != nullptr ? instance.if_object()->size()
                                                : 0) {}

  void add(std::size_t index) { done_[index] = true; }
  void add(const Evaluated& other) {
    for (std::size_t i = 0; i < done_.size(); ++i) done_[i] = done_[i] || other.done_[i];
  }
  [[nodiscard]] bool contains(std::size_t index) const { return done_[index]; }
  [[nodiscard]] std::size_t size() const { return done_.size(); }

 private:
  std::vector<bool> done_;
};

class Validator {
 public:
  Validator(const Schema& schema, const ValidateOptions& options)
      : schema_(schema), options_(options), budget_("validation", options.limits) {}

  Expected<std::vector<Violation>> list(const json::Value& instance) {
    std::vector<Violation> violations;
    violations_ = &violations;
    const Path root;
    check(schema_.root(), instance, root, nullptr);
    if (const auto error = this->error()) return Unexpected(*error);
    return violations;
  }

  Expected<bool> judge(NodeId node, const json::Value& instance) {
    const Path root;
    const bool valid = check(node, instance, root, nullptr);
    if (const auto error = this->error()) return Unexpected(*error);
    return valid;
  }

 private:
  // Every check returns true if the instance passes. While violations are listed, a check goes on
  // after the first one; otherwise it stops there. Once a limit is reached it returns false, and
  // nothing more is reported.
  //
  // `evaluated`, if it is not null, gets the parts that the node has looked at; it counts only if
  // the node passes.
  bool check(NodeId id, const json::Value& value, const Path& path, Evaluated* evaluated);
  bool check_shared(NodeId id, const json::Value& value, const Path& path, Evaluated* evaluated);
  bool check_node(const Node& node, const json::Value& value, const Path& path, Evaluated* into);
  bool check_asking(const Node& node, const json::Value& value, const Path& path,
                    Evaluated* evaluated);
  bool check_fresh(const Node& node, const json::Value& value, const Path& path,
                   Evaluated* evaluated);
  // Not inlined, because its variables would stay on the stack of all checks below.
  [[gnu::noinline]] bool check_scalar(const Node& node, const json::Value& value, const Path& path);
  bool check_parts(const Node& node, const json::Value& value, const Path& path, Evaluated* into);
  bool check_type(const Node& node, const json::Value& value, const Path& path);
  bool check_values(const Node& node, const json::Value& value, const Path& path);
  bool check_number(const Node& node, const json::Number& number, const Path& path);
  bool check_string(const Node& node, const std::string& text, const Path& path);
  bool check_array(const Node& node, const json::Array& items, const Path& path,
                   Evaluated* evaluated);
  bool check_contains(const Node& node, const json::Array& items, const Path& path,
                      Evaluated* evaluated);
  bool check_object(const Node& node, const json::Object& object, const Path& path,
                    Evaluated* evaluated);
  bool check_names(const Node& node, const json::Object& object, const Path& path);
  bool check_member(const Node& node, const json::Member& member, const Path& path,
                    bool& is_evaluated);
  bool check_name(const Node& node, const json::Member& member, const Path& path);
  bool check_any_of(const Node& node, const json::Value& value, const Path& path,
                    Evaluated* evaluated);
  bool check_one_of(const Node& node, const json::Value& value, const Path& path,
                    Evaluated* evaluated);
  bool check_not(const Node& node, const json::Value& value, const Path& path);
  bool check_conditional(const Node& node, const json::Value& value, const Path& path,
                         Evaluated* evaluated);
  bool check_unevaluated(const Node& node, const json::Value& value, const Path& path,
                         Evaluated& evaluated);

  // The verdict of a node, without reporting. `evaluated` only grows if it passes.
  bool would_pass(NodeId id, const json::Value& value, const Path& path, Evaluated* evaluated);
  // Called if no branch has passed: explains the only branch that is for this type of instance, if
  // there is one.
  void explain_branches(const std::vector<NodeId>& branches, const json::Value& value,
                        const Path& path);
  [[nodiscard]] bool admits(NodeId id, const json::Value& value) const;

  [[nodiscard]] bool is_listing() const { return violations_ != nullptr; }
  [[nodiscard]] bool is_stopped() const { return failure_.has_value() || budget_.is_spent(); }
  // Joins checks: `valid` is false from the first one that fails. Returns true while there is a
  // reason to go on.
  bool go_on(bool& valid, bool passed) const {
    valid = valid && passed;
    return !is_stopped() && (valid || is_listing());
  }
  // Checks that `size` is within `counts`; if not, reports the sentence that `say` makes.
  template <class Say>
  bool check_counts(const Node& node, const Counts& counts, std::uint64_t size, const Path& path,
                    std::string_view least, std::string_view most, const Say& say);
  // Reports a violation and returns false.
  template <class Say>
  bool violates(const Node& node, std::string_view keyword, const Path& path, const Say& say);
  bool matches(const Pattern& pattern, const std::string& text);
  [[nodiscard]] std::optional<Error> error() const {
    if (failure_) return failure_;
    if (budget_.is_spent()) return budget_.error();
    return std::nullopt;
  }

  struct Visit {
    NodeId node;
    const json::Value* value;
    bool operator==(const Visit&) const = default;
  };
  struct HashOfVisit {
    // The low bits of an address are always zero.
    std::size_t operator()(const Visit& visit) const {
      return reinterpret_cast<std::uintptr_t>(visit.value) / alignof(json::Value) *
                 0x9E3779B97F4A7C15U +
             visit.node;
    }
  };
  enum class Verdict : std::uint8_t { passed, failed, listed };
  struct Told {
    Verdict verdict;
    std::optional<Evaluated> evaluated;  // only if it was needed
  };

  const Schema& schema_;
  const ValidateOptions& options_;
  Budget budget_;
  std::optional<Error> failure_;
  std::vector<Violation>* violations_ = nullptr;  // null: only the verdict counts
  // The results of shared nodes for each value. Without it, branches that meet again below would
  // take time exponential in the depth.
  std::unordered_map<Visit, Told, HashOfVisit> told_;
  std::size_t told_bytes_ = 0;
};

template <class Say>
bool Validator::violates(const Node& node, std::string_view keyword, const Path& path,
                         const Say& say) {
  if (is_listing() && violations_->size() < options_.max_violations) {
    std::string schema_path = node.location;
    if (!keyword.empty()) schema_path.append("/").append(keyword);
    violations_->push_back({pointer_of(&path), std::move(schema_path), say()});
  }
  return false;
}

template <class Say>
bool Validator::check_counts(const Node& node, const Counts& counts, std::uint64_t size,
                             const Path& path, std::string_view least, std::string_view most,
                             const Say& say) {
  if (size < counts.least) {
    return violates(node, least, path, [&] { return say(size, "at least ", counts.least); });
  }
  if (size > counts.most) {
    return violates(node, most, path, [&] { return say(size, "at most ", counts.most); });
  }
  return true;
}

// A byte of an automaton costs less than a step of the validator, so 16 of them count as one.
bool Validator::matches(const Pattern& pattern, const std::string& text) {
  if (!budget_.step(1 + text.size() / 16)) return false;
  const auto found = pattern.regex->contains_match(text);
  if (!found && !failure_) failure_ = found.error();
  return found.value_or(false);
}

// Nodes -------------------------------------------------------------------------------------------

bool Validator::check(NodeId id, const json::Value& value, const Path& path, Evaluated* evaluated) {
  const Budget::Level level(budget_);
  if (!level || !budget_.step() || is_stopped()) return false;
  const Node& node = schema_.node(id);
  return node.is_shared ? check_shared(id, value, path, evaluated)
                        : check_fresh(node, value, path, evaluated);
}

// Nodes that several others refer to are remembered with the value, since chains of references
// would otherwise check the same value a number of times that doubles with each link. A failure
// that was found without a list of errors must be found again when they are listed.
bool Validator::check_shared(NodeId id, const json::Value& value, const Path& path,
                             Evaluated* evaluated) {
  if (const auto told = told_.find({id, &value}); told != told_.end()) {
    const Told& before = told->second;
    if (before.verdict == Verdict::passed && evaluated == nullptr) return true;
    if (before.verdict == Verdict::passed && before.evaluated) {
      evaluated->add(*before.evaluated);
      return budget_.step(before.evaluated->size() / 16);
    }
    if (before.verdict == Verdict::listed) return false;
    if (before.verdict == Verdict::failed && !is_listing()) return false;
  }
  std::optional<Evaluated> own;
  if (evaluated != nullptr) own.emplace(value);
  const bool passed = check_fresh(schema_.node(id), value, path, own ? &*own : nullptr);
  if (is_stopped()) return false;
  if (own && passed) evaluated->add(*own);
  const std::size_t size = own ? own->size() : 0;
  if (!budget_.step(size / 16)) return false;

  constexpr std::size_t kMostBytes = std::size_t{8} << 20;
  told_bytes_ += sizeof(Visit) + sizeof(Told) + size / 8;
  if (told_bytes_ > kMostBytes) {
    told_.clear();
    told_bytes_ = 0;
  }
  const Verdict failed = is_listing() ? Verdict::listed : Verdict::failed;
  told_.insert_or_assign({id, &value}, Told{passed ? Verdict::passed : failed, std::move(own)});
  return passed;
}

bool Validator::check_fresh(const Node& node, const json::Value& value, const Path& path,
                            Evaluated* evaluated) {
  const bool asks =
      (value.if_array() != nullptr && node.arrays != nullptr && node.arrays->unevaluated) ||
      (value.if_object() != nullptr && node.objects != nullptr && node.objects->unevaluated);
  return asks ? check_asking(node, value, path, evaluated)
              : check_node(node, value, path, evaluated);
}

// A node with an unevaluated* keyword needs to know what is evaluated, even if its parent does not.
bool Validator::check_asking(const Node& node, const json::Value& value, const Path& path,
                             Evaluated* evaluated) {
  Evaluated own(value);
  if (!budget_.step(own.size() / 16)) return false;
  // What a failed rule looked at is unknown, so the keyword applies only if the node has passed so
  // far.
  if (!check_node(node, value, path, &own)) return false;
  const bool valid = check_unevaluated(node, value, path, own);
  if (evaluated != nullptr) evaluated->add(own);
  return valid;
}

bool Validator::check_node(const Node& node, const json::Value& value, const Path& path,
                           Evaluated* into) {
  bool valid = true;
  if (!go_on(valid, check_scalar(node, value, path))) return valid;
  if (!go_on(valid, check_parts(node, value, path, into))) return valid;
  for (const NodeId id : node.all_of) {
    if (!go_on(valid, check(id, value, path, into))) return valid;
  }
  if (!go_on(valid, check_any_of(node, value, path, into))) return valid;
  if (!go_on(valid, check_one_of(node, value, path, into))) return valid;
  if (!go_on(valid, check_not(node, value, path))) return valid;
  go_on(valid, check_conditional(node, value, path, into));
  return valid;
}

// The checks that need no other node.
bool Validator::check_scalar(const Node& node, const json::Value& value, const Path& path) {
  bool valid = true;
  if (!go_on(valid, check_type(node, value, path))) return valid;
  if (!go_on(valid, check_values(node, value, path))) return valid;
  if (const json::Number* number = value.if_number()) {
    go_on(valid, check_number(node, *number, path));
  } else if (const std::string* text = value.if_string()) {
    go_on(valid, check_string(node, *text, path));
  }
  return valid;
}

bool Validator::check_parts(const Node& node, const json::Value& value, const Path& path,
                            Evaluated* into) {
  if (const json::Array* items = value.if_array()) return check_array(node, *items, path, into);
  const json::Object* const object = value.if_object();
  if (object == nullptr) return true;
  bool valid = true;
  if (!go_on(valid, check_object(node, *object, path, into))) return valid;
  for (const DependentNode& dependent : node.dependents) {
    if (!object->contains(dependent.name)) continue;
    if (!go_on(valid, check(dependent.node, value, path, into))) return valid;
  }
  return valid;
}

bool Validator::would_pass(NodeId id, const json::Value& value, const Path& path,
                           Evaluated* evaluated) {
  // Without a list, checks stop at the first failure.
  std::vector<Violation>* const listed = std::exchange(violations_, nullptr);
  bool passed = false;
  if (evaluated == nullptr) {
    passed = check(id, value, path, nullptr);
  } else {
    Evaluated branch(value);
    passed = check(id, value, path, &branch);
    if (passed) evaluated->add(branch);
    if (!budget_.step(branch.size() / 16)) passed = false;
  }
  violations_ = listed;
  return passed;
}

bool Validator::check_type(const Node& node, const json::Value& value, const Path& path) {
  if (node.types == Types::all()) return true;
  const auto says_fraction = [&] {
    return node.integers_are_spelled() && value.if_number() != nullptr &&
           value.if_number()->text.find_first_of(".eE") != std::string::npos;
  };
  if (node.types.contains(type_of(value)) && !says_fraction()) return true;
  if (node.types.empty()) {
    return violates(node, "", path, [] { return sentences::nothing_fits(); });
  }
  return violates(node, "type", path, [&] { return sentences::wrong_type(value, node.types); });
}

bool Validator::check_values(const Node& node, const json::Value& value, const Path& path) {
  if (node.values == nullptr) return true;
  if (!budget_.step(size_of(value))) return false;
  if (node.values->contains(value)) return true;
  return violates(node, node.values->keyword(), path,
                  [&] { return sentences::none_of(value, *node.values); });
}

// Numbers are compared as decimals, by their text: a double holds neither 0.1 nor
// 9007199254740993 exactly.
bool Validator::check_number(const Node& node, const json::Number& number, const Path& path) {
  if (node.numbers == nullptr) return true;
  const NumberRules& rules = *node.numbers;
  const json::Decimal decimal = json::decimal_of(number.text);
  if (!budget_.step(1 + number.text.size() / 16)) return false;
  const auto is_beyond = [&](const std::optional<Bound>& bound, int side) {
    if (!bound) return false;
    const auto order = json::compare(decimal, json::decimal_of(bound->value.text));
    return order == 0 ? bound->exclusive : (order > 0) == (side > 0);
  };
  bool valid = true;
  if (is_beyond(rules.minimum, -1)) {
    const bool exclusive = rules.minimum->exclusive;
    valid = violates(node, exclusive ? "exclusiveMinimum" : "minimum", path, [&] {
      return sentences::beyond(number, exclusive ? "more than " : "at least ",
                               rules.minimum->value);
    });
  }
  if (is_beyond(rules.maximum, 1)) {
    const bool exclusive = rules.maximum->exclusive;
    valid = violates(node, exclusive ? "exclusiveMaximum" : "maximum", path, [&] {
      return sentences::beyond(number, exclusive ? "less than " : "at most ", rules.maximum->value);
    });
  }
  if (rules.multiple_of &&
      !is_multiple_of(decimal, json::decimal_of(rules.multiple_of->text), budget_)) {
    valid = violates(node, "multipleOf", path,
                     [&] { return sentences::not_multiple(number, *rules.multiple_of); });
  }
  return valid;
}

bool Validator::check_string(const Node& node, const std::string& text, const Path& path) {
  if (node.strings == nullptr) return true;
  const StringRules& rules = *node.strings;
  bool valid = true;
  if (rules.length != Counts()) {
    if (!budget_.step(1 + text.size() / 16)) return false;
    valid =
        check_counts(node, rules.length, utf8::length(text), path, "minLength", "maxLength",
                     [](auto... parts) { return sentences::wrong_count("character", parts...); });
  }
  if (rules.pattern && !matches(*rules.pattern, text) && !is_stopped()) {
    valid = violates(node, "pattern", path,
                     [&] { return sentences::no_match(text, rules.pattern->text); });
  }
  if (rules.asserted_format == nullptr || is_stopped()) return valid && !is_stopped();
  if (!budget_.step(1 + text.size() / 16)) return false;
  const auto fits = has_format(*rules.asserted_format, text);
  if (!fits) {
    failure_ = fits.error();
    return false;
  }
  if (!*fits) {
    valid =
        violates(node, "format", path, [&] { return sentences::not_format(text, rules.format); });
  }
  return valid;
}

// Arrays ------------------------------------------------------------------------------------------

bool Validator::check_array(const Node& node, const json::Array& items, const Path& path,
                            Evaluated* evaluated) {
  if (node.arrays == nullptr) return true;
  const ArrayRules& rules = *node.arrays;
  bool valid = check_counts(node, rules.length, items.size(), path, "minItems", "maxItems",
                            [](auto... parts) { return sentences::wrong_count("item", parts...); });
  if (!valid && !is_listing()) return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i >= rules.prefix.size() && !rules.items) break;
    const NodeId id = i < rules.prefix.size() ? rules.prefix[i] : *rules.items;
    const Path below{&path, nullptr, i};
    if (!go_on(valid, check(id, items[i], below, nullptr))) return valid;
    if (evaluated != nullptr) evaluated->add(i);
  }
  if (rules.contains && !go_on(valid, check_contains(node, items, path, evaluated))) return valid;
  if (!rules.unique) return valid;
  std::uint64_t size = 0;
  for (const json::Value& item : items) size += size_of(item);
  if (!budget_.step(size)) return false;
  if (const auto pair = equal_items(items)) {
    valid = violates(node, "uniqueItems", path, [&] { return sentences::equal(*pair); });
  }
  return valid;
}

bool Validator::check_contains(const Node& node, const json::Array& items, const Path& path,
                               Evaluated* evaluated) {
  const ArrayRules& rules = *node.arrays;
  std::uint64_t fitting = 0;
  const bool must_see_all = evaluated != nullptr && rules.contains_evaluates;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool is_enough =
        fitting >= rules.contained.least && rules.contained.most == Counts::kUnbounded;
    if (is_stopped() || (is_enough && !must_see_all)) break;
    const Path below{&path, nullptr, i};
    if (!would_pass(*rules.contains, items[i], below, nullptr)) continue;
    ++fitting;
    if (must_see_all) evaluated->add(i);
  }
  if (is_stopped()) return false;
  // `contains` without `minContains` requires one item.
  const std::string_view least = rules.contained.least == 1 ? "contains" : "minContains";
  return check_counts(
      node, rules.contained, fitting, path, least, "maxContains",
      [](auto... parts) { return sentences::wrong_count("item for 'contains'", parts...); });
}

// Objects -----------------------------------------------------------------------------------------

bool Validator::check_object(const Node& node, const json::Object& object, const Path& path,
                             Evaluated* evaluated) {
  if (node.objects == nullptr) return true;
  const ObjectRules& rules = *node.objects;
  bool valid = true;
  if (!go_on(valid, check_names(node, object, path))) return valid;
  if (rules.properties.empty() && rules.pattern_properties.empty() && !rules.additional &&
      !rules.names) {
    return valid;
  }
  std::size_t index = 0;
  for (const json::Member& member : object) {
    bool is_evaluated = false;
    if (!go_on(valid, check_member(node, member, path, is_evaluated))) return valid;
    if (rules.names && !go_on(valid, check_name(node, member, path))) return valid;
    if (evaluated != nullptr && is_evaluated) evaluated->add(index);
    ++index;
  }
  return valid;
}

// Checks how many members there are, and which ones must be there.
bool Validator::check_names(const Node& node, const json::Object& object, const Path& path) {
  const ObjectRules& rules = *node.objects;
  bool valid =
      check_counts(node, rules.count, object.size(), path, "minProperties", "maxProperties",
                   [](auto... parts) { return sentences::wrong_count("member", parts...); });
  const auto require = [&](const std::string& name, std::string_view keyword,
                           const std::string* because) {
    if (!budget_.step()) return false;
    if (object.contains(name)) return true;
    return violates(node, keyword, path, [&] { return sentences::missing(name, because); });
  };
  for (const std::string& name : rules.required) {
    if (!go_on(valid, require(name, "required", nullptr))) return valid;
  }
  for (const DependentNames& rule : rules.dependent_names) {
    if (!object.contains(rule.name)) continue;
    for (const std::string& name : rule.required) {
      if (!go_on(valid, require(name, rule.keyword, &rule.name))) return valid;
    }
  }
  return valid;
}

bool Validator::check_member(const Node& node, const json::Member& member, const Path& path,
                             bool& is_evaluated) {
  const ObjectRules& rules = *node.objects;
  const Path below{&path, &member.key};
  bool valid = true;
  if (!budget_.step()) return false;
  if (const Property* property = rules.find(member.key)) {
    is_evaluated = true;
    if (!go_on(valid, check(property->node, member.value, below, nullptr))) return valid;
  }
  for (const PatternProperty& property : rules.pattern_properties) {
    if (!matches(property.pattern, member.key)) continue;
    is_evaluated = true;
    if (!go_on(valid, check(property.node, member.value, below, nullptr))) return valid;
  }
  if (is_evaluated || !rules.additional || is_stopped()) return valid && !is_stopped();
  is_evaluated = true;
  return check(*rules.additional, member.value, below, nullptr);
}

bool Validator::check_name(const Node& node, const json::Member& member, const Path& path) {
  const std::size_t before = is_listing() ? violations_->size() : 0;
  const json::Value name(member.key);
  // Told_ knows values by their address, and `name` exists only during this call.
  decltype(told_) kept;
  kept.swap(told_);
  const bool valid = check(*node.objects->names, name, path, nullptr);
  kept.swap(told_);
  for (std::size_t i = before; is_listing() && i < violations_->size(); ++i) {
    (*violations_)[i].message = sentences::of_name(member.key, (*violations_)[i].message);
  }
  return valid;
}

// Choices -----------------------------------------------------------------------------------------

bool Validator::check_any_of(const Node& node, const json::Value& value, const Path& path,
                             Evaluated* evaluated) {
  if (node.any_of.empty()) return true;
  bool passed = false;
  for (const NodeId id : node.any_of) {
    if (would_pass(id, value, path, evaluated)) passed = true;
    if (is_stopped()) return false;
    // Otherwise the other branches count too: each that passes evaluates something.
    if (passed && evaluated == nullptr) return true;
  }
  if (passed) return true;
  violates(node, "anyOf", path, [&] { return sentences::no_branch(node.any_of.size(), "anyOf"); });
  explain_branches(node.any_of, value, path);
  return false;
}

bool Validator::check_one_of(const Node& node, const json::Value& value, const Path& path,
                             Evaluated* evaluated) {
  if (node.one_of.empty()) return true;
  std::vector<std::size_t> passed;
  // A second branch that passes decides, so the others need no look.
  for (std::size_t i = 0; i < node.one_of.size() && passed.size() < 2; ++i) {
    if (would_pass(node.one_of[i], value, path, evaluated)) passed.push_back(i);
    if (is_stopped()) return false;
  }
  if (passed.size() == 1) return true;
  if (passed.size() == 2) {
    return violates(node, "oneOf", path,
                    [&] { return sentences::two_branches(passed[0], passed[1]); });
  }
  violates(node, "oneOf", path, [&] { return sentences::no_branch(node.one_of.size(), "oneOf"); });
  explain_branches(node.one_of, value, path);
  return false;
}

// Optional[X] is written as X or null; then people want to read what is wrong with X.
void Validator::explain_branches(const std::vector<NodeId>& branches, const json::Value& value,
                                 const Path& path) {
  if (!is_listing()) return;
  std::optional<NodeId> only;
  for (const NodeId id : branches) {
    if (!admits(id, value)) continue;
    if (only) return;
    only = id;
  }
  if (only) check(*only, value, path, nullptr);
}

bool Validator::admits(NodeId id, const json::Value& value) const {
  const Node* node = &schema_.node(id);
  const Type type = type_of(value);
  while (node->types.contains(type) && node->all_of.size() == 1) {
    // It ends, because no node refers to itself for the same instance.
    node = &schema_.node(node->all_of[0]);
  }
  return node->types.contains(type);
}

bool Validator::check_not(const Node& node, const json::Value& value, const Path& path) {
  if (!node.negated || !would_pass(*node.negated, value, path, nullptr)) return !is_stopped();
  return violates(node, "not", path, [] { return sentences::fits_forbidden(); });
}

bool Validator::check_conditional(const Node& node, const json::Value& value, const Path& path,
                                  Evaluated* evaluated) {
  if (!node.conditional) return true;
  const Conditional& rule = *node.conditional;
  const bool holds = would_pass(rule.condition, value, path, evaluated);
  if (is_stopped()) return false;
  const std::optional<NodeId>& next = holds ? rule.then_node : rule.else_node;
  return !next || check(*next, value, path, evaluated);
}

bool Validator::check_unevaluated(const Node& node, const json::Value& value, const Path& path,
                                  Evaluated& evaluated) {
  const json::Array* const items = value.if_array();
  const json::Object* const object = value.if_object();
  const NodeId id = items != nullptr ? *node.arrays->unevaluated : *node.objects->unevaluated;
  bool valid = true;
  for (std::size_t i = 0; i < evaluated.size(); ++i) {
    if (evaluated.contains(i)) continue;
    const json::Value& part = items != nullptr ? (*items)[i] : object->members()[i].value;
    const Path below{&path, items != nullptr ? nullptr : &object->members()[i].key, i};
    if (!go_on(valid, check(id, part, below, nullptr))) return valid;
    evaluated.add(i);
  }
  return valid;
}

}  // namespace

Expected<std::vector<Violation>> Schema::validate(const json::Value& instance,
                                                  const ValidateOptions& options) const {
  return Validator(*this, options).list(instance);
}

Expected<bool> Schema::is_valid(NodeId node, const json::Value& instance,
                                const ValidateOptions& options) const {
  return Validator(*this, options).judge(node, instance);
}

}  // namespace tenon::schema
