#include <string>

#include "fuzz.h"

#include "tenon/jinja/template.h"

/// Any text as a template over any JSON as its context: both end in a value or an error, within the
/// limits; spans cover the output without gaps; a second rendering gives the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenon;
  const std::string_view input = fuzz::text_of(data, size);
  // The context stands behind a zero byte.
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const Expected<json::Value> parsed = json::parse(input.substr(std::min(cut + 1, input.size())));
  const json::Object context = parsed && parsed->if_object() != nullptr
                                   ? *parsed->if_object()
                                   : json::Object{{"l", json::Array{3, 1, "x", nullptr}},
                                                  {"d", json::Object{{"a", 1.5}, {"b", "<|e|>"}}},
                                                  {"s", "h\u00e9 llo"},
                                                  {"n", -7}};
  jinja::CompileOptions compile;
  compile.superset = size % 2 == 1;
  compile.trim_blocks = size % 3 != 1;
  const auto chat_template = jinja::Template::compile(input.substr(0, cut), compile);
  if (!chat_template) {
    fuzz::promise(!chat_template.error().message.empty(), "an error says what happened");
    return 0;
  }
  jinja::RenderOptions limits;
  limits.max_steps = 50'000;
  limits.max_output_bytes = 1 << 20;
  limits.max_allocated_bytes = 4 << 20;
  limits.now_unix_s = 1;
  const auto first = (*chat_template)->render(context, limits);
  const auto second = (*chat_template)->render(context, limits);
  fuzz::promise(first.has_value() == second.has_value(), "the same end twice");
  if (!first) return 0;
  fuzz::promise(first->text == second->text && first->spans == second->spans,
                "the same text twice");
  fuzz::promise(first->text.size() <= limits.max_output_bytes, "the output's limit");
  std::size_t end = 0;
  for (const jinja::Span& span : first->spans) {
    fuzz::promise(span.begin == end && span.end > end, "spans without gaps");
    end = span.end;
  }
  fuzz::promise(end == first->text.size(), "spans to the end");
  return 0;
}
