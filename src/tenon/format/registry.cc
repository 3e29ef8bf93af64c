#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/format/builtin_definitions.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"

namespace tenon::format {
namespace {

/// Every known format. A name wins over an alias, a later registration over an earlier one.
class Registry {
 public:
  Registry() {
    for (const auto& file : builtin_definitions()) {
      auto format = compile(file.bytes, "formats/" + std::string(file.name));
      if (format) {
        formats_[info(**format).name] = *format;
      } else {  // registry_test sees to it that this never ships
        log::error(format.error().message);
      }
    }
  }

  Status add(std::shared_ptr<const Format> format) {
    const FormatInfo& added = info(*format);
    const std::unique_lock lock(mutex_);
    for (const std::string& alias : added.aliases) {
      const auto other = look_for(alias);
      if (other == nullptr || info(*other).name == added.name) continue;
      return Unexpected(Error{Errc::invalid, "format '" + added.name + "': the alias '" + alias +
                                                 "' belongs to '" + info(*other).name + "'"});
    }
    formats_[added.name] = std::move(format);
    return {};
  }

  [[nodiscard]] std::shared_ptr<const Format> find(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    return look_for(name);
  }

  [[nodiscard]] std::vector<std::shared_ptr<const Format>> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<const Format>> formats;
    for (const auto& [unused, format] : formats_) formats.push_back(format);
    return formats;
  }

 private:
  [[nodiscard]] std::shared_ptr<const Format> look_for(std::string_view name) const {
    if (const auto found = formats_.find(name); found != formats_.end()) return found->second;
    for (const auto& [unused, format] : formats_) {
      const std::vector<std::string>& aliases = info(*format).aliases;
      if (std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return format;
    }
    return nullptr;
  }

  mutable std::shared_mutex mutex_;  // guards formats_
  std::map<std::string, std::shared_ptr<const Format>, std::less<>> formats_;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

const FormatInfo& info(const Format& format) {
  return format.info;
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

std::shared_ptr<const Format> find(std::string_view name) {
  return registry().find(name);
}
Expected<std::shared_ptr<const Format>> named(std::string_view name) {
  if (auto format = find(name)) return format;
  std::string known;
  for (const auto& format : all()) known += (known.empty() ? "" : ", ") + info(*format).name;
  return Unexpected(Error{Errc::unsupported, "unknown tool_call_format: " + std::string(name) +
                                                 " (known: " + known + ")"});
}
std::vector<std::shared_ptr<const Format>> all() {
  return registry().all();
}
std::shared_ptr<const Format> fallback() {
  for (const auto& format : all()) {
    if (format->fallback) return format;
  }
  return nullptr;
}
Status register_format(std::shared_ptr<const Format> format) {
  return registry().add(std::move(format));
}

}  // namespace tenon::format
