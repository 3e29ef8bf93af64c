#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"

namespace tenon::store {

struct StoreOptions {
  std::string
      path;  ///< The SQLite file, created if it is missing; "": in memory, lost with the object.
  std::uint64_t max_bytes = std::uint64_t{64} << 20;  ///< For all ids and documents together.
  std::uint64_t max_documents = 1000;
  std::chrono::seconds ttl{0};  ///< How long a document is kept; 0: until its room is needed.
  /// Seconds since 1970; absent: the system's clock.
  std::function<std::int64_t()> now;
};

/// Documents by their ids, for clients that ask for an earlier answer. A document is kept until it
/// is erased or too old, or until newer ones need the room (the oldest are deleted first).
///
///     auto store = ResponseStore::open({.path = "tenon.db"});
///     (*store)->put("resp_1", document);
///     auto found = (*store)->get("resp_1");   // nullopt if there is no such document
///
/// When put() or erase() returns, the change is in the file and survives the end of the process.
/// (If the machine fails, the changes of the last moments may be lost, but the file is intact.) Two
/// processes may share a file. Thread-safe; calls wait for each other and for the disk, so they
/// must not be made on a thread that must not wait. Failures are `unavailable` (the disk is full,
/// another process holds the file for long) or `invalid` (the file is damaged), and name the file.
class ResponseStore {
 public:
  /// Fails with `invalid` at a file that is damaged, belongs to another program or has a newer
  /// version, and leaves it unchanged. Reads the whole file once to check it.
  [[nodiscard]] static Expected<std::unique_ptr<ResponseStore>> open(StoreOptions options);
  ~ResponseStore();
  ResponseStore(const ResponseStore&) = delete;
  ResponseStore& operator=(const ResponseStore&) = delete;

  /// Keeps `document` under `id` and replaces an earlier one. Fails with `limit_exceeded` if it is
  /// larger than max_bytes.
  [[nodiscard]] Status put(std::string_view id, std::string_view document);
  [[nodiscard]] Expected<std::optional<std::string>> get(std::string_view id);
  /// Replaces the document by what `change` makes of it. No other thread and no other process
  /// changes it in between. `change` gets nullopt if there is no such document; where it returns
  /// nullopt, nothing is changed. It runs while the store is held: it must not call the store, and
  /// must not wait.
  using Change = std::function<std::optional<std::string>(std::optional<std::string> document)>;
  [[nodiscard]] Status change(std::string_view id, const Change& change);
  /// Makes the document as new as if it had just been put. False: there is no such document.
  [[nodiscard]] Expected<bool> touch(std::string_view id);
  /// False: there was no such document.
  [[nodiscard]] Expected<bool> erase(std::string_view id);

  struct Size {
    std::uint64_t documents = 0;
    std::uint64_t bytes = 0;
  };
  /// The size of all documents, including those that are too old and not yet deleted.
  [[nodiscard]] Expected<Size> size();

 private:
  struct Impl;
  explicit ResponseStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::store
