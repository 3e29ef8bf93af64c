// Masks over the vocabulary of Llama-3, or a small one of our own: compiling sets of tools, and
// single masks at places of a text that differ in what they cost. bench/mask_figures.py has whole
// texts, and peers.
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/base/data_for_test.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/grammar_cache.h"
#include "tenon/grammar/machine/mask_pool.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer_file.h"

namespace {

using namespace tenon;
using namespace tenon::grammar;

const std::shared_ptr<VocabIndex>& vocab_index() {
  static const auto index = []() -> std::shared_ptr<VocabIndex> {
    const bool is_large = largest_data() == Data::large;
    const auto tokenizer = vocab::load_tokenizer(
        (folder_of(largest_data()) / "vocab" / (is_large ? "llama3" : "bytes") / "tokenizer.json")
            .string());
    if (!tokenizer) return nullptr;
    return std::make_shared<VocabIndex>(is_large ? *vocab::Vocab::of(**tokenizer, {128'001})
                                                 : *vocab::Vocab::of(**tokenizer));
  }();
  return index;
}

Expected<Grammar::Build> build_of(const json::Value& source) {
  auto schema = schema::Schema::compile(source, {.assert_format = true});
  if (!schema) return Unexpected(schema.error());
  return [schema = *schema](Machine& machine) { return add_json(machine, schema, {}); };
}

Expected<std::shared_ptr<Grammar>> grammar_of(const json::Value& source) {
  auto build = build_of(source);
  if (!build) return Unexpected(build.error());
  return Grammar::make(std::move(*build), vocab_index());
}

// ---- Sets of tools ------------------------------------------------------------------------------

/// {"name", "arguments"} of one of `count` tools. Where a set has fewer, they come again by other
/// names.
json::Value tools_schema(std::size_t count) {
  json::Array calls;
  std::map<std::string, bool> seen;
  std::ifstream lines;
  int round = 0;
  for (std::string line; calls.size() < count;) {
    if (!std::getline(lines, line)) {
      if (++round > 100) break;
      lines = std::ifstream(folder_of(largest_data()) / "formats" / "bfcl_public.jsonl");
      continue;
    }
    const auto row = json::parse(line);
    if (!row) continue;
    for (const json::Value& tool : *row->find("tools")->if_array()) {
      const json::Value& function = *tool.find("function");
      const std::string name =
          *function.find("name")->if_string() + (round > 1 ? "_" + std::to_string(round) : "");
      if (calls.size() == count || !seen.emplace(name, true).second) continue;
      calls.push_back(
          json::Object{{"type", "object"},
                       {"properties", json::Object{{"name", json::Object{{"const", name}}},
                                                   {"arguments", *function.find("parameters")}}},
                       {"required", json::Array{"name", "arguments"}},
                       {"additionalProperties", false}});
    }
  }
  if (calls.size() < count) return nullptr;
  return json::Object{{"anyOf", std::move(calls)}};
}

/// From the schema as JSON to the first mask; `bytes` is what the grammar holds then, beside what
/// all grammars share.
void compile_tools(benchmark::State& state) {
  const json::Value source = tools_schema(static_cast<std::size_t>(state.range(0)));
  if (!vocab_index() || source.is_null()) return state.SkipWithError("the data are not at hand");
  std::vector<std::uint32_t> mask(mask_words(vocab_index()->vocab().size()));
  std::size_t bytes = 0;
  for (auto _ : state) {
    const auto grammar = grammar_of(source);
    if (!grammar || !Matcher(*grammar).fill_mask(mask)) return state.SkipWithError("refused");
    bytes = (*grammar)->memory_bytes();
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
/// The second request with the same tools: from their text to the first mask.
void tools_again(benchmark::State& state) {
  const json::Value source = tools_schema(static_cast<std::size_t>(state.range(0)));
  if (!vocab_index() || source.is_null()) return state.SkipWithError("the data are not at hand");
  const std::string text = json::to_string(source);
  std::vector<std::uint32_t> mask(mask_words(vocab_index()->vocab().size()));
  GrammarCache cache(vocab_index(), std::size_t{64} << 20U);
  for (auto _ : state) {
    const auto grammar = cache.get(text, [&](Machine& machine) -> Expected<FrameId> {
      auto build = build_of(source);
      if (!build) return Unexpected(build.error());
      return (*build)(machine);
    });
    if (!grammar || !Matcher(*grammar).fill_mask(mask)) return state.SkipWithError("refused");
  }
  if (cache.counts().compilations != 1) state.SkipWithError("compiled again");
}

BENCHMARK(compile_tools)->Arg(1)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);
BENCHMARK(tools_again)->Arg(1)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);

// ---- Single masks -------------------------------------------------------------------------------

struct Place {
  const char* name;
  const char* schema;
  const char* text;  // what comes before the mask
};

constexpr Place kPlaces[] = {
    {"start", R"({"type": "object"})", ""},
    {"text", R"({"type": "string"})", "\"a"},
    {"text_of_20", R"({"type": "string", "maxLength": 20})", "\"a"},
    {"pattern", R"({"type": "string", "pattern": "^(?:\\S+\\s+){0,99}\\S+$"})", "\"a b"},
    {"date_time", R"({"type": "string", "format": "date-time"})", "\"20"},
    {"enum", R"({"enum": ["red", "green", "blue", "white"]})", "\""},
    {"number", R"({"type": "number", "minimum": 10, "maximum": 2500})", "1"},
    {"keys", R"({"type": "object", "properties": {"city": {}, "country": {}, "street": {}},
                 "additionalProperties": false})",
     "{\""},
    {"any_keys", R"({"type": "object", "properties": {"city": {}, "country": {}, "street": {}}})",
     "{\""},
    {"after_value", R"({"type": "array", "items": {"type": "integer"}})", "[1"},
};

/// The first mask at a place, in a new grammar: what the vocabulary's index knows already is used,
/// what the grammar remembers is not there yet.
void first_mask(benchmark::State& state, const Place& place) {
  if (!vocab_index()) return state.SkipWithError("the vocabulary is not at hand");
  const json::Value source = *json::parse(place.schema);
  std::vector<std::uint32_t> mask(mask_words(vocab_index()->vocab().size()));
  for (auto _ : state) {
    state.PauseTiming();
    Matcher matcher(*grammar_of(source));
    const bool is_read = matcher.accept_bytes(place.text);
    state.ResumeTiming();
    if (!is_read || !matcher.fill_mask(mask)) return state.SkipWithError("refused");
  }
}

/// The same mask once more: from a cache into the caller's buffer.
void mask_again(benchmark::State& state, const Place& place) {
  if (!vocab_index()) return state.SkipWithError("the vocabulary is not at hand");
  std::vector<std::uint32_t> mask(mask_words(vocab_index()->vocab().size()));
  Matcher matcher(*grammar_of(*json::parse(place.schema)));
  if (!matcher.accept_bytes(place.text)) return state.SkipWithError("refused");
  for (auto _ : state) {
    if (!matcher.fill_mask(mask)) return state.SkipWithError("refused");
    benchmark::DoNotOptimize(mask.data());
  }
}

// ---- Batches ------------------------------------------------------------------------------------

/// Masks of 32 texts, over so many grammars and with so many threads beside the caller's; each text
/// moves on by a byte and back, so that the masks are known. A call is one batch.
void batch_of_32(benchmark::State& state) {
  if (!vocab_index()) return state.SkipWithError("the vocabulary is not at hand");
  constexpr std::size_t kTexts = 32;
  std::vector<std::shared_ptr<Grammar>> grammars;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const Place& place = kPlaces[static_cast<std::size_t>(i) % std::size(kPlaces)];
    grammars.push_back(*grammar_of(*json::parse(place.schema)));
  }
  std::vector<Matcher> matchers;
  std::vector<std::vector<std::uint32_t>> masks(
      kTexts, std::vector<std::uint32_t>(mask_words(vocab_index()->vocab().size())));
  std::vector<MaskRow> rows;
  for (std::size_t i = 0; i < kTexts; ++i) {
    const std::size_t of = i % grammars.size();
    matchers.emplace_back(grammars[of]);
    if (!matchers.back().accept_bytes(kPlaces[of % std::size(kPlaces)].text)) {
      return state.SkipWithError("refused");
    }
  }
  for (std::size_t i = 0; i < kTexts; ++i) rows.push_back({&matchers[i], masks[i], {}});
  MaskPool pool(static_cast<std::size_t>(state.range(1)));
  for (auto _ : state) pool.fill_masks(rows);
}

BENCHMARK(batch_of_32)
    ->ArgNames({"grammars", "threads"})
    ->Args({1, 0})
    ->Args({1, 1})
    ->Args({10, 0})
    ->Args({10, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

const bool kRegistered = [] {
  for (const Place& place : kPlaces) {
    const std::string name = place.name;
    benchmark::RegisterBenchmark(("first_mask/" + name).c_str(),
                                 [&place](auto& state) { first_mask(state, place); })
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(200);
    benchmark::RegisterBenchmark(("mask_again/" + name).c_str(), [&place](auto& state) {
      mask_again(state, place);
    })->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
