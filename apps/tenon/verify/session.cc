#include "verify/session.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace tenon::app::verify {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostKeptBytes = std::size_t{24} << 10;  // of a body, in the report
// A played engine's tokens are bytes. Only a check about cut answers wants an answer cut.
constexpr std::int64_t kPlayedTokens = 400'000;

constexpr std::string_view kNewLimitKey = "max_completion_tokens";

std::string shortened(std::string_view body) {
  if (body.size() <= kMostKeptBytes) return std::string(body);
  std::string kept(body.substr(0, kMostKeptBytes));
  return kept + " ... (" + std::to_string(body.size() - kMostKeptBytes) + " bytes more)";
}

// What the handlers of a request that is left tell the thread that waits.
struct FirstBytes {
  std::mutex mutex;
  std::condition_variable changed;
  Left now;  // guarded by mutex
};

// What came, and how it ended; also of an answer that was cut.
struct Received {
  http::Response response;
  Status end;
};

Received receive(http::Client& client, http::ClientRequest request) {
  Received received;
  // Shared: on_end may still be within set_value() when we return.
  const auto ended = std::make_shared<std::promise<Status>>();
  auto call = client.send(
      std::move(request),
      {.on_head =
           [&](unsigned status, const std::vector<http::Header>& headers) {
             received.response.status = status;
             received.response.headers = headers;
             received.response.content_type = http::find_header(headers, "content-type");
           },
       .on_body = [&](std::string_view bytes) { received.response.body.append(bytes); },
       .wanted = {},
       .on_end = [ended](Status end) { ended->set_value(std::move(end)); }});
  received.end = call ? ended->get_future().get() : Status(Unexpected(call.error()));
  return received;
}

// A server may say the key again. Short ones are words such as "none", and no secret.
std::string without(std::string text, const std::string& key) {
  if (key.size() < 8) return text;
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    text.replace(at, key.size(), "***");
  }
  return text;
}

// As long as the server says, or longer each time.
std::chrono::milliseconds pause_of(const Answer& answer, int waits) {
  const char* const text = answer.retry_after.c_str();
  char* end = nullptr;
  const long seconds = std::strtol(text, &end, 10);
  if (end == text || seconds < 0) return std::chrono::seconds(1 << waits);
  return std::chrono::seconds(std::min(seconds, 20L));
}

}  // namespace

std::string Session::written(const Question& question) const {
  if (question.raw) return *question.raw;
  Question asked = question;
  if (!asked.max_tokens) asked.max_tokens = target_.is_played ? kPlayedTokens : target_.max_tokens;
  if (!has_temperature_) asked.temperature.reset();
  asked.limit_key = limit_key_;
  return json::to_string(body_of(asked, target_.dialect, target_.model, target_.is_played));
}

http::ClientRequest Session::request_of(std::string method, std::string path,
                                        std::string body) const {
  http::ClientRequest request{.method = std::move(method),
                              .url = target_.url + path,
                              .headers = {{"accept", "application/json, text/event-stream"}},
                              .body = std::move(body),
                              .time_limit = target_.time_limit,
                              .silence_limit = target_.time_limit,
                              .max_body_bytes = kMostBytes};
  if (!request.body.empty()) request.headers.push_back({"content-type", "application/json"});
  const bool is_messages = target_.dialect == Dialect::messages;
  if (is_messages) request.headers.push_back({"anthropic-version", "2023-06-01"});
  if (target_.key.empty()) return request;
  if (is_messages && !has_bearer_) {
    request.headers.push_back({"x-api-key", target_.key});
  } else {
    request.headers.push_back({"authorization", "Bearer " + target_.key});
  }
  return request;
}

Answer Session::exchange_once(http::ClientRequest request, const std::string& path,
                              bool is_streamed) {
  Exchange said{request.method, path, shortened(request.body), 0, "", {}};
  const bool is_question = request.method == "POST";
  const auto begin = Clock::now();
  Received received = receive(client_, std::move(request));
  Answer answer;
  answer.time = said.time = Clock::now() - begin;
  answer.body = without(std::move(received.response.body), target_.key);
  said.came = shortened(answer.body);
  answer.content_type = without(std::move(received.response.content_type), target_.key);
  answer.retry_after = http::find_header(received.response.headers, "retry-after");
  const unsigned status = received.response.status;
  if (!received.end) {
    answer.trouble = received.end.error().message;
    answer.is_late = answer.time >= target_.time_limit;
    said.came = "(" + answer.trouble + ") " + said.came;
  }
  // A stream that was cut is judged as far as it came; a document is nothing then.
  const bool is_readable = answer.trouble.empty() || (status == 200 && is_streamed);
  if (is_readable && !answer.is_late) answer.status = said.status = status;
  late_in_a_row_ = answer.is_late ? late_in_a_row_ + 1 : 0;
  // If a figure is read again and again, the last is told.
  const bool is_again = !is_question && !exchanges_.empty() && exchanges_.back().path == path;
  if (is_again) exchanges_.pop_back();
  exchanges_.push_back(std::move(said));
  if (is_question) {
    read_answer(target_.dialect, is_streamed, answer);
    answer.body = {};
  }
  return answer;
}

