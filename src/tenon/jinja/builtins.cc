#include "tenon/jinja/builtins.h"

#include <cstddef>
#include <iterator>

namespace tenon::jinja {
namespace {

// An enumerator that is a keyword of C++ ends in an underscore, which is not part of the name.
constexpr std::string_view name_of(std::string_view enumerator) {
  return enumerator.back() == '_' ? enumerator.substr(0, enumerator.size() - 1) : enumerator;
}

#define TENON_JINJA_TEXT(name) name_of(#name),
constexpr std::string_view kMethods[] = {TENON_JINJA_METHODS(TENON_JINJA_TEXT)};
constexpr std::string_view kFunctions[] = {TENON_JINJA_FUNCTIONS(TENON_JINJA_TEXT)};
#undef TENON_JINJA_TEXT

constexpr NameIndex<std::size(kMethods)> kMethodIndex(kMethods);
constexpr NameIndex<std::size(kFunctions)> kFunctionIndex(kFunctions);

}  // namespace

std::uint32_t method_of_name(std::string_view name) {
  return kMethodIndex.find(name);
}

std::uint32_t function_of_name(std::string_view name) {
  return kFunctionIndex.find(name);
}

std::string_view method_name(MethodId id) {
  return kMethods[static_cast<std::size_t>(id)];
}
std::string_view function_name(FunctionId id) {
  return kFunctions[static_cast<std::size_t>(id)];
}

}  // namespace tenon::jinja
