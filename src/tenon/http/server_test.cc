#include "tenon/http/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/http/socket_for_test.h"
#include "tenon/http/wire.h"

namespace tenon::http {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;
using ExchangePtr = std::shared_ptr<Exchange>;

#define HOST "Host: a\r\n"

// Answers with what was asked: "METHOD path|body".
void server_echo(const ExchangePtr& exchange) {
  const Request& request = exchange->request();
  exchange->respond({.content_type = "text/plain",
                     .body = request.method + " " + request.path + "|" + request.body});
}

std::unique_ptr<Server> server_started(ServerOptions options, Server::Handler handler = server_echo,
                                       Server::ErrorBody error_body = {}) {
  options.port = 0;
  auto server = Server::start(std::move(options), std::move(handler), std::move(error_body));
  if (!server) throw std::runtime_error(server.error().message);
  return *std::move(server);
}

// The last Exchange that came, for tests that answer it from their own thread.
class Inbox {
 public:
  Server::Handler handler() {
    return [this](ExchangePtr exchange) {
      const std::lock_guard lock(mutex_);
      exchanges_.push_back(std::move(exchange));
      arrived_.notify_all();
    };
  }
  ExchangePtr next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, 10s, [this] { return !exchanges_.empty(); })) {
      throw std::runtime_error("no request came");
    }
    ExchangePtr first = exchanges_.front();
    exchanges_.erase(exchanges_.begin());
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<ExchangePtr> exchanges_;
};

// Status, body and whether more may follow, read by our own reader of responses.
struct Answered {
  unsigned status = 0;
  std::string body;
  std::vector<Header> headers;
  bool keeps_alive = false;
  bool is_whole = false;
};

Answered read_answer(TestSocket& socket, std::string& rest, bool to_head = false) {
  ResponseReader reader(WireLimits{.max_body_bytes = 1 << 30}, to_head);
  Answered answered;
  while (!reader.is_whole() && !reader.error()) {
    if (rest.empty()) rest = socket.receive();
    if (rest.empty()) break;
    rest.erase(0, reader.feed(rest, answered.body));
  }
  answered.is_whole = reader.is_whole() || reader.finish_at_close();
  answered.status = reader.status();
  answered.headers = reader.headers();
  answered.keeps_alive = reader.keeps_alive();
  return answered;
}

Answered read_answer(TestSocket& socket) {
  std::string rest;
  return read_answer(socket, rest);
}

// ---------------------------------------------------------------------------- what is refused

struct Refusal {
  std::string_view name;
  std::string wire;
  unsigned status;
  std::string_view code;
};

