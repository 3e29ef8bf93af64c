#include "tenon/base/trace.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace tenon::trace {
namespace {

// version "-" trace-id "-" parent-id "-" flags
constexpr std::size_t kVersion = 2;
constexpr std::size_t kTraceBegin = 3;
constexpr std::size_t kTraceBytes = 32;
constexpr std::size_t kSpanBegin = kTraceBegin + kTraceBytes + 1;
constexpr std::size_t kSpanBytes = 16;
constexpr std::size_t kFlagsBegin = kSpanBegin + kSpanBytes + 1;
constexpr std::size_t kParentBytes = kFlagsBegin + 2;
constexpr std::size_t kMaxStateBytes = 512;
constexpr std::size_t kMaxMembers = 32;

thread_local const Context* current_context = nullptr;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

bool is_hexadecimal(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

// W3C Trace Context forbids ids of zeros.
bool is_id(std::string_view text) {
  return is_hexadecimal(text) && text.find_first_not_of('0') != std::string_view::npos;
}

// The field `traceparent` in the form of version 00, or "" if it is wrong: a wrong field counts as
// none.
std::string read_parent(std::string_view text) {
  if (text.size() < kParentBytes) return {};
  const std::string_view version = text.substr(0, kVersion);
  const std::string_view flags = text.substr(kFlagsBegin, 2);
  for (const std::size_t dash : {kVersion, kSpanBegin - 1, kFlagsBegin - 1}) {
    if (text[dash] != '-') return {};
  }
  // Version ff is forbidden. Later versions may have more behind another dash, which we leave out.
  if (!is_hexadecimal(version) || version == "ff" || !is_hexadecimal(flags) ||
      !is_id(text.substr(kTraceBegin, kTraceBytes)) || !is_id(text.substr(kSpanBegin, kSpanBytes)))
    return {};
  const bool goes_on = text.size() > kParentBytes;
  if (version == "00") return goes_on ? std::string() : std::string(text);
  if (goes_on && text[kParentBytes] != '-') return {};
  // We know only the lowest of the flags, which says that the trace is recorded.
  const char last = flags[1];
  const int low = is_digit(last) ? last - '0' : last - 'a' + 10;
  return "00" + std::string(text.substr(kVersion, kFlagsBegin - kVersion)) +
         (low % 2 == 1 ? "01" : "00");
}

// Letters, digits and _-*/, with at most one '@' (tenant@system).
bool is_key(std::string_view key) {
  if (key.empty() || key.size() > 256 || !(is_lower(key[0]) || is_digit(key[0]))) return false;
  if (const std::size_t at = key.find('@'); at != std::string_view::npos) {
    const std::string_view system = key.substr(at + 1);
    if (at > 241 || system.empty() || system.size() > 14 || !is_lower(system[0]) ||
        system.find('@') != std::string_view::npos)
      return false;
  }
  return std::ranges::all_of(key, [](char c) {
    return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/' || c == '@';
  });
}

bool is_value(std::string_view value) {
  return !value.empty() && value.size() <= 256 && value.back() != ' ' &&
         std::ranges::all_of(value,
                             [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

// The field `tracestate`: "vendor=value" members with commas between them, each key once.
bool is_state(std::string_view text) {
  if (text.size() > kMaxStateBytes) return false;
  std::set<std::string_view> keys;
  std::size_t members = 0;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view member = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t begin = member.find_first_not_of(" \t");
    if (begin == std::string_view::npos) continue;  // empty members are allowed
    member = member.substr(begin, member.find_last_not_of(" \t") - begin + 1);
    const std::size_t equals = member.find('=');
    if (++members > kMaxMembers || equals == std::string_view::npos) return false;
    const std::string_view key = member.substr(0, equals);
    if (!is_key(key) || !is_value(member.substr(equals + 1)) || !keys.insert(key).second)
      return false;
  }
  return members > 0;
}

}  // namespace

std::string_view Context::trace_id() const {
  return parent.empty() ? std::string_view()
                        : std::string_view(parent).substr(kTraceBegin, kTraceBytes);
}

Context read(std::string_view parent, std::string_view state) {
  Context context{.parent = read_parent(parent), .state = {}};
  // A state without a parent belongs to nothing. A wrong state is left out, and the parent stays.
  if (!context.parent.empty() && is_state(state)) context.state = state;
  return context;
}

Scope::Scope(const Context& context) : outer_(current_context) {
  current_context = &context;
}

Scope::~Scope() {
  current_context = outer_;
}

const Context& current() {
  static const Context kNone;
  return current_context == nullptr ? kNone : *current_context;
}

}  // namespace tenon::trace
