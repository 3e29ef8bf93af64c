#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/mcp_source.h"
#include "tenon/chat/toolbox.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::chat {

/// The tools of a server that a request names.
struct HostedTools {
  std::shared_ptr<ToolSource> source;
  std::vector<message::Tool> tools;  ///< Those that the request allows.
  json::Array listed;                ///< The same, as message::ServerTools has them.
};

/// Connections to the servers that requests name (message::HostedServer). They are kept for later
/// requests with the same owner, address and headers, for kIdle and at most kMost of them.
/// Thread-safe.
///
/// A server gets no token but those in its headers, and no connection goes to an address within a
/// private network unless HostedServer::may_be_private says so.
class Hosts {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::chrono::minutes kIdle{10};
  static constexpr std::size_t kMaxTools = 128;  ///< From one server; further ones are left out.
  static constexpr std::size_t kMaxMessageBytes = std::size_t{4} << 20;

  explicit Hosts(std::string version) : version_(std::move(version)) {}

  /// Waits for the server, within the limits of `context`.
  [[nodiscard]] Expected<HostedTools> tools(const std::string& owner,
                                            const message::HostedServer& server,
                                            const ToolContext& context);

 private:
  using Clock = std::chrono::steady_clock;
  struct Host {
    std::string key;
    std::shared_ptr<McpServer> source;
    Clock::time_point used;
    std::mutex mutex;  // guards the members below; never held while waiting for the server
    std::condition_variable changed;
    bool is_asked = false;
    std::optional<std::uint64_t> version;
    std::vector<message::Tool> tools;
  };

  std::shared_ptr<Host> host(const std::string& owner, const message::HostedServer& server);
  static Expected<std::vector<message::Tool>> all_tools(Host& host, const ToolContext& context);

  const std::string version_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<Host>> hosts_;
  // They are in use by a request, or were so lately. Ending a connection waits for the server, so
  // the last owner must be the thread that asks here, which may wait.
  std::vector<std::shared_ptr<McpServer>> retired_;
};

/// What a tool's annotations say, for a person who decides: "only reads, reaches other systems".
/// They are the server's words. "": nothing.
[[nodiscard]] std::string hints_of(const json::Value& annotations);
/// Whether the tool's annotations say that it only reads, and do not say that it destroys. They are
/// the server's words.
[[nodiscard]] bool only_reads(const json::Value& annotations);

}  // namespace tenon::chat
