#include "tenon/grammar/json/term.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/json/decimal.h"

// What a schema's keywords mean, as boolean expressions. definition() turns a node into all_of() of
// its own rules and of its allOf, anyOf, oneOf, not and if parts; equal expressions get one index
// (intern), so a recursive schema has few of them.
//
// oneOf is the dear one: exactly one of n branches needs the negation of all others in each. So
// branches are first compared by simple facts (collect): their types, their lists of values, the
// values of a required member. Branches that are disjoint by these need no negation.
//
// Where unevaluatedProperties or unevaluatedItems asks what a node evaluates, branches that hold
// together must be told apart: any_of_evaluating() makes an alternative of each set of them.

namespace tenon::grammar {

using schema::NodeId;
using schema::Type;
using schema::Types;

namespace {

// The sets of branches of an anyOf that are distinguished if it matters what they evaluate.
constexpr std::size_t kMaxSetsOfBranches = 32;
// The number of branches of a oneOf for which all pairs are compared.
constexpr std::size_t kMaxOverlapping = 2000;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

// Nothing for arrays and objects.
std::optional<std::string> key_of(const json::Value& value) {
  if (value.if_string() != nullptr) return '"' + *value.if_string();
  if (value.if_number() == nullptr) {
    if (value.if_array() != nullptr || value.if_object() != nullptr) return std::nullopt;
    return json::to_string(value);
  }
  const json::Decimal decimal = json::decimal_of(value.if_number()->text);
  std::string key = decimal.negative && !decimal.is_zero() ? "-" : "+";
  for (std::size_t i = 0; i < decimal.size(); ++i) key += decimal.digit(i);
  return key + 'e' + std::to_string(decimal.exponent) + std::string(decimal.huge);
}

// The texts that match `^word$` or `^(one|other)$`, where the words have no signs of patterns but
// escaped ones. Nothing: it is another pattern.
std::optional<std::vector<std::string>> words_of(std::string_view pattern) {
  if (!pattern.starts_with('^') || !pattern.ends_with('$')) return std::nullopt;
  pattern = pattern.substr(1, pattern.size() - 2);
  // "(a)(b)" begins and ends so too; its inner brackets are then signs of a pattern.
  const bool is_group = pattern.starts_with('(') && pattern.ends_with(')');
  if (is_group) {
    pattern = pattern.substr(1, pattern.size() - 2);
    if (pattern.starts_with("?:")) pattern.remove_prefix(2);
  }
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '|' && is_group) {
      words.emplace_back();
      continue;
    }
    constexpr std::string_view kSigns = "^$\\.*+?()[]{}|";
    constexpr std::string_view kEscaped = "^$\\.*+?()[]{}|/-";
    if (c == '\\' && i + 1 < pattern.size() &&
        kEscaped.find(pattern[i + 1]) != std::string_view::npos) {
      c = pattern[++i];
    } else if (kSigns.find(c) != std::string_view::npos) {
      return std::nullopt;
    }
    words.back() += c;
  }
  return words;
}

constexpr int kMaxDepth = 8;      // of nested references
constexpr int kMaxVisits = 1000;  // of schemas for one branch; the same one may come many times
constexpr std::size_t kBytesPerStep = 16;  // of a pattern
// The values that are compared to find out which branches are disjoint, in all of a schema. After
// so many, branches count as ones that may overlap.
constexpr std::uint64_t kMaxCompared = 10'000'000;

// Calls visit(node) for `id` and all nodes that apply to the same value, except those in `seen`.
template <class Visit>
void visit_in_place(const schema::Schema& schema, NodeId id, std::vector<bool>& seen,
                    const Visit& visit) {
  std::vector<NodeId> todo;
  const auto add = [&](NodeId one) {
    if (seen[one]) return;
    seen[one] = true;
    todo.push_back(one);
  };
  add(id);
  while (!todo.empty()) {
    const NodeId one = todo.back();
    todo.pop_back();
    visit(one);
    const schema::Node& node = schema.node(one);
    for (const auto* parts : {&node.all_of, &node.any_of, &node.one_of}) {
      for (const NodeId part : *parts) add(part);
    }
    for (const schema::DependentNode& dependent : node.dependents) add(dependent.node);
    if (!node.conditional) continue;
    add(node.conditional->condition);
    if (node.conditional->then_node) add(*node.conditional->then_node);
    if (node.conditional->else_node) add(*node.conditional->else_node);
  }
}

}  // namespace

