#include "tenon/format/read_back.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/format/space.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

// Arguments are compared as values, not as text.
bool is_same(const message::ToolCall& written, const message::ToolCall& read) {
  const auto one = json::parse(written.arguments);
  const auto other = json::parse(read.arguments);
  return written.name == read.name && one && other && *one == *other;
}

// By which a parser knows values that could be text: of a sample it is known what they are.
json::Value schema_of(const message::ToolCall& call) {
  json::Object properties;
  const auto arguments = json::parse(call.arguments);
  if (arguments && arguments->if_object() != nullptr) {
    for (const json::Member& member : *arguments->if_object()) {
      const bool is_object = member.value.if_object() != nullptr;
      if (is_object || member.value.if_array() != nullptr) {
        properties.set(member.key, json::Object{{"type", is_object ? "object" : "array"}});
      }
    }
  }
  return json::Object{{"type", "object"}, {"properties", std::move(properties)}};
}

}  // namespace

bool same_calls(std::span<const message::ToolCall> some,
                std::span<const message::ToolCall> others) {
  return std::ranges::equal(some, others, is_same);
}

message::Fold fold_of(const std::shared_ptr<const Format>& format, const CallSample& sample) {
  ParseOptions options{.prompt_tail = sample.before};
  for (const message::ToolCall& call : sample.calls) {
    options.tools.push_back(call.name);
    options.schemas.push_back(schema_of(call));
  }
  StreamParser parser(format, std::move(options));
  std::vector<message::ChatEvent> events;
  parser.feed(sample.text, false, events);
  parser.finish(/*truncated=*/false, events);
  message::Fold fold;
  for (const message::ChatEvent& event : events) fold.add(event);
  return fold;
}

bool reads(const std::shared_ptr<const Format>& format, const CallSample& sample) {
  const message::Fold fold = fold_of(format, sample);
  return trimmed(fold.message().text()).empty() &&
         same_calls(fold.message().tool_calls, sample.calls);
}

Written write_and_read(const Format& format, const Syntax& syntax,
                       std::span<const message::Tool> tools,
                       const std::vector<message::ToolCall>& calls) {
  ParseOptions options;
  for (const message::Tool& tool : tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  auto text = render_calls_in(format, syntax, calls, {.tools = tools});
  if (!text) return {};
  // What may come first follows the prompt's end, so the call does not.
  if (!syntax.before.empty()) *text = syntax.before + format.prompt_end + *text;
  Written written{*std::move(text) + syntax.behind};
  // The parser does not live longer than `format`.
  StreamParser parser(std::shared_ptr<const Format>(std::shared_ptr<void>(), &format),
                      std::move(options));
  std::vector<message::ChatEvent> events;
  parser.feed(written.text, false, events);
  parser.finish(/*truncated=*/false, events);
  message::Fold fold;
  for (const message::ChatEvent& event : events) fold.add(event);
  const std::vector<message::ToolCall>& read = fold.message().tool_calls;
  written.is_read = fold.diagnostics().empty() && trimmed(fold.message().text()).empty() &&
                    same_calls(calls, read);
  return written;
}

}  // namespace tenon::format
