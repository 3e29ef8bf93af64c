#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/http/message.h"
#include "tenon/http/server.h"

namespace tenon::http {

/// The answer to a request that comes from this process. It takes the place that a socket and a
/// connection have for other clients.
///
///     auto [exchange, answer] = make_local_exchange({.method = "GET", .path = "/health"});
///     service.handle(std::move(exchange));
///     while (auto piece = answer->next()) out += *piece;   // of status answer->status()
///
/// The server notices a slow reader by Exchange::queued_bytes, as on a socket. One thread reads;
/// any thread may cancel. It may outlive the server.
class LocalAnswer {
 public:
  /// Cancels the answer if it has not ended.
  ~LocalAnswer();
  LocalAnswer(const LocalAnswer&) = delete;
  LocalAnswer& operator=(const LocalAnswer&) = delete;

  /// Waits for more of the body, and returns it, never empty. No value: the answer has ended, see
  /// was_cut().
  [[nodiscard]] std::optional<std::string> next();
  /// The same, but waits at most `patience`, and returns "" if nothing has come by then.
  [[nodiscard]] std::optional<std::string> next(std::chrono::milliseconds patience);
  /// The HTTP status and content type; known after the first next().
  [[nodiscard]] unsigned status() const;
  [[nodiscard]] std::string content_type() const;
  /// The value of a header as the handler named it; "": it has no such header. Known with the status.
  [[nodiscard]] std::string header(std::string_view name) const;
  /// The client goes away: next() returns no more, and the server's on_closed runs on this thread.
  void cancel();
  /// Whether the answer is not whole: it was cancelled, or the server gave up its stream.
  [[nodiscard]] bool was_cut() const;

 private:
  friend std::pair<std::shared_ptr<Exchange>, std::unique_ptr<LocalAnswer>> make_local_exchange(
      Request request);
  struct State;
  template <class Wait>
  std::optional<std::string> take(Wait wait);
  class Side;
  explicit LocalAnswer(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
};

/// Both ends of one request. `request` needs method, path and body; it has no peer.
[[nodiscard]] std::pair<std::shared_ptr<Exchange>, std::unique_ptr<LocalAnswer>>
make_local_exchange(Request request);

}  // namespace tenon::http
