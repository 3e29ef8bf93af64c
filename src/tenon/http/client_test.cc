#include "tenon/http/client.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/http/certificate_for_test.h"
#include "tenon/http/fake_server_for_test.h"
#include "tenon/http/server.h"
#include "tenon/http/socket_for_test.h"

namespace tenon::http {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;
using ExchangePtr = std::shared_ptr<Exchange>;

void client_echo(const ExchangePtr& exchange) {
  const Request& request = exchange->request();
  exchange->respond({.status = request.path == "/missing" ? 404U : 200U,
                     .content_type = "text/plain",
                     .headers = {{"X-Peer", request.peer}},
                     .body = request.method + " " + request.target + "|" + request.body});
}

std::unique_ptr<Server> client_started(ServerOptions options,
                                       Server::Handler handler = client_echo) {
  options.port = 0;
  auto server = Server::start(std::move(options), std::move(handler));
  if (!server) throw std::runtime_error(server.error().message);
  return *std::move(server);
}

std::unique_ptr<Client> created(ClientOptions options = {}) {
  auto client = Client::create(std::move(options));
  if (!client) throw std::runtime_error(client.error().message);
  return *std::move(client);
}

std::string url_of(const Server& server, std::string_view target = "/") {
  return "http://127.0.0.1:" + std::to_string(server.port()) + std::string(target);
}

// ------------------------------------------------------------------------------------------ URLs

struct Parsing {
  std::string_view text;
  Url url;
};

TEST(ParseUrl, ReadsWhatCanBeCalled) {
  const Parsing parsings[] = {
      {"http://a", {false, "a", 80, "/"}},
      {"HTTPS://a.b-c/", {true, "a.b-c", 443, "/"}},
      {"http://127.0.0.1:8000/v1/x?y=z&%20", {false, "127.0.0.1", 8000, "/v1/x?y=z&%20"}},
      {"http://a?b", {false, "a", 80, "/?b"}},
      {"http://[::1]:65535/x", {false, "::1", 65535, "/x"}},
      {"https://[::1]", {true, "::1", 443, "/"}},
  };
  for (const Parsing& parsing : parsings) {
    const auto url = parse_url(parsing.text);
    ASSERT_TRUE(url) << parsing.text << ": " << url.error().message;
    EXPECT_TRUE(*url == parsing.url) << parsing.text;
  }
}

TEST(WithoutSecrets, CutsUserAndQuery) {
  struct Row {
    std::string_view url;
    std::string_view told;
  };
  constexpr Row kRows[] = {
      {"https://a.b/c", "https://a.b/c"},
      {"https://a.b/@c", "https://a.b/@c"},
      {"https://a.b/c?key=s3cret@x", "https://a.b/c"},
      {"https://u:s3cret@a.b/c?d", "https://a.b/c"},
      {"https://u:s3/c?r#e@t@a.b/c#d", "https://a.b/c"},
      {"ftp://u@a.b", "ftp://a.b"},
      {"u:s3cret@a.b", "a.b"},
      {"", ""},
  };
  for (const Row& row : kRows) EXPECT_EQ(without_secrets(row.url), row.told) << row.url;
}

TEST(ParseUrl, RefusesTheRest) {
  for (std::string_view text : {""sv,
                                "a"sv,
                                "/a"sv,
                                "ftp://a"sv,
                                "http:/a"sv,
                                "http://"sv,
                                "http:///x"sv,
                                "http://:80"sv,
                                "http://u@a/"sv,
                                "http://u:p@a/"sv,
                                "http://a:"sv,
                                "http://a:0"sv,
                                "http://a:65536"sv,
                                "http://a:-1"sv,
                                "http://a:8x"sv,
                                "http://a:080808"sv,
                                "http://a b/"sv,
                                "http://a/\r\nX: y"sv,
                                "http://a/\0"sv,
                                "http://a/#b"sv,
                                "http://[::1"sv,
                                "http://[x]/"sv,
                                "http://[::1]x/"sv,
                                "http://\xc3\xa9/"sv}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, Errc::invalid);
  }
}

// ------------------------------------------------------------------------------- whole answers

