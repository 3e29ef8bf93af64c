// What a streamed call costs the parser: one call with one string argument of N bytes, in pieces of
// four bytes. The figure to watch is per_token, which must not grow with N.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/format/format.h"

namespace tenon::format {
namespace {

constexpr std::size_t kTokenBytes = 4;

std::string call_text(const Format& format, std::size_t argument_bytes) {
  std::string value;
  while (value.size() < argument_bytes)
    value += "Line of text with \\\"quotes\\\", {braces} and <tags>.\\n";
  value.resize(argument_bytes - argument_bytes % 2);
  while (!value.empty() && value.back() == '\\') value.back() = ' ';
  const auto text = render_calls(format, {{"", "write_file", "{\"content\": \"" + value + "\"}"}});
  return text.value_or(std::string());
}

void feed_all(benchmark::State& state, const std::shared_ptr<const Format>& format,
              std::string_view text) {
  StreamParser parser(format, {.tools = {"write_file"}});
  std::vector<message::ChatEvent> events;
  for (auto unused : state) {
    parser.reset();
    for (std::size_t at = 0; at < text.size(); at += kTokenBytes) {
      events.clear();
      parser.feed(text.substr(at, kTokenBytes), false, events);
      benchmark::DoNotOptimize(events.data());
    }
    parser.finish(false, events);
  }
  const double tokens = static_cast<double>(state.iterations()) *
                        static_cast<double>((text.size() + kTokenBytes - 1) / kTokenBytes);
  state.counters["per_token"] =
      benchmark::Counter(tokens, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void call(benchmark::State& state, std::string_view name) {
  const auto format = find(name);
  const std::string text =
      format ? call_text(*format, static_cast<std::size_t>(state.range(0))) : "";
  if (text.empty()) return state.SkipWithError("no such format");
  feed_all(state, format, text);
}

void content(benchmark::State& state) {
  std::string text;
  while (text.size() < static_cast<std::size_t>(state.range(0))) {
    text += "Plain words, with {\"json\": 1} and [brackets] and < signs. ";
  }
  feed_all(state, find("hermes"), text);
}

BENCHMARK_CAPTURE(call, hermes, "hermes")->RangeMultiplier(32)->Range(1 << 10, 1 << 20);
BENCHMARK_CAPTURE(call, mistral_v11, "mistral_v11")->RangeMultiplier(32)->Range(1 << 10, 1 << 20);
BENCHMARK_CAPTURE(call, llama3_json, "llama3_json")->RangeMultiplier(32)->Range(1 << 10, 1 << 20);
BENCHMARK_CAPTURE(call, deepseek_v3, "deepseek_v3")->RangeMultiplier(32)->Range(1 << 10, 1 << 20);
BENCHMARK_CAPTURE(call, qwen3_coder, "qwen3_coder")->RangeMultiplier(32)->Range(1 << 10, 1 << 20);
BENCHMARK(content)->RangeMultiplier(32)->Range(1 << 10, 1 << 20);

}  // namespace
}  // namespace tenon::format
