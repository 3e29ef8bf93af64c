#include "tenon/grammar/machine/grammar_cache.h"

#include <utility>

namespace tenon::grammar {

Expected<std::shared_ptr<Grammar>> GrammarCache::get(std::string_view source,
                                                     Grammar::Build build) {
  const regex::Fingerprint key = regex::fingerprint_of(source);
  if (auto known = find_known(key)) return *std::move(known);
  // Compiled without the lock, so that a slow compilation does not stop others.
  auto grammar = Grammar::make(std::move(build), index_);
  if (!grammar) {
    keep_failure(key, grammar.error());
    return Unexpected(grammar.error());
  }
  return keep(key, std::move(*grammar));
}

std::optional<Expected<std::shared_ptr<Grammar>>> GrammarCache::find(std::string_view source) {
  return find_known(regex::fingerprint_of(source));
}

std::optional<Expected<std::shared_ptr<Grammar>>> GrammarCache::find_known(
    const regex::Fingerprint& key) {
  if (auto known = find_grammar(key)) return known;
  if (auto failure = find_failure(key)) return Unexpected(*std::move(failure));
  return std::nullopt;
}

std::optional<Error> GrammarCache::find_failure(const regex::Fingerprint& key) const {
  const std::lock_guard lock(mutex_);
  const auto known = failures_.find(key);
  return known == failures_.end() ? std::nullopt : std::optional(known->second);
}

void GrammarCache::keep_failure(const regex::Fingerprint& key, const Error& error) {
  constexpr std::size_t kMostFailures = 256;
  // A limit costs its whole budget each time; other failures cost less.
  if (error.code != Errc::limit_exceeded) return;
  const std::lock_guard lock(mutex_);
  // Cheaper than an order of use, and 256 different failing sources are rare.
  if (failures_.size() == kMostFailures) failures_.clear();
  failures_.emplace(key, error);
}

GrammarCache::Counts GrammarCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::size_t GrammarCache::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.grammar->memory_bytes();
  return bytes;
}

std::shared_ptr<Grammar> GrammarCache::find_grammar(const regex::Fingerprint& key) {
  constexpr std::uint64_t kHitsBetweenLooks = 64;
  std::list<Entry> gone;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known->second);
  if (++counts_.hits % kHitsBetweenLooks == 0) gone = take_excess();
  return entries_.front().grammar;
}

// Returns the existing grammar if another thread was faster.
std::shared_ptr<Grammar> GrammarCache::keep(const regex::Fingerprint& key,
                                            std::shared_ptr<Grammar> grammar) {
  std::list<Entry> gone;  // freed without the lock
  const std::lock_guard lock(mutex_);
  ++counts_.compilations;
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second->grammar;
  entries_.push_front({key, std::move(grammar)});
  by_key_.emplace(key, entries_.begin());
  gone = take_excess();
  return entries_.front().grammar;
}

// Called with the lock; returns the entries beyond the limit. Grammars grow while they are used, so
// all are counted again.
std::list<GrammarCache::Entry> GrammarCache::take_excess() {
  std::list<Entry> gone;
  std::size_t bytes = 0;
  auto entry = entries_.begin();
  while (entry != entries_.end() && (bytes += entry->grammar->memory_bytes()) <= max_bytes_) {
    ++entry;
  }
  if (entry == entries_.begin()) ++entry;  // the entry just asked for stays, however large it is
  for (auto last = entry; last != entries_.end(); ++last) by_key_.erase(last->key);
  gone.splice(gone.begin(), entries_, entry, entries_.end());
  return gone;
}

}  // namespace tenon::grammar
