#include "tenon/engine/llama/llama_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/engine/admission.h"
#include "tenon/engine/llama/cache_plan.h"
#include "tenon/engine/llama/libllama.h"
#include "tenon/engine/llama/llama_decoder.h"
#include "tenon/engine/llama/rpc.h"
#include "tenon/engine/llama/sampling_defaults.h"
#include "tenon/engine/llama/scheduler.h"
#include "tenon/engine/llama/tokenizer.h"
#include "tenon/vocab/gguf.h"

// load() checks everything that libllama would use unchecked before libllama sees it: our options
// (check_options), then the header of the file (check_header), which may come from anywhere. It
// then loads the model, plans the size of the cache (cache_plan.h), and refuses a cache that the
// memory does not hold, because libllama fills it with zeros and the system would kill us. What is
// left, a failed assertion or an exception, becomes an error through LlamaGuard. memory_bytes()
// makes the same plan from the header alone, without loading the model.

namespace tenon::engine {
namespace {

// The context if the options name none: long ones cost memory for every run, and few requests need
// them.
constexpr std::uint32_t kMostDefaultContext = 16384;
constexpr const char* kAddsSpaceKey = "tokenizer.ggml.add_space_prefix";

/// How many threads pay. A step of a small model is over before a second thread has woken up, and
/// spinning barriers on a busy machine cost ten times the step (2 threads 205 tokens/s, 1 thread
/// 2,300, for a model of 4 MB).
int choose_threads(std::uint64_t model_bytes) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  constexpr std::uint64_t kMegabyte = 1 << 20;
  if (model_bytes < 64 * kMegabyte) return 1;
  if (model_bytes < 512 * kMegabyte) return std::min(cores, 4);
  return std::min(cores, 16);
}

/// If not, the time of a step is that of a GPU or another machine, and says nothing about threads.
bool is_computed_here(const LlamaOptions& options) {
  const bool has_gpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr;
  return options.rpc.empty() && (!has_gpu || options.gpu_layers == 0);
}

class Loaded final : public LlamaEngine {
 public:
  Loaded(ModelPtr model, std::unique_ptr<LlamaTokenizer> tokenizer, std::string chat_template,
         Capabilities capabilities, message::Sampling sampling_defaults,
         const Scheduler::Options& options, std::unique_ptr<Decoder> decoder)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        capabilities_(std::move(capabilities)),
        sampling_defaults_(std::move(sampling_defaults)),
        scheduler_(options, std::move(decoder), *tokenizer_) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const vocab::Tokenizer& tokenizer() const override { return *tokenizer_; }
  [[nodiscard]] std::string_view chat_template() const override { return chat_template_; }
  [[nodiscard]] EngineStats stats() const override { return scheduler_.stats(); }

  [[nodiscard]] Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                                     std::shared_ptr<EventSink> sink) override {
    fill_sampling(request.sampling, sampling_defaults_);
    if (Status checked = check_request(request, capabilities_, *tokenizer_); !checked) {
      return Unexpected(checked.error());
    }
    return scheduler_.start(std::move(request), std::move(sink));
  }

 private:
  ModelPtr model_;
  std::unique_ptr<LlamaTokenizer> tokenizer_;
  std::string chat_template_;
  Capabilities capabilities_;
  message::Sampling sampling_defaults_;
  Scheduler scheduler_;  // last: its thread uses the members above
};

/// Refuses values that libllama would use unchecked.
Status check_header(const vocab::GgufFile& file) {
  const auto refuse = [](Errc code, std::string what) {
    return Unexpected(Error{code, std::move(what)});
  };
  const auto architecture = file.string("general.architecture");
  if (!architecture) return refuse(Errc::invalid, "it names no architecture");
  if (!file.string("tokenizer.ggml.model") || file.strings("tokenizer.ggml.tokens").empty()) {
    return refuse(Errc::unsupported, "it has no tokenizer");
  }
  // One key of the header, without the architecture before it ("llama.block_count"), which may be a
  // number or a list with one for each layer.
  struct Bound {
    const char* key;
    std::int64_t most;
  };
  // An order of magnitude above the largest models.
  constexpr Bound kBounds[] = {{"block_count", 4096},
                               {"embedding_length", 1 << 20},
                               {"feed_forward_length", 1 << 24},
                               {"attention.head_count", 1 << 14},
                               {"attention.head_count_kv", 1 << 14},
                               {"attention.key_length", 1 << 16},
                               {"attention.value_length", 1 << 16},
                               {"rope.dimension_count", 1 << 16},
                               {"expert_count", 1 << 14},
                               {"context_length", std::int64_t{1} << 31}};
  for (const Bound& bound : kBounds) {
    const std::string key = std::string(*architecture) + "." + bound.key;
    std::vector<std::int64_t> values = file.integers(key);
    if (const auto value = file.integer(key)) values.push_back(*value);
    for (const std::int64_t value : values) {
      if (value < 0 || value > bound.most) {
        return refuse(Errc::invalid, key + " is " + std::to_string(value));
      }
    }
  }
  return {};
}

