#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/grammar/grammar.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// Grammars by what they were made of, so that the second request with the same tools compiles
/// nothing and finds the masks of the first. Of at most so many bytes together, but for what they
/// have grown by since the last look: one is taken at each compilation and now and then at a hit.
/// Those that were not asked for the longest time go first, and stay alive while somebody matches
/// with them. Thread-safe.
///
///     GrammarCache cache(index, 256 << 20);
///     auto grammar = cache.get(schema_text + options_text, [&](Machine& machine) { ... });
class GrammarCache {
 public:
  GrammarCache(std::shared_ptr<VocabIndex> index, std::size_t max_bytes)
      : index_(std::move(index)), max_bytes_(max_bytes) {}

  /// `source` tells grammars apart: all that `build` depends on. `build` is kept with the grammar,
  /// so it owns what it needs. Fails as Grammar::make does; of failures, limits that were reached
  /// are kept, so that what costs much costs it once.
  [[nodiscard]] Expected<std::shared_ptr<Grammar>> get(std::string_view source,
                                                       Grammar::Build build);

  struct Counts {
    std::uint64_t compilations = 0;
    std::uint64_t hits = 0;
  };
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  struct Entry {
    regex::Fingerprint key;
    std::shared_ptr<Grammar> grammar;
  };

  [[nodiscard]] std::optional<Error> find_failure(const regex::Fingerprint& key) const;
  void keep_failure(const regex::Fingerprint& key, const Error& error);
  std::shared_ptr<Grammar> find(const regex::Fingerprint& key);
  std::shared_ptr<Grammar> keep(const regex::Fingerprint& key, std::shared_ptr<Grammar> grammar);
  std::list<Entry> take_excess();

  std::shared_ptr<VocabIndex> index_;
  std::size_t max_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  std::list<Entry> entries_;  // the last one asked for first
  std::map<regex::Fingerprint, std::list<Entry>::iterator> by_key_;
  std::map<regex::Fingerprint, Error> failures_;
  Counts counts_;
};

}  // namespace tenon::grammar
