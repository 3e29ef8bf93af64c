#include "tenon/engine/llama/cache_plan.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace tenon::engine {
namespace {

// Tokens for each run in a shared cache, and the memory up to which each run gets a whole context
// (LlamaOptions::cache_tokens).
constexpr std::uint64_t kLeastPerRun = 2048;
constexpr std::uint64_t kCheapBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kStep = 256;                           // as libllama rounds
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 30;  // positions are 32-bit

std::uint64_t in_steps(std::uint64_t tokens) {
  return (tokens + kStep - 1) / kStep * kStep;
}

}  // namespace

CachePlan plan_cache(const CacheNeeds& needs) {
  const std::uint64_t context = in_steps(needs.context_tokens);
  const std::uint64_t whole = context * needs.runs;
  std::uint64_t tokens = needs.asked_tokens;
  if (tokens == 0) {
    const bool is_cheap = whole * needs.bytes_per_token <= kCheapBytes;
    tokens = is_cheap ? whole : std::max(2 * context, kLeastPerRun * needs.runs);
  }
  // Room for all: then it is divided, because attention over a run's own part is faster
  // (llama_decoder.h).
  if (tokens >= whole) return {whole, true};
  return {std::max(in_steps(tokens), context), false};
}

Status check_memory(const CachePlan& plan, std::uint64_t bytes_per_token,
                    std::optional<std::uint64_t> available) {
  const std::string cache = "a cache of " + std::to_string(plan.tokens) + " tokens ";
  if (plan.tokens > kMostTokens) {
    return Unexpected(
        Error{Errc::limit_exceeded, cache + "is more than " + std::to_string(kMostTokens)});
  }
  const std::uint64_t needed = plan.tokens * bytes_per_token;
  if (!available || needed <= *available) return {};
  return Unexpected(
      Error{Errc::limit_exceeded, cache + "needs " + std::to_string(needed >> 20) + " MiB, but " +
                                      std::to_string(*available >> 20) + " MiB are free"});
}

std::optional<std::uint64_t> available_memory() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  // "MemAvailable:   8123456 kB"; the rest of each line is skipped. Not MemFree, which leaves out
  // what the page cache would give back.
  while (info >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes << 10;
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace tenon::engine
