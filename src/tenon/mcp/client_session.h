#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// The place of a level of the protocol's log in their order, from 0 for "debug" to 7 for
/// "emergency". No value: there is no such level.
[[nodiscard]] std::optional<std::size_t> log_level(std::string_view name);

/// What a server knows of one client that began with `initialize`. Thread-safe.
class ClientSession {
 public:
  using Send = std::function<void(const json::Value& message)>;
  static constexpr std::size_t kMaxWatched = 1000;  ///< Resources of one session.

  explicit ClientSession(std::string id) : id_(std::move(id)) {}
  [[nodiscard]] const std::string& id() const { return id_; }

  void set_able(json::Object able);
  [[nodiscard]] json::Object able() const;
  void set_level(std::size_t level);
  [[nodiscard]] std::size_t level() const;

  /// False: the session watches too many.
  [[nodiscard]] bool watch(const std::string& uri);
  void unwatch(const std::string& uri);
  /// Sends notifications/resources/updated where the client watches `uri` and can be told.
  void tell_updated(const std::string& uri);

  /// The way to the client outside of answers; an earlier one is let go. Empty: there is no way.
  void set_listener(Send send);

  /// Sends a request through `send` and waits for its answer: the result. Fails if the client
  /// answers with an error, if the call is cancelled, or after `patience`.
  [[nodiscard]] Expected<json::Value> ask(const Send& send, std::string_view method,
                                          const json::Object& params, const CancelToken& cancel,
                                          std::chrono::milliseconds patience);
  /// Takes a message with `result` or `error`. What answers no question is let go.
  void take_answer(const json::Value& message);

 private:
  const std::string id_;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  json::Object able_;      // guarded by mutex_, as all below
  std::size_t level_ = 1;  // "info"
  std::set<std::string> watched_;
  std::map<std::string, std::optional<json::Value>> questions_;  // by id; a value: the answer
  Send listener_;
};

/// The sessions of a server. When there are too many, the one that was not used for longest ends;
/// its client is told so by 404 and begins anew. Thread-safe.
class ClientSessions {
 public:
  static constexpr std::size_t kMost = 1000;

  [[nodiscard]] std::shared_ptr<ClientSession> open();
  /// Null: no session has this id, or it has ended.
  [[nodiscard]] std::shared_ptr<ClientSession> find(std::string_view id);
  /// False: no session had this id.
  bool end(std::string_view id);
  void tell_updated(const std::string& uri);

 private:
  std::mutex mutex_;
  std::list<std::shared_ptr<ClientSession>> sessions_;  // the last used comes first
};

}  // namespace tenon::mcp
