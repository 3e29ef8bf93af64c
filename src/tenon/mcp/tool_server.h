#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// What a tool has beside the arguments of a call.
struct CallWatch {
  CancelToken cancel;  ///< The client does not want the result any more.
  /// Tells the client that there is progress; `progress` grows. Any thread may call. Never empty.
  std::function<void(double progress, std::string_view message)> tell;
};

/// A tool that this process offers to others.
struct OfferedTool {
  std::string name;
  std::string title;
  std::string description;
  json::Value input_schema;
  /// Gives the result, an object. An error of it is told to the model, which may call again.
  std::function<Expected<json::Object>(const json::Object& arguments, const CallWatch& watch)> run;
  bool takes_long = false;  ///< Calls may take minutes, so they need a thread of their own.
};

/// What a server says of itself.
struct ServerInfo {
  std::string name;
  std::string title;
  std::string version;
  std::string instructions;
};

/// Who asked, for calls that take long.
struct Caller {
  CancelToken cancel;
  /// Sends a notification to the client, from any thread; empty: there is no way to.
  std::function<void(const json::Value& notification)> notify{};
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
  [[nodiscard]] std::optional<json::Value> answer(const json::Value& message,
                                                  const Caller& caller = {}) const;
  /// The same for JSON text, on one line. Text that is not JSON is answered with a parse error.
  [[nodiscard]] std::optional<std::string> answer_text(std::string_view text) const;

  /// The response to a POST of "streamable HTTP". Requests of 2026-07-28 say the same in their
  /// headers and their body, or are refused with 400; methods that they do not have, with 404.
  [[nodiscard]] http::Response answer_post(const http::Request& request) const;

  /// Whether an answer to the message, or to one in the list, waits for a tool that takes long.
  [[nodiscard]] bool takes_long(const json::Value& message) const;
  /// The message of a POST that answer_post() would not refuse, if it takes_long().
  [[nodiscard]] std::optional<json::Value> long_call(const http::Request& request) const;

  /// Whether a client may name this revision.
  [[nodiscard]] static bool knows_revision(std::string_view revision);

 private:
  using Answer = Result<json::Object, json::Object>;  // the result, or the error

  [[nodiscard]] std::optional<json::Value> answer_one(const json::Value& message,
                                                      const Caller& caller) const;
  [[nodiscard]] Answer result_of(std::string_view method, const json::Value& params, bool is_modern,
                                 const Caller& caller) const;
  [[nodiscard]] json::Object initialized(const json::Value& params) const;
  [[nodiscard]] json::Object identity() const;
  [[nodiscard]] json::Object about() const;
  [[nodiscard]] json::Object list() const;
  [[nodiscard]] Answer call(const json::Value& params, const Caller& caller) const;

  const ServerInfo info_;
  const std::vector<OfferedTool> tools_;
};

}  // namespace tenon::mcp
