#include "tenon/mcp/client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/mcp/transport.h"

namespace tenon::mcp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kVersions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};
constexpr int kNoSuchMethod = -32601;
constexpr std::size_t kMaxPages = 100;
constexpr std::size_t kMaxText = 4096;   // bytes of what is told of an error, or of progress
constexpr std::size_t kMaxBatch = 1000;  // messages in one, as 2025-03-26 has them

json::Value notification(std::string_view method, json::Object params = {}) {
  json::Object message{{"jsonrpc", "2.0"}, {"method", method}};
  if (!params.empty()) message.set("params", std::move(params));
  return message;
}

// The same, and no longer than `most`.
CallOptions within(std::chrono::milliseconds most, CallOptions options) {
  options.deadline = std::min(options.deadline, Clock::now() + most);
  return options;
}

Unexpected failed(Errc code, std::string message) {
  return Unexpected(Error{code, std::move(message)});
}

const std::string* text_at(const json::Value& value, std::string_view key) {
  const json::Value* const found = value.find(key);
  return found == nullptr ? nullptr : found->if_string();
}

std::string text_or(const json::Value& value, std::string_view key, std::string_view otherwise) {
  const std::string* const found = text_at(value, key);
  return std::string(found == nullptr ? otherwise : *found);
}

// Its first kMaxText bytes.
std::string excerpt(std::string_view text) {
  if (text.size() <= kMaxText) return std::string(text);
  text = text.substr(0, kMaxText);
  return std::string(text.substr(0, text.size() - utf8::open_tail(text))) + "...";
}

// What a model can read of a block of content.
std::string shown(const json::Value& block) {
  const std::string type = text_or(block, "type", "content");
  if (type == "text") return text_or(block, "text", "");
  if (type == "resource_link") {
    return "[" + text_or(block, "name", "resource") + ": " + text_or(block, "uri", "") + "]";
  }
  const json::Value* const resource = block.find("resource");
  if (resource != nullptr && text_at(*resource, "text") != nullptr) {
    return *text_at(*resource, "text");
  }
  const json::Value& holder = resource != nullptr ? *resource : block;
  const std::string* data = text_at(holder, "data");
  if (data == nullptr) data = text_at(holder, "blob");
  constexpr std::size_t kIn = 4;  // characters of base64 for kOut bytes
  constexpr std::size_t kOut = 3;
  return "[" + type + ", " + text_or(holder, "mimeType", "unknown type") + ", " +
         std::to_string(data == nullptr ? 0 : data->size() / kIn * kOut) + " bytes: not shown]";
}

CallResult result_of(const json::Value& told) {
  CallResult result;
  const json::Value* const is_error = told.find("isError");
  result.is_error = is_error != nullptr && *is_error == json::Value(true);
  if (const json::Value* const structured = told.find("structuredContent")) {
    result.structured = *structured;
  }
  const json::Value* const content = told.find("content");
  if (content != nullptr && content->if_array() != nullptr) {
    for (const json::Value& block : *content->if_array()) {
      if (&block != content->if_array()->data()) result.text += '\n';
      result.text += shown(block);
    }
  }
  if (result.text.empty() && !result.structured.is_null()) {
    result.text = json::to_string(result.structured);
  }
  return result;
}

class Session final : public Client {
 public:
  Session(std::string name, const ClientOptions& options)
      : name_(std::move(name)), options_(options) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override {
    std::unique_ptr<Transport> gone;  // destroyed without the lock, since its thread takes it
    const std::lock_guard lock(mutex_);
    gone.swap(transport_);
  }

  Status connect(const OpenTransport& open, const CallOptions& call);
  Expected<std::vector<Tool>> list_tools(const CallOptions& options) override;
  Expected<CallResult> call_tool(const std::string& name, const json::Object& arguments,
                                 const CallOptions& options) override;
  std::uint64_t tools_version() const override { return tools_version_; }
  bool is_open() const override {
    const std::lock_guard lock(mutex_);
    return !closed_;
  }

