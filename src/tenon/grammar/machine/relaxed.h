#pragma once

#include <string>

namespace tenon::grammar {

/// Something that a grammar could not express, so it allows more there than was asked for.
struct Relaxed {
  std::string schema_path;  ///< The place in the schema, or the rule; "" is the root.
  std::string keyword;      ///< "multipleOf"; or the feature that a language lacks, "{2,9000}".
  std::string message;      ///< A sentence that says what is allowed instead.

  bool operator==(const Relaxed&) const = default;
};

}  // namespace tenon::grammar
