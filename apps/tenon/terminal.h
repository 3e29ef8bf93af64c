#pragma once

#include <string>
#include <string_view>

/// What models, clients and servers write, on its way to a person's terminal.
namespace tenon::app {

/// `text` without anything that a terminal obeys: control characters other than line ends and tabs
/// (escape sequences among them), and characters that reorder what stands beside them
/// (bidirectional embeddings, overrides and isolates), become `\u001b`, `\u202e`; a byte that is
/// not UTF-8 becomes `\xff`. Without line ends, too, where `keeps_lines` is false.
[[nodiscard]] std::string printable(std::string_view text, bool keeps_lines = true);

/// printable(text) if the file descriptor is a terminal, else text as it is.
[[nodiscard]] std::string shown(std::string_view text, int descriptor);

/// True if our own escape sequences belong into stdout: it is a terminal and NO_COLOR is not set.
[[nodiscard]] bool has_colours();

}  // namespace tenon::app
