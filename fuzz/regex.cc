// A pattern and, after a NUL, a text: what is compiled searches within its limits, the same each
// time; and what a Splitter finds, which works in another way, Regex finds too.
#include "tenon/regex/regex.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.h"

#include "tenon/base/utf8.h"
#include "tenon/regex/splitter.h"

using tenon::fuzz::promise;
namespace regex = tenon::regex;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = tenon::fuzz::text_of(data, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view pattern = input.substr(0, end);
  const std::string text = tenon::utf8::sanitized(input.substr(std::min(end + 1, input.size())));
  const tenon::Limits limits{.max_steps = 20'000, .max_bytes = 4 << 20};

  std::vector<regex::Splitter::Piece> pieces;
  for (const auto dialect :
       {regex::Dialect::oniguruma, regex::Dialect::fancy_regex, regex::Dialect::ecma262}) {
    const auto splitter = regex::Splitter::compile(pattern, dialect, limits);
    pieces.clear();
    if (!splitter || !(*splitter)->find_all(text, pieces)) continue;
    std::size_t after = 0;
    for (const regex::Splitter::Piece& piece : pieces) {
      promise(after <= piece.begin && piece.begin < piece.end && piece.end <= text.size(),
              "pieces follow one another in the text");
      after = piece.end;
    }
  }

  const auto compiled = regex::Regex::compile(pattern, limits);
  if (!compiled) return 0;
  const auto found = (*compiled)->contains_match(text);
  if (!found) return 0;
  promise(pieces.empty() || *found, "what is a piece is a match");
  const auto again = (*compiled)->contains_match(text);
  promise(again && *again == *found, "a second search finds the same");
  return 0;
}
