#include "tenon/format/entities.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon::format {

// One pass from left to right, so "&amp;lt;" becomes "&lt;" and not "<".
std::string without_entities(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&amp;", '&'}, {"&quot;", '"'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&apos;", '\''}}};
  std::string plain;
  while (!text.empty()) {
    const auto* entity = std::find_if(kEntities.begin(), kEntities.end(),
                                      [text](const auto& e) { return text.starts_with(e.first); });
    const bool is_entity = entity != kEntities.end();
    plain += is_entity ? entity->second : text.front();
    text.remove_prefix(is_entity ? entity->first.size() : 1);
  }
  return plain;
}

// Only what would be misread between double quotes.
std::string with_entities(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    if (byte == '&') {
      escaped += "&amp;";
    } else if (byte == '"') {
      escaped += "&quot;";
    } else {
      escaped += byte;
    }
  }
  return escaped;
}

}  // namespace tenon::format