/// libllama's message, without the name of its function and without what our message says already.
/// "llama_model_load: error loading model: unknown model architecture: 'x'" becomes "unknown model
/// architecture: 'x'".
std::string reason_of(const LlamaGuard& guard) {
  std::string_view reason = guard.first_error();
  const std::size_t colon = reason.find(": ");
  if (colon < reason.find(' ')) reason.remove_prefix(colon + 2);
  constexpr std::string_view kKnown = "error loading model: ";
  if (reason.starts_with(kKnown)) reason.remove_prefix(kKnown.size());
  return reason.empty() ? "libllama cannot load it" : std::string(reason);
}

Expected<ModelPtr> load_model(const LlamaOptions& options) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpu_layers;
  std::vector<ggml_backend_dev_t> devices;  // ends with a null pointer
  if (!options.rpc.empty()) {
    auto workers = rpc_devices(options.rpc);
    if (!workers) return Unexpected(workers.error());
    devices = *std::move(workers);
    devices.push_back(nullptr);
    params.devices = devices.data();
  }
  // LlamaTokenizer adds the space before the first word itself, see there.
  llama_model_kv_override overrides[2] = {};
  overrides[0].tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
  std::strncpy(overrides[0].key, kAddsSpaceKey, sizeof overrides[0].key - 1);
  overrides[0].val_bool = false;
  params.kv_overrides = overrides;

  const LlamaGuard guard;
  try {
    ModelPtr model(llama_model_load_from_file(options.path.c_str(), params));
    if (model) return model;
  } catch (const LlamaAborted& aborted) {
    return Unexpected(Error{Errc::invalid, aborted.what()});
  } catch (const std::exception& error) {
    return Unexpected(Error{Errc::limit_exceeded, error.what()});
  }
  const std::string reason = reason_of(guard);
  // `unsupported` tells the caller that the file is sound, but this libllama does not know its
  // kind.
  const bool is_unknown = reason.find("unknown model architecture") != std::string::npos ||
                          reason.find("unknown tokenizer") != std::string::npos ||
                          reason.find("unknown pre-tokenizer") != std::string::npos;
  return Unexpected(Error{is_unknown ? Errc::unsupported : Errc::invalid, reason});
}

// Not embedding models, encoders with decoders (T5), or diffusion models, which compute answers in
// another way than token by token.
bool is_generative(const llama_model* model) {
  return llama_model_has_decoder(model) && !llama_model_has_encoder(model) &&
         !llama_model_is_diffusion(model);
}

/// Whether this model's tokenizer expects a space before the first word. SentencePiece does, unless
/// the file says otherwise.
bool adds_space(const vocab::GgufFile& file, const llama_model* model) {
  const bool is_sentence_piece =
      llama_vocab_type(llama_model_get_vocab(model)) == LLAMA_VOCAB_TYPE_SPM;
  return file.boolean(kAddsSpaceKey).value_or(is_sentence_piece);
}

Scheduler::Options plan(const LlamaOptions& options, std::int64_t trained_tokens) {
  const auto trained =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(trained_tokens, 1, 1U << 31U));
  return {.context_tokens = options.context_tokens != 0 ? options.context_tokens
                                                        : std::min(trained, kMostDefaultContext),
          .max_concurrent = options.max_concurrent,
          .queue_limit = options.queue_limit,
          .prefix_cache = options.prefix_cache,
          .speculation = options.speculation};
}

ggml_type ggml_type_of(CacheType type) {
  // In the order of the enumerators.
  constexpr ggml_type kTypes[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                  GGML_TYPE_Q5_1, GGML_TYPE_Q5_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0};
  static_assert(std::size(kTypes) == std::size(kCacheTypeNames));
  return kTypes[static_cast<std::size_t>(type)];
}

// Quantised types store blocks of numbers: q8_0 has 32 numbers in 34 bytes.
std::uint64_t bytes_of(std::uint64_t numbers, CacheType type) {
  const ggml_type as = ggml_type_of(type);
  return numbers * ggml_type_size(as) / static_cast<std::uint64_t>(ggml_blck_size(as));
}