 private:
  struct Pending {
    std::optional<Expected<json::Value>> answer;
    bool wants_progress = false;     // else nobody listens
    std::vector<Progress> progress;  // that nobody has been told of
  };

  Expected<json::Value> request(std::string_view method, json::Object params,
                                const CallOptions& options);
  Status add_page(const json::Value& page, std::vector<Tool>& tools, std::size_t& bytes) const;

  static void tell_progress(Pending& pending, const CallOptions& options,
                            std::unique_lock<std::mutex>& lock);
  void on_message(json::Value message);
  void on_one(json::Value message);
  void on_request(const json::Value& message, std::string_view method);
  void on_notification(const json::Value& message, std::string_view method);
  void answer(std::int64_t id, Expected<json::Value> answer);
  void close(const Closing& closing);

  const std::string name_;
  const ClientOptions options_;
  std::atomic<std::uint64_t> tools_version_ = 0;
  bool has_tools_ = false;  // set by connect()

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::int64_t, Pending> pending_;
  std::int64_t last_id_ = 0;
  std::optional<Error> closed_;
  std::string last_words_;  // of a program that ended

  std::unique_ptr<Transport> transport_;  // last: its thread uses the others
};

void Session::tell_progress(Pending& pending, const CallOptions& options,
                            std::unique_lock<std::mutex>& lock) {
  const std::vector<Progress> told = std::exchange(pending.progress, {});
  if (told.empty()) return;
  lock.unlock();
  for (const Progress& one : told) options.on_progress(one);
  lock.lock();
}

