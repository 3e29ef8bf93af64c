#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/http/message.h"
#include "tenon/http/server.h"
#include "tenon/http/wire.h"

/// One answer of the server, between the threads that write it and the connection that sends it.
namespace tenon::http {

/// What an answer has to know about its request and connection.
struct Manner {
  bool is_http_1_1 = true;
  bool keeps_alive = true;
  bool to_head = false;  ///< HEAD: headers only
};

/// What the answers of one server share.
struct AnswerRules {
  std::size_t max_queued_bytes = 0;      ///< A stream with more bytes queued is cut.
  Server::ErrorBody error_body;          ///< If empty: an object with message, type and code.
  std::atomic<bool> is_draining{false};  ///< The server stops: answers close their connection.
};

/// The connection, as its answer knows it.
class AnswerSender {
 public:
  virtual ~AnswerSender() = default;
  /// Makes the connection call take() on its own thread. Any thread may call.
  virtual void wake() = 0;
};

/// The bytes of one answer on their way from any thread to the connection. The methods from take()
/// on are for the connection, on its thread.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  /// `socket` lets the writing thread send by itself; it stays open until finish() or
  /// lose_socket(). -1: only the connection sends. `rules` outlive the sender, and are not read
  /// after the sender has called finish() or close().
  Answer(Manner manner, int socket, std::weak_ptr<AnswerSender> sender, const AnswerRules& rules)
      : manner_(manner), rules_(rules), sender_(std::move(sender)), socket_(socket) {}

  void respond(Response response);
  void refuse(const WireError& error, std::string_view path);
  void begin_stream(std::string_view content_type, const std::vector<Header>& headers);
  void write(std::string_view bytes);
  void end_stream();
  /// The handler has given up: sends 500, or cuts the stream.
  void abandon();
  void on_closed(std::function<void()> callback);
  void on_drained(std::size_t low_water, std::function<void()> callback);
  std::size_t queued_bytes() const;
  bool is_closed() const;
  bool is_complete() const;
  /// Sends what this thread has gathered; see Gathering.
  void send_gathered();
  /// Whether more is queued than the client may leave unread.
  bool has_overflowed() const;

  enum class Next : std::uint8_t { send, wait, finish, cut };
  /// Swaps the queue into `out`, which is empty, or says what else to do.
  Next take(std::string& out);
  /// The kernel has taken `bytes`.
  void progress(std::size_t bytes);
  /// The socket is about to be closed.
  void lose_socket();
  /// The client has gone.
  void close();
  /// Everything is sent: releases the callbacks.
  void finish();
  bool closes_connection() const;

 private:
  enum class Stage : std::uint8_t { open, streaming, complete, cut };
  using Callback = std::shared_ptr<std::function<void()>>;

  void respond_locked(const Response& response, bool closes);
  void queue(std::string_view bytes);
  void count_queued(std::size_t bytes);
  Callback count_sent(std::size_t bytes);
  bool gathers();
  void send_lone();
  void send_now();
  void wake();

  const Manner manner_;
  const AnswerRules& rules_;
  mutable std::mutex mutex_;
  std::weak_ptr<AnswerSender> sender_;
  int socket_;
  std::string pending_;
  std::chrono::steady_clock::time_point last_write_;
  std::size_t queued_bytes_ = 0;  // in pending_ and in what the connection is sending
  std::size_t low_water_ = 0;
  Stage stage_ = Stage::open;
  bool closes_connection_ = false;
  bool is_awake_ = false;     // the connection will call take()
  bool is_gathered_ = false;  // a Gathering will end and send, if the connection is asleep then
  bool was_high_ = false;     // low_water_ was reached since the last on_drained
  bool is_closed_ = false;
  bool overflowed_ = false;
  Callback on_closed_;
  Callback on_drained_;
};

}  // namespace tenon::http
