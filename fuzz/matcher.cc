// A schema and, after a NUL, calls of a matcher of it.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "fuzz.h"
#include "matcher_calls.h"

#include "tenon/grammar/json/json_frames.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

using namespace tenon;
using grammar::JsonOptions;

namespace {

JsonOptions options_of(std::size_t size) {
  constexpr JsonOptions::Whitespace kWhitespaces[] = {
      JsonOptions::Whitespace::any, JsonOptions::Whitespace::spaced,
      JsonOptions::Whitespace::compact, JsonOptions::Whitespace::pretty};
  JsonOptions options;
  options.whitespace = kWhitespaces[size % std::size(kWhitespaces)];
  if (size / 4 % 2 == 1) options.property_order = JsonOptions::PropertyOrder::schema;
  options.lenient = size % 3 == 0;
  return options;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const auto source = json::parse(input.substr(0, cut));
  if (!source) return 0;
  schema::CompileOptions options;
  options.assert_format = true;
  options.limits = {.max_steps = 100'000, .max_bytes = 16 << 20};
  const auto schema = schema::Schema::compile(*source, options);
  if (!schema) return 0;
  fuzz::play(
      [&](grammar::Machine& machine) { return add_json(machine, *schema, options_of(size)); },
      input.substr(std::min(cut + 1, input.size())));
  return 0;
}
