// Bytes that choose a grammar in one of the front ends' languages, and a walk of a matcher with a
// mask at each step: mask_walks.h. The first byte chooses the language.
#include <string>

#include "fuzz.h"

#include "tenon/grammar/mask_walks.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto index = grammar::bundled_index(TENON_SOURCE_DIR);
  fuzz::promise(index != nullptr, "the bundled model is in the tree");
  const std::string_view input = fuzz::text_of(data, size);
  if (input.empty()) return 0;
  const auto dialect = static_cast<grammar::Dialect>(static_cast<std::uint8_t>(input[0]) % 4);
  grammar::MaskWalkCounts counts;
  const auto broken = grammar::play_grammar_walk(input.substr(1), dialect, index, counts);
  fuzz::promise(!broken, broken ? broken->c_str() : "");
  return 0;
}