// Simple facts that distinguish schemas: a superset of the values that fit.
struct Terms::Facts {
  Types types = Types::all();
  const Keys* values = nullptr;                     // without arrays and objects
  std::map<std::string_view, const Keys*> members;  // required members with one of these values
};

// Null: it lists arrays or objects, or nothing. Many branches may refer to one list. A pattern of a
// few words is a list too.
const Terms::Keys* Terms::keys_of(NodeId id) {
  const schema::Node& node = schema_->node(id);
  const bool has_pattern =
      node.strings && node.strings->pattern && node.types == Types(Type::string);
  if (!node.values && !has_pattern) return nullptr;
  const auto [place, is_new] = keys_.try_emplace(id);
  std::optional<Keys>& keys = place->second;
  if (is_new && !node.values) {
    const std::string& pattern = node.strings->pattern->text;
    steps_ += 1 + pattern.size() / kBytesPerStep;
    if (auto words = words_of(pattern)) {
      keys.emplace();
      for (const std::string& word : *words) keys->push_back('"' + word);
      std::ranges::sort(*keys);
      keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
    }
  } else if (is_new) {
    keys.emplace();
    for (const json::Value& value : node.values->values()) {
      auto key = key_of(value);
      if (!key) {
        keys.reset();
        break;
      }
      keys->push_back(std::move(*key));
    }
    steps_ += 1 + node.values->values().size();
    if (keys) {
      std::ranges::sort(*keys);
      keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
    }
  }
  return keys ? &*keys : nullptr;
}

// Adds what the node and its allOf say. What is not looked at (a limit, anyOf, not) only leaves
// fewer facts, so the facts stay true.
void Terms::collect(NodeId id, int depth, int& visits, Facts& facts) {
  if (++visits > kMaxVisits) return;
  const schema::Node& node = schema_->node(id);
  facts.types = facts.types & node.types;
  if (facts.values == nullptr) facts.values = keys_of(id);
  if (depth == kMaxDepth) return;
  if (node.objects) {
    for (const std::string& name : node.objects->required) {
      if (visits > kMaxVisits) return;
      const schema::Property* const property = node.objects->find(name);
      if (property == nullptr || facts.members.contains(name)) continue;
      Facts inner;
      collect(property->node, depth + 1, visits, inner);
      if (inner.values != nullptr) facts.members.emplace(name, inner.values);
    }
  }
  for (const NodeId part : node.all_of) collect(part, depth + 1, visits, facts);
}

bool Terms::may_compare(std::size_t keys) {
  constexpr std::uint64_t kKeysPerStep = 4;
  compared_ += keys;
  steps_ += keys / kKeysPerStep;
  return compared_ <= kMaxCompared;
}

// False: they may overlap.
bool Terms::are_disjoint(const Keys& a, const Keys& b) {
  if (&a == &b) return a.empty();
  const Keys& few = a.size() < b.size() ? a : b;
  const Keys& many = &few == &a ? b : a;
  return may_compare(few.size()) && std::ranges::none_of(few, [&](const auto& key) {
           return std::ranges::binary_search(many, key);
         });
}

