#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// Parsing for callers who want whole calls instead of events.
namespace tenon::format {

/// Turns model output, cut anywhere, into calls and text. It is a StreamParser and a Fold in one,
/// and serves one answer at a time, from one thread.
///
///     auto parser = ToolParser::create("hermes", {.tools = {"get_weather"}});
///     if (!parser) return Unexpected(parser.error());    // unknown tool_call_format: ...
///     for (std::string_view token : tokens) {
///       for (const message::ToolCall& call : parser->feed(token)) run(call);
///     }
///     ToolParser::Parsed all = parser->finish();
class ToolParser {
 public:
  struct Parsed {
    std::vector<message::ToolCall> calls;
    std::string text;       ///< Everything that is not a call, reasoning or a marker.
    std::string reasoning;  ///< The model's reasoning, if its format marks it.
    /// The output was cut inside the last call, whose arguments are what was generated.
    bool is_incomplete = false;
    std::vector<message::Diagnostic> diagnostics;
  };

  /// A parser for the format with that name or alias. Fails with `unsupported` if no format has it.
  [[nodiscard]] static Expected<ToolParser> create(std::string_view format, ParseOptions options);
  ToolParser(std::shared_ptr<const Format> format, ParseOptions options);

  [[nodiscard]] const std::string& name() const { return info(*format_).name; }
  /// The description of `tools` for a model that was not trained for them: describe_tools().
  [[nodiscard]] std::string format_tools_prompt(const std::vector<message::Tool>& tools) const {
    return describe_tools(*format_, tools);
  }

  /// The calls that `token` completes, each once: at its end marker, or when it is certain that
  /// none comes. `is_control` as in StreamParser::feed.
  std::vector<message::ToolCall> feed(std::string_view token, bool is_control = false);
  /// The output has ended, `truncated` if by length; returns all of it. Call reset() before the
  /// next one.
  Parsed finish(bool truncated = false);
  /// Drops everything that was fed.
  void reset();

 private:
  void take_events();

  std::shared_ptr<const Format> format_;
  StreamParser parser_;
  std::vector<message::ChatEvent> events_;  // not in fold_ yet
  message::Fold fold_;
  std::size_t ended_ = 0;     // calls of fold_
  std::size_t returned_ = 0;  // those that feed() has returned
};

}  // namespace tenon::format
