#include "tenon/regex/unicode.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <unicode/uniset.h>
#include <unicode/unistr.h>

namespace tenon::regex {
namespace {

constexpr std::size_t kMaxName = 64;    // the longest name of Unicode has 50 letters
constexpr std::size_t kMaxKept = 1024;  // a pattern can write one property in many ways

CodePointSet from_icu(const icu::UnicodeSet& set) {
  std::vector<CodePointSet::Range> ranges;
  ranges.reserve(static_cast<std::size_t>(set.getRangeCount()));
  for (std::int32_t i = 0; i < set.getRangeCount(); ++i) {
    ranges.push_back(
        {static_cast<char32_t>(set.getRangeStart(i)), static_cast<char32_t>(set.getRangeEnd(i))});
  }
  return CodePointSet(std::move(ranges));
}

// "L", "Script" and "Greek", "White_Space": the names and aliases of Unicode, as ICU knows them.
// Null: there is no such property.
std::shared_ptr<const CodePointSet> ask_icu(std::string_view property, std::string_view value) {
  const auto text = [](std::string_view name) {
    return icu::UnicodeString::fromUTF8({name.data(), static_cast<std::int32_t>(name.size())});
  };
  icu::UnicodeSet set;
  UErrorCode status = U_ZERO_ERROR;
  set.applyPropertyAlias(text(property), text(value), status);
  if (U_FAILURE(status)) return nullptr;
  return std::make_shared<const CodePointSet>(from_icu(set));
}

}  // namespace

std::shared_ptr<const CodePointSet> characters_with(std::string_view property,
                                                    std::string_view value) {
  if (property.size() > kMaxName || value.size() > kMaxName) return nullptr;

  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::shared_ptr<const CodePointSet>> known;
  const std::pair key(std::string{property}, std::string{value});
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  auto set = ask_icu(property, value);
  // Also that a property is unknown. When the table is full, ICU is asked again each time.
  if (known.size() < kMaxKept) known.emplace(key, set);
  return set;
}

CodePointSet case_closed(const CodePointSet& set) {
  // ICU looks at each character of the set, so it gets only those that have a case.
  const CodePointSet cased = set.intersected(*characters_with("Case_Sensitive"));
  icu::UnicodeSet closed;
  for (const CodePointSet::Range& range : cased.ranges()) {
    closed.add(static_cast<UChar32>(range.first), static_cast<UChar32>(range.last));
  }
  closed.closeOver(USET_CASE_INSENSITIVE);
  return set.united(from_icu(closed));  // without ICU's strings ("ss" for U+00DF)
}

}  // namespace tenon::regex