// False: they may overlap. Objects are disjoint if both require a member whose lists have no value
// in common, such as {"type": "circle"} and {"type": "square"}.
bool Terms::are_disjoint(const Facts& a, const Facts& b) {
  const Types both = a.types & b.types;
  if (both.empty()) return true;
  if (a.values != nullptr && b.values != nullptr) return are_disjoint(*a.values, *b.values);
  if (a.values != nullptr || b.values != nullptr || both != Types(Type::object)) return false;
  return std::ranges::any_of(a.members, [&](const auto& member) {
    const auto other = b.members.find(member.first);
    return other != b.members.end() && are_disjoint(*member.second, *other->second);
  });
}

// Whether no two of many lists have a common key. False: they may have one.
bool Terms::are_all_disjoint(std::vector<const Keys*> lists) {
  std::ranges::sort(lists);
  if (lists.front() == nullptr || std::ranges::adjacent_find(lists) != lists.end()) return false;
  std::size_t count = 0;
  for (const Keys* list : lists) count += list->size();
  if (!may_compare(count)) return false;
  std::vector<std::string_view> all;
  all.reserve(count);
  for (const Keys* list : lists) all.insert(all.end(), list->begin(), list->end());
  std::ranges::sort(all);
  return std::ranges::adjacent_find(all) == all.end();
}

// The same for many branches at once, in n log n instead of n * n comparisons: all branches list
// values, or all are objects with one member that tells them apart.
bool Terms::are_all_disjoint(const std::vector<Facts>& branches) {
  std::vector<const Keys*> lists;
  lists.reserve(branches.size());
  for (const Facts& facts : branches) lists.push_back(facts.values);
  if (are_all_disjoint(lists)) return true;
  const auto is_object = [](const Facts& facts) {
    return facts.values == nullptr && facts.types == Types(Type::object);
  };
  if (!std::ranges::all_of(branches, is_object)) return false;
  return std::ranges::any_of(branches.front().members, [&](const auto& member) {
    lists.clear();
    for (const Facts& facts : branches) {
      const auto other = facts.members.find(member.first);
      lists.push_back(other == facts.members.end() ? nullptr : other->second);
    }
    steps_ += lists.size();
    return are_all_disjoint(lists);
  });
}

Terms::Terms(std::shared_ptr<const schema::Schema> schema) : schema_(std::move(schema)) {
  entries_.push_back({.kind = Kind::nothing});
  entries_.push_back({.kind = Kind::anything});
  is_asked_.resize(schema_->size());
  for (NodeId id = 0; id < schema_->size(); ++id) {
    const schema::Node& node = schema_->node(id);
    const bool asks =
        (node.objects && node.objects->unevaluated) || (node.arrays && node.arrays->unevaluated);
    if (!asks) continue;
    visit_in_place(*schema_, id, is_asked_, [](NodeId) {});
  }
}

std::vector<NodeId> Terms::in_place(NodeId id) const {
  std::vector<NodeId> result;
  std::vector<bool> seen(schema_->size());
  visit_in_place(*schema_, id, seen, [&](NodeId one) { result.push_back(one); });
  return result;
}

// Whether it may evaluate names or items.
bool Terms::evaluates(NodeId id) const {
  return std::ranges::any_of(in_place(id), [&](NodeId one) {
    const schema::Node& node = schema_->node(one);
    const auto names = [](const schema::ObjectRules& rules) {
      return !rules.properties.empty() || !rules.pattern_properties.empty() || rules.additional ||
             rules.unevaluated;
    };
    const auto items = [](const schema::ArrayRules& rules) {
      return !rules.prefix.empty() || rules.items || rules.contains || rules.unevaluated;
    };
    return (node.objects && names(*node.objects)) || (node.arrays && items(*node.arrays));
  });
}

// `what` tells nodes and values apart, which have no parts.
Term Terms::intern(Entry entry, std::uint64_t what, std::span<const Term> parts) {
  std::uint64_t hash = mix(static_cast<std::uint64_t>(entry.kind), what);
  for (const Term part : parts) hash = mix(hash, part);
  const Term known = ids_.find(hash, [&](Term id) {
    const Entry& other = entries_[id];
    return other.kind == entry.kind && other.node == entry.node && other.value == entry.value &&
           std::ranges::equal(parts_of(id), parts);
  });
  if (known != IdIndex::kNone) return known;
  entry.first = static_cast<std::uint32_t>(parts_.size());
  entry.count = static_cast<std::uint32_t>(parts.size());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  const auto id = static_cast<Term>(entries_.size());
  entries_.push_back(entry);
  ids_.insert(hash, id);
  return id;
}

