#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "count_allocations.h"
#include <benchmark/benchmark.h>

#include "tenon/base/data_for_test.h"
#include "tenon/jinja/template.h"
#include "tenon/json/value.h"

/// Compiling and rendering chat templates; with `--benchmark_filter=real` those of the large
/// reference data where they are there, else our own. bench/jinja_peer.py measures other engines
/// over the same pairs.
namespace {

using tenon::jinja::Template;
namespace json = tenon::json;

constexpr std::string_view kHermes =
    R"({%- if tools %}<|im_start|>system
{%- if messages[0].role == 'system' %}
{{ messages[0].content }}
{%- endif %}

# Tools
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>' + message.role }}
{%- if message.content %}{{- '\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls %}
{%- set call = call.function if call.function is defined else call %}
{{- '\n<tool_call>\n{"name": "' ~ call.name ~ '", "arguments": ' ~ (call.arguments | tojson) ~ '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";

json::Object conversation(int turns) {
  const auto parsed = [](std::string_view text) { return json::parse(text).value(); };
  json::Array messages{parsed(R"({"role": "system", "content": "You are helpful."})")};
  for (int i = 0; i < turns; ++i) {
    messages.push_back(parsed(
        R"({"role": "user", "content": "What is the weather in Paris, and how warm will it get?"})"));
    messages.push_back(parsed(
        R"({"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 3, "unit": "celsius"}}}]})"));
    messages.push_back(parsed(
        R"({"role": "tool", "tool_call_id": "call_1", "content": "{\"temperature\": 21.5, \"sky\": \"clear\"}"})"));
    messages.push_back(
        parsed(R"({"role": "assistant", "content": "It is clear and about 21.5 degrees."})"));
  }
  return {
      {"messages", std::move(messages)},
      {"tools",
       parsed(
           R"([{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city",
              "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
              "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["city"]}}}])")},
      {"add_generation_prompt", true}};
}

void compile(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Template::compile(kHermes));
}
BENCHMARK(compile)->Unit(benchmark::kMicrosecond);

void render_turns(benchmark::State& state) {
  const auto compiled = Template::compile(kHermes).value();
  const json::Object context = conversation(static_cast<int>(state.range(0)));
  std::size_t bytes = 0;
  const std::size_t before = allocations;
  for (auto _ : state) bytes += compiled->render(context)->text.size();
  state.counters["allocations"] =
      static_cast<double>(allocations - before) / static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(render_turns)->Arg(1)->Arg(25)->Unit(benchmark::kMicrosecond);

// --- the reference templates

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string data() {
  return (tenon::folder_of(tenon::largest_data()) / "templates").string() + "/";
}

struct Pair {
  const std::string* source;
  std::string conversation;
  json::Object context;
};

constexpr std::string_view kLong = "long_tools";  // 25 turns

// Every 20th golden that renders, the choice of jinja_peer.py, too, and all long ones.
const std::vector<Pair>& pairs() {
  static std::map<std::string, std::string> sources;
  static const std::vector<Pair> chosen = [] {
    std::vector<Pair> result;
    std::map<std::string, json::Value> rows;
    std::istringstream manifest(read(data() + "manifest.jsonl"));
    for (std::string line; std::getline(manifest, line);) {
      json::Value row = json::parse(line).value();
      const std::string name = *row.find("template")->if_string();
      sources[name] = read(data() + *row.find("file")->if_string());
      rows[name] = std::move(row);
    }
    std::map<std::string, json::Object> contexts;
    const json::Value conversations = json::parse(read(data() + "conversations.json")).value();
    for (const json::Value& row : *conversations.if_array()) {
      contexts[*row.find("id")->if_string()] = *row.find("context")->if_object();
    }
    std::istringstream goldens(read(data() + "goldens_public.jsonl"));
    int number = 0;
    for (std::string line; std::getline(goldens, line);) {
      const json::Value golden = json::parse(line).value();
      if (!*golden.find("ok")->if_bool()) continue;
      const std::string& name = *golden.find("template")->if_string();
      const std::string& conversation = *golden.find("conv")->if_string();
      if (number++ % 20 != 0 && conversation != kLong) continue;
      Pair pair{&sources[name], conversation, contexts[conversation]};
      for (const char* token : {"bos", "eos"}) {
        const json::Value* text = rows[name].find(token);
        if (text->if_string() != nullptr) pair.context[std::string(token) + "_token"] = *text;
      }
      result.push_back(std::move(pair));
    }
    return result;
  }();
  return chosen;
}

// The median and the 90th percentile over the pairs of what `run` gives for each: microseconds of
// the best of several runs, or a count.
template <class F>
void measure(benchmark::State& state, F run, bool only_long = false) {
  if (pairs().empty()) return state.SkipWithError("no pair renders");
  std::vector<double> times;
  for (auto _ : state) {
    times.clear();
    for (const Pair& pair : pairs()) {
      if (only_long == (pair.conversation == kLong)) times.push_back(run(pair));
    }
  }
  std::sort(times.begin(), times.end());
  state.counters["pairs"] = static_cast<double>(times.size());
  state.counters["median"] = times[times.size() / 2];
  state.counters["p90"] = times[times.size() * 9 / 10];
}

template <class F>
double best_us(F run) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

void real_compile(benchmark::State& state) {
  measure(state, [](const Pair& pair) {
    return best_us([&] { benchmark::DoNotOptimize(Template::compile(*pair.source)); });
  });
}
BENCHMARK(real_compile)->Iterations(1);

double render_us(const Pair& pair) {
  const auto compiled = Template::compile(*pair.source).value();
  return best_us([&] { benchmark::DoNotOptimize(compiled->render(pair.context)); });
}

void real_render(benchmark::State& state) {
  measure(state, render_us);
}
BENCHMARK(real_render)->Iterations(1);

void real_long(benchmark::State& state) {
  measure(state, render_us, true);
}
BENCHMARK(real_long)->Iterations(1);

void real_allocations(benchmark::State& state) {
  measure(state, [](const Pair& pair) {
    const auto compiled = Template::compile(*pair.source).value();
    const std::size_t before = allocations;
    benchmark::DoNotOptimize(compiled->render(pair.context));
    return static_cast<double>(allocations - before);
  });
}
BENCHMARK(real_allocations)->Iterations(1);

}  // namespace
