#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tenon/http/message.h"
#include "tenon/http/server.h"

namespace tenon::http {

/// The answer to a request that comes from this process, as its client sees it: what a socket and a
/// connection are to other clients.
///
///     auto [exchange, answer] = make_local_exchange({.method = "GET", .path = "/health"});
///     service.handle(std::move(exchange));
///     while (auto piece = answer->next()) out += *piece;   // of status answer->status()
///
/// Whoever reads slowly is found by Exchange::queued_bytes, as on a wire. One thread reads; any may
/// cancel. It may outlive who answers.
class LocalAnswer {
 public:
  /// Cancels what has not ended.
  ~LocalAnswer();
  LocalAnswer(const LocalAnswer&) = delete;
  LocalAnswer& operator=(const LocalAnswer&) = delete;

  /// More of the body, not empty; waits for it. Nothing: the answer has ended, see was_cut().
  [[nodiscard]] std::optional<std::string> next();
  /// The same, and waits no longer than `patience`: "" where nothing has come by then.
  [[nodiscard]] std::optional<std::string> next(std::chrono::milliseconds patience);
  /// HTTP's, from the first next() on.
  [[nodiscard]] unsigned status() const;
  [[nodiscard]] std::string content_type() const;
  /// The client goes away: next() gives nothing more, and who answers is told (on this thread).
  void cancel();
  /// The answer is not whole: it was cancelled, or nobody went on with a stream.
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

/// Both ends of one request. `request` needs method, path and body; there is no peer.
[[nodiscard]] std::pair<std::shared_ptr<Exchange>, std::unique_ptr<LocalAnswer>>
make_local_exchange(Request request);

}  // namespace tenon::http
