#pragma once

#include <string>

namespace tenon::grammar {

/// Something that a grammar could not say: what it accepts there is more than what was asked for.
struct Relaxed {
  std::string schema_path;  ///< Of the place in the schema, or of the rule; "" is the root.
  std::string keyword;      ///< "multipleOf"; or what it is that a dialect lacks, "{2,9000}".
  std::string message;      ///< A sentence: what is accepted instead.

  bool operator==(const Relaxed&) const = default;
};

}  // namespace tenon::grammar