TEST(Client, FetchesWholeAnswers) {
  const auto server = client_started({});
  const auto client = created();
  auto answer = client->fetch({.url = url_of(*server, "/a?b=%20")});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200U);
  EXPECT_EQ(answer->content_type, "text/plain");
  EXPECT_EQ(answer->body, "GET /a?b=%20|");
  answer = client->fetch({.method = "POST", .url = url_of(*server, "/missing"), .body = "hi"});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 404U);
  EXPECT_EQ(answer->body, "POST /missing|hi");
  answer = client->fetch({.method = "HEAD", .url = url_of(*server)});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "");
}

TEST(Client, SendsHeadersAndLargeBodies) {
  const auto server = client_started({}, [](const ExchangePtr& exchange) {
    exchange->respond({.body = std::string(exchange->request().header("Authorization")) + " " +
                               std::string(exchange->request().header("Host")) + " " +
                               std::to_string(exchange->request().body.size())});
  });
  const auto client = created();
  const auto answer = client->fetch({.method = "POST",
                                     .url = url_of(*server),
                                     .headers = {{"Authorization", "Bearer x"}},
                                     .body = std::string(5'000'000, 'x')});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "Bearer x 127.0.0.1:" + std::to_string(server->port()) + " 5000000");
}

TEST(Client, KeepsItsConnection) {
  const auto server = client_started({});
  const auto client = created();
  std::set<std::string> peers;
  for (int i = 0; i < 20; ++i) {
    const auto answer = client->fetch({.url = url_of(*server)});
    ASSERT_TRUE(answer) << answer.error().message;
    peers.insert(std::string(find_header(answer->headers, "x-peer")));
  }
  EXPECT_EQ(peers.size(), 1U);
}

TEST(Client, LeavesAConnectionThatTheServerHasClosed) {
  const auto server = client_started({.idle_timeout = 20ms});
  const auto client = created();
  for (int i = 0; i < 3; ++i) {
    const auto answer = client->fetch({.url = url_of(*server)});
    ASSERT_TRUE(answer) << answer.error().message;
    std::this_thread::sleep_for(60ms);
  }
}

TEST(Client, SendsOnceMoreWhatAKeptConnectionWasTooOldFor) {
  std::atomic<int> requests = 0;
  FakeServer server([&](int connection, int) {
    if (read_head(connection)) {
      ++requests;
      say(connection, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    }
    // Reads the second request, then closes the connection without an answer.
    if (read_head(connection)) ++requests;
  });
  const auto client = created();
  for (int i = 0; i < 2; ++i) {
    const auto answer = client->fetch({.url = server.url()});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "a");
  }
  EXPECT_EQ(requests, 3);
}

