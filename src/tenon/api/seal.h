#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/store/response_store.h"

namespace tenon::api {

/// What clients keep for us between requests, and can neither read nor change: summaries of
/// conversations, and reasoning. AES-256-GCM (NIST SP 800-38D) under a key of this server, which
/// its store keeps; with a store in memory the key is gone with the process. A text for one owner
/// of a key cannot be opened by another. Thread-safe; open() waits for the store.
///
///     const std::string carried = seal.close("ann", "a summary");   // "tenon1." and base64
///     seal.open("ann", carried);    // the text; no value if it is not ours or was changed
class Seal {
 public:
  /// Longer texts are cut between characters.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// Waits for the store. Null: the key is kept in memory.
  explicit Seal(std::shared_ptr<store::ResponseStore> store);

  /// "" if the system's cryptography fails.
  [[nodiscard]] std::string close(std::string_view owner, std::string_view text) const;
  [[nodiscard]] std::optional<std::string> open(std::string_view owner,
                                                std::string_view sealed) const;

 private:
  const std::shared_ptr<store::ResponseStore> store_;
  const std::string key_;
};

}  // namespace tenon::api