Expected<json::Value> Session::request(std::string_view method, json::Object params,
                                       const CallOptions& options) {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock lock(mutex_);
  if (closed_) return Unexpected(*closed_);
  const std::int64_t id = ++last_id_;
  pending_[id].wants_progress = static_cast<bool>(options.on_progress);
  lock.unlock();
  if (options.on_progress) params.set("_meta", json::Object{{"progressToken", id}});
  const json::Value message = json::Object{
      {"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
  if (Status sent = transport_->send(message, id); !sent) {
    lock.lock();
    pending_.erase(id);
    return Unexpected(closed_ ? *closed_ : std::move(sent.error()));
  }
  lock.lock();
  Pending& pending = pending_[id];
  while (!pending.answer && !closed_) {
    const auto now = Clock::now();
    if (now >= options.deadline || options.cancel.is_cancelled()) break;
    changed_.wait_until(lock, std::min(now + kMoment, options.deadline));
    tell_progress(pending, options, lock);
  }
  tell_progress(pending, options, lock);  // which came with the answer
  std::optional<Expected<json::Value>> answer = std::move(pending.answer);
  pending_.erase(id);
  if (answer) return *std::move(answer);
  if (closed_) return Unexpected(*closed_);
  lock.unlock();
  if (method != "initialize") {
    (void)transport_->send(
        notification("notifications/cancelled",
                     {{"requestId", id}, {"reason", "nobody waits for it any more"}}),
        0);
  }
  transport_->abandon(id);
  if (options.cancel.is_cancelled()) return failed(Errc::unavailable, name_ + ": it was cancelled");
  return failed(Errc::limit_exceeded,
                name_ + " did not answer " + std::string(method) + " in time");
}

Status Session::connect(const OpenTransport& open, const CallOptions& call_options) {
  const CallOptions call = within(options_.connect_timeout, call_options);
  auto transport = open(
      {.on_message = [this](json::Value message) { on_message(std::move(message)); },
       .on_failed = [this](std::int64_t id, Error why) { answer(id, Unexpected(std::move(why))); },
       .on_closed = [this](const Closing& closing) { close(closing); }});
  if (!transport) return Unexpected(std::move(transport.error()));
  {
    const std::lock_guard lock(mutex_);
    transport_ = *std::move(transport);
  }
  const auto told =
      request("initialize",
              {{"protocolVersion", kVersions[0]},
               {"capabilities", json::Object{}},
               {"clientInfo", json::Object{{"name", "tenon"}, {"version", options_.version}}}},
              call);
  if (!told) {
    const std::lock_guard lock(mutex_);
    return failed(told.error().code,
                  told.error().message + (last_words_.empty() ? "" : "; it said: " + last_words_));
  }
  const std::string version = text_or(*told, "protocolVersion", "none");
  if (std::ranges::find(kVersions, version) == std::end(kVersions)) {
    return failed(Errc::unsupported, name_ + " speaks version " +
                                         json::quoted(version.substr(0, 100)) +
                                         " of the protocol, and not " + std::string(kVersions[0]));
  }
  has_tools_ = json::at_pointer(*told, "/capabilities/tools") != nullptr;
  transport_->begin(version, notification("notifications/initialized"), call);
  return {};
}

Status Session::add_page(const json::Value& page, std::vector<Tool>& tools,
                         std::size_t& bytes) const {
  const json::Value* const list = page.find("tools");
  if (list == nullptr || list->if_array() == nullptr) {
    return failed(Errc::invalid, name_ + ": tools must be an array");
  }
  for (const json::Value& one : *list->if_array()) {
    const std::string* const name = text_at(one, "name");
    if (name == nullptr || name->empty()) {
      return failed(Errc::invalid, name_ + ": a tool has no name");
    }
    if (tools.size() >= options_.max_tools) {
      return failed(Errc::limit_exceeded,
                    name_ + " has more than " + std::to_string(options_.max_tools) + " tools");
    }
    bytes += json::to_string(one).size();
    if (bytes > options_.max_message_bytes) {
      return failed(Errc::limit_exceeded, name_ + " has tools of more than " +
                                              std::to_string(options_.max_message_bytes) +
                                              " bytes");
    }
    const json::Value* const schema = one.find("inputSchema");
    tools.push_back({.name = *name,
                     .description = text_or(one, "description", text_or(one, "title", "")),
                     .input_schema = schema == nullptr ? json::Value() : *schema});
  }
  return {};
}

Expected<std::vector<Tool>> Session::list_tools(const CallOptions& call) {
  std::vector<Tool> tools;
  if (!has_tools_) return tools;
  const CallOptions options = within(options_.list_timeout, call);
  std::optional<std::string> cursor;
  std::size_t bytes = 0;
  for (std::size_t pages = 0; pages < kMaxPages; ++pages) {
    json::Object params;
    if (cursor) params.set("cursor", *cursor);
    const auto page = request("tools/list", std::move(params), options);
    if (!page) return Unexpected(page.error());
    if (Status added = add_page(*page, tools, bytes); !added) return Unexpected(added.error());
    const std::string* const next = text_at(*page, "nextCursor");
    if (next == nullptr) return tools;
    if (cursor == *next) return failed(Errc::invalid, name_ + " gives the same page again");
    cursor = *next;
  }
  return failed(Errc::limit_exceeded,
                name_ + " has more than " + std::to_string(kMaxPages) + " pages of tools");
}

Expected<CallResult> Session::call_tool(const std::string& name, const json::Object& arguments,
                                        const CallOptions& options) {
  const auto told = request("tools/call", {{"name", name}, {"arguments", arguments}}, options);
  if (!told) return Unexpected(told.error());
  if (told->if_object() == nullptr) {
    return failed(Errc::invalid, name_ + ": the result of a tool must be an object");
  }
  return result_of(*told);
}

void Session::on_message(json::Value message) {
  json::Array* const batch = message.if_array();
  if (batch == nullptr) return on_one(std::move(message));
  if (batch->size() > kMaxBatch) return;
  for (json::Value& one : *batch) on_one(std::move(one));
}

void Session::on_one(json::Value message) {
  const json::Value* const id = message.find("id");
  if (const std::string* const method = text_at(message, "method")) {
    return id != nullptr ? on_request(message, *method) : on_notification(message, *method);
  }
  const auto number =
      id != nullptr && id->if_number() != nullptr ? id->if_number()->to_int64() : std::nullopt;
  if (!number) return;
  if (const json::Value* const error = message.find("error")) {
    return answer(
        *number, failed(Errc::unavailable,
                        name_ + ": " + excerpt(text_or(*error, "message", "error without words"))));
  }
  json::Value* const result = message.find("result");
  if (result == nullptr) {
    return answer(*number, failed(Errc::invalid, name_ + " answered without a result"));
  }
  answer(*number, std::move(*result));
}

// It may ask whether we live. For all else we have announced no capability.
void Session::on_request(const json::Value& message, std::string_view method) {
  json::Object reply{{"jsonrpc", "2.0"}, {"id", *message.find("id")}};
  if (method == "ping") {
    reply.set("result", json::Object{});
  } else {
    reply.set("error", json::Object{{"code", kNoSuchMethod}, {"message", "not supported"}});
  }
  // Before connect() has kept the transport nothing can be asked that matters.
  Transport* transport = nullptr;
  {
    const std::lock_guard lock(mutex_);
    transport = transport_.get();
  }
  if (transport != nullptr) (void)transport->send(std::move(reply), 0);
}

void Session::on_notification(const json::Value& message, std::string_view method) {
  if (method == "notifications/tools/list_changed") {
    ++tools_version_;
    return;
  }
  if (method != "notifications/progress") return;
  const json::Value* const token = json::at_pointer(message, "/params/progressToken");
  const json::Value* const progress = json::at_pointer(message, "/params/progress");
  const json::Value* const total = json::at_pointer(message, "/params/total");
  if (token == nullptr || token->if_number() == nullptr || progress == nullptr ||
      progress->if_number() == nullptr) {
    return;
  }
  Progress told{.progress = progress->if_number()->to_double(),
                .message = excerpt(text_or(*message.find("params"), "message", ""))};
  if (total != nullptr && total->if_number() != nullptr)
    told.total = total->if_number()->to_double();
  constexpr std::size_t kMaxUntold = 1000;
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(token->if_number()->to_int64().value_or(0));
  if (found == pending_.end() || !found->second.wants_progress) return;
  if (found->second.progress.size() >= kMaxUntold) return;
  found->second.progress.push_back(std::move(told));
  changed_.notify_all();
}

void Session::answer(std::int64_t id, Expected<json::Value> answer) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end() || found->second.answer) return;
  found->second.answer = std::move(answer);
  changed_.notify_all();
}

