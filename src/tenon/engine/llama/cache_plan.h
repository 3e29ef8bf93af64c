#pragma once

#include <cstdint>
#include <optional>

#include "tenon/base/expected.h"

/// Decides how large the key-value cache of a model is.
namespace tenon::engine {

struct CacheNeeds {
  std::uint64_t asked_tokens = 0;  ///< LlamaOptions::cache_tokens
  std::uint64_t context_tokens = 0;
  std::uint64_t runs = 1;  ///< Runs that advance at the same time.
  std::uint64_t bytes_per_token = 0;
};

struct CachePlan {
  std::uint64_t tokens = 0;  ///< For all runs together; at least one context.
  bool is_divided = false;   ///< Each run has a part for a whole context; else they share.

  bool operator==(const CachePlan&) const = default;
};

/// Applies LlamaOptions::cache_tokens: a whole context for each run if that is cheap or asked for,
/// else a cache that the runs share. In steps of 256 tokens, as libllama rounds.
[[nodiscard]] CachePlan plan_cache(const CacheNeeds& needs);

/// Fails with limit_exceeded, naming the numbers, if libllama cannot count that many tokens or if
/// more bytes are needed than are `available` (nullopt: not known).
[[nodiscard]] Status check_memory(const CachePlan& plan, std::uint64_t bytes_per_token,
                                  std::optional<std::uint64_t> available);

/// Bytes that the system can give without swapping; nullopt if it does not tell.
[[nodiscard]] std::optional<std::uint64_t> available_memory();

}  // namespace tenon::engine
