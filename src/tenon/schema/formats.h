#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/schema/schema.h"

/// The meaning of the values of `format`, for code that validates strings and code that generates
/// them.
namespace tenon::schema {

struct Format {
  std::string_view name;
  Pattern pattern;  ///< Every text of the format matches it, from end to end.
  /// Checks what no pattern can say, for a text that matches it. Null if the pattern says all.
  bool (*also)(std::string_view text) = nullptr;
};

/// The format called `name`, or null: a format that Tenon does not know constrains nothing. The
/// known ones are date-time, date, time, duration, email, idn-email, hostname, idn-hostname, ipv4,
/// ipv6, uri, uri-reference, iri, iri-reference, uri-template, uuid, json-pointer,
/// relative-json-pointer and regex. Each is made when it is first asked for and lives as long as
/// the program; thread-safe.
[[nodiscard]] Expected<const Format*> find_format(std::string_view name);

/// Whether `text`, which must be UTF-8, is of the format. Fails as Regex::contains_match does.
[[nodiscard]] Expected<bool> has_format(const Format& format, std::string_view text);

}  // namespace tenon::schema
