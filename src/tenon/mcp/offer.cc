#include "tenon/mcp/offer.h"

#include <utility>

namespace tenon::mcp {

json::Object text_block(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

// Clients from before structuredContent (2025-06-18) read the same as text.
Outcome structured(json::Object value) {
  json::Value structured = std::move(value);
  json::Array blocks{text_block(json::to_string(structured))};
  return {.result = {{"content", std::move(blocks)},
                     {"structuredContent", std::move(structured)},
                     {"isError", false}}};
}

Outcome content(json::Array blocks) {
  return {.result = {{"content", std::move(blocks)}, {"isError", false}}};
}

// Each text between two names ends the value of the name before it where it first occurs, so a
// match takes one pass.
std::optional<json::Object> template_values(std::string_view pattern, std::string_view uri) {
  json::Object values;
  while (true) {
    const std::size_t open = pattern.find('{');
    const std::size_t close = pattern.find('}', open);
    if (open == std::string_view::npos || close == std::string_view::npos) {
      return uri == pattern ? std::optional(std::move(values)) : std::nullopt;
    }
    if (!uri.starts_with(pattern.substr(0, open))) return std::nullopt;
    uri.remove_prefix(open);
    const std::string_view name = pattern.substr(open + 1, close - open - 1);
    pattern.remove_prefix(close + 1);
    const std::string_view next = pattern.substr(0, pattern.find('{'));
    const std::size_t end = next.empty() ? uri.size() : uri.find(next);
    if (end == std::string_view::npos || end == 0) return std::nullopt;
    const std::string_view value = uri.substr(0, end);
    if (value.find('/') != std::string_view::npos) return std::nullopt;
    values.set(std::string(name), value);
    uri.remove_prefix(end);
  }
}

}  // namespace tenon::mcp
