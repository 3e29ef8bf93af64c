// What is parsed can be written and parsed again, and is the same value with the same number text.
#include "fuzz.h"

#include "tenon/json/value.h"

using tenon::fuzz::promise;
namespace json = tenon::json;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = json::parse(tenon::fuzz::text_of(data, size));
  if (!value) return 0;
  const std::string written = json::to_string(*value);
  const auto again = json::parse(written);
  promise(again.has_value(), "what is written parses");
  promise(*again == *value, "what is written means the same");
  promise(json::to_string(*again) == written, "writing is stable");
  promise(!json::dumps(*value, {.indent = 2, .sort_keys = true}).empty(), "dumps writes something");
  return 0;
}