void PrintTo(const Refusal& refusal, std::ostream* os) {
  *os << refusal.name;
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

const Refusal kRefusals[] = {
    {"LineFeeds", "GET / HTTP/1.1\nHost: a\n\n", 400, "bad_request"},
    {"TlsHello", std::string("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"sv), 400, "bad_request"},
    {"Nul", std::string("GET /\0 HTTP/1.1\r\n\r\n"sv), 400, "bad_request"},
    {"BadEscape", "GET /%x HTTP/1.1\r\n" HOST "\r\n", 400, "bad_request"},
    {"LengthAndChunks",
     "POST / HTTP/1.1\r\n" HOST
     "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
     400, "bad_request"},
    {"BadChunk", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400,
     "bad_request"},
    {"UnknownCoding", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", 501,
     "transfer_encoding_unsupported"},
    {"Http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_unsupported"},
    {"HugeRequestLine", "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n", 414,
     "target_too_long"},
    {"HugeField", "GET / HTTP/1.1\r\nA: " + std::string(1 << 20, 'a') + "\r\n\r\n", 431,
     "headers_too_large"},
    {"HundredThousandFields", "GET / HTTP/1.1\r\n" + repeated("a: b\r\n", 100'000) + "\r\n", 431,
     "headers_too_large"},
    {"ManyFields", "GET / HTTP/1.1\r\n" + repeated("a:\r\n", 1'000) + "\r\n", 431,
     "headers_too_large"},
    {"HugeLength", "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n", 413,
     "body_too_large"},
    // The client sends the whole body before it reads the answer.
    {"HugeBody",
     "POST / HTTP/1.1\r\n" HOST "Content-Length: 20000000\r\n\r\n" + std::string(20'000'000, 'x'),
     413, "body_too_large"},
    {"HugeChunks",
     "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n" +
         repeated("3e8\r\n" + std::string(1000, 'x') + "\r\n", 4'000),
     413, "body_too_large"},
    {"Expectation", "POST / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", 417, "expectation_failed"},
};

class ServerRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(ServerRefuses, WithAStatusThatTheClientCanRead) {
  std::atomic<int> handled = 0;
  const auto server = server_started({.max_body_bytes = 1 << 20}, [&](const ExchangePtr& exchange) {
    ++handled;
    server_echo(exchange);
  });
  TestSocket socket(server->port());
  socket.send(GetParam().wire);
  const Answered answered = read_answer(socket);
  EXPECT_EQ(answered.status, GetParam().status);
  EXPECT_TRUE(answered.is_whole);
  EXPECT_FALSE(answered.keeps_alive);
  EXPECT_THAT(answered.body, HasSubstr("\"code\":\"" + std::string(GetParam().code) + "\""));
  EXPECT_EQ(socket.receive(), "");
  EXPECT_EQ(handled, 0);
}

INSTANTIATE_TEST_SUITE_P(Inputs, ServerRefuses, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Server, MakesBodiesOfItsRefusalsAsItIsTold) {
  const auto server = server_started(
      {}, server_echo,
      [](unsigned status, std::string_view code, std::string_view message, std::string_view path) {
        Response response{.status = status + 1, .content_type = "text/x"};
        response.body = std::to_string(status) + " " + std::string(code) + ": " +
                        std::string(message) + std::string(path);
        return response;
      });
  TestSocket socket(server->port());
  socket.send("GET a HTTP/1.1\r\n\r\n");
  const Answered answered = read_answer(socket);
  EXPECT_EQ(answered.status, 401U);
  EXPECT_EQ(find_header(answered.headers, "content-type"), "text/x");
  EXPECT_EQ(answered.body, "400 bad_request: The request target is malformed");
  TestSocket known(server->port());
  known.send("POST /b?c HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(read_answer(known).body, "413 body_too_large: The body is too large/b");
}

// ------------------------------------------------------------------------------ what is accepted

struct Stream {
  std::string_view name;
  std::string_view wire;
  std::vector<std::string_view> bodies;
};

void PrintTo(const Stream& stream, std::ostream* os) {
  *os << stream.name;
}

const Stream kStreams[] = {
    {"Get", "GET /a HTTP/1.1\r\n" HOST "\r\n", {"GET /a|"}},
    {"Post", "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", {"POST /|hello"}},
    {"Chunks",
     "POST / HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nA: b\r\n\r\n",
     {"POST /|hello"}},
    {"Pipelined",
     "GET /a HTTP/1.1\r\n" HOST "\r\nPOST /b HTTP/1.1\r\n" HOST
     "Content-Length: 2\r\n\r\nhiGET /c HTTP/1.1\r\n" HOST "\r\n",
     {"GET /a|", "POST /b|hi", "GET /c|"}},
};

class ServerAnswers : public ::testing::TestWithParam<Stream> {};

TEST_P(ServerAnswers, WhereverTheRequestsAreCut) {
  const auto server = server_started({});
  const std::string_view wire = GetParam().wire;
  for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
    TestSocket socket(server->port());
    socket.send(wire.substr(0, cut));
    if (cut % 8 == 0) std::this_thread::sleep_for(1ms);  // so that the server sees the first part
    socket.send(wire.substr(cut));
    std::string rest;
    for (std::string_view body : GetParam().bodies) {
      const Answered answered = read_answer(socket, rest);
      ASSERT_EQ(answered.status, 200U) << "cut at " << cut;
      ASSERT_EQ(answered.body, body) << "cut at " << cut;
      ASSERT_TRUE(answered.keeps_alive);
    }
    ASSERT_EQ(rest, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, ServerAnswers, ::testing::ValuesIn(kStreams),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Server, AnswersAByteAtATime) {
  const auto server = server_started({});
  TestSocket socket(server->port());
  for (const char& byte : "POST /a HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi"sv) {
    ASSERT_TRUE(socket.send({&byte, 1}));
  }
  EXPECT_EQ(read_answer(socket).body, "POST /a|hi");
}

TEST(Server, ReadsLargeBodies) {
  const auto server = server_started({}, [](const ExchangePtr& exchange) {
    const std::string& body = exchange->request().body;
    const bool is_right = body == std::string(body.size(), 'x');
    exchange->respond({.body = std::to_string(is_right ? body.size() : 0)});
  });
  TestSocket socket(server->port());
  const std::string body(5'000'000, 'x');
  socket.send("POST / HTTP/1.1\r\n" HOST "Content-Length: 5000000\r\n\r\n" + body);
  EXPECT_EQ(read_answer(socket).body, "5000000");
  socket.send("POST / HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\nxxxxxxx");
  EXPECT_EQ(read_answer(socket).body, "7");
}

TEST(Server, SendsLargeBodies) {
  const std::string body = repeated("0123456789", 1'000'000);
  const auto server =
      server_started({}, [&](const ExchangePtr& exchange) { exchange->respond({.body = body}); });
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  EXPECT_TRUE(read_answer(socket).body == body);
}

TEST(Server, TellsAWaitingClientToContinue) {
  const auto server = server_started({.max_body_bytes = 10});
  TestSocket socket(server->port());
  socket.send("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(socket.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  socket.send("hi");
  EXPECT_EQ(read_answer(socket).body, "POST /|hi");
  // A request that comes with its body gets no 100, nor does one whose body is refused.
  socket.send("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nyo");
  EXPECT_THAT(socket.until("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(socket.until("yo"), "POST /|yo");
  socket.send("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  EXPECT_THAT(socket.until("\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
}

TEST(Server, AnswersHeadWithoutABody) {
  const auto server = server_started({}, [](const ExchangePtr& exchange) {
    if (exchange->request().path == "/stream") {
      exchange->begin_stream("text/event-stream", {});
      exchange->write("data: 1\n\n");
      return exchange->end_stream();
    }
    exchange->respond({.status = exchange->request().path == "/empty" ? 204U : 200U, .body = "hi"});
  });
  TestSocket socket(server->port());
  std::string rest;
  socket.send("HEAD / HTTP/1.1\r\n" HOST "\r\nHEAD /stream HTTP/1.1\r\n" HOST
              "\r\nGET /empty HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "\r\n");
  Answered answered = read_answer(socket, rest, /*to_head=*/true);
  EXPECT_EQ(find_header(answered.headers, "Content-Length"), "2");
  answered = read_answer(socket, rest, /*to_head=*/true);
  EXPECT_EQ(find_header(answered.headers, "Content-Type"), "text/event-stream");
  answered = read_answer(socket, rest);
  EXPECT_EQ(answered.status, 204U);
  EXPECT_EQ(find_header(answered.headers, "Content-Length"), "");
  EXPECT_EQ(read_answer(socket, rest).body, "hi");
}

TEST(Server, SpeaksHttp10) {
  const auto server = server_started({}, [](const ExchangePtr& exchange) {
    if (exchange->request().path != "/stream") return server_echo(exchange);
    exchange->begin_stream("text/event-stream", {});
    exchange->write("data: 1\n\n");
    exchange->write("data: 2\n\n");
    exchange->end_stream();
  });
  TestSocket kept(server->port());
  kept.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(kept.until("|"), HasSubstr("\r\nConnection: keep-alive\r\n"));
  kept.send("GET /b HTTP/1.0\r\n\r\n");
  EXPECT_THAT(kept.rest(), EndsWith("\r\nConnection: close\r\n\r\nGET /b|"));

  TestSocket stream(server->port());
  stream.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string text = stream.rest();
  EXPECT_THAT(text, EndsWith("\r\nConnection: close\r\n\r\ndata: 1\n\ndata: 2\n\n"));
  EXPECT_THAT(text, Not(HasSubstr("chunked")));
}

TEST(Server, ClosesWhenAsked) {
  const auto server = server_started({}, [](const ExchangePtr& exchange) {
    exchange->respond({.headers = {{"Connection", "close"}}, .body = "bye"});
  });
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  EXPECT_THAT(socket.rest(), EndsWith("\r\nConnection: close\r\n\r\nbye"));
}

TEST(Server, LeavesOutFieldsThatWouldBreakTheMessage) {
  const auto server = server_started({}, [](const ExchangePtr& exchange) {
    exchange->respond({.content_type = "text/plain\r\nX-Evil: 1",
                       .headers = {{"X-A", "1\r\nX-Evil: 2"},
                                   {"X-Evil: 3\r\nX", "1"},
                                   {"", "X-Evil"},
                                   {"Content-Length", "1"},
                                   {"Transfer-Encoding", "chunked"},
                                   {"X-B", "2"}},
                       .body = "hi"});
  });
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const std::string head = socket.until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("\r\nX-B: 2\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 2\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Evil")));
  EXPECT_THAT(head, Not(HasSubstr("chunked")));
}

TEST(Server, Answers500ForWhatTheHandlerLeaves) {
  const auto server = server_started({.threads = 2}, [](const ExchangePtr& exchange) {
    const std::string& path = exchange->request().path;
    if (path == "/throw") throw std::runtime_error("a handler's own fault");
    if (path == "/throw-int") throw 1;
    if (path == "/cut" || path == "/throw-later") {
      exchange->begin_stream("text/plain", {});
      exchange->write("begun");
    }
    if (path == "/throw-later") throw std::runtime_error("too late");
  });
  for (std::string path : {"/throw", "/throw-int", "/drop"}) {
    TestSocket socket(server->port());
    socket.send("GET " + path + " HTTP/1.1\r\n" HOST "\r\n");
    const Answered answered = read_answer(socket);
    EXPECT_EQ(answered.status, 500U) << path;
    EXPECT_THAT(answered.body, HasSubstr("internal_error")) << path;
    EXPECT_TRUE(answered.keeps_alive) << path;
  }
  for (std::string path : {"/cut", "/throw-later"}) {
    TestSocket socket(server->port());
    socket.send("GET " + path + " HTTP/1.1\r\n" HOST "\r\n");
    const Answered answered = read_answer(socket);
    EXPECT_EQ(answered.body, "begun") << path;
    EXPECT_FALSE(answered.is_whole) << path;
  }
}

TEST(Server, IgnoresWhatComesOutOfTurn) {
  const auto server = server_started({}, [](const ExchangePtr& exchange) {
    exchange->write("early");
    exchange->end_stream();
    if (exchange->request().path == "/stream") {
      exchange->begin_stream("text/plain", {});
      exchange->begin_stream("text/plain", {});
      exchange->respond({.status = 404});
      exchange->write("");
      exchange->write("a");
      exchange->end_stream();
    } else {
      exchange->respond({.body = "a"});
    }
    exchange->end_stream();
    exchange->write("late");
    exchange->respond({.status = 404});
    exchange->begin_stream("text/plain", {});
  });
  TestSocket socket(server->port());
  std::string rest;
  for (std::string path : {"/stream", "/whole", "/stream"}) {
    socket.send("GET " + path + " HTTP/1.1\r\n" HOST "\r\n");
    const Answered answered = read_answer(socket, rest);
    EXPECT_EQ(answered.status, 200U);
    EXPECT_EQ(answered.body, "a");
    EXPECT_TRUE(answered.is_whole);
  }
}

TEST(Server, KeepsPipelinedAnswersInOrder) {
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n");
  ExchangePtr first = inbox.next();
  EXPECT_EQ(first->request().path, "/1");
  std::this_thread::sleep_for(20ms);
  first->begin_stream("text/plain", {});
  first->write("one");
  first->end_stream();
  ExchangePtr second = inbox.next();
  EXPECT_EQ(second->request().path, "/2");
  second->respond({.body = "two"});
  std::string rest;
  EXPECT_EQ(read_answer(socket, rest).body, "one");
  EXPECT_EQ(read_answer(socket, rest).body, "two");
  // The connection goes on.
  socket.send("GET /3 HTTP/1.1\r\n" HOST "\r\n");
  inbox.next()->respond({.body = "three"});
  EXPECT_EQ(read_answer(socket, rest).body, "three");
}

// There are more pipelined requests than the server reads ahead: it pauses reading.
TEST(Server, AnswersAFloodOfPipelinedRequests) {
  const auto server = server_started({});
  TestSocket socket(server->port());
  constexpr std::size_t kRequests = 20'000;
  std::thread sender([&] { socket.send(repeated("GET /a HTTP/1.1\r\n" HOST "\r\n", kRequests)); });
  std::string rest;
  std::size_t answers = 0;
  while (answers < kRequests && read_answer(socket, rest).body == "GET /a|") ++answers;
  sender.join();
  EXPECT_EQ(answers, kRequests);
}

TEST(Server, NamesThePeer) {
  std::promise<std::string> peer;
  const auto server = server_started({}, [&](const ExchangePtr& exchange) {
    peer.set_value(exchange->request().peer);
    server_echo(exchange);
  });
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  EXPECT_THAT(peer.get_future().get(), StartsWith("127.0.0.1:"));
}

// ------------------------------------------------------------------------------------- timeouts

TEST(Server, TimesOutASlowRequest) {
  const auto server = server_started({.read_timeout = 150ms});
  for (std::string begun : {"G", "GET / HTTP/1.1\r\nA: b\r\n",
                            "POST / HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhal"}) {
    TestSocket socket(server->port());
    const auto start = Clock::now();
    socket.send(begun);
    // Sending a byte now and then gains no time.
    std::thread dripping([&] {
      for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(40ms);
        socket.send("a");
      }
    });
    const Answered answered = read_answer(socket);
    EXPECT_EQ(answered.status, 408U) << begun;
    EXPECT_GE(Clock::now() - start, 150ms);
    dripping.join();
    EXPECT_EQ(socket.receive(), "");
  }
}

TEST(Server, ClosesIdleConnectionsInSilence) {
  const auto server = server_started({.read_timeout = 100ms, .idle_timeout = 200ms});
  TestSocket fresh(server->port());
  EXPECT_EQ(fresh.rest(), "");
  TestSocket kept(server->port());
  kept.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  EXPECT_EQ(read_answer(kept).status, 200U);
  const auto start = Clock::now();
  EXPECT_EQ(kept.rest(), "");
  EXPECT_GE(Clock::now() - start, 150ms);
}

TEST(Server, LetsAnAnswerTakeItsTime) {
  Inbox inbox;
  const auto server = server_started(
      {.read_timeout = 50ms, .idle_timeout = 50ms, .write_timeout = 50ms}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::this_thread::sleep_for(200ms);
  exchange->begin_stream("text/plain", {});
  exchange->write("a");
  std::this_thread::sleep_for(200ms);
  exchange->write("b");
  exchange->end_stream();
  EXPECT_EQ(read_answer(socket).body, "ab");
}

TEST(Server, CutsAClientThatMakesNoProgress) {
  Inbox inbox;
  const auto server = server_started({.write_timeout = 150ms}, inbox.handler());
  TestSocket socket(server->port(), /*receive_buffer=*/4096);
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::promise<void> closed;
  exchange->on_closed([&] { closed.set_value(); });
  exchange->begin_stream("text/plain", {});
  exchange->write(std::string(16 << 20, 'x'));
  EXPECT_EQ(closed.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(exchange->is_closed());
  EXPECT_EQ(exchange->queued_bytes(), 0U);
}

// ------------------------------------------------------------------------------------ streaming

TEST(Server, StreamsWhatManyThreadsWriteInOrder) {
  constexpr int kClients = 24;
  constexpr int kTokens = 400;
  std::vector<std::thread> producers;
  std::mutex mutex;
  const auto server = server_started({.threads = 2}, [&](const ExchangePtr& exchange) {
    const std::lock_guard lock(mutex);
    producers.emplace_back([exchange] {
      exchange->begin_stream("text/event-stream", {{"X-Id", "7"}});
      for (int i = 0; i < kTokens; ++i) {
        exchange->write(exchange->request().path + " " + std::to_string(i) + "\n");
        if (i % 50 == 0) std::this_thread::sleep_for(1ms);
      }
      exchange->end_stream();
    });
  });
  std::atomic<int> right = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      const std::string path = "/" + std::to_string(i);
      TestSocket socket(server->port());
      for (int round = 0; round < 2; ++round) {
        socket.send("GET " + path + " HTTP/1.1\r\n" HOST "\r\n");
        std::string expected;
        for (int token = 0; token < kTokens; ++token) {
          expected += path + " " + std::to_string(token) + "\n";
        }
        const Answered answered = read_answer(socket);
        if (answered.body == expected && answered.is_whole) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(right, 2 * kClients);
}

// Lone writes are sent by the writer's thread until the kernel takes no more, then by the queue.
TEST(Server, KeepsTheOrderOfLoneWritesThatTheKernelTakesInPart) {
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port(), /*receive_buffer=*/4096);
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  exchange->begin_stream("text/plain", {});
  std::string expected;
  const auto write = [&] {
    const std::string piece = std::to_string(expected.size()) + std::string(300'000, '.');
    expected += piece;
    exchange->write(piece);
    std::this_thread::sleep_for(2ms);
  };
  write();
  while (exchange->queued_bytes() == 0 && expected.size() < (64 << 20)) write();
  EXPECT_GT(exchange->queued_bytes(), 0U);
  for (int i = 0; i < 3; ++i) write();
  exchange->end_stream();
  EXPECT_TRUE(read_answer(socket).body == expected);
  EXPECT_EQ(exchange->queued_bytes(), 0U);
}

// What a thread gathers is sent in one piece at the end, even if others write meanwhile.
TEST(Server, SendsInOnePieceWhatAThreadGathers) {
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  {
    const Gathering gathering;
    exchange->begin_stream("text/plain", {});
    exchange->write("one ");
    {
      const Gathering inner;
      exchange->write("two ");
    }
    std::thread([&] { exchange->write("three "); }).join();
    EXPECT_EQ(socket.receive(1000, 50ms), "");
    EXPECT_GT(exchange->queued_bytes(), 14U);
  }
  EXPECT_EQ(exchange->queued_bytes(), 0U);
  const std::string first = socket.receive();
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(first, EndsWith("4\r\none \r\n4\r\ntwo \r\n6\r\nthree \r\n"));
  {
    const Gathering gathering;
    exchange->write("end");
    exchange->end_stream();
  }
  EXPECT_EQ(socket.until("0\r\n\r\n"), "3\r\nend\r\n0\r\n\r\n");
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  inbox.next()->respond({.body = "next"});
  EXPECT_EQ(read_answer(socket).body, "next");
}

TEST(Server, QueuesWhatTheKernelDoesNotTakeOfWhatIsGathered) {
  constexpr std::size_t kLowWater = 1 << 20;
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port(), /*receive_buffer=*/4096);
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::atomic<int> drained = 0;
  exchange->on_drained(kLowWater, [&] { ++drained; });
  exchange->begin_stream("text/plain", {});
  const std::string piece(std::size_t{16} << 20, '.');
  {
    const Gathering gathering;
    exchange->write(piece);
  }
  EXPECT_GT(exchange->queued_bytes(), kLowWater);
  EXPECT_EQ(drained, 0);
  {
    const Gathering gathering;
    exchange->write("end");
    exchange->end_stream();
  }
  EXPECT_TRUE(read_answer(socket).body == piece + "end");
  EXPECT_EQ(exchange->queued_bytes(), 0U);
  EXPECT_EQ(drained, 1);
}

TEST(Server, ForgetsWhatIsGatheredForAClientThatHasGone) {
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  ExchangePtr exchange = inbox.next();
  std::promise<void> closed;
  exchange->on_closed([&] { closed.set_value(); });
  {
    const Gathering gathering;
    exchange->begin_stream("text/plain", {});
    exchange->write("one");
    socket.reset();
    ASSERT_EQ(closed.get_future().wait_for(5s), std::future_status::ready);
    exchange->write("two");
    exchange.reset();
  }
}

TEST(Server, LetsSeveralThreadsUseOneExchange) {
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  exchange->begin_stream("text/plain", {});
  std::vector<std::thread> writers;
  for (const char letter : "abcd"sv) {
    writers.emplace_back([&exchange, letter] {
      for (int i = 0; i < 500; ++i) exchange->write(std::string(1, letter));
    });
  }
  for (std::thread& writer : writers) writer.join();
  exchange->end_stream();
  const std::string body = read_answer(socket).body;
  for (const char letter : "abcd"sv) {
    EXPECT_EQ(std::count(body.begin(), body.end(), letter), 500) << letter;
  }
}

enum class Leaving { end, reset, half };

class ServerNotices : public ::testing::TestWithParam<std::tuple<Leaving, bool>> {};

TEST_P(ServerNotices, WithoutWritingThatTheClientHasGone) {
  const auto [leaving, has_begun] = GetParam();
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::promise<void> closed;
  exchange->on_closed([&] { closed.set_value(); });
  if (has_begun) {
    exchange->begin_stream("text/event-stream", {});
    exchange->write("data: 1\n\n");
    socket.until("data: 1");
  }
  EXPECT_FALSE(exchange->is_closed());
  if (leaving == Leaving::end) socket.close();
  if (leaving == Leaving::reset) socket.reset();
  if (leaving == Leaving::half) socket.close_sending_half();
  ASSERT_EQ(closed.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(exchange->is_closed());
  exchange->write("dropped");
  exchange->end_stream();
  bool at_once = false;
  exchange->on_closed([&] { at_once = true; });
  EXPECT_TRUE(at_once);
}

INSTANTIATE_TEST_SUITE_P(Ways, ServerNotices,
                         ::testing::Combine(::testing::Values(Leaving::end, Leaving::reset,
                                                              Leaving::half),
                                            ::testing::Bool()));

TEST(Server, SaysNothingOfAClientThatLeavesAfterTheAnswer) {
  std::atomic<int> closed = 0;
  const auto server = server_started({}, [&](const ExchangePtr& exchange) {
    exchange->on_closed([&] { ++closed; });
    server_echo(exchange);
  });
  for (int i = 0; i < 20; ++i) {
    TestSocket socket(server->port());
    socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
    if (i % 2 == 0) {
      // The request and the end of file may be read together: the answer still comes.
      socket.close_sending_half();
      EXPECT_THAT(socket.rest(), EndsWith("GET /|"));
    }
  }
  server->stop(1s);
  EXPECT_EQ(closed, 0);
}

TEST(Server, TellsWhenTheQueueHasDrained) {
  constexpr std::size_t kLowWater = 1 << 20;
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port(), /*receive_buffer=*/16 << 10);
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::atomic<int> drained = 0;
  std::atomic<std::size_t> left = kLowWater;
  exchange->on_drained(kLowWater, [&] {
    left = exchange->queued_bytes();
    ++drained;
  });
  exchange->begin_stream("text/plain", {});
  std::size_t written = 0;
  // The kernel takes some megabytes; a client that does not read makes the queue grow after that.
  while (exchange->queued_bytes() < 2 * kLowWater && written < (64U << 20)) {
    exchange->write(std::string(64 << 10, 'x'));
    written += 64 << 10;
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_GE(exchange->queued_bytes(), 2 * kLowWater);
  std::this_thread::sleep_for(50ms);
  EXPECT_GE(exchange->queued_bytes(), 2 * kLowWater);
  EXPECT_EQ(drained, 0);

  exchange->end_stream();
  EXPECT_EQ(read_answer(socket).body.size(), written);
  EXPECT_EQ(drained, 1);
  EXPECT_LT(left, kLowWater / 2);
}

TEST(Server, CutsAStreamThatNobodyReads) {
  Inbox inbox;
  const auto server = server_started({.max_queued_bytes = 1 << 20}, inbox.handler());
  TestSocket socket(server->port(), /*receive_buffer=*/4096);
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::promise<void> closed;
  exchange->on_closed([&] { closed.set_value(); });
  exchange->begin_stream("text/plain", {});
  for (int i = 0; i < 1'000; ++i) {
    exchange->write(std::string(64 << 10, 'x'));
    EXPECT_LE(exchange->queued_bytes(), std::size_t{1} << 20);
  }
  EXPECT_EQ(closed.get_future().wait_for(5s), std::future_status::ready);
}

TEST(Server, ReleasesCallbacksAndBodies) {
  const auto owned = std::make_shared<int>(0);
  const auto server = server_started({}, [&](const ExchangePtr& exchange) {
    // Each callback holds its own exchange: only the end of the answer can free them.
    exchange->on_closed([exchange, owned] { ++*owned; });
    exchange->on_drained(1, [exchange, owned] {});
    exchange->release_body();
    EXPECT_EQ(exchange->request().body, "");
    exchange->respond({.body = "hi"});
  });
  TestSocket socket(server->port());
  socket.send("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi");
  EXPECT_EQ(read_answer(socket).body, "hi");
  server->stop(1s);
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(*owned, 0);
}

// --------------------------------------------------------------------------------------- limits

TEST(Server, RefusesConnectionsOverTheLimit) {
  const auto server = server_started({.max_connections = 2});
  std::vector<TestSocket> sockets;
  for (int i = 0; i < 2; ++i) {
    sockets.emplace_back(server->port());
    sockets.back().send("GET / HTTP/1.1\r\n" HOST "\r\n");
    EXPECT_EQ(read_answer(sockets.back()).status, 200U);
  }
  TestSocket third(server->port());
  third.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const Answered answered = read_answer(third);
  EXPECT_EQ(answered.status, 503U);
  EXPECT_THAT(answered.body, HasSubstr("too_many_connections"));
  third.close();
  sockets.pop_back();
  // There is room again once the server has seen both connections end.
  unsigned status = 0;
  for (int i = 0; i < 100 && status != 200; ++i) {
    TestSocket again(server->port());
    again.send("GET / HTTP/1.1\r\n" HOST "\r\n");
    status = read_answer(again).status;
    if (status != 200) std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(status, 200U);
}

TEST(Server, BoundsTheBodiesOfAllConnectionsTogether) {
  Inbox inbox;
  const auto server = server_started({.max_bodies_bytes = 1'500}, inbox.handler());
  const std::string request =
      "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n" + std::string(1000, 'x');
  TestSocket first(server->port());
  first.send(request);
  const ExchangePtr held = inbox.next();
  TestSocket second(server->port());
  second.send(request);
  const Answered answered = read_answer(second);
  EXPECT_EQ(answered.status, 503U);
  EXPECT_THAT(answered.body, HasSubstr("overloaded"));
  held->release_body();
  TestSocket third(server->port());
  third.send(request);
  inbox.next()->respond({.body = "ok"});
  EXPECT_EQ(read_answer(third).body, "ok");
}

// ------------------------------------------------------------------------------- start and stop

TEST(Server, SaysWhyItCannotListen) {
  const auto server = server_started({});
  const auto second = Server::start({.port = server->port()}, server_echo);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::unavailable);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1:" + std::to_string(server->port()) +
                                        ": Address already in use");
  const auto elsewhere = Server::start({.host = "192.0.2.1", .port = 0}, server_echo);
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().message, HasSubstr("192.0.2.1"));
  const auto nowhere = Server::start({.host = "no.such.host.invalid", .port = 0}, server_echo);
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("no.such.host.invalid"));
}

TEST(Server, RestartsOnItsPort) {
  auto server = server_started({});
  const std::uint16_t port = server->port();
  TestSocket socket(port);
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  EXPECT_EQ(read_answer(socket).status, 200U);
  server.reset();  // closes first, so that the connection waits in the kernel
  const auto again = Server::start({.port = port}, server_echo);
  EXPECT_TRUE(again) << again.error().message;
}

TEST(Server, FinishesAnswersWhenItStops) {
  Inbox inbox;
  const auto server = server_started({.threads = 2}, inbox.handler());
  TestSocket idle(server->port());
  TestSocket busy(server->port());
  busy.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  exchange->begin_stream("text/plain", {});
  exchange->write("be");
  const auto start = Clock::now();  // before the answer's 100 ms begin
  std::thread producer([&] {
    std::this_thread::sleep_for(100ms);
    exchange->write("gun");
    exchange->end_stream();
  });
  std::thread reader([&] {
    const Answered answered = read_answer(busy);
    EXPECT_EQ(answered.body, "begun");
    EXPECT_TRUE(answered.is_whole);
  });
  server->stop(60s);
  EXPECT_GE(Clock::now() - start, 100ms);
  EXPECT_LT(Clock::now() - start, 60s);  // although the clients stay
  EXPECT_EQ(idle.rest(), "");
  EXPECT_FALSE(TestSocket(server->port()).is_connected());
  producer.join();
  reader.join();
}

TEST(Server, CutsAnswersAfterItsGrace) {
  Inbox inbox;
  auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  std::atomic<bool> closed = false;
  exchange->on_closed([&] { closed = true; });
  const auto start = Clock::now();
  server->stop(100ms);
  EXPECT_GE(Clock::now() - start, 100ms);
  EXPECT_TRUE(closed);
  EXPECT_EQ(socket.rest(), "");
  // An exchange outlives its server.
  server.reset();
  exchange->begin_stream("text/plain", {});
  exchange->write("a");
  exchange->end_stream();
  EXPECT_TRUE(exchange->is_closed());
}

TEST(Server, LetsAnswersSayThatItStops) {
  Inbox inbox;
  const auto server = server_started({}, inbox.handler());
  TestSocket socket(server->port());
  socket.send("GET / HTTP/1.1\r\n" HOST "\r\n");
  const ExchangePtr exchange = inbox.next();
  exchange->begin_stream("text/plain", {});
  EXPECT_FALSE(server->drain(20ms));
  EXPECT_FALSE(exchange->is_closed());
  EXPECT_FALSE(TestSocket(server->port()).is_connected());
  exchange->write("it stops");
  exchange->end_stream();
  EXPECT_TRUE(server->drain(10s));
  const Answered answered = read_answer(socket);
  EXPECT_EQ(answered.body, "it stops");
  EXPECT_TRUE(answered.is_whole);
  server->stop(0ms);
  EXPECT_TRUE(server->drain(0ms));
}

TEST(Server, TakesNewLimits) {
  const auto server = server_started({.max_body_bytes = 10, .max_connections = 1});
  TestSocket first(server->port());
  first.send("POST / HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n01234567890");
  EXPECT_EQ(read_answer(first).status, 413U);
  server->set_limits(20, 3);  // the first connection may still be closing
  TestSocket second(server->port());
  TestSocket third(server->port());
  for (TestSocket* socket : {&second, &third}) {
    socket->send("POST / HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n01234567890");
    EXPECT_EQ(read_answer(*socket).status, 200U);
  }
  server->set_limits(10, 3);  // holds for open connections, too
  second.send("POST / HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n01234567890");
  EXPECT_EQ(read_answer(second).status, 413U);
}

// For the thread sanitizer: clients that leave, producers that write and a server that stops, all
// at once.
TEST(Server, SurvivesProducersAndClientsThatDoNotCare) {
  std::mutex mutex;
  std::vector<std::thread> producers;
  auto server =
      server_started({.threads = 2, .max_queued_bytes = 1 << 20}, [&](ExchangePtr exchange) {
        const std::lock_guard lock(mutex);
        producers.emplace_back([exchange = std::move(exchange)]() mutable {
          exchange->on_closed([weak = std::weak_ptr(exchange)] {
            if (const auto still = weak.lock()) still->write("late");
          });
          exchange->on_drained(100, [] {});
          exchange->begin_stream("text/plain", {});
          for (int i = 0; i < 300 && !exchange->is_closed(); ++i) exchange->write("0123456789");
          if (exchange->request().path == "/end") exchange->end_stream();
          exchange.reset();
        });
      });
  const std::uint16_t port = server->port();
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([client, port] {
      for (int i = 0; i < 25; ++i) {
        TestSocket socket(port);
        socket.send(client % 2 == 0 ? "GET /end HTTP/1.1\r\n" HOST "\r\n"
                                    : "GET /cut HTTP/1.1\r\n" HOST "\r\n");
        if (i % 3 == 0) continue;
        if (i % 3 == 1) {
          socket.receive(100);
          socket.reset();
        } else {
          read_answer(socket);
        }
      }
    });
  }
  std::this_thread::sleep_for(50ms);
  for (std::size_t i = 0; i < clients.size(); ++i) clients[i].join();
  server.reset();
  for (std::thread& producer : producers) producer.join();
  SUCCEED();
}

}  // namespace
}  // namespace tenon::http
