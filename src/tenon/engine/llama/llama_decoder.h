#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/llama/decoder.h"
#include "tenon/engine/llama/libllama.h"
#include "tenon/engine/llama/llama_engine.h"
#include "tenon/engine/llama/thread_plan.h"

namespace tenon::engine {

/// A libllama context as a Decoder.
///
/// The cache is either divided, one part for each sequence, or one for all ("unified"). Divided it
/// is faster, since attention does not go over other sequences' cells (engine_bench over the
/// bundled model, CPU time: prompt/8 230 ms against 434, generation/8 763 ms against 1,086; shared
/// 2-core AMD EPYC, 2026-11), but it takes as much memory for every sequence as for the longest.
/// Unified, a run may grow to its whole context while the others are short.
///
/// libllama fills a new cache with zeros at once, so a divided one begins with 1,024 tokens for
/// each sequence and is made anew, twice as large, when a sequence needs more (bundled model,
/// resident memory of an idle server 219 MB -> 33 MB, 2026-11).
class LlamaDecoder final : public Decoder {
 public:
  struct Options {
    std::uint32_t cache_tokens = 0;  ///< At most.
    std::uint32_t sequences = 1;
    std::uint32_t batch_tokens = 512;
    int threads = 1;
    bool adapts_threads = false;  ///< Uses as many threads as other programs leave room for.
    bool is_divided = true;       ///< cache_tokens / sequences for each.
    FlashAttention flash_attention = FlashAttention::automatic;
    ggml_type type_k = GGML_TYPE_F16;
    ggml_type type_v = GGML_TYPE_F16;
  };

  /// `model` outlives this.
  [[nodiscard]] static Expected<std::unique_ptr<LlamaDecoder>> create(llama_model* model,
                                                                      const Options& options);
  ~LlamaDecoder() override;
  LlamaDecoder(const LlamaDecoder&) = delete;
  LlamaDecoder& operator=(const LlamaDecoder&) = delete;

  [[nodiscard]] Result decode(std::span<const Item> batch,
                              const std::function<bool()>& must_stop) override;
  [[nodiscard]] std::span<float> logits(std::size_t index) override;
  [[nodiscard]] bool reserve(std::uint32_t tokens) override;
  [[nodiscard]] bool truncate(std::int32_t sequence, std::int32_t from) override;
  [[nodiscard]] bool copy(std::int32_t from, std::int32_t to, std::int32_t tokens) override;
  [[nodiscard]] std::uint32_t sequences() const override { return options_.sequences; }
  [[nodiscard]] std::uint32_t cache_tokens() const override { return options_.cache_tokens; }
  [[nodiscard]] std::uint32_t batch_tokens() const override { return options_.batch_tokens; }
  /// One for each sequence, and some for guesses: libllama keeps a row of logits for each of them.
  [[nodiscard]] std::uint32_t batch_rows() const override {
    return std::min(options_.sequences + kGuessedRows, options_.batch_tokens);
  }

 private:
  static constexpr std::uint32_t kGuessedRows = 8;

  LlamaDecoder(llama_model* model, const Options& options);
  Status open();
  Result make_room(std::uint32_t tokens);
  std::uint32_t sequence_room() const;

  int compute();

  llama_model* model_;
  Options options_;
  ThreadPlan threads_;
  std::uint32_t opened_tokens_;  // size of the present context, up to cache_tokens
  ContextPtr context_;           // null after a failure, until the next decode()
  std::size_t vocab_size_;
  llama_batch batch_;
  const std::function<bool()>* must_stop_ = nullptr;  // during decode()
};

}  // namespace tenon::engine
