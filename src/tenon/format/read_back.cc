#include "tenon/format/read_back.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/format/space.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

bool is_same(const message::ToolCall& written, const message::ToolCall& read) {
  const auto one = json::parse(written.arguments);
  const auto other = json::parse(read.arguments);
  return written.name == read.name && one && other && *one == *other;
}

}  // namespace

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
                    std::ranges::equal(calls, read, is_same);
  return written;
}

}  // namespace tenon::format
