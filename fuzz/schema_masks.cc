// Bytes that choose a schema and a walk of a matcher with a mask at each step: mask_walks.h. The
// first byte chooses the vocabulary.
#include <cstdlib>
#include <string>

#include "fuzz.h"

#include "tenon/base/data_for_test.h"
#include "tenon/grammar/mask_walks.h"

using namespace tenon;

namespace {

/// A slice of Llama 3's vocabulary where the large reference data are there, else one of our own.
std::shared_ptr<grammar::VocabIndex> other_index() {
  const char* const name = is_there(Data::large) ? "llama3" : "bytes";
  const auto file = folder_of(largest_data()) / "vocab" / name / "tokens.bin";
  return grammar::index_of_tokens(file.string(), 20'000);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto bundled = grammar::bundled_index(TENON_SOURCE_DIR);
  static const auto sliced = other_index();
  fuzz::promise(bundled != nullptr, "the bundled model is in the tree");
  fuzz::promise(sliced != nullptr, "our own samples are in the tree");
  const std::string_view input = fuzz::text_of(data, size);
  if (input.empty()) return 0;
  const bool is_other = static_cast<std::uint8_t>(input[0]) % 4 == 0;
  grammar::MaskWalkCounts counts;
  const auto broken = grammar::play_mask_walk(input.substr(1), is_other ? sliced : bundled, counts);
  fuzz::promise(!broken, broken ? broken->c_str() : "");
  return 0;
}
