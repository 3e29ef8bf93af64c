#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/schema/schema.h"

/// What the values of `format` mean, for those who validate strings and those who generate them.
namespace tenon::schema {

struct Format {
  std::string_view name;
  Pattern pattern;  ///< What every text of the format matches, from end to end.
  /// What no pattern says, of a text that matches it; null where the pattern is all there is.
  bool (*also)(std::string_view text) = nullptr;
};

/// The format called `name`, or null: one we do not know constrains nothing. The known ones are
/// date-time, date, time, duration, email, idn-email, hostname, idn-hostname, ipv4, ipv6, uri,
/// uri-reference, iri, iri-reference, uri-template, uuid, json-pointer, relative-json-pointer and
/// regex. Each lives as long as the program and is made when it is first asked for; thread-safe.
[[nodiscard]] Expected<const Format*> find_format(std::string_view name);

/// Whether `text`, which is UTF-8, is of the format. Fails as Regex::contains_match does.
[[nodiscard]] Expected<bool> has_format(const Format& format, std::string_view text);

}  // namespace tenon::schema
