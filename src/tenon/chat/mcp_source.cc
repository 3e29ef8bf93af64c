#include "tenon/chat/mcp_source.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/log.h"

// A server of tools as a ToolSource. The connection is made when it is first needed, and made anew
// when it is lost (use). A failure to connect holds for kBetweenAttempts, or for as long as the
// attempt took, so that a server that is not there costs its callers little. version() grows with
// each new connection, since a restarted server may have other tools.

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenAttempts{5};

class McpSource final : public McpServer {
 public:
  McpSource(mcp::ServerConfig server, mcp::ClientOptions options)
      : server_(std::move(server)), options_(std::move(options)) {}

  const std::string& name() const override { return server_.name; }

  // Never falls: a new client counts from 0, behind all earlier ones.
  std::uint64_t version() const override {
    const std::lock_guard lock(mutex_);
    return past_versions_ + (client_ == nullptr ? 0 : client_->tools_version());
  }

  Expected<std::vector<message::Tool>> tools(const ToolContext& context) override {
    const auto client = use(context);
    if (!client) return Unexpected(client.error());
    const auto listed = (*client)->list_tools(options_of(context));
    if (!listed) return Unexpected(listed.error());
    {
      const std::lock_guard lock(mutex_);
      instructions_ = (*client)->instructions();
    }
    auto left_out = (*client)->left_out();
    const auto strangers = strangers_in(server_, *listed, left_out);
    std::erase_if(left_out, [this](const auto& one) { return !server_.has_tool(one.first); });
    for (const auto& [name, why] : strangers) {
      log::warn(server_.name + ": " + json::quoted(log::content(name)) + ": " + why);
    }
    left_out.insert(left_out.end(), strangers.begin(), strangers.end());
    std::vector<message::Tool> tools;
    std::map<std::string, json::Value> annotations;
    for (const mcp::Tool& tool : *listed) {
      if (!server_.has_tool(tool.name)) continue;
      annotations.insert_or_assign(tool.name, tool.annotations);
      tools.push_back(
          {.name = tool.name, .description = tool.description, .parameters = tool.input_schema});
    }
    const std::lock_guard lock(mutex_);
    annotations_ = std::move(annotations);
    left_out_ = std::move(left_out);
    return tools;
  }

  std::vector<std::pair<std::string, std::string>> left_out() const override {
    const std::lock_guard lock(mutex_);
    return left_out_;
  }

  json::Value annotations(const std::string& tool) const override {
    const std::lock_guard lock(mutex_);
    const auto found = annotations_.find(tool);
    return found == annotations_.end() ? json::Value() : found->second;
  }

