// Bytes that choose a schema and a walk of a matcher with a mask at each step: mask_walks.h. The
// first byte chooses the vocabulary.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fuzz.h"

#include "tenon/grammar/mask_walks.h"

using namespace tenon;

namespace {

std::shared_ptr<grammar::VocabIndex> llama3() {
  auto index = grammar::index_of_tokens(
      std::string(TENON_SOURCE_DIR) + "/../shared/data/vocab/llama3/tokens.bin", 20'000);
  if (!index) std::fprintf(stderr, "SKIPPED: the vocabulary of Llama-3 is not at hand\n");
  return index;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto bundled = grammar::bundled_index(TENON_SOURCE_DIR);
  static const auto sliced = llama3();
  fuzz::promise(bundled != nullptr, "the bundled model is in the tree");
  const std::string_view input = fuzz::text_of(data, size);
  if (input.empty()) return 0;
  const bool is_large = sliced && static_cast<std::uint8_t>(input[0]) % 4 == 0;
  grammar::MaskWalkCounts counts;
  const auto broken = grammar::play_mask_walk(input.substr(1), is_large ? sliced : bundled, counts);
  fuzz::promise(!broken, broken ? broken->c_str() : "");
  return 0;
}