Term Terms::node(NodeId id) {
  return intern({.kind = Kind::node, .node = id}, id, {});
}
Term Terms::rules(NodeId id) {
  return intern({.kind = Kind::rules, .node = id}, id, {});
}
Term Terms::value(const json::Value& value) {
  return intern({.kind = Kind::value, .value = &value}, reinterpret_cast<std::uintptr_t>(&value),
                {});
}

Term Terms::all_of(std::vector<Term> parts) {
  return combine(Kind::all_of, std::move(parts));
}
Term Terms::any_of(std::vector<Term> parts) {
  return combine(Kind::any_of, std::move(parts));
}

// A canonical form, so that equal sets mostly have equal numbers: flat, sorted, without neutral
// parts. A part beside its negation decides the whole.
Term Terms::combine(Kind kind, std::vector<Term> parts) {
  if (parts.size() == 1) {
    ++steps_;
    return parts[0];
  }
  const Term neutral = kind == Kind::all_of ? kAnything : kNothing;
  const Term absorbing = kind == Kind::all_of ? kNothing : kAnything;
  std::vector<Term> flat = std::move(parts);
  for (std::size_t i = 0, given = flat.size(); i < given; ++i) {
    // One level is enough: the parts of a combination are flat already.
    if (entries_[flat[i]].kind != kind) continue;
    const auto inner = parts_of(std::exchange(flat[i], neutral));
    flat.insert(flat.end(), inner.begin(), inner.end());
  }
  std::erase(flat, neutral);
  steps_ += 1 + flat.size();
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  for (const Term part : flat) {
    if (part == absorbing) return absorbing;
    if (entries_[part].kind == Kind::negation &&
        std::ranges::binary_search(flat, parts_of(part)[0])) {
      return absorbing;
    }
  }
  if (flat.empty()) return neutral;
  if (flat.size() == 1) return flat[0];
  return intern({.kind = kind}, 0, flat);
}

Term Terms::negation(Term term) {
  if (term == kNothing) return kAnything;
  if (term == kAnything) return kNothing;
  if (entries_[term].kind == Kind::negation) return parts_of(term)[0];
  return intern({.kind = Kind::negation}, 0, std::span(&term, 1));
}

// Exactly one branch. Branches that are plainly disjoint need no negations.
Term Terms::one_of(const schema::Node& node) {
  const std::vector<NodeId>& ids = node.one_of;
  std::vector<Term> branches;
  std::vector<Facts> facts;
  for (const NodeId id : ids) {
    branches.push_back(this->node(id));
    int visits = 0;
    collect(id, 0, visits, facts.emplace_back());
    steps_ += static_cast<std::uint64_t>(visits);
  }
  if (are_all_disjoint(facts)) return any_of(std::move(branches));
  if (ids.size() > kMaxOverlapping) {
    error_ = Error{Errc::limit_exceeded,
                   node.location + "/oneOf: has " + std::to_string(ids.size()) +
                       " branches that may overlap, more than " + std::to_string(kMaxOverlapping) +
                       "; give all of them one required property with a `const`"};
    return kNothing;
  }
  std::vector<Term> others;
  others.reserve(branches.size());
  for (const Term branch : branches) others.push_back(negation(branch));
  std::vector<std::vector<Term>> only;  // by branch
  for (const Term branch : branches) only.push_back({branch});
  for (std::size_t i = 0; i < branches.size(); ++i) {
    for (std::size_t j = i + 1; j < branches.size(); ++j) {
      if (are_disjoint(facts[i], facts[j])) continue;
      only[i].push_back(others[j]);
      only[j].push_back(others[i]);
    }
  }
  std::vector<Term> one;
  for (std::vector<Term>& parts : only) one.push_back(all_of(std::move(parts)));
  return any_of(std::move(one));
}