  Expected<ToolOutput> call(const std::string& tool, const json::Object& arguments,
                            const ToolContext& context) override {
    constexpr int kAttempts = 2;
    Error why{Errc::unavailable, server_.name + " is not there now"};
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const auto client = use(context);
      // The model is not told why: the error may contain what the program wrote as it ended.
      if (!client)
        return Unexpected(Error{client.error().code, server_.name + " is not there now"});
      mcp::CallOptions options = asking(context);
      options.on_progress = [this, &context](const mcp::Progress& progress) {
        tell(progress, context);
      };
      auto result = (*client)->call_tool(tool, arguments, options);
      if (result) return ToolOutput{.text = std::move(result->text), .is_error = result->is_error};
      // A server that has forgotten our session has not run the call, so it is asked once more.
      const bool is_asked_again = result.error().ran_nothing && !context.is_over();
      why = std::move(result.error());
      if (!is_asked_again) break;
    }
    return Unexpected(std::move(why));
  }

  Expected<std::vector<mcp::Prompt>> prompts(const ToolContext& context) override {
    return with(context, [&](mcp::Client& client) { return client.list_prompts(asking(context)); });
  }
  Expected<std::vector<mcp::PromptMessage>> prompt(const std::string& prompt_name,
                                                   const json::Object& arguments,
                                                   const ToolContext& context) override {
    return with(context, [&](mcp::Client& client) {
      return client.get_prompt(prompt_name, arguments, asking(context));
    });
  }
  Expected<std::vector<mcp::Resource>> resources(const ToolContext& context) override {
    return with(context,
                [&](mcp::Client& client) { return client.list_resources(asking(context)); });
  }
  Expected<std::string> read(const std::string& uri, const ToolContext& context) override {
    return with(context,
                [&](mcp::Client& client) { return client.read_resource(uri, asking(context)); });
  }

  std::string instructions() const override {
    const std::lock_guard lock(mutex_);
    return instructions_;
  }

 private:
  static mcp::CallOptions options_of(const ToolContext& context) {
    return {.deadline = context.deadline, .cancel = context.cancel};
  }

  // The same, with the user to whom the server may put questions.
  mcp::CallOptions asking(const ToolContext& context) const {
    mcp::CallOptions options = options_of(context);
    if (context.on_question && options_.asks_user) {
      options.on_question = [this, &context](const json::Value& params) {
        return context.on_question(server_.name, params);
      };
    }
    return options;
  }

  template <class Ask>
  auto with(const ToolContext& context, Ask ask) -> decltype(ask(std::declval<mcp::Client&>())) {
    const auto client = use(context);
    if (!client) return Unexpected(client.error());
    return ask(**client);
  }

  // "3/10 reading files"
  void tell(const mcp::Progress& progress, const ToolContext& context) const {
    if (!context.on_progress) return;
    std::string told = json::to_string(json::Value(progress.progress));
    if (progress.total) told += "/" + json::to_string(json::Value(*progress.total));
    if (!progress.message.empty()) told += " " + progress.message;
    context.on_progress(told);
  }

  // One thread connects; the others wait for it, each within its own context.
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
    const bool had_handshake = has_handshake_;
    lock.unlock();
    const auto begun = Clock::now();
    mcp::ClientOptions options = options_;
    options.expects_handshake = had_handshake;
    auto connected = mcp::Client::connect(server_, options, options_of(context));
    std::shared_ptr<mcp::Client> gone;  // destroyed after the lock is released
    lock.lock();
    is_connecting_ = false;
    changed_.notify_all();
    has_handshake_ = connected && (*connected)->has_handshake();
    if (!connected) {
      // An attempt that ran out of this caller's time says nothing to callers with more time.
      if (!context.is_over()) {
        const auto now = Clock::now();
        next_attempt_ = now + std::max<Clock::duration>(kBetweenAttempts, now - begun);
        failure_ = connected.error();
      }
      return Unexpected(std::move(connected.error()));
    }
    failure_.reset();
    // A server that was restarted may have other tools.
    if (client_ != nullptr) past_versions_ += client_->tools_version() + 1;
    gone = std::exchange(client_, *std::move(connected));
    return client_;
  }

  const mcp::ServerConfig server_;
  const mcp::ClientOptions options_;
  mutable std::mutex mutex_;  // guards the members below; never held while waiting for a server
  std::condition_variable changed_;
  bool is_connecting_ = false;
  std::shared_ptr<mcp::Client> client_;
  std::uint64_t past_versions_ = 0;  // versions of earlier clients
  bool has_handshake_ = false;       // whether the last client needed a handshake
  std::string instructions_;
  std::map<std::string, json::Value> annotations_;             // by the name of the tool
  std::vector<std::pair<std::string, std::string>> left_out_;  // names, and why
  std::optional<Error> failure_;
  Clock::time_point next_attempt_;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> strangers_in(
    const mcp::ServerConfig& server, const std::vector<mcp::Tool>& listed,
    const std::vector<std::pair<std::string, std::string>>& left_out) {
  std::vector<std::pair<std::string, std::string>> strangers;
  const auto add = [&](const std::vector<std::string>& names, std::string_view where) {
    for (const std::string& name : names) {
      const bool is_known =
          std::ranges::find(listed, name, &mcp::Tool::name) != listed.end() ||
          std::ranges::find(left_out, name, &std::pair<std::string, std::string>::first) !=
              left_out.end();
      if (!is_known) {
        strangers.emplace_back(
            name, "the server has no such tool, though " + std::string(where) + " names it");
      }
    }
  };
  add(server.only_tools.value_or(std::vector<std::string>()), "includeTools");
  add(server.without_tools, "disabledTools or excludeTools");
  return strangers;
}

std::shared_ptr<McpServer> mcp_source(mcp::ServerConfig server, mcp::ClientOptions options) {
  return std::make_shared<McpSource>(std::move(server), std::move(options));
}

}  // namespace tenon::chat
