#include "tenon/chat/mcp_source.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/log.h"

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenAttempts{5};

class McpSource final : public ToolSource {
 public:
  McpSource(mcp::ServerConfig server, mcp::ClientOptions options)
      : server_(std::move(server)), options_(std::move(options)) {}

  const std::string& name() const override { return server_.name; }

  std::uint64_t version() const override {
    const std::lock_guard lock(mutex_);
    return past_versions_ + (client_ == nullptr ? 0 : client_->tools_version());
  }

  Expected<std::vector<message::Tool>> tools(const ToolContext& context) override {
    const auto client = use(context);
    if (!client) return Unexpected(client.error());
    const auto listed = (*client)->list_tools(options_of(context));
    if (!listed) return Unexpected(listed.error());
    warn_of_strangers(*listed);
    std::vector<message::Tool> tools;
    for (const mcp::Tool& tool : *listed) {
      if (!server_.has_tool(tool.name)) continue;
      tools.push_back(
          {.name = tool.name, .description = tool.description, .parameters = tool.input_schema});
    }
    return tools;
  }

  Expected<ToolOutput> call(const std::string& tool, const json::Object& arguments,
                            const ToolContext& context) override {
    const auto client = use(context);
    // Why is not for the model: it may have what the program said as it ended.
    if (!client) return Unexpected(Error{client.error().code, server_.name + " is not there now"});
    auto result = (*client)->call_tool(tool, arguments, options_of(context));
    if (!result) return Unexpected(std::move(result.error()));
    return ToolOutput{.text = std::move(result->text), .is_error = result->is_error};
  }

 private:
  static mcp::CallOptions options_of(const ToolContext& context) {
    return {.deadline = context.deadline, .cancel = context.cancel};
  }

  // A name that is misspelt leaves out nothing, or all.
  void warn_of_strangers(const std::vector<mcp::Tool>& listed) const {
    std::vector<std::string> named = server_.only_tools.value_or(std::vector<std::string>());
    named.insert(named.end(), server_.without_tools.begin(), server_.without_tools.end());
    for (const std::string& name : named) {
      if (std::ranges::find(listed, name, &mcp::Tool::name) != listed.end()) continue;
      log::warn(server_.name + " has no tool " + json::quoted(log::content(name)) +
                ", which its configuration names");
    }
  }

  // One thread connects, and the others wait for it, each for as long as it wants to.
  Expected<std::shared_ptr<mcp::Client>> use(const ToolContext& context) {
    constexpr std::chrono::milliseconds kMoment{20};
    std::unique_lock lock(mutex_);
    while (true) {
      if (client_ != nullptr && client_->is_open()) return client_;
      if (failure_ && Clock::now() < next_attempt_) return Unexpected(*failure_);
      if (!is_connecting_) break;
      if (context.is_over()) {
        return Unexpected(Error{Errc::unavailable, server_.name + " is not connected yet"});
      }
      changed_.wait_for(lock, kMoment);
    }
    is_connecting_ = true;
    lock.unlock();
    const auto begun = Clock::now();
    auto connected = mcp::Client::connect(server_, options_, options_of(context));
    std::shared_ptr<mcp::Client> gone;  // destroyed without the lock
    lock.lock();
    is_connecting_ = false;
    changed_.notify_all();
    if (!connected) {
      // What was given up says nothing to those who have more time.
      if (!context.is_over()) {
        const auto now = Clock::now();
        next_attempt_ = now + std::max<Clock::duration>(kBetweenAttempts, now - begun);
        failure_ = connected.error();
      }
      return Unexpected(std::move(connected.error()));
    }
    failure_.reset();
    // A server that comes back may have other tools.
    if (client_ != nullptr) past_versions_ += client_->tools_version() + 1;
    gone = std::exchange(client_, *std::move(connected));
    return client_;
  }

  const mcp::ServerConfig server_;
  const mcp::ClientOptions options_;
  mutable std::mutex mutex_;  // guards what follows; never held while a server is waited for
  std::condition_variable changed_;
  bool is_connecting_ = false;
  std::shared_ptr<mcp::Client> client_;
  std::uint64_t past_versions_ = 0;  // of clients that are gone
  std::optional<Error> failure_;
  Clock::time_point next_attempt_;
};

}  // namespace

std::shared_ptr<ToolSource> mcp_source(mcp::ServerConfig server, mcp::ClientOptions options) {
  return std::make_shared<McpSource>(std::move(server), std::move(options));
}

}  // namespace tenon::chat
