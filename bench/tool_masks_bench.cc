// Masks of answers that may be text or a call, over the vocabulary of Qwen2.5 or a small one of our
// own: what the first mask of a set of tools takes, and masks along a text. `with_forms/1`: calls
// in other forms than the model's own are held too. The index is that of a server at work, which
// has seen other sets of tools.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/base/data_for_test.h"
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

}  // namespace
}  // namespace tenon::format