TEST(Client, ReadsAnAnswerThatComesBeforeTheRequestIsSent) {
  const auto server = client_started({.max_body_bytes = 1'000});
  const auto client = created();
  const auto answer = client->fetch(
      {.method = "POST", .url = url_of(*server), .body = std::string(20'000'000, 'x')});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 413U);
}

TEST(Client, ServesManyThreads) {
  const auto server = client_started({.threads = 2});
  const auto client = created({.threads = 2, .max_idle_connections = 2});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        const std::string target = "/" + std::to_string(thread) + "/" + std::to_string(i);
        const auto answer = client->fetch({.url = url_of(*server, target)});
        if (answer && answer->body == "GET " + target + "|") ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

// -------------------------------------------------------------------------------------- failures

struct Failing {
  std::string_view name;
  std::string_view answer;  // the server sends this and closes
  Errc code;
  std::string_view message;
};

void PrintTo(const Failing& failing, std::ostream* os) {
  *os << failing.name;
}

const Failing kFailings[] = {
    {"Nothing", "", Errc::unavailable, "the answer was cut off"},
    {"HalfAHead", "HTTP/1.1 200 OK\r\n", Errc::unavailable, "the answer was cut off"},
    {"HalfABody", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", Errc::unavailable,
     "the answer was cut off"},
    {"HalfAChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi",
     Errc::unavailable, "the answer was cut off"},
    {"NotHttp", "SSH-2.0-OpenSSH\r\n\r\n", Errc::unavailable, "The status line is malformed"},
    {"Binary", "\x15\x03\x01", Errc::unavailable, "the answer is refused"},
    {"LengthAndChunks",
     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
     Errc::unavailable, "Content-Length"},
    {"BodyTooLarge", "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", Errc::limit_exceeded,
     "The body is too large"},
};

class ClientFails : public ::testing::TestWithParam<Failing> {};

TEST_P(ClientFails, AtAnAnswerThatIsNone) {
  std::atomic<int> requests = 0;
  FakeServer server([&](int connection, int) {
    ++requests;
    if (read_head(connection)) say(connection, GetParam().answer);
  });
  const auto client = created();
  const auto answer = client->fetch({.url = server.url(), .max_body_bytes = 1'000});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, GetParam().code);
  EXPECT_THAT(answer.error().message, HasSubstr(std::string(GetParam().message)));
  EXPECT_THAT(answer.error().message, StartsWith(server.url().substr(0, server.url().size() - 1)));
  EXPECT_EQ(requests, 1);
}

INSTANTIATE_TEST_SUITE_P(Answers, ClientFails, ::testing::ValuesIn(kFailings),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Client, SaysWhyItCannotConnect) {
  std::uint16_t port = 0;
  {
    const auto server = client_started({});
    port = server->port();
  }
  const auto client = created();
  auto answer = client->fetch({.url = "http://127.0.0.1:" + std::to_string(port)});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("cannot connect: Connection refused"));
  answer = client->fetch({.url = "http://no.such.host.invalid/"});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("cannot find the host"));
}

TEST(Client, RefusesRequestsThatCannotBeSent) {
  const auto client = created();
  const ClientRequest requests[] = {
      {.url = "nonsense"},
      {.method = "G T", .url = "http://127.0.0.1:1"},
      {.url = "http://127.0.0.1:1", .headers = {{"A", "b\r\nC: d"}}},
      {.url = "http://127.0.0.1:1", .headers = {{"A b", "c"}}},
      {.url = "http://127.0.0.1:1", .headers = {{"content-length", "1"}}},
      {.url = "http://127.0.0.1:1", .headers = {{"Host", "b"}}},
  };
  for (const ClientRequest& request : requests) {
    const auto call = client->send(request, {});
    ASSERT_FALSE(call);
    EXPECT_EQ(call.error().code, Errc::invalid);
  }
}

TEST(Client, GivesUpInTime) {
  // Sends a byte now and then, for ever.
  std::atomic<bool> is_over = false;
  FakeServer server([&](int connection, int) {
    if (!read_head(connection)) return;
    say(connection, "HTTP/1.1 200 OK\r\n\r\n");
    for (int i = 0; i < 200 && !is_over; ++i) {
      say(connection, "x");
      std::this_thread::sleep_for(10ms);
    }
  });
  const auto client = created();
  const auto start = Clock::now();
  auto answer = client->fetch({.url = server.url(), .time_limit = 150ms});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("no whole answer within the time limit"));
  EXPECT_GE(Clock::now() - start, 150ms);
  is_over = true;

  FakeServer silent([](int connection, int) {
    // A second call is never answered: it waits for the end of the connection.
    while (read_head(connection)) {
    }
  });
  answer = client->fetch({.url = silent.url(), .silence_limit = 100ms});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("waiting for the answer"));
}

struct FirstByte {
  std::string_view name;
  std::vector<std::string_view> said;  // sent 60 ms apart, the first at once
  std::chrono::milliseconds limit;
  bool arrives;
};

