#include "tenon/schema/schema.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tenon/schema/values.h"

namespace tenon::schema {
namespace {

constexpr std::array<std::string_view, 5> kDraftNames = {"draft4", "draft6", "draft7",
                                                         "draft2019-09", "draft2020-12"};

}  // namespace

std::string_view draft_name(Draft draft) {
  return kDraftNames[static_cast<std::size_t>(draft)];
}

std::optional<Draft> find_draft(std::string_view name) {
  const auto* const found = std::ranges::find(kDraftNames, name);
  if (found == kDraftNames.end()) return std::nullopt;
  return static_cast<Draft>(found - kDraftNames.begin());
}

Type type_of(const json::Value& instance) {
  switch (instance.kind()) {
    case json::Kind::null:
      return Type::null;
    case json::Kind::boolean:
      return Type::boolean;
    case json::Kind::number:
      return instance.if_number()->is_integer() ? Type::integer : Type::fraction;
    case json::Kind::string:
      return Type::string;
    case json::Kind::array:
      return Type::array;
    case json::Kind::object:
      return Type::object;
  }
  return Type::null;
}

// Values stay in the order of the schema, for messages; slots_ finds them by their hash.
Enumeration::Enumeration(json::Array values, std::string_view keyword)
    : values_(std::move(values)), keyword_(keyword) {
  slots_.reserve(values_.size());
  for (const json::Value& value : values_) {
    slots_.push_back({hash_of(value), static_cast<std::uint32_t>(slots_.size())});
  }
  std::ranges::sort(slots_, {}, &Slot::hash);
}

bool Enumeration::contains(const json::Value& instance) const {
  const auto same = std::ranges::equal_range(slots_, hash_of(instance), {}, &Slot::hash);
  return std::ranges::any_of(same,
                             [&](const Slot& slot) { return values_[slot.index] == instance; });
}

// Properties stay in the order of the schema; by_name_ has their indices sorted, for find().
void ObjectRules::index() {
  by_name_.resize(properties.size());
  std::iota(by_name_.begin(), by_name_.end(), 0);
  std::ranges::sort(by_name_, {},
                    [this](std::uint32_t i) -> const std::string& { return properties[i].name; });
}

const Property* ObjectRules::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      by_name_, name, {}, [this](std::uint32_t i) { return std::string_view(properties[i].name); });
  if (found == by_name_.end() || properties[*found].name != name) return nullptr;
  return &properties[*found];
}

}  // namespace tenon::schema
