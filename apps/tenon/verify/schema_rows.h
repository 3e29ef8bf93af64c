#pragma once

#include <span>
#include <string_view>

/// The schemas that `tenon verify` asks calls to fit.
namespace tenon::app::verify {

/// All are JSON.
struct SchemaRow {
  std::string_view name;  ///< The name of the check: the keyword, and what is special about it.
  std::string_view schema;
  std::string_view valid;
  std::string_view invalid;        ///< Only the keyword forbids it.
  std::string_view definitions{};  ///< What `#/$defs` has.
  /// The standard lets a server take the keyword for a remark; the server should say so.
  bool is_remark = false;
};

[[nodiscard]] std::span<const SchemaRow> schema_rows();

}  // namespace tenon::app::verify
