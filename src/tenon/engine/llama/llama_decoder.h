#pragma once

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

namespace tenon::engine {

/// A libllama context as the scheduler sees it.
///
/// One cache for all sequences ("unified"): a run may then grow to its whole context without every
/// other run having as much memory set aside, and sequences can share cells. What it costs is that
/// attention looks at the masks of other sequences' cells: see bench/engine_bench.cc.
class LlamaDecoder final : public Decoder {
 public:
  struct Options {
    std::uint32_t cache_tokens = 0;
    std::uint32_t sequences = 1;
    std::uint32_t batch_tokens = 512;
    int threads = 1;
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
  [[nodiscard]] bool truncate(std::int32_t sequence, std::int32_t from) override;
  [[nodiscard]] std::uint32_t sequences() const override { return options_.sequences; }
  [[nodiscard]] std::uint32_t cache_tokens() const override { return options_.cache_tokens; }
  [[nodiscard]] std::uint32_t batch_tokens() const override { return options_.batch_tokens; }

 private:
  LlamaDecoder(llama_model* model, const Options& options);
  Status open();

  llama_model* model_;
  Options options_;
  ContextPtr context_;
  std::size_t vocab_size_;
  llama_batch batch_;
  const std::function<bool()>* must_stop_ = nullptr;  // during decode()
};

}  // namespace tenon::engine
