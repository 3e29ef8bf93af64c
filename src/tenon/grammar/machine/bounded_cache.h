#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace tenon::grammar {

/// Values by key with a limit on their bytes, shared with everyone who has got them from here. When
/// one more does not fit, all are dropped; those that are still needed are made and kept again. A
/// value larger than the limit is not kept. Thread-safe.
template <class Key, class Value>
class BoundedCache {
 public:
  explicit BoundedCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Null if it is not there.
  [[nodiscard]] std::shared_ptr<const Value> find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto known = values_.find(key);
    return known == values_.end() ? nullptr : known->second;
  }

  /// `bytes` are counted in addition to the entry itself.
  void keep(const Key& key, std::shared_ptr<const Value> value, std::size_t bytes) {
    bytes += sizeof(Key) + sizeof(Value) + 6 * sizeof(void*);
    if (bytes > max_bytes_) return;
    const std::lock_guard lock(mutex_);
    if (bytes_ + bytes > max_bytes_) {
      values_.clear();
      bytes_ = 0;
    }
    if (values_.emplace(key, std::move(value)).second) bytes_ += bytes;
  }

  [[nodiscard]] std::size_t memory_bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::size_t max_bytes_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<Key, std::shared_ptr<const Value>> values_;
  std::size_t bytes_ = 0;
};

}  // namespace tenon::grammar
