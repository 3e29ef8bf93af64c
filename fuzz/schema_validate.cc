#include <string>

#include "fuzz.h"

#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// Any JSON as a schema over any JSON as the instance, behind a zero byte: both end within their
/// limits; the verdict is that of the list of violations; each violation is at a place that there
/// is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenon;
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const auto source = json::parse(input.substr(0, cut));
  if (!source) return 0;
  const auto given = json::parse(input.substr(std::min(cut + 1, input.size())));
  const json::Value instance = given ? *given : *source;  // a schema is an instance like any other

  schema::CompileOptions options;
  options.draft = static_cast<schema::Draft>(size % 5);
  options.assert_format = size % 2 == 1;
  options.limits.max_steps = 100'000;
  options.limits.max_bytes = 16 << 20;
  const auto schema = schema::Schema::compile(*source, options);
  if (!schema) {
    fuzz::promise(!schema.error().message.empty(), "an error says what happened");
    return 0;
  }
  schema::ValidateOptions limits;
  limits.limits.max_steps = 100'000;
  const auto violations = (*schema)->validate(instance, limits);
  const auto verdict = (*schema)->is_valid(instance, limits);
  if (!violations || !verdict) return 0;  // only the list may need more than the limits allow
  fuzz::promise(*verdict == violations->empty(), "the verdict is that of the list");
  fuzz::promise(violations->size() <= limits.max_violations, "the list's limit");
  for (const schema::Violation& violation : *violations) {
    fuzz::promise(json::at_pointer(instance, violation.instance_path) != nullptr,
                  "a place in the instance");
    fuzz::promise(violation.schema_path.find('#') != std::string::npos ||
                      json::at_pointer(*source, violation.schema_path) != nullptr,
                  "a place in the schema");
    fuzz::promise(!violation.message.empty(), "a sentence");
  }
  return 0;
}
