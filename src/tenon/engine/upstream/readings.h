#pragma once

#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/remote.h"
#include "tenon/vocab/tokenizer.h"

/// Inside the layer: how the answers of each kind of server are read, whether they come from a
/// server (Remote::generate) or from a recording (read_kept_answer).
namespace tenon::engine {

/// `tokenizer` must outlive the reading. Only servers that send ids need it.
using MakeReading = Reading (*)(const GenerateRequest& request, const vocab::Tokenizer& tokenizer);

[[nodiscard]] Reading openai_reading(const GenerateRequest& request, const vocab::Tokenizer&);
[[nodiscard]] Reading exo_reading(const GenerateRequest& request, const vocab::Tokenizer&);
[[nodiscard]] Reading llama_server_reading(const GenerateRequest& request,
                                           const vocab::Tokenizer& tokenizer);
[[nodiscard]] Reading ollama_reading(const GenerateRequest&, const vocab::Tokenizer&);
[[nodiscard]] Reading vllm_reading(const GenerateRequest& request,
                                   const vocab::Tokenizer& tokenizer);
[[nodiscard]] Reading sglang_reading(const GenerateRequest& request,
                                     const vocab::Tokenizer& tokenizer);

}  // namespace tenon::engine
