// A grammar in GBNF and, after a NUL, calls of a matcher of it.
#include "tenon/grammar/gbnf.h"

#include <algorithm>
#include <string_view>

#include "fuzz.h"
#include "matcher_calls.h"

using namespace tenon;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t cut = std::min(input.find('\0'), input.size());
  grammar::Rules rules;
  const auto root = add_gbnf(rules, input.substr(0, cut));
  if (!root) {
    fuzz::promise(!root.error().message.empty(), "a refusal says why");
    return 0;
  }
  rules.set_root(*root);
  fuzz::play(
      [&](grammar::Machine& machine) {
        return add_rules(machine, rules, fuzz::small_index()->vocab());
      },
      input.substr(std::min(cut + 1, input.size())));
  return 0;
}
