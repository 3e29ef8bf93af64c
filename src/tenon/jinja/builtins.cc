#include "tenon/jinja/builtins.h"

#include <array>
#include <cstddef>

namespace tenon::jinja {
namespace {

// An enumerator that is a keyword of C++ ends in an underscore, which is not part of the name.
constexpr std::string_view name_of(std::string_view enumerator) {
  return enumerator.back() == '_' ? enumerator.substr(0, enumerator.size() - 1) : enumerator;
}

#define TENON_JINJA_TEXT(name) name_of(#name),
constexpr std::string_view kMethods[] = {TENON_JINJA_METHODS(TENON_JINJA_TEXT)};
constexpr std::string_view kFilters[] = {TENON_JINJA_FILTERS(TENON_JINJA_TEXT)};
constexpr std::string_view kTests[] = {TENON_JINJA_TESTS(TENON_JINJA_TEXT)};
constexpr std::string_view kFunctions[] = {TENON_JINJA_FUNCTIONS(TENON_JINJA_TEXT)};
#undef TENON_JINJA_TEXT

constexpr std::size_t hash_of(std::string_view name) {
  std::size_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash ^ hash >> 13;
}

// A hash table over a list of names, which the compiler computes.
template <std::size_t N>
struct Index {
  static constexpr std::size_t kSlots = 1024;
  std::array<std::uint8_t, kSlots> slots{};  // name number + 1

  constexpr explicit Index(const std::string_view (&names)[N]) {
    static_assert(N < 255);
    for (std::size_t i = 0; i < N; ++i) {
      std::size_t slot = hash_of(names[i]) % kSlots;
      while (slots[slot] != 0) slot = (slot + 1) % kSlots;
      slots[slot] = static_cast<std::uint8_t>(i + 1);
    }
  }
  [[nodiscard]] std::uint32_t find(const std::string_view (&names)[N],
                                   std::string_view name) const {
    for (std::size_t slot = hash_of(name) % kSlots; slots[slot] != 0; slot = (slot + 1) % kSlots) {
      if (names[slots[slot] - 1U] == name) return slots[slot] - 1U;
    }
    return kNoBuiltin;
  }
};

constexpr Index kMethodIndex(kMethods);
constexpr Index kFilterIndex(kFilters);
constexpr Index kTestIndex(kTests);
constexpr Index kFunctionIndex(kFunctions);

}  // namespace

std::uint32_t method_of_name(std::string_view name) {
  return kMethodIndex.find(kMethods, name);
}

std::uint32_t filter_of_name(std::string_view name, bool superset) {
  const std::uint32_t id = kFilterIndex.find(kFilters, name);
  const bool is_extra = id == static_cast<std::uint32_t>(FilterId::from_json) ||
                        id == static_cast<std::uint32_t>(FilterId::fromjson);
  return is_extra && !superset ? kNoBuiltin : id;
}

std::uint32_t test_of_name(std::string_view name) {
  // jinja2 also knows the comparisons by their operators; select() can name them.
  if (name == "==") name = "eq";
  if (name == "!=") name = "ne";
  if (name == ">") name = "gt";
  if (name == ">=") name = "ge";
  if (name == "<") name = "lt";
  if (name == "<=") name = "le";
  return kTestIndex.find(kTests, name);
}

std::uint32_t function_of_name(std::string_view name) {
  return kFunctionIndex.find(kFunctions, name);
}

std::string_view method_name(MethodId id) {
  return kMethods[static_cast<std::size_t>(id)];
}
std::string_view function_name(FunctionId id) {
  return kFunctions[static_cast<std::size_t>(id)];
}

}  // namespace tenon::jinja
