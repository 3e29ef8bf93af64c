// Over pipes a line is a message: short calls are answered at once, by the thread that reads, and a
// call that takes long gets a thread of its own, so that a ping, an answer or a cancellation is
// read meanwhile; one lock keeps the lines of answers whole. Over HTTP each POST is a message; a
// call that takes long is answered by a stream of events, and a client that closes the stream
// cancels the call. A client with a session may also cancel it by a message, and ends all its calls
// with the session.
#include "mcp_serving.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <iostream>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "command.h"

#include "tenon/api/auth.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"

namespace tenon::app {
namespace {

using json::Object;
using json::Value;

constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;

// ---- calls that take long

std::string text_of_member(const Value& object, std::string_view key) {
  const Value* const member = object.if_object() == nullptr ? nullptr : object.find(key);
  const std::string* const text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

// Calls on threads of their own, at most kMost at once. Its end cancels them and waits for them.
// Thread-safe. Threads of calls that are over are joined when the next one begins.
class LongCalls {
 public:
  static constexpr std::size_t kMost = 4;

  LongCalls() = default;
  LongCalls(const LongCalls&) = delete;
  LongCalls& operator=(const LongCalls&) = delete;
  ~LongCalls() { end(); }

  // Whose call it is: the id of the client's session ("": the client has no session), and the id
  // that the client gave the call.
  struct Key {
    std::string session;
    std::string call;

    bool operator==(const Key&) const = default;
  };

  // False: too many are under way.
  [[nodiscard]] bool begin(Key key, std::function<void(const CancelToken&)> work) {
    const std::lock_guard lock(mutex_);
    calls_.remove_if([](const std::unique_ptr<One>& one) { return one->is_done.load(); });
    if (calls_.size() >= kMost) return false;
    calls_.push_back(std::make_unique<One>());
    One& one = *calls_.back();
    one.key = std::move(key);
    one.thread = std::jthread([&one, work = std::move(work)] {
      work(one.cancel);
      one.is_done = true;
    });
    return true;
  }
  void cancel(const Key& key) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : calls_) {
      if (one->key == key) one->cancel.cancel();
    }
  }
  void cancel_session(std::string_view session) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : calls_) {
      if (one->key.session == session) one->cancel.cancel();
    }
  }
  void end() {
    const std::lock_guard lock(mutex_);
    for (const auto& one : calls_) one->cancel.cancel();
    calls_.clear();
  }

 private:
  struct One {
    Key key;
    CancelToken cancel;
    std::atomic<bool> is_done = false;
    std::jthread thread;  // last, so that it ends first
  };

  std::mutex mutex_;
  std::list<std::unique_ptr<One>> calls_;  // guarded by mutex_
};

// -32000 is the first of the codes that JSON-RPC leaves to servers.
std::string too_many(const Value* id) {
  const Object error{{"code", -32000},
                     {"message", std::to_string(LongCalls::kMost) +
                                     " calls that take long are under way: wait for one of them"}};
  return json::to_string(
      Object{{"jsonrpc", "2.0"}, {"id", id == nullptr ? Value() : *id}, {"error", error}});
}

// ---- pipes

// The next line, without its end; no value at the end of the input. A line over the limit is cut
// behind it, so that it is no JSON.
std::optional<std::string> next_line(std::istream& in) {
  std::string line;
  for (int byte = in.get(); byte != std::istream::traits_type::eof(); byte = in.get()) {
    if (byte == '\n') return line;
    if (line.size() <= kMaxMessageBytes) line += static_cast<char>(byte);
  }
  return line.empty() ? std::nullopt : std::optional(line);
}

// Answers come from several threads, each as a line of its own.
class Lines {
 public:
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::cout << line << std::endl;
  }

 private:
  std::mutex mutex_;
};

// The id of a request as a key: 1 and "1" differ.
std::string key_of(const Value* id) {
  return id == nullptr ? std::string() : json::to_string(*id);
}

// The id of the call that the message cancels; no value: it is another message.
std::optional<std::string> cancelled_by(const Value& message) {
  if (text_of_member(message, "method") != "notifications/cancelled") return std::nullopt;
  return key_of(json::at_pointer(message, "/params/requestId"));
}

// Begins a long call, or cancels one. False: the message is to be answered at once.
bool took_long_message(const mcp::ToolServer& server, const Value& message,
                       const mcp::Caller& client, Lines& out, LongCalls& calls) {
  if (const auto call = cancelled_by(message)) {
    // A cancellation of a call that is over, or is not known, has no effect and no answer.
    calls.cancel({.session = "", .call = *call});
    return true;
  }
  if (!server.takes_long(message)) return false;
  const bool has_begun = calls.begin({.session = "", .call = key_of(message.find("id"))},
                                     [&, client, message](const CancelToken& cancel) {
                                       mcp::Caller caller = client;
                                       caller.cancel = cancel;
                                       const auto answer = server.answer(message, caller);
                                       // The protocol wants no answer to a request that was
                                       // cancelled.
                                       if (answer && !cancel.is_cancelled())
                                         out.write(json::to_string(*answer));
                                     });
  if (!has_begun) out.write(too_many(message.find("id")));
  return true;
}

}  // namespace

int serve_mcp_pipes(const mcp::ToolServer& server) {
  Lines out;
  LongCalls calls;  // ends before `out`
  const mcp::Caller client{
      .send = [&out](const Value& message) { out.write(json::to_string(message)); },
      .session = server.keeps_sessions() ? server.open_session() : nullptr};
  if (client.session) client.session->set_listener(client.send);
  while (auto line = next_line(std::cin)) {
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto message = json::parse(*line);
    if (message && took_long_message(server, *message, client, out, calls)) continue;
    if (const auto answer = server.answer_text(*line, client)) out.write(*answer);
  }
  if (client.session) client.session->set_listener({});
  return kOk;
}

