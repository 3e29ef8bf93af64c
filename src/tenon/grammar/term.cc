#include "tenon/grammar/term.h"

#include <algorithm>

namespace tenon::grammar {

using schema::NodeId;

Terms::Terms(std::shared_ptr<const schema::Schema> schema) : schema_(std::move(schema)) {
  entries_.push_back({.kind = Kind::nothing});
  entries_.push_back({.kind = Kind::anything});
}

Term Terms::intern(const Entry& entry, std::uint64_t what, std::vector<Term> parts) {
  const auto id = static_cast<Term>(entries_.size());
  const std::uint64_t head = what << 3U | static_cast<std::uint64_t>(entry.kind);
  const auto [place, is_new] = ids_.try_emplace({head, std::move(parts)}, id);
  if (is_new) {
    const std::vector<Term>& kept = place->first.second;
    entries_.push_back(entry);
    entries_.back().first = static_cast<std::uint32_t>(parts_.size());
    entries_.back().count = static_cast<std::uint32_t>(kept.size());
    parts_.insert(parts_.end(), kept.begin(), kept.end());
  }
  return place->second;
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

Term Terms::combine(Kind kind, std::vector<Term> parts) {
  const Term neutral = kind == Kind::all_of ? kAnything : kNothing;
  const Term absorbing = kind == Kind::all_of ? kNothing : kAnything;
  std::vector<Term> flat;
  for (const Term part : parts) {
    if (entries_[part].kind == kind) {
      const auto inner = parts_of(part);
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else if (part != neutral) {
      flat.push_back(part);
    }
  }
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
  return intern({.kind = kind}, 0, std::move(flat));
}

Term Terms::negation(Term term) {
  if (term == kNothing) return kAnything;
  if (term == kAnything) return kNothing;
  if (entries_[term].kind == Kind::negation) return parts_of(term)[0];
  return intern({.kind = Kind::negation}, 0, {term});
}

Term Terms::definition(NodeId id) {
  const schema::Node& node = schema_->node(id);
  std::vector<Term> all{rules(id)};
  for (const NodeId part : node.all_of) all.push_back(this->node(part));
  const auto terms_of = [&](const std::vector<NodeId>& ids) {
    std::vector<Term> terms;
    for (const NodeId part : ids) terms.push_back(this->node(part));
    return terms;
  };
  if (!node.any_of.empty()) all.push_back(any_of(terms_of(node.any_of)));
  if (!node.one_of.empty()) {
    const std::vector<Term> branches = terms_of(node.one_of);
    std::vector<Term> one;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      std::vector<Term> only{branches[i]};
      for (std::size_t j = 0; j < branches.size(); ++j) {
        if (j != i) only.push_back(negation(branches[j]));
      }
      one.push_back(all_of(std::move(only)));
    }
    all.push_back(any_of(std::move(one)));
  }
  if (node.negated) all.push_back(negation(this->node(*node.negated)));
  if (node.conditional) {
    const Term condition = this->node(node.conditional->condition);
    const auto branch = [&](const std::optional<NodeId>& target) {
      return target ? this->node(*target) : kAnything;
    };
    all.push_back(any_of({all_of({condition, branch(node.conditional->then_node)}),
                          all_of({negation(condition), branch(node.conditional->else_node)})}));
  }
  // node.dependents need a property's presence, which is a matter of objects: see shape.cc.
  return all_of(std::move(all));
}

}  // namespace tenon::grammar
