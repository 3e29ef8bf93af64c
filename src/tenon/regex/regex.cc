#include "tenon/regex/regex.h"

#include <utility>

namespace tenon::regex {

struct Regex::Impl {};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::~Regex() = default;

Expected<std::shared_ptr<const Regex>> Regex::compile(std::string_view, const Limits&) {
  return Unexpected(Error{Errc::unsupported, "regular expressions are not there yet"});
}

Expected<bool> Regex::contains_match(std::string_view) const {
  return false;
}

}  // namespace tenon::regex
