#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/bounded_cache.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/json/value.h"
#include "tenon/regex/expr.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {

/// Schemas that add_json() has taken, by their text. Sets of tools that differ in a few tools share
/// the others: a known schema is not compiled again, it is known to have a value, and its frames
/// are made when a text reaches it (add_known_json). Keeps the latest ones within a limit.
/// Thread-safe.
///
///     KnownSchemas known(16 << 20);
///     if (const auto schema = known.find(source, options)) {
///       rules.add(node::Json{schema->schema, options, schema->may_wait});
///     }
class KnownSchemas {
 public:
  explicit KnownSchemas(std::size_t max_bytes) : known_(max_bytes) {}

  struct Known {
    std::shared_ptr<const schema::Schema> schema;
    std::vector<Relaxed> relaxed;  ///< As add_json() told.
    /// Its frames take so little time that they may be made while a mask is.
    bool may_wait = false;
  };
  /// Null: the schema has not been added with these options. How a value is written (white space,
  /// the order of members) does not matter.
  [[nodiscard]] std::shared_ptr<const Known> find(const json::Value& source,
                                                  const JsonOptions& options) const;
  /// Compiles the schema and adds it to the machine, and keeps it if both succeed. Fails as
  /// Schema::compile() and add_json() do.
  [[nodiscard]] Expected<std::shared_ptr<const Known>> add(Machine& machine,
                                                           const json::Value& source,
                                                           const JsonOptions& options);

 private:
  BoundedCache<regex::Fingerprint, Known> known_;
};

}  // namespace tenon::grammar
