#pragma once

#include <cstdint>
#include <optional>

#include "tenon/base/expected.h"

/// How large the key-value cache of a model becomes.
namespace tenon::engine {

struct CacheNeeds {
  std::uint64_t asked_tokens = 0;  ///< LlamaOptions::cache_tokens
  std::uint64_t context_tokens = 0;
  std::uint64_t runs = 1;  ///< That advance at the same time.
  std::uint64_t bytes_per_token = 0;
};

struct CachePlan {
  std::uint64_t tokens = 0;  ///< Of all runs together; at least one context.
  bool is_divided = false;   ///< Each run has a context of its own; else they share.

  bool operator==(const CachePlan&) const = default;
};

/// What LlamaOptions::cache_tokens says: a whole context for each run where that is cheap or asked
/// for, else a cache that they share. In steps of 256 tokens, which are libllama's own.
[[nodiscard]] CachePlan plan_cache(const CacheNeeds& needs);

/// Fails with limit_exceeded, naming the numbers, where libllama cannot count that many tokens or
/// there are not as many bytes `available` (nullopt: not known).
[[nodiscard]] Status check_memory(const CachePlan& plan, std::uint64_t bytes_per_token,
                                  std::optional<std::uint64_t> available);

/// Bytes that the system can give without swapping; nullopt where it does not say.
[[nodiscard]] std::optional<std::uint64_t> available_memory();

}  // namespace tenon::engine