/// Bytes of a token's keys and values in the cache.
std::uint64_t cache_bytes_per_token(const llama_model* model, const LlamaOptions& options) {
  const auto positive = [](std::int32_t value) {
    return static_cast<std::uint64_t>(std::max(value, 1));
  };
  const std::uint64_t head =
      positive(llama_model_n_embd(model)) / positive(llama_model_n_head(model));
  const std::uint64_t numbers =
      positive(llama_model_n_layer(model)) * positive(llama_model_n_head_kv(model)) * head;
  return bytes_of(numbers, options.cache_type_k) + bytes_of(numbers, options.cache_type_v);
}

/// The same, from the file's header.
std::uint64_t cache_bytes_per_token(const vocab::GgufFile& file, const LlamaOptions& options) {
  const std::string prefix = std::string(file.string("general.architecture").value_or("")) + ".";
  const auto number = [&](std::string_view key) {
    const auto found = file.integer(prefix + std::string(key));
    return static_cast<std::uint64_t>(std::max<std::int64_t>(found.value_or(0), 0));
  };
  const std::uint64_t layers = number("block_count");
  const std::uint64_t heads = std::max<std::uint64_t>(number("attention.head_count"), 1);
  const std::uint64_t head = number("embedding_length") / heads;
  const auto of_head = [&](std::string_view key) { return number(key) > 0 ? number(key) : head; };
  std::uint64_t cached_heads = 0;  // summed over all layers
  for (const std::int64_t each : file.integers(prefix + "attention.head_count_kv")) {
    // The number of heads may differ from layer to layer, then it is a list; layers without
    // attention have 0.
    cached_heads += static_cast<std::uint64_t>(std::max<std::int64_t>(each, 0));
  }
  if (cached_heads == 0) {
    const std::uint64_t of_layer = number("attention.head_count_kv");
    cached_heads = layers * (of_layer > 0 ? of_layer : heads);
  }
  return bytes_of(cached_heads * of_head("attention.key_length"), options.cache_type_k) +
         bytes_of(cached_heads * of_head("attention.value_length"), options.cache_type_v);
}

/// The bytes of all files of a split model.
std::uint64_t file_bytes(const std::string& path) {
  std::uint64_t sum = 0;
  std::error_code failed;
  // "name-00001-of-00003.gguf", as libllama writes and reads them.
  constexpr std::string_view kFirst = "-00001-of-";
  constexpr std::size_t kDigits = 5;
  const std::size_t at = path.rfind(kFirst);
  const bool is_split = at != std::string::npos && path.size() >= at + kFirst.size() + kDigits;
  const auto add = [&](const std::string& part) {
    const std::uintmax_t size = std::filesystem::file_size(part, failed);
    if (!failed) sum += size;
  };
  add(path);
  for (int part = 2; is_split && !failed && part < 100'000; ++part) {
    std::string digits = std::to_string(part);
    digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
    add(std::string(path).replace(at + 1, kDigits, digits));
  }
  return sum;
}

CachePlan plan_cache_of(const LlamaOptions& options, const Scheduler::Options& planned,
                        std::uint64_t bytes_per_token) {
  return plan_cache({.asked_tokens = options.cache_tokens,
                     .context_tokens = planned.context_tokens,
                     .runs = planned.max_concurrent,
                     .bytes_per_token = bytes_per_token});
}

/// The memory for the cache; nullopt (not known) if it may be on a GPU or on another machine.
std::optional<std::uint64_t> cache_memory(const LlamaOptions& options) {
  if (!options.rpc.empty()) return std::nullopt;
  // Not llama_supports_gpu_offload(): with the RPC backend that is always true.
  if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU) != nullptr) return std::nullopt;
  return available_memory();
}

