// The embedded engine alone: load, prompt and generation, by one run and by eight at once.
// bench/engine_peer.py does the same work with llama-cpp-python's own loop over the same file; on a
// busy machine compare tokens/cpu_s, which `prompt_of` costs next to nothing of.
// Model: TENON_BENCH_MODEL, else the bundled one. Threads: TENON_BENCH_THREADS, else chosen.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/engine/llama/llama_engine.h"
#include "tenon/engine/llama/sampler.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/vocab/vocab.h"

namespace tenon::engine {
namespace {

constexpr std::uint32_t kPromptTokens = 512;
constexpr std::uint32_t kAnswerTokens = 256;

LlamaOptions options_of_environment() {
  const char* model = std::getenv("TENON_BENCH_MODEL");
  const char* threads = std::getenv("TENON_BENCH_THREADS");
  return {.path = model != nullptr ? model : TENON_SOURCE_DIR "/models/tenon-tiny.gguf",
          .context_tokens = 2048,
          .threads = threads != nullptr ? std::atoi(threads) : 0,
          .prefix_cache = false};
}

LlamaEngine* shared_engine() {
  static const auto engine = LlamaEngine::load(options_of_environment());
  return engine ? engine->get() : nullptr;
}

/// Waits for the end only: nobody is woken for a token, as a server's writer need not be either.
class EndSink final : public EventSink {
 public:
  void on_token(const Token& /*token*/) override {}
  void on_end(const RunEnd& end) override { end_.set_value(end.reason); }
  message::FinishReason wait() { return end_.get_future().get(); }

