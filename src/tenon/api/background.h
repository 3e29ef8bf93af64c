#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/workers.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"

namespace tenon::api {

/// A response that is made while no client waits for it. It takes the place of the client's
/// exchange, keeps the events of the response's stream, which clients can follow from any of them
/// on, and knows the present state of the response. Thread-safe.
class BackgroundRun final : public http::Exchange,
                            public std::enable_shared_from_this<BackgroundRun> {
 public:
  /// For the events of one response; beyond it the first ones are dropped.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  using Keep = std::function<bool(const json::Value& response)>;

  /// `begun`: the response, in progress. `keep` stores it if it fails or is cancelled, on
  /// `workers`; one that completes is stored by the code that makes it.
  BackgroundRun(json::Object begun, Keep keep, Workers& workers);

  /// The error for the client if the answer was refused before it began. Call it once: what fails
  /// after that makes a failed response.
  [[nodiscard]] std::optional<http::Response> refusal();
  /// The response; null while it is not over.
  [[nodiscard]] json::Value ended() const;
  [[nodiscard]] json::Value state() const;
  /// Writes the events after number `after` to `client`, and those to come. False: the next one has
  /// been dropped already.
  bool follow(std::shared_ptr<http::Exchange> client, std::vector<http::Header> headers,
              std::int64_t after);
  /// Ends it, unless it is over. Returns the response, and stores it if `is_kept`.
  json::Value cancel(bool is_kept);
  [[nodiscard]] std::size_t bytes() const;

  [[nodiscard]] const http::Request& request() const override { return request_; }
  void respond(http::Response response) override;
  void begin_stream(std::string content_type, std::vector<http::Header> headers) override;
  void write(std::string bytes) override;
  void end_stream() override;
  [[nodiscard]] std::size_t queued_bytes() const override { return 0; }
  [[nodiscard]] bool is_closed() const override;
  void on_closed(std::function<void()> callback) override;
  void on_drained(std::size_t low_water, std::function<void()> callback) override;

 private:
  void take(std::string event);
  void end(json::Value response, bool is_stored);
  [[nodiscard]] json::Object with_status(std::string_view status) const;

  const http::Request request_;  // empty: it comes from no client
  const json::Object begun_;
  Keep keep_;
  Workers& workers_;

  mutable std::mutex mutex_;  // guards the members below; callbacks are called without it
  std::optional<http::Response> refusal_;
  bool is_accepted_ = false;
  std::deque<std::string> events_;
  std::size_t first_ = 0;  // sequence number of the first event that is kept
  std::size_t bytes_ = 0;
  json::Value ended_;  // the response, once it is over
  bool is_cancelled_ = false;
  std::vector<std::shared_ptr<http::Exchange>> followers_;
  std::function<void()> on_closed_;
};

/// The response in the first of a stream's events.
[[nodiscard]] json::Object response_begun_in(std::string_view events);

/// The responses that are being made in the background, and for a while those that were, by the
/// name of the key's owner and by id. Thread-safe.
class Background {
 public:
  static constexpr std::size_t kMaxRuns = 256;  ///< How many may be under way.
  static constexpr std::size_t kMaxEnded = 64;
  static constexpr std::size_t kMaxEndedBytes = std::size_t{32} << 20;

  [[nodiscard]] bool has_room();
  void add(std::string_view owner, const std::string& id, std::shared_ptr<BackgroundRun> run);
  /// Null if no response has this name, or if it ended so long ago that it was dropped.
  [[nodiscard]] std::shared_ptr<BackgroundRun> find(std::string_view owner, const std::string& id);
  void remove(std::string_view owner, const std::string& id);

 private:
  using Name = std::pair<std::string, std::string>;  // owner, id
  std::size_t sweep();

  std::mutex mutex_;
  std::deque<std::pair<Name, std::shared_ptr<BackgroundRun>>> runs_;  // the oldest first
};

}  // namespace tenon::api
