#include "tenon/format/registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/format/builtin_definitions.h"
#include "tenon/format/definition.h"

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
      } else {  // registry_test makes sure that this is never released
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
      return Unexpected(Error{Errc::invalid, format->alias_place + "the alias '" + alias +
                                                 "' belongs to '" + info(*other).name + "'"});
    }
    // A model whose template knows no tools gets "the" fallback, so there must be one only.
    for (const auto& [name, other] : formats_) {
      if (!format->fallback || !other->fallback || name == added.name) continue;
      return Unexpected(Error{Errc::invalid, format->fallback_place + "'fallback' is set, and '" +
                                                 name + "' is the fallback: there can be one"});
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
  // Made at the first use, so that no order of static objects matters.
  static Registry instance;
  return instance;
}

// The characters of a name that matter to a person: "GLM-4.5" is glm45.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
  }
  return letters;
}

// The number of letters that must be added, removed or changed to turn `a` into `b` (Levenshtein
// 1966).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // from the part of `a` so far to each prefix of `b`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, changed}));
    }
  }
  return row.back();
}

/// The formats whose name or alias is most like `name`, the nearest first: at most three, in which
/// at most one letter in three differs, or which begin with it.
std::vector<std::string> near_names(std::string_view name) {
  constexpr std::size_t kMost = 3;
  constexpr std::size_t kLongest = 64;  // of a name that is compared
  constexpr std::size_t kShortest = 3;  // of a meaningful prefix
  if (name.size() > kLongest) return {};
  const std::string letters = letters_of(name);
  std::vector<std::pair<std::size_t, std::string>> near;  // distance, name
  for (const auto& format : all()) {
    std::vector<std::string> names = info(*format).aliases;
    names.push_back(info(*format).name);
    std::size_t least = kLongest;
    for (const std::string& known : names) {
      const std::string others = letters_of(known);
      const std::size_t apart = distance(letters, others);
      // "qwen3" is near "qwen3_coder", although many letters are missing.
      const bool begins = letters.size() >= kShortest && others.starts_with(letters);
      if (begins || 3 * apart <= letters.size()) least = std::min(least, apart);
    }
    if (least < kLongest) near.emplace_back(least, info(*format).name);
  }
  std::ranges::sort(near);
  std::vector<std::string> nearest;
  for (auto& [unused, known] : near) {
    if (nearest.size() < kMost) nearest.push_back(std::move(known));
  }
  return nearest;
}

}  // namespace

std::shared_ptr<const Format> find(std::string_view name) {
  return registry().find(name);
}
Expected<std::shared_ptr<const Format>> named(std::string_view name) {
  if (auto format = find(name)) return format;
  std::string message = "unknown tool_call_format: " + std::string(name);
  const std::vector<std::string> near = near_names(name);
  for (const std::string& one : near) message += (&one == near.data() ? "; near it: " : ", ") + one;
  return Unexpected(Error{Errc::unsupported,
                          std::move(message) + "; `tenon formats` lists those that there are"});
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
