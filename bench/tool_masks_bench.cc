// Masks of answers that may be text or a call, over the vocabulary of Qwen2.5 or a small one of our
// own: what the first mask of a set of tools takes, and masks along a text. `with_forms/1`: calls
// in other forms than the model's own are held too. The index is that of a server at work, which
// has seen other sets of tools. `sets_of_tools`: what real tools cost a server, from the request to
// the grammar.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/base/data_for_test.h"
#include "tenon/chat/constraint.h"
#include "tenon/format/definition.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/registry.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::format {
namespace {

constexpr std::string_view kAnswer =
    "I can look that up for you. First, the weather in Rome: it depends on the day (and the hour), "
    "so I need \"days\" = 3; see `weather`.\n\n1. Ask for the forecast.\n2. Compare it with the "
    "[map]: temperature < 20 means rain.\n";

struct Setting {
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::shared_ptr<grammar::VocabIndex> index;
  std::vector<vocab::TokenId> answer;
};

const Setting& setting() {
  static const Setting kMade = [] {
    const bool is_large = largest_data() == Data::large;
    Setting made;
    made.tokenizer = *vocab::load_tokenizer(
        (folder_of(largest_data()) / "vocab" / (is_large ? "qwen2" : "bytes") / "tokenizer.json")
            .string());
    made.index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(*made.tokenizer));
    if (!made.tokenizer->encode(kAnswer, vocab::Controls::off, true, made.answer)) std::abort();
    return made;
  }();
  return kMade;
}

std::vector<message::Tool> tools_of(std::size_t count, std::uint64_t set) {
  std::vector<message::Tool> tools;
  for (std::size_t i = 0; i < count; ++i) {
    tools.push_back({.name = "get_thing_" + std::to_string(set) + "_" + std::to_string(i),
                     .parameters = *json::parse(
                         R"({"type": "object", "properties": {"place": {"type": "string"},
             "days": {"type": "integer"}}, "required": ["place"]})")});
  }
  return tools;
}

using Clock = std::chrono::steady_clock;

double micros(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

void masks_of_text(benchmark::State& state) {
  const Setting& with = setting();
  const auto own = find("hermes");
  const auto format = with_fallbacks(*own, state.range(1) != 0 ? Fallbacks::all : Fallbacks::none,
                                     AnswerMode::held);
  std::vector<std::uint32_t> mask(grammar::mask_words(with.index->vocab().size()));
  double compile = 0;
  double first = 0;
  double others = 0;
  double most = 0;
  double again = 0;
  static std::uint64_t set = 0;
  for (auto unused : state) {
    const auto tools = tools_of(static_cast<std::size_t>(state.range(0)), ++set);
    auto at = Clock::now();
    const auto lap = [&] {
      const auto before = std::exchange(at, Clock::now());
      return micros(at - before);
    };
    const auto rules = tool_grammar(*format, tools, {}, {.tokenizer = with.tokenizer.get()});
    const auto made = grammar::Grammar::make(
        [&](grammar::Machine& machine) {
          return grammar::add_rules(machine, *rules, with.index->vocab());
        },
        with.index);
    compile += lap();
    for (const bool is_warm : {false, true}) {
      grammar::Matcher matcher(*made);
      for (std::size_t i = 0; i < with.answer.size(); ++i) {
        lap();
        if (!matcher.fill_mask(mask)) state.SkipWithError("no mask");
        const double took = lap();
        (is_warm ? again : i == 0 ? first : others) += took;
        if (!is_warm && i > 0) most = std::max(most, took);
        if (!matcher.accept(with.answer[i])) state.SkipWithError("refused");
      }
    }
  }
  const auto runs = static_cast<double>(state.iterations());
  const auto masks = static_cast<double>(with.answer.size());
  state.counters["compile_us"] = compile / runs;
  state.counters["first_us"] = first / runs;
  state.counters["others_us"] = others / runs / (masks - 1);
  state.counters["most_us"] = most;
  state.counters["again_us"] = again / runs / masks;
}
BENCHMARK(masks_of_text)
    ->ArgNames({"tools", "with_forms"})
    ->ArgsProduct({{2, 100}, {0, 1}})
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

// ---- Sets of real tools -------------------------------------------------------------------------

/// The schemas of tools, each as it came.
const std::vector<json::Value>& real_schemas() {
  static const std::vector<json::Value> kRead = [] {
    std::vector<json::Value> read;
    std::ifstream lines(folder_of(largest_data()) / "formats" / "bfcl_public.jsonl");
    std::set<std::string> seen;
    for (std::string line; std::getline(lines, line);) {
      const auto row = json::parse(line);
      if (!row || row->find("tools") == nullptr) continue;
      for (const json::Value& tool : *row->find("tools")->if_array()) {
        const json::Value& schema = *tool.find("function")->find("parameters");
        if (seen.insert(json::to_string(schema)).second) read.push_back(schema);
      }
    }
    return read;
  }();
  return kRead;
}

/// A request with `count` of them. The first `changed` are those of `set` alone.
message::ChatRequest request_of(std::size_t count, std::size_t changed, std::uint64_t set) {
  message::ChatRequest request;
  for (std::size_t i = 0; i < count; ++i) {
    json::Value schema = real_schemas()[i % real_schemas().size()];
    if (i < changed || i >= real_schemas().size()) {
      const std::uint64_t mark = i < changed ? set : 0;
      (*schema.if_object())["$id"] = "urn:set:" + std::to_string(mark) + ":" + std::to_string(i);
    }
    request.tools.push_back({.name = "tool_" + std::to_string(i), .parameters = std::move(schema)});
  }
  return request;
}

/// `changed` of the tools are new to the server, which has seen the others. Where none is, the set
/// is the one before.
void sets_of_tools(benchmark::State& state) {
  if (real_schemas().empty()) return state.SkipWithError("the data are not at hand");
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto changed = static_cast<std::size_t>(state.range(1));
  const chat::Constraints constraints(find("hermes"), *setting().tokenizer,
                                      {.index = setting().index});
  if (!constraints.of(request_of(count, changed, 0), "")) return state.SkipWithError("refused");
  std::uint64_t set = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const message::ChatRequest request = request_of(count, changed, ++set);
    state.ResumeTiming();
    if (!constraints.of(request, "")) return state.SkipWithError("refused");
  }
}
BENCHMARK(sets_of_tools)
    ->ArgNames({"tools", "new"})
    ->ArgsProduct({{100, 500}, {0, 1}})
    ->Args({100, 100})
    ->Args({500, 500})
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon::format