Term Terms::definition(NodeId id) {
  const auto known = definitions_.find(id);
  if (known != definitions_.end()) return known->second;
  const Term term = define(id, rules(id));
  definitions_.emplace(id, term);
  return term;
}

// All branches that hold for a value decide what it evaluates. If that is asked for, each set of
// branches that may hold together is an alternative: the values that fit all branches of the set
// and no others, with everything that these evaluate.
Term Terms::any_of_evaluating(NodeId id) {
  const std::vector<NodeId>& ids = schema_->node(id).any_of;
  struct Set {
    std::vector<std::size_t> branches;
    bool evaluates;
  };
  std::vector<Facts> facts;
  std::vector<Set> sets;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    int visits = 0;
    collect(ids[i], 0, visits, facts.emplace_back());
    steps_ += static_cast<std::uint64_t>(visits);
    const bool branch_evaluates = evaluates(ids[i]);
    const std::size_t before = sets.size();
    // A branch that evaluates nothing changes nothing beside others, so it makes no larger sets.
    sets.push_back({{i}, branch_evaluates});
    for (std::size_t set = 0; set < before && branch_evaluates; ++set) {
      if (!sets[set].evaluates) continue;
      const bool may_hold_too = std::ranges::none_of(sets[set].branches, [&](std::size_t other) {
        return are_disjoint(facts[i], facts[other]);
      });
      if (!may_hold_too) continue;
      if (sets.size() >= std::max(kMaxSetsOfBranches, ids.size())) {
        evaluates_more_.insert(id);
        break;
      }
      Set larger = sets[set];
      larger.branches.push_back(i);
      sets.push_back(std::move(larger));
    }
  }
  std::vector<Term> terms;
  terms.reserve(sets.size());
  for (const Set& set : sets) {
    std::vector<Term> all;
    for (const std::size_t branch : set.branches) all.push_back(node(ids[branch]));
    terms.push_back(all_of(std::move(all)));
  }
  return any_of(std::move(terms));
}

// Also if one is the negation of the other, so that each keeps its own rules.
Term Terms::either(Term a, Term b) {
  if (a == kNothing || b == kNothing || a == b) return any_of({a, b});
  std::vector<Term> parts{std::min(a, b), std::max(a, b)};
  return intern({.kind = Kind::any_of}, 0, parts);
}

Term Terms::define(NodeId id, Term own) {
  const schema::Node& node = schema_->node(id);
  std::vector<Term> all{own};
  for (const NodeId part : node.all_of) all.push_back(this->node(part));
  const auto terms_of = [&](const std::vector<NodeId>& ids) {
    std::vector<Term> terms;
    terms.reserve(ids.size());
    for (const NodeId part : ids) terms.push_back(this->node(part));
    return terms;
  };
  if (!node.any_of.empty()) {
    all.push_back(is_asked_[id] ? any_of_evaluating(id) : any_of(terms_of(node.any_of)));
  }
  if (!node.one_of.empty()) all.push_back(one_of(node));
  if (node.negated) all.push_back(negation(this->node(*node.negated)));
  if (node.conditional) {
    const Term condition = this->node(node.conditional->condition);
    const auto branch = [&](const std::optional<NodeId>& target) {
      return target ? this->node(*target) : kAnything;
    };
    const Term holds = all_of({condition, branch(node.conditional->then_node)});
    const Term fails = all_of({negation(condition), branch(node.conditional->else_node)});
    all.push_back(is_asked_[id] ? either(holds, fails) : any_of({holds, fails}));
  }
  // node.dependents depends on the presence of a property, so it is handled with objects: see
  // shape_objects.cc.
  return all_of(std::move(all));
}

}  // namespace tenon::grammar
