#pragma once

#include <string>
#include <vector>

#include "verify/check.h"
#include "verify/session.h"

#include "tenon/json/value.h"

/// What `tenon verify` prints and writes.
namespace tenon::app::verify {

struct Report {
  Target target;
  std::string version;  ///< Tenon's version.
  std::string date;     ///< "2026-11-30 18:00:00 UTC"
  std::size_t of = 0;   ///< Checks that were to be made; fewer results: see `ended`.
  std::vector<Result> results;
  std::string ended{};  ///< Why it ended before all were made: "interrupted".

  [[nodiscard]] std::size_t count(Verdict verdict) const;
};

/// A table of the groups, then every check that did not pass, with the reason.
[[nodiscard]] std::string table(const Report& report);
/// Everything, with each request and answer; docs/verify.md names the members.
[[nodiscard]] json::Object to_json(const Report& report);
/// The same as one page that needs nothing else.
[[nodiscard]] std::string to_html(const Report& report);

}  // namespace tenon::app::verify
