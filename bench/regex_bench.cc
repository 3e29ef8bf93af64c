// Patterns: compiled, searched, asked for life; and tokenizers' patterns over prose.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/regex/dfa.h"
#include "tenon/regex/language.h"
#include "tenon/regex/regex.h"
#include "tenon/regex/splitter.h"

namespace tenon::regex {
namespace {

constexpr std::string_view kUuid =
    "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
constexpr std::string_view kWords = R"(^(?:\S+\s+){0,99}\S+$)";
constexpr std::string_view kPassword = R"(^(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{8,}$)";

void compile(benchmark::State& state, std::string_view pattern) {
  for (auto _ : state) benchmark::DoNotOptimize(Regex::compile(pattern));
}
BENCHMARK_CAPTURE(compile, uuid, kUuid);
BENCHMARK_CAPTURE(compile, words, kWords);
BENCHMARK_CAPTURE(compile, password, kPassword);

void search(benchmark::State& state, std::string_view pattern, std::string_view part) {
  const auto regex = Regex::compile(pattern);
  std::string text;
  while (text.size() < 600) text += part;
  for (auto _ : state) benchmark::DoNotOptimize((*regex)->contains_match(text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK_CAPTURE(search, words, kWords, "a few words ");
BENCHMARK_CAPTURE(search, password, kPassword, "onlylowercase");

// Each of 2,000 states that are met on the way through a text.
void life(benchmark::State& state, std::string_view pattern) {
  Budget budget("pattern", {});
  const auto syntax = parse(pattern, Dialect::ecma262, budget);
  for (auto _ : state) {
    ExprSet exprs({.max_bytes = 256 << 20});
    const auto language = language_of(exprs, *syntax, Extent::part);
    const Expr character = utf8_spelling(exprs, CodePointSet::all());
    Dfa dfa(exprs, exprs.both(*language, exprs.repeat(character, 10, 5000)));
    Dfa::State at = Dfa::kStart;
    for (unsigned i = 0, seed = 1; i < 2000; ++i) {
      seed = seed * 1664525 + 1013904223;
      const Dfa::State next =
          dfa.step(at, static_cast<std::uint8_t>("abcfo19-_. "[(seed >> 16) % 11]));
      if (dfa.is_live(next).value_or(false)) at = next;
    }
  }
  state.SetItemsProcessed(state.iterations() * 2000);
}
BENCHMARK_CAPTURE(life, part, "foo");
BENCHMARK_CAPTURE(life, words, kWords);

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

void split(benchmark::State& state, std::string_view part) {
  const auto splitter = Splitter::compile(kLlama3);
  std::string text;
  while (text.size() < 100'000) text += part;
  std::vector<Splitter::Piece> pieces;
  for (auto _ : state) {
    pieces.clear();
    benchmark::DoNotOptimize((*splitter)->find_all(text, pieces));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK_CAPTURE(split, english, "It's the 42nd word, and there'll be more of them.\n");
BENCHMARK_CAPTURE(split, japanese, "漢字かな交じり文は、日本語の文章である。");
BENCHMARK_CAPTURE(split, spaces, "        ");

}  // namespace
}  // namespace tenon::regex