 private:
  std::promise<message::FinishReason> end_;
};

/// `count` text tokens, other ones for another `run`, so that nothing is found in a cache.
std::vector<TokenId> prompt_of(const vocab::Tokenizer& tokenizer, std::uint32_t count,
                               std::uint32_t run) {
  std::vector<TokenId> prompt;
  std::uint32_t state = run * 2654435761U + 1;
  while (prompt.size() < count) {
    state = state * 1664525U + 1013904223U;
    const auto id = static_cast<TokenId>((state >> 8) % tokenizer.size());
    if (!tokenizer.is_control(id)) prompt.push_back(id);
  }
  return prompt;
}

/// Texts without a "<", as before a call.
std::shared_ptr<grammar::Grammar> text_grammar(const vocab::Tokenizer& tokenizer) {
  auto index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(tokenizer));
  const auto build = [index](grammar::Machine& machine) {
    return grammar::add_rules(machine, *grammar::read_rules("[^<]*", grammar::Syntax::regex),
                              index->vocab());
  };
  return *grammar::Grammar::make(build, index);
}

/// Runs `count` requests at once and waits for all.
bool run_all(LlamaEngine& engine, std::uint32_t count, std::uint32_t prompt_tokens,
             std::uint32_t answer_tokens,
             const std::shared_ptr<grammar::Grammar>& grammar = nullptr) {
  std::vector<std::shared_ptr<EndSink>> sinks;
  std::vector<std::unique_ptr<Run>> runs;
  for (std::uint32_t i = 0; i < count; ++i) {
    GenerateRequest request{.prompt = prompt_of(engine.tokenizer(), prompt_tokens, i),
                            .max_tokens = answer_tokens};
    request.sampling.temperature = 0.0;
    request.grammar = grammar;
    // The answer has its full length whatever the model says.
    for (TokenId id = 0; static_cast<std::size_t>(id) < engine.tokenizer().size(); ++id) {
      if (engine.tokenizer().ends_generation(id)) {
        request.sampling.logit_bias.emplace_back(id, -1000.0);
      }
    }
    sinks.push_back(std::make_shared<EndSink>());
    auto run = engine.start(std::move(request), sinks.back());
    if (!run) return false;
    runs.push_back(*std::move(run));
  }
  bool is_good = true;
  for (const auto& sink : sinks) {
    is_good = sink->wait() == message::FinishReason::length && is_good;
  }
  return is_good;
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;  // of all threads
}

void report(benchmark::State& state, double cpu, std::uint32_t tokens_per_iteration) {
  const double tokens = static_cast<double>(state.iterations()) * tokens_per_iteration;
  state.counters["tokens/s"] = benchmark::Counter(tokens, benchmark::Counter::kIsRate);
  state.counters["tokens/cpu_s"] = tokens / cpu;
}

void load(benchmark::State& state) {
  for (auto _ : state) {
    auto engine = LlamaEngine::load(options_of_environment());
    if (!engine) return state.SkipWithError(engine.error().message.c_str());
  }
}
BENCHMARK(load)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();

void prompt(benchmark::State& state) {
  LlamaEngine* engine = shared_engine();
  if (engine == nullptr) return state.SkipWithError("no model");
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const double cpu = cpu_seconds();
  for (auto _ : state) {
    if (!run_all(*engine, count, kPromptTokens, 1)) return state.SkipWithError("a run failed");
  }
  report(state, cpu_seconds() - cpu, count * kPromptTokens);
}
BENCHMARK(prompt)
    ->Arg(1)
    ->Arg(8)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

/// CPU time of a token that was not spent in the model, for one thread (TENON_BENCH_THREADS=1): the
/// time in the model is that of the wall clock.
void report_outside(benchmark::State& state, double cpu, const EngineStats& before,
                    const EngineStats& after) {
  const double model = static_cast<double>(after.decode_nanoseconds - before.decode_nanoseconds);
  const auto tokens = static_cast<double>(after.generated_tokens - before.generated_tokens);
  state.counters["outside_us"] = (1e6 * cpu - model / 1000.0) / tokens;
}

/// generation(), each answer held to a grammar.
void held(benchmark::State& state) {
  LlamaEngine* engine = shared_engine();
  if (engine == nullptr) return state.SkipWithError("no model");
  const auto grammar = text_grammar(engine->tokenizer());
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const EngineStats before = engine->stats();
  const double cpu = cpu_seconds();
  for (auto _ : state) {
    if (!run_all(*engine, count, 16, kAnswerTokens, grammar)) {
      return state.SkipWithError("a run failed");
    }
  }
  const double took = cpu_seconds() - cpu;
  report(state, took, count * kAnswerTokens);
  const EngineStats after = engine->stats();
  report_outside(state, took, before, after);
  const auto masks = static_cast<double>(after.masks - before.masks);
  state.counters["mask_us"] =
      static_cast<double>(after.mask_nanoseconds - before.mask_nanoseconds) / masks / 1000.0;
  state.counters["wait_us"] =
      static_cast<double>(after.mask_wait_nanoseconds - before.mask_wait_nanoseconds) / masks /
      1000.0;
}
BENCHMARK(held)
    ->Arg(1)
    ->Arg(8)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

void generation(benchmark::State& state) {
  LlamaEngine* engine = shared_engine();
  if (engine == nullptr) return state.SkipWithError("no model");
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const EngineStats before = engine->stats();
  const double cpu = cpu_seconds();
  for (auto _ : state) {
    if (!run_all(*engine, count, 16, kAnswerTokens)) return state.SkipWithError("a run failed");
  }
  const double took = cpu_seconds() - cpu;
  report(state, took, count * kAnswerTokens);
  report_outside(state, took, before, engine->stats());
}
BENCHMARK(generation)
    ->Arg(1)
    ->Arg(8)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

/// From Run::cancel() to on_end, `range(0)` prompt tokens into the model's work.
void cancel(benchmark::State& state) {
  LlamaEngine* engine = shared_engine();
  if (engine == nullptr) return state.SkipWithError("no model");
  const auto tokens = static_cast<std::uint32_t>(state.range(0));
  double worst = 0.0;
  std::uint32_t number = 1000;
  for (auto _ : state) {
    const auto sink = std::make_shared<EndSink>();
    GenerateRequest request{.prompt = prompt_of(engine->tokenizer(), tokens, number++),
                            .max_tokens = 1000};
    auto run = engine->start(std::move(request), sink);
    if (!run) return state.SkipWithError("a run was refused");
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + number % 20));
    const auto begin = std::chrono::steady_clock::now();
    (*run)->cancel();
    static_cast<void>(sink->wait());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(took.count());
    worst = std::max(worst, took.count());
  }
  state.counters["worst_ms"] = worst * 1000.0;
}
BENCHMARK(cancel)
    ->Arg(16)
    ->Arg(1800)
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->Iterations(50);

/// One token from a row of 128 k logits, with the shape of a language model's: few likely tokens.
void sampling(benchmark::State& state, const message::Sampling& parameters) {
  constexpr std::size_t kVocabulary = 128'256;
  std::vector<float> logits(kVocabulary);
  std::uint32_t random = 1;
  for (float& logit : logits) {
    random = random * 1664525U + 1013904223U;
    const float u = (static_cast<float>(random >> 8) + 1.0F) / 16777217.0F;
    logit = -4.0F - 1.5F * std::log(u);  // exponential tail: the best stand about 17 above the rest
  }
  Sampler sampler(parameters, kVocabulary, 1);
  SamplerScratch scratch;
  std::vector<float> row = logits;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample(row, scratch));
  }
}
BENCHMARK_CAPTURE(sampling, greedy, {.temperature = 0.0})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sampling, plain, {})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sampling, top_p, {.top_p = 0.9})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sampling, top_k, {.top_k = 40})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sampling, min_p, {.min_p = 0.05})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon::engine
