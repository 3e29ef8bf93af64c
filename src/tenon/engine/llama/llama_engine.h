#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"

namespace tenon::engine {

enum class FlashAttention : std::uint8_t {
  automatic,  ///< Off on a CPU with heads of up to 64 numbers, else as libllama chooses.
  on,
  off,
};

/// The number type of the key-value cache.
enum class CacheType : std::uint8_t { f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 };
/// In the order of the enumerators.
inline constexpr std::string_view kCacheTypeNames[] = {"f32",  "f16",  "bf16", "q8_0",
                                                       "q5_1", "q5_0", "q4_1", "q4_0"};

struct LlamaOptions {
  std::string path;  ///< A GGUF file; for a split model the first part.
  /// For one run; 0: what the model was trained with, up to 16384.
  std::uint32_t context_tokens = 0;
  std::uint32_t max_concurrent = 8;  ///< Runs that advance at the same time; others wait.
  std::uint32_t queue_limit = 64;    ///< How many may wait.
  /// Tokens that the cache holds for all runs together. 0: a full context for each run if that
  /// takes at most 512 MiB (taken as runs need them), else enough for two full contexts and at
  /// least 2048 tokens per run. A smaller cache is shared: when it is full the youngest run waits,
  /// and is computed again later.
  std::uint32_t cache_tokens = 0;
  std::uint32_t batch_tokens = 512;  ///< Prompt tokens computed in one go.
  int threads = 0;                   ///< 0: by the model's size, and fewer while others work.
  int gpu_layers = -1;               ///< -1: all, if libllama was built for a GPU.
  FlashAttention flash_attention = FlashAttention::automatic;
  bool prefix_cache = true;  ///< Reuses what a new prompt has in common with an old one.
  bool speculation = true;   ///< Guesses tokens of constrained answers, where that pays.
  /// "host:port" of workers (rpc_worker.h) that compute a part of the layers; empty: all layers are
  /// computed here.
  std::vector<std::string> rpc;
  CacheType cache_type_k = CacheType::f16;
  CacheType cache_type_v = CacheType::f16;  ///< Quantised types need flash attention.
};

/// The embedded engine: libllama, with our own scheduling and sampling.
///
///     auto engine = LlamaEngine::load({.path = "models/tenon-tiny.gguf"});
///     if (!engine) return fail(engine.error().message);
///     auto run = (*engine)->start({.prompt = ids, .max_tokens = 100}, sink);
///
/// One thread owns the model and advances all runs together: each step takes one token of every
/// run that generates and a share of every prompt, so a long prompt does not stop other runs. Sinks
/// are called on that thread. A run that cannot be computed ends with an error; the others go on.
///
/// Sampling parameters that a request leaves out (temperature, top_p, top_k, min_p) are those that
/// the file recommends under general.sampling.*, and else the defaults of message::Sampling.
///
/// The same seed gives the same answer whenever the model's logits are the same: a run's draws
/// depend on nothing else. libllama rounds a token's logits differently in a batch of another size,
/// so with several runs at once, or with part of the prompt found in the cache, an answer may
/// differ where two tokens are almost equally likely (see engine/llama's test).
///
/// Thread-safe. Destroy it outside of a sink: that cancels all runs and waits for their ends.
class LlamaEngine : public Engine {
 public:
  /// Reads the model: milliseconds for a small one, minutes for a large one. Errors name the file
  /// and what is wrong: `unavailable` (not found, not readable), `invalid` (not a GGUF file, cut
  /// off, inconsistent), `unsupported` (an architecture or tokenizer that libllama lacks, no
  /// tokenizer at all), `limit_exceeded` (not enough memory). The file is not trusted.
  [[nodiscard]] static Expected<std::unique_ptr<LlamaEngine>> load(const LlamaOptions& options);

  /// The memory that a model takes, computed from its file's header: weights and a full cache, but
  /// not the buffers of a computation, which are small beside them. Fails as load() does if the
  /// file is not readable or not a model.
  [[nodiscard]] static Expected<std::uint64_t> memory_bytes(const LlamaOptions& options);
};

}  // namespace tenon::engine
