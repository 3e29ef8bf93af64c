#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// What a schema says about one value, as far as it must be known before the value has been read.
namespace tenon::repair {

/// Nodes of a schema that all apply to one value.
using Nodes = std::vector<schema::NodeId>;

/// `nodes` with the nodes of their allOf, once for each way through anyOf and oneOf. Nothing if
/// there are too many ways.
[[nodiscard]] std::optional<std::vector<Nodes>> ways_of(const schema::Schema& schema,
                                                        const Nodes& nodes);

/// The types that one way allows.
[[nodiscard]] schema::Types types_of(const schema::Schema& schema, const Nodes& way);

/// The nodes of one way that apply to a member, and to an item.
[[nodiscard]] Nodes member_of(const schema::Schema& schema, const Nodes& way, std::string_view key);
[[nodiscard]] Nodes item_of(const schema::Schema& schema, const Nodes& way, std::size_t index);

/// The place of a value: the value must fit all nodes of one of `choices`.
struct Place {
  std::vector<Nodes> choices;
  schema::Types types = schema::Types::all();
  bool is_open = true;  ///< Nothing is known about the value.
};

[[nodiscard]] Place place_of(const schema::Schema& schema, std::vector<Nodes> choices);

[[nodiscard]] bool fits(const schema::Schema& schema, const Nodes& nodes, const json::Value& value);
[[nodiscard]] bool fits(const schema::Schema& schema, const Place& place, const json::Value& value);

}  // namespace tenon::repair
