#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/message/message.h"

/// Calls, results and tools as text of a prompt, where the model's template does not write them.
namespace tenon::format {

/// How text for a prompt is written.
struct HistoryOptions {
  /// The format's own markers are written between these, so that markers can become control tokens
  /// while names, arguments and results cannot (jinja::RenderOptions). Empty: nothing is written.
  std::string own_begin;
  std::string own_end;
  std::size_t calls_before = 0;  ///< Calls earlier in the conversation; some formats count them in
                                 ///< ids.
  /// Their schemas say which parameters are text: such texts are quoted if they would be read as
  /// JSON ("12", "null") in formats that write text and JSON alike.
  std::span<const message::Tool> tools;
};

/// The text that a model generates for `calls` in this format, with markers, without the end of the
/// turn. Fails with `invalid` if arguments are not a JSON object.
[[nodiscard]] Expected<std::string> render_calls(const Format& format,
                                                 const std::vector<message::ToolCall>& calls,
                                                 const HistoryOptions& options = {});

/// The result of a call.
struct ToolResult {
  std::string id;  ///< The call's id.
  std::string name;
  std::string content;
  bool is_error = false;
};

/// The role of results as text in a prompt whose template has no place for them. Null: the format
/// does not define how they are written.
[[nodiscard]] const std::string* result_role(const Format& format);

/// The texts of consecutive `results`, one for each turn. Nothing if the format does not define it.
[[nodiscard]] std::vector<std::string> render_results(const Format& format,
                                                      const std::vector<ToolResult>& results,
                                                      const HistoryOptions& options = {});

/// The description of tools for a model that was never trained for tools: how to call, with an
/// example, and each tool with its schema. It goes into the system message of a model whose
/// template knows no tools.
[[nodiscard]] std::string describe_tools(const Format& format,
                                         const std::vector<message::Tool>& tools,
                                         const HistoryOptions& options = {});

}  // namespace tenon::format
