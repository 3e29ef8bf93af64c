#include "verify/session.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace tenon::app::verify {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostKeptBytes = std::size_t{24} << 10;  // of a body, in the report
// A played engine's tokens are bytes. Only a check about cut answers wants an answer cut.
constexpr std::int64_t kPlayedTokens = 400'000;

std::string shortened(std::string_view body) {
  if (body.size() <= kMostKeptBytes) return std::string(body);
  std::string kept(body.substr(0, kMostKeptBytes));
  return kept + " ... (" + std::to_string(body.size() - kMostKeptBytes) + " bytes more)";
}

// What the handlers of a request that is left tell the thread that waits.
struct FirstBytes {
  std::mutex mutex;
  std::condition_variable changed;
  bool have_come = false;  // guarded by mutex
  bool is_over = false;    // guarded by mutex
};

}  // namespace

std::string Session::written(const Question& question) const {
  if (question.raw) return *question.raw;
  Question asked = question;
  if (target_.is_played && !question.may_be_cut) asked.max_tokens = kPlayedTokens;
  return json::to_string(body_of(asked, target_.dialect, target_.model, target_.is_played));
}

http::ClientRequest Session::request_of(std::string method, std::string path,
                                        std::string body) const {
  http::ClientRequest request{.method = std::move(method),
                              .url = target_.url + path,
                              .headers = {{"accept", "application/json, text/event-stream"}},
                              .body = std::move(body),
                              .time_limit = target_.time_limit};
  if (!request.body.empty()) request.headers.push_back({"content-type", "application/json"});
  if (target_.dialect == Dialect::messages) {
    request.headers.push_back({"anthropic-version", "2023-06-01"});
    if (!target_.key.empty()) request.headers.push_back({"x-api-key", target_.key});
  } else if (!target_.key.empty()) {
    request.headers.push_back({"authorization", "Bearer " + target_.key});
  }
  return request;
}

Answer Session::exchange(http::ClientRequest request, std::string path, bool is_streamed) {
  Exchange said{request.method, std::move(path), shortened(request.body), 0, "", {}};
  const bool is_question = request.method == "POST";
  const auto begin = Clock::now();
  auto reply = client_.fetch(std::move(request));
  Answer answer;
  answer.time = said.time = Clock::now() - begin;
  if (reply) {
    answer.status = said.status = reply->status;
    answer.content_type = std::move(reply->content_type);
    answer.body = std::move(reply->body);
    said.came = shortened(answer.body);
  } else {
    answer.trouble = said.came = reply.error().message;
    answer.is_late = answer.time >= target_.time_limit;
  }
  exchanges_.push_back(std::move(said));
  if (is_question) read_answer(target_.dialect, is_streamed, answer);
  return answer;
}

const Answer& Session::ask(const Question& question) {
  std::string body = written(question);
  if (const auto found = known_.find(body); found != known_.end()) {
    exchanges_.push_back(found->second.exchange);
    return found->second.answer;
  }
  Answer answer = ask_anew(question);
  Known known{std::move(answer), exchanges_.back()};
  return known_.emplace(std::move(body), std::move(known)).first->second.answer;
}

Answer Session::ask_anew(const Question& question) {
  const std::string path(path_of(target_.dialect));
  return exchange(request_of("POST", path, written(question)), path, question.is_streamed);
}

Answer Session::get(std::string path) {
  return exchange(request_of("GET", path, ""), path, false);
}

bool Session::ask_and_leave(const Question& question, std::chrono::milliseconds most_wait) {
  const std::string path(path_of(target_.dialect));
  FirstBytes first;
  http::ClientRequest request = request_of("POST", path, written(question));
  exchanges_.push_back({"POST", path, shortened(request.body), 0, "(the client went away)", {}});
  const auto tell = [&first](bool& what) {
    const std::lock_guard lock(first.mutex);
    what = true;
    first.changed.notify_all();
  };
  auto call =
      client_.send(std::move(request), {.on_head = {},
                                        .on_body = [&](std::string_view) { tell(first.have_come); },
                                        .wanted = {},
                                        .on_end = [&](const Status&) { tell(first.is_over); }});
  if (!call) return false;
  std::unique_lock lock(first.mutex);
  first.changed.wait_for(lock, most_wait, [&] { return first.have_come || first.is_over; });
  const bool has_come = first.have_come;
  lock.unlock();
  (*call)->cancel();
  lock.lock();
  first.changed.wait(lock, [&] { return first.is_over; });
  return has_come;
}

std::vector<Exchange> Session::take_exchanges() {
  return std::exchange(exchanges_, {});
}

}  // namespace tenon::app::verify
