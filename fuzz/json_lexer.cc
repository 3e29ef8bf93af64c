// Cuts change nothing, a refused byte is not taken, and every prefix can be completed.
#include "fuzz.h"

#include "tenon/json/lexer.h"
#include "tenon/json/value.h"

using tenon::fuzz::promise;
namespace json = tenon::json;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = tenon::fuzz::text_of(data, size);

  json::Lexer whole;
  const json::Lexer::Fed fed = whole.feed(text);
  promise(fed.used <= size, "no more bytes are taken than given");

  json::Lexer cut;
  std::string taken;
  json::Verdict verdict = json::Verdict::more;
  tenon::fuzz::in_pieces(text, static_cast<std::uint32_t>(size), [&](std::string_view piece) {
    if (verdict != json::Verdict::more) return;
    const json::Lexer::Fed part = cut.feed(piece);
    taken += piece.substr(0, part.used);
    verdict = part.verdict;
  });
  promise(taken == text.substr(0, fed.used), "cuts do not change what is taken");
  promise(verdict == fed.verdict, "cuts do not change the verdict");

  const std::string completed = taken + whole.completion();
  const auto value = json::parse(completed);
  promise(value.has_value(), "a completed text parses");
  return 0;
}
