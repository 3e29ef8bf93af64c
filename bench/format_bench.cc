// What a streamed call costs the parser: one call with one string argument of N bytes, in pieces of
// four bytes, in every format. The figure to watch is per_token, which must not grow with N;
// allocations is how many of a call of 1 MB there are per thousand pieces, state how many bytes a
// parser holds in the middle of it. `corpus` parses the public cases (bench/format_peer.py has what
// others take for them).
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "count_allocations.h"
#include <benchmark/benchmark.h>

#include "tenon/base/data_for_test.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"

namespace tenon::format {
namespace {

constexpr std::size_t kTokenBytes = 4;

ParseOptions options() {
  return {.tools = {"write_file"},
          .schemas = {*json::parse(
              R"({"type": "object", "properties": {"content": {"type": "string"}}})")}};
}

std::string call_text(const Format& format, std::size_t argument_bytes) {
  std::string value;
  while (value.size() < argument_bytes)
    value += "Line of text with \\\"quotes\\\", {braces} and <tags>.\\n";
  value.resize(argument_bytes - argument_bytes % 2);
  while (!value.empty() && value.back() == '\\') value.back() = ' ';
  const auto text = render_calls(format, {{"", "write_file", "{\"content\": \"" + value + "\"}"}});
  return text.value_or(std::string());
}

void feed(StreamParser& parser, std::string_view text, std::vector<message::ChatEvent>& events) {
  for (std::size_t at = 0; at < text.size(); at += kTokenBytes) {
    events.clear();
    parser.feed(text.substr(at, kTokenBytes), false, events);
    benchmark::DoNotOptimize(events.data());
  }
}

void feed_all(benchmark::State& state, const std::shared_ptr<const Format>& format,
              std::string_view text) {
  StreamParser parser(format, options());
  std::vector<message::ChatEvent> events;
  for (auto unused : state) {
    parser.reset();
    feed(parser, text, events);
    parser.finish(false, events);
  }
  const double tokens = static_cast<double>((text.size() + kTokenBytes - 1) / kTokenBytes);
  state.counters["per_token"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * tokens,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);

  // The middle of the text, once more: what each piece allocates, and what is held then.
  const std::string_view half = text.substr(0, text.size() / 2);
  const std::size_t held_before = mallinfo2().uordblks;
  StreamParser fresh(format, options());
  feed(fresh, half, events);
  events = {};
  state.counters["state"] = static_cast<double>(mallinfo2().uordblks - held_before);
  const std::size_t before = allocations;
  feed(fresh, text.substr(half.size(), text.size() / 4), events);
  state.counters["allocations"] =
      1000.0 * static_cast<double>(allocations - before) / (tokens / 4.0);
}

void call(benchmark::State& state, const std::shared_ptr<const Format>& format) {
  const std::string text = call_text(*format, static_cast<std::size_t>(state.range(0)));
  if (text.empty()) return state.SkipWithError("has no way to write a call");
  feed_all(state, format, text);
}

void content(benchmark::State& state, const std::shared_ptr<const Format>& format) {
  std::string text;
  while (text.size() < static_cast<std::size_t>(state.range(0))) {
    text += "Plain words, with {\"json\": 1} and [brackets] and < signs. ";
  }
  feed_all(state, format, text);
}

// ---- the public cases ----

struct Case {
  std::shared_ptr<const Format> format;
  ParseOptions options;
  std::string text;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  std::ifstream file(folder_of(largest_data()) / "formats" / "public.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto row = json::parse(line);
    const auto text_at = [&row](std::string_view pointer) {
      const json::Value* value = row ? json::at_pointer(*row, pointer) : nullptr;
      return value != nullptr && value->if_string() != nullptr ? *value->if_string()
                                                               : std::string();
    };
    Case made{find(text_at("/format")), {}, text_at("/text")};
    if (made.format == nullptr || text_at("/set") != "generated") continue;
    for (const json::Value& tool : *row->find("tools")->if_array()) {
      made.options.tools.push_back(*json::at_pointer(tool, "/function/name")->if_string());
      const json::Value* schema = json::at_pointer(tool, "/function/parameters");
      made.options.schemas.push_back(schema != nullptr ? *schema : json::Value());
    }
    list.push_back(std::move(made));
  }
  return list;
}

/// All generated public cases of the offered formats, each by a new parser.
void corpus(benchmark::State& state) {
  const std::vector<Case> all = cases();
  std::size_t bytes = 0;
  for (const Case& each : all) bytes += each.text.size();
  std::vector<message::ChatEvent> events;
  for (auto unused : state) {
    for (const Case& each : all) {
      StreamParser parser(each.format, each.options);
      feed(parser, each.text, events);
      parser.finish(false, events);
      benchmark::DoNotOptimize(events.data());
    }
  }
  state.counters["cases"] = static_cast<double>(all.size());
  state.counters["bytes"] = static_cast<double>(bytes);
}

const bool kRegistered = [] {
  for (const auto& format : all()) {
    auto* registered =
        benchmark::RegisterBenchmark(("call/" + info(*format).name).c_str(),
                                     [format](benchmark::State& state) { call(state, format); });
    for (const std::int64_t size : {1 << 10, 10 << 10, 100 << 10, 1 << 20}) registered->Arg(size);
  }
  return true;
}();

const std::shared_ptr<const Format> kHermes = find("hermes");
BENCHMARK_CAPTURE(content, held, kHermes)->Range(1 << 10, 1 << 20);
// What may also hold calls in other forms: bare JSON, brackets.
BENCHMARK_CAPTURE(content, with_fallbacks, with_fallbacks(*kHermes))->Range(1 << 10, 1 << 20);
BENCHMARK(corpus)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon::format
