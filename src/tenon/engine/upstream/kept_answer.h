#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// What an upstream sent for a run, as EventSink::on_upstream had it.
struct KeptAnswer {
  std::string url;  ///< The server's, which no message to a client may have.
  unsigned status = 0;
  std::string type;
  std::string coding;
  std::uint32_t retry_after_s = 0;
  std::size_t asked_bytes = 0;
  std::vector<std::string> body;  ///< In the pieces in which it came.
  std::optional<Error> broken{};  ///< Why the transfer broke off.
  bool was_cancelled = false;     ///< So was the run, or its time was over.
};

/// Gives `sink` what an engine of this `kind` (Capabilities::kind) makes of a server's answer to
/// `request`, as if it came now, on this thread: all of it, or until `is_cancelled`. The prompt's
/// ids are counted and not read; `tokenizer` must know the ids of the answer. Fails with
/// `unsupported` for another kind, or if a chat's request has no messages, and then gives nothing.
[[nodiscard]] Status read_kept_answer(std::string_view kind, const KeptAnswer& answer,
                                      const GenerateRequest& request,
                                      const vocab::Tokenizer& tokenizer,
                                      const std::atomic<bool>& is_cancelled,
                                      std::shared_ptr<EventSink> sink);

}  // namespace tenon::engine
