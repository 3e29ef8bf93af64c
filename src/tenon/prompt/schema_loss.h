#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/json/value.h"

/// Which parts of a tool's JSON Schema a chat template leaves out. It is found by rendering tools
/// that have each of these parts.
namespace tenon::prompt {

/// The schema that a part belongs to. A deeper schema counts as the one that contains it.
enum class SchemaPlace : std::uint8_t {
  parameter,     ///< A parameter of the tool.
  property,      ///< A property of a parameter that is an object.
  item,          ///< The items of a parameter that is a list.
  item_property  ///< A property of such an item.
};
inline constexpr std::size_t kSchemaPlaces = 4;

/// The parts that are left out. Empty for templates that write schemas as JSON.
struct SchemaLosses {
  std::array<std::uint32_t, kSchemaPlaces> parts{};  ///< A bit for each kind of part.
  /// The parts at which the template fails.
  std::array<std::uint32_t, kSchemaPlaces> failing{};
  /// Names that a parameter or property cannot have, because the template reads them as keywords.
  std::array<std::uint32_t, kSchemaPlaces> names{};

  [[nodiscard]] bool any() const { return *this != SchemaLosses{}; }
  bool operator==(const SchemaLosses&) const = default;
};

/// A part of a schema that contains a word which stands in no other part.
struct SchemaProbe {
  SchemaPlace place = SchemaPlace::parameter;
  bool is_name = false;
  std::uint32_t bit = 0;  ///< In SchemaLosses::parts, or in names.
  std::string word;
  std::string name;  ///< The name of the parameter or property.
  json::Value schema;
};

/// A probe for each part at each place.
[[nodiscard]] std::vector<SchemaProbe> schema_probes();
/// The `parameters` of a tool with all of `probes`.
[[nodiscard]] json::Value probed_parameters(std::span<const SchemaProbe> probes);

/// Whether the template leaves out a part of `schema`, which has this name at this place.
[[nodiscard]] bool loses(const SchemaLosses& losses, SchemaPlace place, std::string_view name,
                         const json::Value& schema);
/// Whether the template fails at a part of `schema`.
[[nodiscard]] bool fails_at(const SchemaLosses& losses, SchemaPlace place,
                            const json::Value& schema);
/// Whether the template would leave out the parameter with this name, or its description.
[[nodiscard]] bool hides_description(const SchemaLosses& losses, std::string_view name);

}  // namespace tenon::prompt