void Session::close(const Closing& closing) {
  const std::string words(log::content(closing.said));
  log::info("mcp: " + closing.why.message + (words.empty() ? "" : "; it said: " + words));
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = closing.why;
  last_words_ = words;
  const auto refused = pending_.find(closing.refused);
  if (refused != pending_.end() && !refused->second.answer) {
    refused->second.answer =
        failed(closing.why.code, closing.why.message + " and ran nothing: call again");
  }
  changed_.notify_all();
}

}  // namespace

Expected<std::unique_ptr<Client>> connect_over(std::string name, const OpenTransport& open,
                                               const ClientOptions& options,
                                               const CallOptions& call) {
  auto session = std::make_unique<Session>(std::move(name), options);
  if (Status connected = session->connect(open, call); !connected) {
    return Unexpected(std::move(connected.error()));
  }
  return session;
}

Expected<std::unique_ptr<Client>> Client::connect(const ServerConfig& server,
                                                  const ClientOptions& options,
                                                  const CallOptions& call) {
  const auto open = [&](TransportHandlers handlers) {
    return (server.url.empty() ? start_stdio : open_http)(server, options.max_message_bytes,
                                                          std::move(handlers));
  };
  return connect_over(server.name, open, options, call);
}

}  // namespace tenon::mcp