namespace {

// ---- HTTP

// -32600 is "invalid request" in JSON-RPC. The id is null, since the message was not read.
http::Response refused(unsigned status, std::string message) {
  const Object error{{"code", -32600}, {"message", std::move(message)}};
  return {.status = status,
          .body = json::to_string(Object{{"jsonrpc", "2.0"}, {"id", nullptr}, {"error", error}})};
}

// Pages of other origins may not ask, nor pages that came under a name that their owner points
// here.
std::optional<http::Response> refusal_of(const mcp::ToolServer& server,
                                         const http::Request& request) {
  if (request.path != "/mcp") return refused(404, "the tools are at /mcp");
  if (!api::admits_host(request, {})) {
    return refused(403, "this server answers to names of this machine only, like localhost");
  }
  if (!api::admits_origin(request, {})) return refused(403, "this origin may not ask");
  const bool is_of_session = request.method == "GET" || request.method == "DELETE";
  if (request.method == "POST" || (is_of_session && server.keeps_sessions())) return std::nullopt;
  const std::string allowed = server.keeps_sessions() ? "POST, GET, DELETE" : "POST";
  http::Response response = refused(405, "this path takes " + allowed + " only");
  response.headers.push_back({"allow", allowed});
  return response;
}

std::string event_of(const Value& message) {
  return "event: message\ndata: " + json::to_string(message) + "\n\n";
}

// A GET is a stream of what a session is told outside of answers. A DELETE ends a session, with its
// calls and their questions to the client.
void answer_about_session(const mcp::ToolServer& server,
                          const std::shared_ptr<http::Exchange>& exchange, LongCalls& calls) {
  const auto session = server.session_of(exchange->request());
  if (!session) {
    const bool is_named = !exchange->request().header("mcp-session-id").empty();
    return exchange->respond(refused(is_named ? 404 : 400, "there is no such session"));
  }
  if (exchange->request().method == "DELETE") {
    (void)server.end_session_of(exchange->request());
    calls.cancel_session(session->id());
    return exchange->respond({.status = 204, .body = ""});
  }
  exchange->begin_stream("text/event-stream", {{"cache-control", "no-store"}});
  exchange->write(": listening\n\n");
  session->set_listener([exchange](const Value& message) { exchange->write(event_of(message)); });
}

// The answer to a call that takes long is a stream of events: progress, then the result. A client
// that goes away cancels the call, because its answer could not be told any more.
void begin_stream(const mcp::ToolServer& server, const std::shared_ptr<http::Exchange>& exchange,
                  const mcp::ToolServer::LongCall& call, LongCalls& calls) {
  const std::string session = call.session ? call.session->id() : std::string();
  const bool has_begun = calls.begin(
      {.session = session, .call = key_of(call.message.find("id"))},
      [&server, exchange, call](const CancelToken& cancel) {
        exchange->on_closed([cancel] { cancel.cancel(); });
        exchange->begin_stream("text/event-stream", {{"cache-control", "no-store"}});
        const auto write = [&exchange](const Value& event) { exchange->write(event_of(event)); };
        const auto answer =
            server.answer(call.message, {.cancel = cancel, .send = write, .session = call.session});
        if (answer && !cancel.is_cancelled()) write(*answer);
        exchange->end_stream();
      });
  if (!has_begun) exchange->respond({.status = 503, .body = too_many(call.message.find("id"))});
}

// A client with a session may cancel a call by a message. The id of a call alone does not say whose
// call it is, so a client without one closes the stream.
void cancel_if_told(const mcp::ToolServer& server, const http::Request& request,
                    const http::Response& response, LongCalls& calls) {
  constexpr int kAccepted = 202;  // of a notification that was not refused
  const auto session = response.status == kAccepted ? server.session_of(request) : nullptr;
  if (!session) return;
  const auto message = json::parse(request.body);
  const auto call = message ? cancelled_by(*message) : std::nullopt;
  if (call) calls.cancel({.session = session->id(), .call = *call});
}

void answer_exchange(const mcp::ToolServer& server, const std::shared_ptr<http::Exchange>& exchange,
                     LongCalls& calls) {
  const http::Request& request = exchange->request();
  if (auto refusal = refusal_of(server, request)) return exchange->respond(*std::move(refusal));
  if (request.method != "POST") return answer_about_session(server, exchange, calls);
  if (const auto call = server.long_call(request)) {
    return begin_stream(server, exchange, *call, calls);
  }
  http::Response response = server.answer_post(request);
  cancel_if_told(server, request, response, calls);
  exchange->respond(std::move(response));
}

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void block_ending_signals() {
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int serve_mcp_http(const mcp::ToolServer& server, std::uint16_t port) {
  const sigset_t signals = ending_signals();
  LongCalls calls;
  auto http = http::Server::start({.port = port, .threads = 2, .max_body_bytes = kMaxMessageBytes},
                                  [&](const std::shared_ptr<http::Exchange>& exchange) {
                                    answer_exchange(server, exchange, calls);
                                  });
  if (!http) return complain({kEngine, http.error().message});
  std::cout << "Tools are at http://127.0.0.1:" << (*http)->port() << "/mcp" << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  // The streams are given time to end before their calls are cancelled.
  (*http)->stop(std::chrono::seconds(2));
  calls.end();
  return kOk;
}

}  // namespace tenon::app
