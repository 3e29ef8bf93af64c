#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// What a schema says of one value, as far as a mender must know it before the value is there.
namespace tenon::repair {

/// Nodes of a schema that all speak of one value.
using Nodes = std::vector<schema::NodeId>;

/// `nodes` with what stands in their allOf, once for each way through anyOf and oneOf. Nothing:
/// there are too many to tell.
[[nodiscard]] std::optional<std::vector<Nodes>> ways_of(const schema::Schema& schema,
                                                        const Nodes& nodes);

/// The types that one way leaves.
[[nodiscard]] schema::Types types_of(const schema::Schema& schema, const Nodes& way);

/// What one way says of a member, and of an item.
[[nodiscard]] Nodes member_of(const schema::Schema& schema, const Nodes& way, std::string_view key);
[[nodiscard]] Nodes item_of(const schema::Schema& schema, const Nodes& way, std::size_t index);

/// Where a value stands: it must fit all nodes of one of `choices`.
struct Place {
  std::vector<Nodes> choices;
  schema::Types types = schema::Types::all();
  bool is_open = true;  ///< Nothing is said, or nothing that can be told.
};

[[nodiscard]] Place place_of(const schema::Schema& schema, std::vector<Nodes> choices);

[[nodiscard]] bool fits(const schema::Schema& schema, const Nodes& nodes, const json::Value& value);
[[nodiscard]] bool fits(const schema::Schema& schema, const Place& place, const json::Value& value);

}  // namespace tenon::repair
