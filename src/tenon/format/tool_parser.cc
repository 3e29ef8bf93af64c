#include "tenon/format/tool_parser.h"

#include <utility>
#include <variant>

#include "tenon/format/registry.h"

namespace tenon::format {

Expected<ToolParser> ToolParser::create(std::string_view format, ParseOptions options) {
  auto named = format::named(format);
  if (!named) return Unexpected(std::move(named).error());
  return ToolParser(*std::move(named), std::move(options));
}

ToolParser::ToolParser(std::shared_ptr<const Format> format, ParseOptions options)
    : format_(std::move(format)), parser_(format_, std::move(options)) {}

void ToolParser::take_events() {
  for (const message::ChatEvent& event : events_) {
    fold_.add(event);
    ended_ += std::holds_alternative<message::CallEnd>(event);
  }
  events_.clear();
}

std::vector<message::ToolCall> ToolParser::feed(std::string_view token, bool is_control) {
  parser_.feed(token, is_control, events_);
  take_events();
  // The last call is returned with its end marker, or once it is certain that none comes.
  const bool last_is_open = ended_ > returned_ && parser_.awaits_end_marker();
  const std::vector<message::ToolCall>& calls = fold_.message().tool_calls;
  std::vector<message::ToolCall> completed;
  for (; returned_ < ended_ - (last_is_open ? 1 : 0); ++returned_) {
    completed.push_back(calls.at(returned_));
  }
  return completed;
}

ToolParser::Parsed ToolParser::finish(bool truncated) {
  parser_.finish(truncated, events_);
  take_events();
  const message::Message& said = fold_.message();
  Parsed parsed{.calls = said.tool_calls,
                .text = said.text(),
                .reasoning = said.reasoning,
                .diagnostics = fold_.diagnostics()};
  parsed.is_incomplete = !fold_.incomplete().empty() && fold_.incomplete().back();
  return parsed;
}

void ToolParser::reset() {
  parser_.reset();
  events_.clear();
  fold_ = message::Fold();
  ended_ = returned_ = 0;
}

}  // namespace tenon::format
