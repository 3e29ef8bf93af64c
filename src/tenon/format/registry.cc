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
        add(*std::move(format));
      } else {  // registry_test sees to it that this never ships
        log::error(format.error().message);
      }
    }
  }

  void add(std::shared_ptr<const Format> format) {
    const std::unique_lock lock(mutex_);
    formats_[info(*format).name] = std::move(format);
  }

  [[nodiscard]] std::shared_ptr<const Format> find(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    if (const auto found = formats_.find(name); found != formats_.end()) return found->second;
    for (const auto& [unused, format] : formats_) {
      const std::vector<std::string>& aliases = info(*format).aliases;
      if (std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return format;
    }
    return nullptr;
  }

  [[nodiscard]] std::vector<std::shared_ptr<const Format>> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<const Format>> formats;
    for (const auto& [unused, format] : formats_) formats.push_back(format);
    return formats;
  }

 private:
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
std::vector<std::shared_ptr<const Format>> all() {
  return registry().all();
}
std::shared_ptr<const Format> fallback() {
  for (const auto& format : all()) {
    if (format->fallback) return format;
  }
  return nullptr;
}
void register_format(std::shared_ptr<const Format> format) {
  registry().add(std::move(format));
}

}  // namespace tenon::format
