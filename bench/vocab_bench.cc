// Tokenizers from files: how long loading takes, and how fast texts are encoded, with the real
// vocabularies where they are there, and small ones of our own else. bench/vocab_peer.py does the
// same with `tokenizers`.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tenon/base/data_for_test.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

namespace {

using namespace tenon;
using namespace tenon::vocab;

std::string file_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string json_of(const std::string& name) {
  return file_of((folder_of(largest_data()) / "vocab" / name / "tokenizer.json").string());
}

const Tokenizer* tokenizer_of(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> known;
  auto& tokenizer = known[name];
  if (!tokenizer) {
    auto parsed = parse_tokenizer_json(json_of(name));
    if (parsed) tokenizer = *parsed;
  }
  return tokenizer.get();
}

/// English and markup: our own documentation, about 22 KB.
std::string prose() {
  std::string text;
  for (const char* name : {"formats.md", "schemas.md", "api.md"}) {
    text += file_of(std::string(TENON_SOURCE_DIR) + "/docs/" + name);
  }
  return text;
}

void load(benchmark::State& state, const std::string& name) {
  const std::string file = json_of(name);
  if (file.empty()) return state.SkipWithError("the vocabulary is not at hand");
  for (auto _ : state) benchmark::DoNotOptimize(parse_tokenizer_json(file));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(file.size()));
}

void encode(benchmark::State& state, const std::string& name, const std::string& text) {
  const Tokenizer* tokenizer = tokenizer_of(name);
  if (tokenizer == nullptr) return state.SkipWithError("the vocabulary is not at hand");
  std::vector<TokenId> ids;
  for (auto _ : state) {
    ids.clear();
    if (!tokenizer->encode(text, Controls::on, true, ids)) return state.SkipWithError("refused");
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

const bool kRegistered = [] {
  const std::vector<std::string> large = {"llama3", "qwen2", "gemma4"};
  const std::vector<std::string> own = {"bytes", "pieces"};
  for (const std::string& of : largest_data() == Data::large ? large : own) {
    benchmark::RegisterBenchmark(("load/" + of).c_str(), [of](auto& state) {
      load(state, of);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("prose/" + of).c_str(),
                                 [of](auto& state) { encode(state, of, prose()); });
    benchmark::RegisterBenchmark(("one_letter/" + of).c_str(), [of](auto& state) {
      encode(state, of, std::string(1 << 20U, 'a'));
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
