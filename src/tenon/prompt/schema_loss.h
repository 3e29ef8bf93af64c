#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/json/value.h"

/// Which parts of a tool's JSON Schema a chat template leaves out, by rendering a tool with each.
namespace tenon::prompt {

/// Where a part stands among a tool's parameters. What is deeper counts as what it stands in.
enum class SchemaPlace : std::uint8_t {
  parameter,     ///< Of a parameter itself.
  property,      ///< Of a property of one that is an object.
  item,          ///< Of the items of one that is a list.
  item_property  ///< Of a property of such an item.
};
inline constexpr std::size_t kSchemaPlaces = 4;

/// What is left out. Empty for templates that write schemas as JSON.
struct SchemaLosses {
  std::array<std::uint32_t, kSchemaPlaces> parts{};  ///< A bit for each kind of part.
  /// Those that the template fails at.
  std::array<std::uint32_t, kSchemaPlaces> failing{};
  /// Names that a parameter or property cannot have, since the template takes them for keywords.
  std::array<std::uint32_t, kSchemaPlaces> names{};

  [[nodiscard]] bool any() const { return *this != SchemaLosses{}; }
  bool operator==(const SchemaLosses&) const = default;
};

/// A part of a schema with a word in it that only it holds.
struct SchemaProbe {
  SchemaPlace place = SchemaPlace::parameter;
  bool is_name = false;
  std::uint32_t bit = 0;  ///< Of SchemaLosses::parts, or of names.
  std::string word;
  std::string name;  ///< Of the parameter or property.
  json::Value schema;
};

/// One for each part at each place.
[[nodiscard]] std::vector<SchemaProbe> schema_probes();
/// `parameters` of a tool that has all of `probes`.
[[nodiscard]] json::Value probed_parameters(std::span<const SchemaProbe> probes);

/// Whether the template leaves out some of `schema`, which has this name at this place.
[[nodiscard]] bool loses(const SchemaLosses& losses, SchemaPlace place, std::string_view name,
                         const json::Value& schema);
/// The same for what the template fails at.
[[nodiscard]] bool fails_at(const SchemaLosses& losses, SchemaPlace place,
                            const json::Value& schema);
/// Whether a description at this place would be left out, or the parameter of this name.
[[nodiscard]] bool hides_description(const SchemaLosses& losses, std::string_view name);

}  // namespace tenon::prompt
