// The recursive model's REPL: starting a worker, taking one that is ready, loading a context, a
// cell, a question of a cell. Real time: the work is another process's.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/rlm/repl.h"
#include "tenon/rlm/sandbox.h"
#include "tenon/rlm/worker_pool.h"

namespace tenon::rlm {
namespace {

std::shared_ptr<Sandbox> sandbox_of(benchmark::State& state, Tier tier) {
  auto sandbox = Sandbox::open({.only = tier});
  if (sandbox) return *sandbox;
  state.SkipWithError(sandbox.error().message.c_str());
  return nullptr;
}

class Echo : public SubCalls {
 public:
  void ask(SubCall call, Answer answer) override { answer(std::move(call.prompts)); }
};

void start(benchmark::State& state, Tier tier) {
  const auto sandbox = sandbox_of(state, tier);
  if (!sandbox) return;
  for (auto _ : state) {
    auto worker = sandbox->start({});
    if (!worker) return state.SkipWithError(worker.error().message.c_str());
    state.PauseTiming();
    worker->reset();
    state.ResumeTiming();
  }
}
BENCHMARK_CAPTURE(start, bubblewrap, Tier::bubblewrap)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(start, landlock, Tier::landlock)->UseRealTime()->Unit(benchmark::kMillisecond);

// From start to the first cell's result: what the first question waits for without a pool.
void start_and_run(benchmark::State& state, Tier tier) {
  const auto sandbox = sandbox_of(state, tier);
  if (!sandbox) return;
  Echo echo;
  for (auto _ : state) {
    auto worker = sandbox->start({});
    if (!worker) return state.SkipWithError(worker.error().message.c_str());
    Repl repl(*std::move(worker));
    benchmark::DoNotOptimize(repl.run_cell("x = 1", echo, {}));
    state.PauseTiming();
    repl.kill();
    state.ResumeTiming();
  }
}
BENCHMARK_CAPTURE(start_and_run, bubblewrap, Tier::bubblewrap)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void take(benchmark::State& state, Tier tier) {
  const auto sandbox = sandbox_of(state, tier);
  if (!sandbox) return;
  WorkerPool pool(sandbox, {.limits = {}, .warm = 1});
  for (auto _ : state) {
    state.PauseTiming();
    while (pool.ready() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state.ResumeTiming();
    auto worker = pool.take();
    state.PauseTiming();
    worker->reset();
    state.ResumeTiming();
  }
}
BENCHMARK_CAPTURE(take, bubblewrap, Tier::bubblewrap)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(30);

// A worker for a benchmark, with a REPL over it.
std::unique_ptr<Repl> repl_of(benchmark::State& state) {
  const auto sandbox = sandbox_of(state, Tier::bubblewrap);
  if (!sandbox) return nullptr;
  auto worker = sandbox->start({});
  if (worker) return std::make_unique<Repl>(*std::move(worker));
  state.SkipWithError(worker.error().message.c_str());
  return nullptr;
}

void load_10_mb(benchmark::State& state) {
  const auto repl = repl_of(state);
  if (!repl) return;
  const std::string text(10'000'000, 'x');
  const std::vector<std::string> names{"context"};
  for (auto _ : state) benchmark::DoNotOptimize(repl->load_text(names, text));
}
BENCHMARK(load_10_mb)->UseRealTime()->Unit(benchmark::kMillisecond);

void cell(benchmark::State& state) {
  const auto repl = repl_of(state);
  if (!repl) return;
  Echo echo;
  for (auto _ : state) benchmark::DoNotOptimize(repl->run_cell("print(1)", echo, {}));
}
BENCHMARK(cell)->UseRealTime()->Unit(benchmark::kMicrosecond);

void question(benchmark::State& state) {
  const auto repl = repl_of(state);
  if (!repl) return;
  Echo echo;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        repl->run_cell("for i in range(100): llm_query('x')", echo, CellLimits{}));
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(question)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon::rlm