Expected<std::unique_ptr<LlamaEngine>> load_checked(const LlamaOptions& options) {
  auto file = vocab::GgufFile::open(options.path);
  if (!file) return Unexpected(file.error());
  if (Status checked = check_header(*file); !checked) return Unexpected(checked.error());

  auto model = load_model(options);
  if (!model) return Unexpected(model.error());
  if (!is_generative(model->get())) {
    return Unexpected(Error{Errc::unsupported, "it is not a model that generates text"});
  }
  auto tokenizer = std::make_unique<LlamaTokenizer>(llama_model_get_vocab(model->get()),
                                                    adds_space(*file, model->get()));
  if (tokenizer->size() == 0) return Unexpected(Error{Errc::unsupported, "it has no tokenizer"});

  const Scheduler::Options planned = plan(options, llama_model_n_ctx_train(model->get()));
  const std::uint64_t bytes_per_token = cache_bytes_per_token(model->get(), options);
  const CachePlan cache = plan_cache_of(options, planned, bytes_per_token);
  if (Status checked = check_memory(cache, bytes_per_token, cache_memory(options)); !checked) {
    return Unexpected(checked.error());
  }
  auto decoder = LlamaDecoder::create(
      model->get(),
      {.cache_tokens = static_cast<std::uint32_t>(cache.tokens),
       .sequences = planned.max_concurrent,
       // A batch must have a place for one token of each run.
       .batch_tokens = std::max(options.batch_tokens, planned.max_concurrent),
       .threads =
           options.threads > 0 ? options.threads : choose_threads(llama_model_size(model->get())),
       .adapts_threads = options.threads == 0 && is_computed_here(options),
       .is_divided = cache.is_divided,
       .flash_attention = options.flash_attention,
       .type_k = ggml_type_of(options.cache_type_k),
       .type_v = ggml_type_of(options.cache_type_v)});
  if (!decoder) return Unexpected(decoder.error());

  const char* chat_template = llama_model_chat_template(model->get(), nullptr);
  return std::make_unique<Loaded>(*std::move(model), std::move(tokenizer),
                                  chat_template == nullptr ? "" : chat_template,
                                  Capabilities{.kind = "llama",
                                               .context_tokens = planned.context_tokens,
                                               .max_concurrent = planned.max_concurrent,
                                               .constrained_by = ConstrainedBy::masks},
                                  read_sampling_defaults(*file), planned, *std::move(decoder));
}

Status check_options(const LlamaOptions& options) {
  const auto refuse = [](std::string what) {
    return Unexpected(Error{Errc::invalid, std::move(what)});
  };
  constexpr std::uint32_t kMostTokens = 1 << 24;
  if (options.path.empty()) return refuse("no path is given");
  const auto most_runs = static_cast<std::uint32_t>(llama_max_parallel_sequences());
  if (options.max_concurrent == 0 || options.max_concurrent > most_runs) {
    return refuse("max_concurrent must be between 1 and " + std::to_string(most_runs));
  }
  // One token would leave no room for an answer; 0 means the default.
  if (options.context_tokens == 1 || options.context_tokens > kMostTokens ||
      options.cache_tokens > kMostTokens) {
    return refuse("context_tokens must be between 2 and " + std::to_string(kMostTokens));
  }
  if (options.batch_tokens == 0 || options.batch_tokens > (1 << 16)) {
    return refuse("batch_tokens must be between 1 and 65536");
  }
  if (options.flash_attention == FlashAttention::off &&
      ggml_is_quantized(ggml_type_of(options.cache_type_v))) {
    return refuse("cache_type_v is quantised, which needs flash attention: it must not be off");
  }
  if (options.threads < 0 || options.threads > 512) {
    return refuse("threads must be between 0 and 512");
  }
  return {};
}

}  // namespace

// Each error names the file. bad_alloc and exceptions of libllama become limit_exceeded here.
Expected<std::unique_ptr<LlamaEngine>> LlamaEngine::load(const LlamaOptions& options) {
  start_libllama();
  auto engine = [&]() -> Expected<std::unique_ptr<LlamaEngine>> {
    if (Status checked = check_options(options); !checked) return Unexpected(checked.error());
    try {
      return load_checked(options);
    } catch (const std::exception& error) {
      return Unexpected(Error{Errc::limit_exceeded, error.what()});
    }
  }();
  if (!engine) {
    engine.error().message.insert(0, "model '" + options.path + "': ");
  }
  return engine;
}

Expected<std::uint64_t> LlamaEngine::memory_bytes(const LlamaOptions& options) {
  const auto failed = [&](const Error& error) {
    return Unexpected(Error{error.code, "model '" + options.path + "': " + error.message});
  };
  const auto file = vocab::GgufFile::open(options.path);
  if (!file) return failed(file.error());
  if (Status checked = check_header(*file); !checked) return failed(checked.error());
  const std::string trained =
      std::string(file->string("general.architecture").value_or("")) + ".context_length";
  const Scheduler::Options planned = plan(options, file->integer(trained).value_or(1));
  const std::uint64_t bytes_per_token = cache_bytes_per_token(*file, options);
  return file_bytes(options.path) +
         plan_cache_of(options, planned, bytes_per_token).tokens * bytes_per_token;
}

}  // namespace tenon::engine
