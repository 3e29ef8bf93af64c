#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// A tool that this process offers to others.
struct OfferedTool {
  std::string name;
  std::string title;
  std::string description;
  json::Value input_schema;
  /// Gives the result, an object. An error of it is told to the model, which may call again.
  std::function<Expected<json::Object>(const json::Object& arguments)> run;
};

/// What a server says of itself.
struct ServerInfo {
  std::string name;
  std::string title;
  std::string version;
  std::string instructions;
};

/// Answers the messages of MCP clients. It keeps nothing between messages, so that
/// it speaks both eras of the protocol at once: revisions up to 2025-11-25, which begin with
/// `initialize`, and 2026-07-28, whose requests each name their revision in `_meta`. Nothing that a
/// client sends is trusted. Thread-safe if the tools are.
///
///     const ToolServer server({.name = "tenon"}, {validate_tool()});
///     if (const auto answer = server.answer_text(line)) std::cout << *answer << '\n';
class ToolServer {
 public:
  static constexpr std::size_t kMaxBatch = 64;  ///< Messages in a list.

  ToolServer(ServerInfo info, std::vector<OfferedTool> tools);

  /// The answer to one message, or to a list of them, as revision 2025-03-26 allows. No value:
  /// nothing is to be answered, because the message is a notification or an answer itself.
  [[nodiscard]] std::optional<json::Value> answer(const json::Value& message) const;
  /// The same for JSON text, on one line. Text that is not JSON is answered with a parse error.
  [[nodiscard]] std::optional<std::string> answer_text(std::string_view text) const;

  /// The response to a POST of "streamable HTTP". Requests of 2026-07-28 say the same in their
  /// headers and their body, or are refused with 400; methods that they do not have, with 404.
  [[nodiscard]] http::Response answer_post(const http::Request& request) const;

  /// Whether a client may name this revision.
  [[nodiscard]] static bool knows_revision(std::string_view revision);

 private:
  using Answer = Result<json::Object, json::Object>;  // the result, or the error

  [[nodiscard]] std::optional<json::Value> answer_one(const json::Value& message) const;
  [[nodiscard]] Answer result_of(std::string_view method, const json::Value& params,
                                 bool is_modern) const;
  [[nodiscard]] json::Object initialized(const json::Value& params) const;
  [[nodiscard]] json::Object identity() const;
  [[nodiscard]] json::Object about() const;
  [[nodiscard]] json::Object list() const;
  [[nodiscard]] Answer call(const json::Value& params) const;

  const ServerInfo info_;
  const std::vector<OfferedTool> tools_;
};

}  // namespace tenon::mcp