// The limit holds until the first byte of the body, and not after it.
TEST(Client, WaitsForAFirstByteAsLongAsItMay) {
  constexpr std::string_view kHead = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
  const FirstByte rows[] = {
      {"NoLimit", {kHead, "", "", "abc"}, 0ms, true},
      {"InTime", {kHead, "abc"}, 5000ms, true},
      {"TooLate", {kHead, "", "", "", "", "abc"}, 100ms, false},
      {"AHeadIsNoByteOfIt", {"", kHead, "", "", "", "abc"}, 100ms, false},
      {"NoHead", {"", "", "", "", kHead, "abc"}, 100ms, false},
      {"SlowBehindIt",
       {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na", "", "", "", "", "bc"},
       100ms,
       true},
  };
  for (const FirstByte& row : rows) {
    SCOPED_TRACE(row.name);
    FakeServer server([&row](int connection, int) {
      if (!read_head(connection)) return;
      for (const std::string_view piece : row.said) {
        if (!piece.empty()) say(connection, std::string(piece));
        std::this_thread::sleep_for(60ms);
      }
    });
    const auto answer = created()->fetch({.url = server.url(), .first_byte_limit = row.limit});
    EXPECT_EQ(answer.has_value(), row.arrives) << (answer ? "" : answer.error().message);
    EXPECT_EQ(answer ? answer->body : "abc", "abc");
  }
}

// ------------------------------------------------------------------------------------- streaming

// Collects one answer from its handlers.
struct Collected {
  std::mutex mutex;
  std::string body;
  std::promise<void> begun;
  std::promise<Status> end;
  bool has_begun = false;

  ResponseHandlers handlers() {
    return {.on_head = {},
            .on_body =
                [this](std::string_view bytes) {
                  const std::lock_guard lock(mutex);
                  body += bytes;
                  if (!std::exchange(has_begun, true)) begun.set_value();
                },
            .on_end = [this](Status status) { end.set_value(std::move(status)); }};
  }
  std::size_t size() {
    const std::lock_guard lock(mutex);
    return body.size();
  }
};

// A server whose answers never end; it tells when the client has gone.
class EndlessServer {
 public:
  EndlessServer()
      : server_(client_started({}, [this](const ExchangePtr& exchange) {
          exchange->on_closed([this] { gone_.set_value(); });
          exchange->begin_stream("text/event-stream", {});
          exchange->write("data: 1\n\n");
          exchange_ = exchange;
        })) {}
  ~EndlessServer() { server_.reset(); }
  EndlessServer(const EndlessServer&) = delete;
  EndlessServer& operator=(const EndlessServer&) = delete;
  std::string url() const { return url_of(*server_); }
  std::future<void> gone() { return gone_.get_future(); }

 private:
  std::promise<void> gone_;
  ExchangePtr exchange_;
  std::unique_ptr<Server> server_;
};

TEST(Client, GetsAStreamPieceByPiece) {
  std::promise<ExchangePtr> arrived;
  const auto server =
      client_started({}, [&](const ExchangePtr& exchange) { arrived.set_value(exchange); });
  const auto client = created();
  Collected collected;
  const auto call = client->send({.url = url_of(*server)}, collected.handlers());
  ASSERT_TRUE(call) << call.error().message;
  const ExchangePtr exchange = arrived.get_future().get();
  exchange->begin_stream("text/event-stream", {});
  exchange->write("one ");
  collected.begun.get_future().get();  // before the rest has been written
  for (int i = 0; i < 1'000; ++i) exchange->write("x");
  exchange->end_stream();
  const Status end = collected.end.get_future().get();
  EXPECT_TRUE(end) << end.error().message;
  EXPECT_EQ(collected.body, "one " + std::string(1'000, 'x'));
}

struct Enough {
  std::string_view name;
  Wanted wanted;
  std::string_view rest;  // sent 50 ms later; "": 'x' for ever
  std::chrono::milliseconds most;
  std::chrono::milliseconds least = 0ms;
  int connections = 2;  // for two requests
};

TEST(Client, EndsWhereNoMoreIsWanted) {
  const Enough rows[] = {
      {"Nothing", Wanted::nothing, "", 500ms},
      {"TheEnd", Wanted::end, "0\r\n\r\n", 500ms, 50ms, 1},
      {"TheEndBehindMore", Wanted::end, "1\r\ny\r\n0\r\n\r\n", 500ms, 50ms, 1},
      {"TheEndDoesNotCome", Wanted::end, "", 1000ms, 150ms},
  };
  for (const Enough& row : rows) {
    SCOPED_TRACE(row.name);
    std::atomic<int> connections = 0;
    FakeServer server([&](int connection, int) {
      ++connections;
      while (read_head(connection)) {
        say(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
        std::this_thread::sleep_for(50ms);
        if (!row.rest.empty()) say(connection, row.rest);
        while (row.rest.empty() && say(connection, "1\r\nx\r\n")) {
          std::this_thread::sleep_for(5ms);
        }
      }
    });
    const auto client = created();
    for (int i = 0; i < 2; ++i) {
      Collected collected;
      ResponseHandlers handlers = collected.handlers();
      handlers.wanted = [&row] { return row.wanted; };
      const auto begun = Clock::now();
      const auto call = client->send({.url = server.url()}, std::move(handlers));
      ASSERT_TRUE(call);
      const Status end = collected.end.get_future().get();
      EXPECT_TRUE(end) << end.error().message;
      EXPECT_LT(Clock::now() - begun, row.most);
      EXPECT_GE(Clock::now() - begun, row.least);
    }
    EXPECT_EQ(connections, row.connections);
  }
}

TEST(Client, CancelsAStream) {
  for (const bool by_destroying : {false, true}) {
    EndlessServer server;
    auto gone = server.gone();
    const auto client = created();
    Collected collected;
    auto call = client->send({.url = server.url()}, collected.handlers());
    ASSERT_TRUE(call) << call.error().message;
    collected.begun.get_future().get();
    if (by_destroying) {
      call->reset();
    } else {
      (*call)->cancel();
    }
    const Status end = collected.end.get_future().get();
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().message, "the request was cancelled");
    EXPECT_EQ(gone.wait_for(5s), std::future_status::ready);
    if (!by_destroying) (*call)->cancel();  // a second cancel does nothing
  }
}

TEST(Client, CancelsAtAnyMoment) {
  const auto server = client_started({});
  const auto client = created();
  for (int i = 0; i < 200; ++i) {
    Collected collected;
    auto call = client->send({.url = url_of(*server)}, collected.handlers());
    ASSERT_TRUE(call) << call.error().message;
    if (i % 4 != 0) std::this_thread::sleep_for(i * 2us);
    (*call)->cancel();
    const Status end = collected.end.get_future().get();
    EXPECT_EQ(collected.body == "GET /|", collected.body.size() > 0);
    EXPECT_TRUE(!end || collected.body == "GET /|");
  }
}

TEST(Client, CancelsFromAHandler) {
  EndlessServer server;
  const auto client = created();
  std::promise<Status> end;
  std::promise<std::shared_ptr<Call>> handle;
  auto handed = handle.get_future().share();
  auto call = client->send({.url = server.url()},
                           {.on_body = [&](std::string_view) { handed.get()->cancel(); },
                            .on_end = [&](Status status) { end.set_value(std::move(status)); }});
  ASSERT_TRUE(call) << call.error().message;
  handle.set_value(*std::move(call));
  EXPECT_FALSE(end.get_future().get());
}

TEST(Client, SlowsTheServerDownWhilePaused) {
  std::promise<ExchangePtr> arrived;
  const auto server =
      client_started({}, [&](const ExchangePtr& exchange) { arrived.set_value(exchange); });
  const auto client = created();
  Collected collected;
  auto call = client->send({.url = url_of(*server), .silence_limit = 200ms}, collected.handlers());
  ASSERT_TRUE(call) << call.error().message;
  const ExchangePtr exchange = arrived.get_future().get();
  (*call)->pause();
  exchange->begin_stream("text/plain", {});
  exchange->write(std::string(32 << 20, 'x'));
  std::this_thread::sleep_for(400ms);  // longer than the silence limit, which a pause suspends
  const std::size_t before = collected.size();
  EXPECT_LT(before, std::size_t{1} << 20);
  EXPECT_GT(exchange->queued_bytes(), std::size_t{1} << 20);
  (*call)->resume();
  exchange->end_stream();
  const Status end = collected.end.get_future().get();
  EXPECT_TRUE(end) << end.error().message;
  EXPECT_EQ(collected.body.size(), std::size_t{32} << 20);
}

TEST(Client, EndsWhatIsUnderWayWhenItGoes) {
  EndlessServer server;
  auto gone = server.gone();
  auto client = created();
  Collected collected;
  auto call = client->send({.url = server.url()}, collected.handlers());
  ASSERT_TRUE(call) << call.error().message;
  collected.begun.get_future().get();
  client.reset();
  const Status end = collected.end.get_future().get();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().message, "the client is being closed");
  EXPECT_EQ(gone.wait_for(5s), std::future_status::ready);
  (*call)->cancel();  // a handle outlives its client
}

TEST(Client, SurvivesHandlersThatThrow) {
  const auto server = client_started({});
  const auto client = created();
  std::promise<Status> end;
  const auto call = client->send(
      {.url = url_of(*server)},
      {.on_head = [](unsigned,
                     const std::vector<Header>&) { throw std::runtime_error("no head for this"); },
       .on_end =
           [&](Status status) {
             end.set_value(std::move(status));
             throw std::runtime_error("nor for the end");
           }});
  ASSERT_TRUE(call) << call.error().message;
  const Status ended = end.get_future().get();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("no head for this"));
  EXPECT_TRUE(client->fetch({.url = url_of(*server)}));
}

// ------------------------------------------------------------------------------------------- TLS

std::string https_url_of(const Server& server, std::string_view host) {
  return "https://" + std::string(host) + ":" + std::to_string(server.port()) + "/";
}

TEST(Tls, IsSpokenByBoth) {
  const TestCertificate certificate("localhost");
  const auto server = client_started({.tls_certificate_file = certificate.certificate_file(),
                                      .tls_key_file = certificate.key_file()},
                                     [](const ExchangePtr& exchange) {
                                       if (exchange->request().path == "/echo")
                                         return client_echo(exchange);
                                       exchange->begin_stream("text/plain", {});
                                       for (int i = 0; i < 10'000; ++i)
                                         exchange->write("0123456789");
                                       exchange->end_stream();
                                     });
  const auto client = created({.ca_file = certificate.certificate_file()});
  std::set<std::string> peers;
  for (int i = 0; i < 3; ++i) {
    auto answer = client->fetch({.url = https_url_of(*server, "localhost")});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body.size(), 100'000U);
    answer = client->fetch({.method = "POST",
                            .url = https_url_of(*server, "localhost") + "echo",
                            .body = std::string(1'000'000, 'x')});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->body, "POST /echo|" + std::string(1'000'000, 'x'));
    peers.insert(std::string(find_header(answer->headers, "x-peer")));
  }
  EXPECT_EQ(peers.size(), 1U);
}

TEST(Tls, NoticesClientsThatLeave) {
  const TestCertificate certificate("localhost");
  std::promise<void> closed;
  ExchangePtr kept;
  const auto server = client_started({.tls_certificate_file = certificate.certificate_file(),
                                      .tls_key_file = certificate.key_file()},
                                     [&](const ExchangePtr& exchange) {
                                       exchange->on_closed([&] { closed.set_value(); });
                                       exchange->begin_stream("text/plain", {});
                                       exchange->write("a");
                                       kept = exchange;
                                     });
  const auto client = created({.ca_file = certificate.certificate_file()});
  Collected collected;
  auto call = client->send({.url = https_url_of(*server, "localhost")}, collected.handlers());
  ASSERT_TRUE(call) << call.error().message;
  collected.begun.get_future().get();
  (*call)->cancel();
  EXPECT_EQ(closed.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_FALSE(collected.end.get_future().get());
}

TEST(Tls, TrustsOnlyWhatItIsToldTo) {
  const TestCertificate certificate("localhost");
  const TestCertificate other("example.org");
  const auto server = client_started({.tls_certificate_file = certificate.certificate_file(),
                                      .tls_key_file = certificate.key_file()});
  // The certificate is not signed by a known authority.
  auto answer = created()->fetch({.url = https_url_of(*server, "localhost")});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("the certificate is not trusted: self-signed"));
  // It is signed by a known authority, but for another name.
  answer = created({.ca_file = certificate.certificate_file()})
               ->fetch({.url = https_url_of(*server, "127.0.0.1")});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("is not trusted: IP address mismatch"));
  const auto stranger = client_started(
      {.tls_certificate_file = other.certificate_file(), .tls_key_file = other.key_file()});
  answer = created({.ca_file = other.certificate_file()})
               ->fetch({.url = https_url_of(*stranger, "localhost")});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("is not trusted: hostname mismatch"));
  // Only another authority is known.
  answer = created({.ca_file = other.certificate_file()})
               ->fetch({.url = https_url_of(*server, "localhost")});
  EXPECT_FALSE(answer);
  // The client was told not to verify.
  answer =
      created({.verifies_certificates = false})->fetch({.url = https_url_of(*server, "127.0.0.1")});
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST(Tls, IsToldFromPlainHttp) {
  const TestCertificate certificate("localhost");
  const auto secure = client_started({.tls_certificate_file = certificate.certificate_file(),
                                      .tls_key_file = certificate.key_file()});
  const auto plain = client_started({});
  const auto client = created();
  const auto told = client->fetch({.url = url_of(*secure)});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->status, 400);
  EXPECT_THAT(told->body, HasSubstr("https://"));
  const auto answer = client->fetch({.url = https_url_of(*plain, "127.0.0.1")});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("cannot agree on TLS"));
  EXPECT_TRUE(client->fetch({.url = url_of(*plain)}));
}

