#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"

/// How a family of models writes tool calls: one definition (formats/*.toml) from which come the
/// stream parser (stream_parser.h), the renderer (render.h) and the grammar (tool_grammar.h). This
/// header has a definition as a value; registry.h finds one by its name, fallbacks.h adds the forms
/// of other formats to it.
namespace tenon::toml {
struct Document;
struct Position;
class Table;
}  // namespace tenon::toml

namespace tenon::format {

class Format;  // immutable once compiled; definition.h has its parts

/// Compiles a definition (TOML, see docs/formats.md). Errors name the place and the key.
[[nodiscard]] Expected<std::shared_ptr<const Format>> compile(std::string_view text,
                                                              std::string_view source_name);
/// The same for a table of a document, at `position` in it: a definition in a model's config.
[[nodiscard]] Expected<std::shared_ptr<const Format>> compile(const toml::Document& document,
                                                              const toml::Table& table,
                                                              toml::Position position);

struct FormatInfo {
  std::string name;
  std::vector<std::string> aliases;
  bool parallel = true;  ///< Several calls in one answer.
};
[[nodiscard]] const FormatInfo& info(const Format& format);

/// The form of ids that the model has learnt, if the format defines it: a prefix, then letters and
/// digits.
struct IdShape {
  std::string prefix;
  std::size_t length = 0;  ///< The length of the part after the prefix.
};
[[nodiscard]] std::optional<IdShape> id_shape(const Format& format);

/// The control tokens that end a turn of the format's models, whether or not the model's own file
/// lists them.
[[nodiscard]] const std::vector<std::string>& stop_markers(const Format& format);

/// Every literal that the format searches for in running text, and the control tokens that it
/// names. Those that are control tokens of the model's vocabulary go into
/// ParseOptions::control_markers.
[[nodiscard]] std::vector<std::string> markers(const Format& format);

/// The texts of `format` that do not occur in text by chance: its control tokens and tags.
[[nodiscard]] std::vector<std::string> strong_markers(const Format& format);

}  // namespace tenon::format