// A lost connection is tried once more, and a busy server is left alone for a while.
Answer Session::exchange_patiently(const std::string& method, const std::string& path,
                                   const std::string& body, bool is_streamed) {
  const auto once = [&] {
    return exchange_once(request_of(method, path, body), path, is_streamed);
  };
  Answer answer = once();
  if (!answer.trouble.empty() && !answer.is_late) answer = once();
  for (int waits = 0; waits < 3 && answer.is_busy() && wait_left_.count() > 0; ++waits) {
    const auto wait = std::min(pause_of(answer, waits), wait_left_);
    wait_left_ -= wait;
    std::this_thread::sleep_for(wait);
    answer = once();
  }
  return answer;
}

// Some servers of Messages want the key as the other dialects have it.
Answer Session::exchange(const std::string& method, const std::string& path,
                         const std::string& body, bool is_streamed) {
  Answer answer = exchange_patiently(method, path, body, is_streamed);
  const bool is_messages = target_.dialect == Dialect::messages;
  if (answer.status != 401 || !is_messages || target_.key.empty() || has_bearer_) return answer;
  has_bearer_ = true;
  Answer other = exchange_patiently(method, path, body, is_streamed);
  if (other.status != 401) return other;
  has_bearer_ = false;
  return answer;
}

bool Session::adapts_to(const Answer& answer) {
  if (answer.status != 400 && answer.status != 422) return false;
  const auto names = [&](std::string_view word) {
    return answer.error.find(word) != std::string::npos;
  };
  if (has_temperature_ && names("temperature")) {
    has_temperature_ = false;
    return true;
  }
  const bool is_known = target_.dialect != Dialect::chat || limit_key_ == kNewLimitKey;
  if (is_known || !names("max_tokens")) return false;
  limit_key_ = kNewLimitKey;
  return true;
}

Answer Session::learn(const Question& question) {
  Answer answer = ask_anew(question);
  while (adapts_to(answer)) answer = ask_anew(question);
  return answer;
}

Answer Session::ask(const Question& question) {
  std::string body = written(question);
  if (const auto found = known_.find(body); found != known_.end()) {
    exchanges_.push_back(found->second.exchange);
    return found->second.answer;
  }
  Answer answer = ask_anew(question);
  const bool is_lasting = answer.trouble.empty() && (answer.status == 200 || answer.is_refused());
  if (is_lasting) known_.emplace(std::move(body), Known{answer, exchanges_.back()});
  return answer;
}

Answer Session::ask_anew(const Question& question) {
  return exchange("POST", std::string(path_of(target_.dialect)), written(question),
                  question.is_streamed);
}

Answer Session::get(std::string path) {
  return exchange("GET", path, "", false);
}

Left Session::ask_and_leave(const Question& question, std::chrono::milliseconds most_wait,
                            bool at_first_byte) {
  const std::string path(path_of(target_.dialect));
  FirstBytes first;
  http::ClientRequest request = request_of("POST", path, written(question));
  Exchange said{"POST", path, shortened(request.body), 0, "(the client went away)", {}};
  const auto change = [&first](auto what) {
    const std::lock_guard lock(first.mutex);
    what();
    first.changed.notify_all();
  };
  auto call = client_.send(
      std::move(request),
      {.on_head = [&](unsigned status, const auto&) { change([&] { first.now.status = status; }); },
       .on_body = [&](std::string_view) { change([&] { first.now.has_come = true; }); },
       .wanted = {},
       .on_end = [&](const Status&) { change([&] { first.now.is_over = true; }); }});
  if (!call) return {.is_over = true};
  std::unique_lock lock(first.mutex);
  first.changed.wait_for(
      lock, most_wait, [&] { return first.now.is_over || (at_first_byte && first.now.has_come); });
  const Left left = first.now;
  lock.unlock();
  (*call)->cancel();
  lock.lock();
  first.changed.wait(lock, [&] { return first.now.is_over; });
  said.status = left.status;
  exchanges_.push_back(std::move(said));
  return left;
}

std::vector<Exchange> Session::take_exchanges() {
  return std::exchange(exchanges_, {});
}

}  // namespace tenon::app::verify
