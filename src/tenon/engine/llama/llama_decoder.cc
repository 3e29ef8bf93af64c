#include "tenon/engine/llama/llama_decoder.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <thread>
#include <utility>

#include "tenon/base/log.h"

// Calls of libllama, whose failures become values of Decoder::Result. A context can be lost, on an
// assertion of libllama or where memory ran out; context_ is null then, and the next decode() opens
// another one (make_room). After that every sequence is empty, and the scheduler computes the
// tokens again.

namespace tenon::engine {
namespace {

// Tokens for each sequence of a divided cache at first (llama_decoder.h says why).
constexpr std::uint32_t kFirstSequenceTokens = 1024;

/// On a CPU, libllama's flash attention goes over the cached tokens one by one, which is slow for
/// small heads; plain attention multiplies matrices. 256 tokens after a prompt of 1,500, CPU time
/// over the bundled model (heads of 32): 804 ms with it, 403 without; eight runs at once 13.6 s and
/// 3.4 s. Prompts are faster with it (512 tokens: 30 ms and 52). Shared 2-core EPYC, 2026-11.
llama_flash_attn_type flash_attention_for(const llama_model* model, FlashAttention asked,
                                          ggml_type type_v) {
  constexpr int kSmallHead = 64;
  switch (asked) {
    case FlashAttention::on:
      return LLAMA_FLASH_ATTN_TYPE_ENABLED;
    case FlashAttention::off:
      return LLAMA_FLASH_ATTN_TYPE_DISABLED;
    case FlashAttention::automatic:
      break;
  }
  if (ggml_is_quantized(type_v)) return LLAMA_FLASH_ATTN_TYPE_ENABLED;  // libllama requires it
  const int heads = llama_model_n_head(model);
  const bool is_small = heads > 0 && llama_model_n_embd(model) / heads <= kSmallHead;
  const bool on_gpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr;
  return is_small && !on_gpu ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_AUTO;
}

// How many threads to begin with: other programs may be busy already.
int first_of(const LlamaDecoder::Options& options) {
  double load = 0;
  if (!options.adapts_threads || ::getloadavg(&load, 1) != 1) return options.threads;
  return first_threads(options.threads, static_cast<int>(std::thread::hardware_concurrency()),
                       load);
}

// The processor time of the calling thread.
std::chrono::nanoseconds own_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Expected<std::unique_ptr<LlamaDecoder>> LlamaDecoder::create(llama_model* model,
                                                             const Options& options) {
  std::unique_ptr<LlamaDecoder> decoder(new LlamaDecoder(model, options));
  if (Status opened = decoder->open(); !opened) return Unexpected(opened.error());
  return decoder;
}

LlamaDecoder::LlamaDecoder(llama_model* model, const Options& options)
    : model_(model),
      options_(options),
      threads_(options.threads, first_of(options)),
      opened_tokens_(options.is_divided
                         ? std::min(options.cache_tokens, options.sequences * kFirstSequenceTokens)
                         : options.cache_tokens),
      vocab_size_(static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)))),
      batch_(llama_batch_init(static_cast<std::int32_t>(options.batch_tokens), /*embd=*/0,
                              /*n_seq_max=*/1)) {}

LlamaDecoder::~LlamaDecoder() {
  llama_batch_free(batch_);
}

Status LlamaDecoder::open() {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = opened_tokens_;
  params.n_batch = options_.batch_tokens;
  // The same as n_batch, so that libllama does not cut a batch into smaller ones.
  params.n_ubatch = options_.batch_tokens;
  params.n_seq_max = options_.sequences;
  params.n_outputs_max = batch_rows();
  params.n_threads = options_.threads;
  params.n_threads_batch = options_.threads;
  params.flash_attn_type = flash_attention_for(model_, options_.flash_attention, options_.type_v);
  params.type_k = options_.type_k;
  params.type_v = options_.type_v;
  params.kv_unified = !options_.is_divided;
  params.no_perf = true;
  // Called between two operations of the graph, and only by computation on a CPU (llama.h).
  params.abort_callback = [](void* self) {
    const auto* must_stop = static_cast<LlamaDecoder*>(self)->must_stop_;
    return must_stop != nullptr && (*must_stop)();
  };
  params.abort_callback_data = this;

  const LlamaGuard guard;
  try {
    context_.reset(llama_init_from_model(model_, params));
  } catch (const std::exception& error) {
    return Unexpected(Error{Errc::unsupported, error.what()});
  }
  if (!context_) {
    return Unexpected(
        Error{Errc::limit_exceeded,
              "a context of " + std::to_string(opened_tokens_) + " tokens cannot be set up" +
                  (guard.first_error().empty() ? "" : " (" + guard.first_error() + ")")});
  }
  return {};
}

