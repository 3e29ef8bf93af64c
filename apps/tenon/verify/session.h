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

/// From one thread. The client must live as long.
class Session {
 public:
  Session(http::Client& client, Target target) : client_(client), target_(std::move(target)) {}

  [[nodiscard]] const Target& target() const { return target_; }
  [[nodiscard]] bool is_played() const { return target_.is_played; }
  void set_model(std::string model) { target_.model = std::move(model); }

  /// The same question has the same answer as before, without a second request. The reference is
  /// valid as long as the session.
  const Answer& ask(const Question& question);
  Answer ask_anew(const Question& question);
  Answer get(std::string path);
  /// Asks and closes the connection once something of the answer has come, or after `most_wait`.
  /// True if something came.
  bool ask_and_leave(const Question& question, std::chrono::milliseconds most_wait);

  /// Those since the last call of this function, with those that ask() knew already.
  std::vector<Exchange> take_exchanges();

 private:
  std::string written(const Question& question) const;
  http::ClientRequest request_of(std::string method, std::string path, std::string body) const;
  Answer exchange(http::ClientRequest request, std::string path, bool is_streamed);

  struct Known {
    Answer answer;
    Exchange exchange;
  };
  http::Client& client_;
  Target target_;
  std::map<std::string, Known, std::less<>> known_;  // by the body
  std::vector<Exchange> exchanges_;
};

}  // namespace tenon::app::verify
