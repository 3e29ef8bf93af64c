#include "tenon/mcp/client_session.h"

#include <algorithm>
#include <iterator>

#include "tenon/base/ids.h"

namespace tenon::mcp {
namespace {

// How often a question looks whether its call was cancelled.
constexpr std::chrono::milliseconds kLooksAtCancel{50};

}  // namespace

std::optional<std::size_t> log_level(std::string_view name) {
  constexpr std::string_view kLevels[] = {"debug", "info",     "notice", "warning",
                                          "error", "critical", "alert",  "emergency"};
  const auto* const found = std::ranges::find(kLevels, name);
  if (found == std::end(kLevels)) return std::nullopt;
  return static_cast<std::size_t>(found - std::begin(kLevels));
}

void ClientSession::set_able(json::Object able) {
  const std::lock_guard lock(mutex_);
  able_ = std::move(able);
}

json::Object ClientSession::able() const {
  const std::lock_guard lock(mutex_);
  return able_;
}

void ClientSession::set_level(std::size_t level) {
  const std::lock_guard lock(mutex_);
  level_ = level;
}

std::size_t ClientSession::level() const {
  const std::lock_guard lock(mutex_);
  return level_;
}

bool ClientSession::watch(const std::string& uri) {
  const std::lock_guard lock(mutex_);
  if (watched_.size() >= kMaxWatched && !watched_.contains(uri)) return false;
  watched_.insert(uri);
  return true;
}

void ClientSession::unwatch(const std::string& uri) {
  const std::lock_guard lock(mutex_);
  watched_.erase(uri);
}

void ClientSession::tell_updated(const std::string& uri) {
  Send send;
  {
    const std::lock_guard lock(mutex_);
    if (!watched_.contains(uri)) return;
    send = listener_;
  }
  if (!send) return;
  send(json::Object{{"jsonrpc", "2.0"},
                    {"method", "notifications/resources/updated"},
                    {"params", json::Object{{"uri", uri}}}});
}

void ClientSession::set_listener(Send send) {
  const std::lock_guard lock(mutex_);
  std::swap(listener_, send);
}

Expected<json::Value> ClientSession::ask(const Send& send, std::string_view method,
                                         const json::Object& params, const CancelToken& cancel,
                                         std::chrono::milliseconds patience) {
  const std::string id = random_id("ask-");
  {
    const std::lock_guard lock(mutex_);
    questions_.emplace(id, std::nullopt);
  }
  send(json::Object{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}});
  const auto until = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(mutex_);
  while (!questions_[id] && !cancel.is_cancelled() && std::chrono::steady_clock::now() < until) {
    answered_.wait_for(lock, kLooksAtCancel);
  }
  const std::optional<json::Value> answer = std::move(questions_[id]);
  questions_.erase(id);
  if (!answer) {
    return Unexpected(Error{Errc::unavailable, "the client did not answer " + std::string(method)});
  }
  if (const json::Value* const result = answer->find("result")) return *result;
  const json::Value* const why = json::at_pointer(*answer, "/error/message");
  const std::string* const text = why == nullptr ? nullptr : why->if_string();
  return Unexpected(
      Error{Errc::unavailable, "the client refused " + std::string(method) +
                                   (text == nullptr ? "" : ": " + text->substr(0, 200))});
}

void ClientSession::take_answer(const json::Value& message) {
  const json::Value* const id = message.find("id");
  const std::string* const text = id == nullptr ? nullptr : id->if_string();
  if (text == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto question = questions_.find(*text);
  if (question == questions_.end() || question->second) return;
  question->second = message;
  answered_.notify_all();
}

std::shared_ptr<ClientSession> ClientSessions::open() {
  auto session = std::make_shared<ClientSession>(random_id("mcp-"));
  const std::lock_guard lock(mutex_);
  if (sessions_.size() >= kMost) {
    sessions_.back()->set_listener({});
    sessions_.pop_back();
  }
  sessions_.push_front(session);
  return session;
}

std::shared_ptr<ClientSession> ClientSessions::find(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(sessions_, id, [](const auto& one) { return one->id(); });
  if (found == sessions_.end()) return nullptr;
  sessions_.splice(sessions_.begin(), sessions_, found);
  return sessions_.front();
}

bool ClientSessions::end(std::string_view id) {
  const auto session = find(id);
  if (!session) return false;
  session->set_listener({});
  const std::lock_guard lock(mutex_);
  sessions_.remove(session);
  return true;
}

void ClientSessions::tell_updated(const std::string& uri) {
  std::list<std::shared_ptr<ClientSession>> all;
  {
    const std::lock_guard lock(mutex_);
    all = sessions_;
  }
  for (const auto& session : all) session->tell_updated(uri);
}

}  // namespace tenon::mcp