std::uint32_t LlamaDecoder::sequence_room() const {
  return options_.is_divided ? opened_tokens_ / options_.sequences : opened_tokens_;
}

/// Returns `done` if a sequence has room for `tokens`, or as many as the options allow. Otherwise
/// makes the context anew and returns `emptied`, or `reset` if that failed.
Decoder::Result LlamaDecoder::make_room(std::uint32_t tokens) {
  const std::uint32_t before = opened_tokens_;
  while (sequence_room() < tokens && opened_tokens_ < options_.cache_tokens) {
    opened_tokens_ = std::min(2 * opened_tokens_, options_.cache_tokens);
  }
  if (context_ && opened_tokens_ == before) return Result::done;
  context_.reset();  // first, since there may be no memory for both
  const Status opened = open();
  if (opened) return Result::emptied;
  log::error(opened.error().message);
  opened_tokens_ = before;
  return Result::reset;
}

bool LlamaDecoder::reserve(std::uint32_t tokens) {
  return make_room(tokens) == Result::done;
}

Decoder::Result LlamaDecoder::decode(std::span<const Item> batch,
                                     const std::function<bool()>& must_stop) {
  std::int32_t last = 0;
  for (const Item& item : batch) last = std::max(last, item.position);
  const Result made = make_room(static_cast<std::uint32_t>(last) + 1);
  if (made != Result::done) return made;
  batch_.n_tokens = static_cast<std::int32_t>(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch_.token[i] = batch[i].token;
    batch_.pos[i] = batch[i].position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = batch[i].sequence;
    batch_.logits[i] = batch[i].wants_logits ? 1 : 0;
  }
  const LlamaGuard guard;
  must_stop_ = &must_stop;
  int status = 0;
  try {
    status = compute();
  } catch (const LlamaAborted& aborted) {
    // The context is in an unknown state, and freeing it might abort again: it is leaked.
    log::error(std::string("libllama gave up: ") + aborted.what());
    static_cast<void>(context_.release());
    must_stop_ = nullptr;
    return Result::reset;
  } catch (const std::exception& error) {
    log::error(std::string("libllama: ") + error.what());
    status = -2;
  }
  must_stop_ = nullptr;
  if (status == 0) return Result::done;
  // The codes of llama_decode(): 1, no place in the cache for the batch; 2, stopped by the
  // callback; below 0, an error.
  if (status == 1) return Result::no_room;
  if (status == 2) return Result::interrupted;
  log::error("libllama: decode failed with " + std::to_string(status) + " " + guard.first_error());
  return Result::failed;
}

// Calls llama_decode() with as many threads as pay. The number of threads changes no logits, since
// each row of a product is computed by one thread (the same to the bit with 1 and 2 threads,
// Qwen2.5-Coder-0.5B and Gemma-3-270m, flash attention on and off, 2026-11).
int LlamaDecoder::compute() {
  if (!options_.adapts_threads) return llama_decode(context_.get(), batch_);
  llama_set_n_threads(context_.get(), threads_.threads(), threads_.threads());
  const auto begun = ThreadPlan::Clock::now();
  const std::chrono::nanoseconds before = own_time();
  const int status = llama_decode(context_.get(), batch_);
  const auto now = ThreadPlan::Clock::now();
  if (status == 0) {
    threads_.add({.rows = static_cast<std::size_t>(batch_.n_tokens),
                  .wall = now - begun,
                  .cpu = own_time() - before},
                 now);
  }
  return status;
}

std::span<float> LlamaDecoder::logits(std::size_t index) {
  float* row = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(index));
  return row == nullptr ? std::span<float>() : std::span<float>(row, vocab_size_);
}

bool LlamaDecoder::truncate(std::int32_t sequence, std::int32_t from) {
  if (!context_) return true;
  const llama_memory_t memory = llama_get_memory(context_.get());
  // Models with a recurrent state have only the state at the end, so they cannot forget a part.
  if (llama_memory_seq_rm(memory, sequence, from, -1)) return true;
  llama_memory_seq_rm(memory, sequence, -1, -1);
  return false;
}

bool LlamaDecoder::copy(std::int32_t from, std::int32_t to, std::int32_t tokens) {
  if (!context_) return false;
  const llama_memory_t memory = llama_get_memory(context_.get());
  llama_memory_seq_rm(memory, to, -1, -1);
  // Copies the whole sequence and truncates it: libllama cannot copy a part from one division of
  // the cache to another, nor a part of a recurrent state. An undivided cache shares instead of
  // copying.
  llama_memory_seq_cp(memory, from, to, -1, -1);
  return truncate(to, tokens);
}

}  // namespace tenon::engine
