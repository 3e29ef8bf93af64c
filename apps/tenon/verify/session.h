#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "verify/answer.h"
#include "verify/question.h"

#include "tenon/http/client.h"

/// The server that is verified, and what was said to it.
namespace tenon::app::verify {

struct Target {
  std::string url;  ///< Without `/v1`.
  std::string model{};
  Dialect dialect = Dialect::chat;
  std::string key{};       ///< "": none.
  bool is_played = false;  ///< Its engine does what Question::play says.
  std::size_t tries = 3;   ///< How often a model is asked that would not do what a check needs.
  std::chrono::seconds time_limit{120};  ///< For one answer.
  std::int64_t max_tokens = 300;         ///< Where the question has no limit of its own.
};

/// One request and its answer, as they went over the wire.
struct Exchange {
  std::string method;
  std::string path;
  std::string sent;
  unsigned status = 0;  ///< 0: no answer; `came` says why.
  std::string came;
  std::chrono::nanoseconds time{0};
};

/// A request whose client went away.
struct Left {
  unsigned status = 0;    ///< 0: nothing had come.
  bool has_come = false;  ///< Something of the body had.
  bool is_over = false;   ///< The answer had ended before.
};

/// From one thread. The client must live as long.
class Session {
 public:
  Session(http::Client& client, Target target) : client_(client), target_(std::move(target)) {}

  [[nodiscard]] const Target& target() const { return target_; }
  [[nodiscard]] bool is_played() const { return target_.is_played; }
  void set_model(std::string model) { target_.model = std::move(model); }

  /// Asks, and learns what this server refuses that others want: a temperature, `max_tokens`. From
  /// then on it is written otherwise.
  Answer learn(const Question& question);
  /// The same question has the same answer as before, without a second request, if that was one
  /// that the server gives each time: 200 or a refusal.
  Answer ask(const Question& question);
  Answer ask_anew(const Question& question);
  Answer get(std::string path);
  /// Asks and closes the connection after `most_wait`, or once something of the answer has come.
  Left ask_and_leave(const Question& question, std::chrono::milliseconds most_wait,
                     bool at_first_byte = true);
  /// The body that a question is sent with.
  [[nodiscard]] std::string written(const Question& question) const;
  /// Three answers in a row did not come within the time.
  [[nodiscard]] bool is_silent() const { return late_in_a_row_ >= 3; }

  /// Those since the last call of this function, with those that ask() knew already.
  std::vector<Exchange> take_exchanges();

 private:
  http::ClientRequest request_of(std::string method, std::string path, std::string body) const;
  Answer exchange(const std::string& method, const std::string& path, const std::string& body,
                  bool is_streamed);
  Answer exchange_patiently(const std::string& method, const std::string& path,
                            const std::string& body, bool is_streamed);
  Answer exchange_once(http::ClientRequest request, const std::string& path, bool is_streamed);
  bool adapts_to(const Answer& answer);

  struct Known {
    Answer answer;
    Exchange exchange;
  };
  http::Client& client_;
  Target target_;
  std::map<std::string, Known, std::less<>> known_;  // by the body
  std::vector<Exchange> exchanges_;
  std::chrono::milliseconds wait_left_{60'000};  // for a busy server, all requests together
  int late_in_a_row_ = 0;
  bool has_temperature_ = true;
  std::string limit_key_ = "max_tokens";
  bool has_bearer_ = false;  // the key of Messages goes as in the other dialects
};

}  // namespace tenon::app::verify
