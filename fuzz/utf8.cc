// Sanitising gives valid UTF-8, leaves valid text alone and does not depend on the cuts.
#include "tenon/base/utf8.h"

#include "fuzz.h"

using tenon::fuzz::promise;
namespace utf8 = tenon::utf8;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);
  const std::string whole = utf8::sanitized(text);
  promise(utf8::is_valid(whole), "sanitised text is valid");
  promise(utf8::is_valid(text) == (whole == text), "valid text, and only that, stays as it is");
  promise(utf8::valid_prefix(text) <= size, "the valid prefix is a prefix");
  promise(utf8::open_tail(text) <= 3, "at most three bytes are open");
  promise(utf8::length(text) <= size, "a code point has at least one byte");

  utf8::Sanitizer sanitizer;
  std::string cut;
  tenon::fuzz::in_pieces(text, static_cast<std::uint32_t>(size), [&](std::string_view piece) {
    sanitizer.feed(piece, cut);
    promise(utf8::is_valid(cut), "what is passed on is whole characters");
  });
  sanitizer.finish(cut);
  promise(cut == whole, "cuts do not change the text");
  return 0;
}
