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
#include "tenon/grammar/machine/grammar.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// Grammars by the sources from which they were made, so that the second request with the same
/// tools compiles nothing and uses the masks of the first. Their total size is limited, except for
/// what they have grown by since they were last counted, which happens at each compilation and now
/// and then at a hit. The least recently used ones are dropped first; they stay alive while
/// matchers use them. Thread-safe.
///
///     GrammarCache cache(index, 256 << 20);
///     auto grammar = cache.get(schema_text + options_text, [&](Machine& machine) { ... });
class GrammarCache {
 public:
  GrammarCache(std::shared_ptr<VocabIndex> index, std::size_t max_bytes)
      : index_(std::move(index)), max_bytes_(max_bytes) {}

  /// `source` identifies the grammar: it must include everything on which `build` depends. `build`
  /// is kept with the grammar, so it must own what it needs. Fails as Grammar::make does. Limits
  /// that were reached are kept as results, so that an expensive failure costs its time once.
  [[nodiscard]] Expected<std::shared_ptr<Grammar>> get(std::string_view source,
                                                       Grammar::Build build);

  /// What get() would return without making a grammar; nothing if it would make one. A caller that
  /// has to copy much for `build` asks this first.
  [[nodiscard]] std::optional<Expected<std::shared_ptr<Grammar>>> find(std::string_view source);

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
  std::shared_ptr<Grammar> find_grammar(const regex::Fingerprint& key);
  std::optional<Expected<std::shared_ptr<Grammar>>> find_known(const regex::Fingerprint& key);
  std::shared_ptr<Grammar> keep(const regex::Fingerprint& key, std::shared_ptr<Grammar> grammar);
  std::list<Entry> take_excess();

  std::shared_ptr<VocabIndex> index_;
  std::size_t max_bytes_;
  mutable std::mutex mutex_;  // guards the members below
  std::list<Entry> entries_;  // the most recently used one first
  std::map<regex::Fingerprint, std::list<Entry>::iterator> by_key_;
  std::map<regex::Fingerprint, Error> failures_;
  Counts counts_;
};

}  // namespace tenon::grammar