// Connections that are open keep the certificate that they began with; bad files change nothing.
TEST(Tls, TakesNewCertificatesForNewConnections) {
  const TestCertificate before("localhost");
  const TestCertificate after("localhost");
  ExchangePtr kept;
  std::promise<void> came;
  const auto server = client_started(
      {.tls_certificate_file = before.certificate_file(), .tls_key_file = before.key_file()},
      [&](const ExchangePtr& exchange) {
        if (exchange->request().path != "/stream") return client_echo(exchange);
        exchange->begin_stream("text/plain", {});
        exchange->write("be");
        kept = exchange;
        came.set_value();
      });
  const std::string url = https_url_of(*server, "localhost");
  const auto knows_before = created({.ca_file = before.certificate_file()});
  const auto knows_after = created({.ca_file = after.certificate_file()});
  Collected collected;
  const auto call = knows_before->send({.url = url + "stream"}, collected.handlers());
  ASSERT_TRUE(call) << call.error().message;
  came.get_future().get();

  const Status refused = server->load_tls(after.certificate_file(), before.key_file());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("key file '"));
  EXPECT_TRUE(created({.ca_file = before.certificate_file()})->fetch({.url = url}));

  ASSERT_TRUE(server->load_tls(after.certificate_file(), after.key_file()));
  EXPECT_FALSE(created({.ca_file = before.certificate_file()})->fetch({.url = url}));
  const auto answer = knows_after->fetch({.url = url});
  EXPECT_TRUE(answer) << answer.error().message;
  kept->write("gun");
  kept->end_stream();
  EXPECT_TRUE(collected.end.get_future().get());
  EXPECT_EQ(collected.body, "begun");
  EXPECT_EQ(client_started({})->load_tls(after.certificate_file(), after.key_file()).error().code,
            Errc::unsupported);
}

