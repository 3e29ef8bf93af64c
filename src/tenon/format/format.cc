#include "tenon/format/format.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tenon/format/definition.h"

namespace tenon::format {

const FormatInfo& info(const Format& format) {
  return format.info;
}
std::optional<IdShape> id_shape(const Format& format) {
  if (!format.id.prefix || format.id.holds_name) return std::nullopt;
  return IdShape{*format.id.prefix, format.id.length};
}
const std::vector<std::string>& stop_markers(const Format& format) {
  return format.stop;
}
std::vector<std::string> markers(const Format& format) {
  std::vector<std::string> markers = format.literals;
  for (const std::string& special : format.special) {
    if (std::find(markers.begin(), markers.end(), special) == markers.end()) {
      markers.push_back(special);
    }
  }
  return markers;
}

std::vector<std::string> strong_markers(const Format& format) {
  std::vector<std::string> markers;
  for (std::size_t id = 0; id < format.literals.size(); ++id) {
    if (format.strong.contains(static_cast<LiteralId>(id))) markers.push_back(format.literals[id]);
  }
  return markers;
}

}  // namespace tenon::format
