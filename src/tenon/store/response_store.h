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
      path;  ///< SQLite file, made where there is none; "": in memory, gone with the object.
  std::uint64_t max_bytes = std::uint64_t{64} << 20;  ///< Of all ids and documents together.
  std::uint64_t max_documents = 1000;
  std::chrono::seconds ttl{0};  ///< How long a document is kept; 0: until there is no room.
  /// Seconds since 1970; absent: the system's clock.
  std::function<std::int64_t()> now;
};

/// Documents by their ids, for clients that come back to an answer: kept until they are erased or
/// too old, or until newer ones need the room (the oldest go first).
///
///     auto store = ResponseStore::open({.path = "tenon.db"});
///     (*store)->put("resp_1", document);
///     auto found = (*store)->get("resp_1");   // nullopt where there is none
///
/// What put() or erase() has done is in the file when they return: it survives the death of the
/// process (the last moments do not survive that of the machine, but the file does). Two processes
/// may share a file. Thread-safe; calls wait for each other and for the disk, so no thread that
/// must not wait calls them. Failures are `unavailable` (the disk is full, another process holds
/// the file for long) or `invalid` (the file is damaged), and name the file.
class ResponseStore {
 public:
  /// Fails with `invalid` at a file that is damaged, of another program or of a newer version, and
  /// leaves it as it is. Reads the whole file once, to know.
  [[nodiscard]] static Expected<std::unique_ptr<ResponseStore>> open(StoreOptions options);
  ~ResponseStore();
  ResponseStore(const ResponseStore&) = delete;
  ResponseStore& operator=(const ResponseStore&) = delete;

  /// Keeps `document` under `id`, instead of what was there. Fails with `limit_exceeded` at one
  /// that is larger than max_bytes.
  [[nodiscard]] Status put(std::string_view id, std::string_view document);
  [[nodiscard]] Expected<std::optional<std::string>> get(std::string_view id);
  /// As if it were put again, without its document. False: there is none.
  [[nodiscard]] Expected<bool> touch(std::string_view id);
  /// False: there was none.
  [[nodiscard]] Expected<bool> erase(std::string_view id);

  struct Size {
    std::uint64_t documents = 0;
    std::uint64_t bytes = 0;
  };
  /// Of what is kept, documents that are too old and not yet swept included.
  [[nodiscard]] Expected<Size> size();

 private:
  struct Impl;
  explicit ResponseStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::store
