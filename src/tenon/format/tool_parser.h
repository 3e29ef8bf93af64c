#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// Parsing for callers who want whole calls and no events.
namespace tenon::format {

/// A model's output, cut anywhere, to calls and text. A StreamParser and a Fold in one; it serves
/// one answer at a time, from one thread.
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
    std::string text;       ///< Whatever is no call, reasoning or marker.
    std::string reasoning;  ///< What the model thought, where its format tells that from text.
    /// The output was cut inside the last call, whose arguments are what there was.
    bool is_incomplete = false;
    std::vector<message::Diagnostic> diagnostics;
  };

  /// A parser for the format of that name or alias. Fails with `unsupported` where there is none.
  [[nodiscard]] static Expected<ToolParser> create(std::string_view format, ParseOptions options);
  ToolParser(std::shared_ptr<const Format> format, ParseOptions options);

  [[nodiscard]] const std::string& name() const { return info(*format_).name; }
  /// How a model is told of `tools` that was not trained for them: describe_tools().
  [[nodiscard]] std::string format_tools_prompt(const std::vector<message::Tool>& tools) const {
    return describe_tools(*format_, tools);
  }

  /// The calls that `token` completes, each once: with its end marker, or where it is certain that
  /// none comes. `is_control` as in StreamParser::feed.
  std::vector<message::ToolCall> feed(std::string_view token, bool is_control = false);
  /// The output has ended, `truncated` if by length: all of it. reset() comes before the next one.
  Parsed finish(bool truncated = false);
  /// Forgets what was fed.
  void reset();

 private:
  void take_events();

  std::shared_ptr<const Format> format_;
  StreamParser parser_;
  std::vector<message::ChatEvent> events_;  // not in fold_ yet
  message::Fold fold_;
  std::size_t ended_ = 0;     // calls, of fold_
  std::size_t returned_ = 0;  // of these, by feed()
};

}  // namespace tenon::format
