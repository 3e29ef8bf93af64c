// A pattern that the whole text matches and, after a NUL, calls of a matcher of it.
#include "matcher_calls.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tenon::fuzz::play_source(tenon::grammar::Syntax::regex, data, size);
}