TEST(Tls, StreamsEndWithinTheGrace) {
  const TestCertificate certificate("localhost");
  std::promise<ExchangePtr> came;
  const auto server = client_started({.tls_certificate_file = certificate.certificate_file(),
                                      .tls_key_file = certificate.key_file()},
                                     [&](const ExchangePtr& exchange) {
                                       exchange->begin_stream("text/plain", {});
                                       came.set_value(exchange);
                                     });
  const auto client = created({.ca_file = certificate.certificate_file()});
  Collected collected;
  const auto call = client->send({.url = https_url_of(*server, "localhost")}, collected.handlers());
  const ExchangePtr exchange = came.get_future().get();
  EXPECT_FALSE(server->drain(50ms));
  exchange->write("last words");
  exchange->end_stream();
  server->stop(10s);
  EXPECT_TRUE(collected.end.get_future().get());
  EXPECT_EQ(collected.body, "last words");
}

TEST(Tls, NamesTheFileThatIsWrong) {
  const TestCertificate certificate("localhost");
  const TestCertificate other("localhost");
  struct {
    std::string certificate_file;
    std::string key_file;
    std::string message;
  } const cases[] = {
      {certificate.certificate_file(), "", "both"},
      {"", certificate.key_file(), "both"},
      {"/nonexistent.crt", certificate.key_file(), "'/nonexistent.crt': No such file"},
      {certificate.key_file(), certificate.key_file(), "certificate file '"},
      {certificate.certificate_file(), "/nonexistent.key", "'/nonexistent.key': No such file"},
      {certificate.certificate_file(), certificate.certificate_file(), "key file '"},
      {certificate.certificate_file(), other.key_file(), "key file '"},
  };
  for (const auto& test : cases) {
    const auto server = Server::start(
        {.port = 0, .tls_certificate_file = test.certificate_file, .tls_key_file = test.key_file},
        client_echo);
    ASSERT_FALSE(server) << test.message;
    EXPECT_EQ(server.error().code, Errc::invalid);
    EXPECT_THAT(server.error().message, HasSubstr(test.message));
  }
  const auto client = Client::create({.ca_file = "/nonexistent.crt"});
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message, HasSubstr("/nonexistent.crt"));
}

}  // namespace
}  // namespace tenon::http
