#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"

/// Every format that the process knows: the embedded definitions (formats/*.toml) and those that
/// are registered while it runs. All functions may be called from any thread.
namespace tenon::format {

/// The format with this name or alias, from the embedded definitions and those registered since.
/// Null if no format has it.
[[nodiscard]] std::shared_ptr<const Format> find(std::string_view name);
/// The same, but fails with `unsupported` and names similar formats: "unknown tool_call_format:
/// ...".
[[nodiscard]] Expected<std::shared_ptr<const Format>> named(std::string_view name);
/// Every known format, in the order of names.
[[nodiscard]] std::vector<std::shared_ptr<const Format>> all();
/// The format for models whose templates know no tools; such a model learns it from the prompt
/// alone.
[[nodiscard]] std::shared_ptr<const Format> fallback();
/// Adds a format or replaces the one with that name; running parsers keep theirs.
/// Fails with `invalid` if an alias is another format's name or alias, and if it would be a second
/// fallback. A name may be another format's alias, and wins.
[[nodiscard]] Status register_format(std::shared_ptr<const Format> format);

}  // namespace tenon::format
