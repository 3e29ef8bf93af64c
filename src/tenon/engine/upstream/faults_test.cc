// What upstreams may do wrong: their answers are cut at every byte, silent, endless, too large, or
// something else altogether.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/recording_sink.h"
#include "tenon/engine/upstream/chat_server.h"
#include "tenon/engine/upstream/kept_answer.h"
#include "tenon/engine/upstream/llama_server.h"
#include "tenon/engine/upstream/ollama.h"
#include "tenon/engine/upstream/token_server.h"
#include "tenon/http/fake_server_for_test.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

using message::FinishReason;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Connected = Expected<std::unique_ptr<Engine>>;

/// The bytes around an event.
struct Framing {
  std::string_view begin;
  std::string_view end;  // its last two bytes occur nowhere else
};

constexpr Framing kSse{"data: ", "\n\n"};
constexpr Framing kLines{"", "}\n"};  // the brace belongs to the event

std::string chunked(const std::vector<std::string>& events, const Framing& framing = kSse) {
  std::string out;
  for (const std::string& event : events) {
    const bool is_line = framing.begin.empty();
    const std::string line = std::string(framing.begin) + event + (is_line ? "\n" : "\n\n");
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", line.size());
    out += size + line + "\r\n";
  }
  return out;
}

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
constexpr std::string_view kLast = "0\r\n\r\n";

/// A kind of server: its answers to the questions at the start, and a recorded answer.
struct Dialect {
  std::string_view name;
  Connected (*connect)(const std::string& url, std::chrono::milliseconds silence);
  std::vector<std::string> events;  // "Hel", "lo", the end, and what comes after it
  Framing framing = kSse;
};

std::shared_ptr<const vocab::Tokenizer> call_tokenizer() {
  return std::make_shared<vocab::ByteTokenizer>(std::vector<std::string>{"<call>", "<end>"},
                                                vocab::ByteTokenizer::Roles{.eos = "<end>"});
}

template <TokenDialect dialect>
Connected connect_by_ids(const std::string& url, std::chrono::milliseconds silence) {
  return connect_token_server({.url = url, .silence_limit = silence},
                              {.dialect = dialect, .tokenizer = call_tokenizer()});
}

const Dialect kDialects[] = {
    {"llama-server",
     [](const std::string& url, std::chrono::milliseconds silence) {
       return connect_llama_server({.url = url, .silence_limit = silence});
     },
     {R"({"index":0,"content":"Hel","tokens":[7],"stop":false,"id_slot":-1,"tokens_predicted":1})",
      R"({"index":0,"content":"lo","tokens":[8],"stop":false,"id_slot":-1,"tokens_predicted":2})",
      R"({"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"stop_type":"eos",)"
      R"("tokens_predicted":3,"timings":{"cache_n":0}})"}},
    {"vllm",
     connect_by_ids<TokenDialect::vllm>,
     {R"({"id":"a","choices":[{"index":0,"text":"Hel","token_ids":[72,101,108],"finish_reason":null}]})",
      R"({"id":"a","choices":[{"index":0,"text":"lo","token_ids":[108,111],"finish_reason":null}]})",
      R"({"id":"a","choices":[{"index":0,"text":"","token_ids":[257],"finish_reason":"stop"}]})",
      R"({"id":"a","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":6}})", "[DONE]"}},
    {"sglang",
     connect_by_ids<TokenDialect::sglang>,
     {R"({"text":"Hel","output_ids":[72,101,108],"meta_info":{"completion_tokens":3,"finish_reason":null}})",
      R"({"text":"Hello","output_ids":[108,111],"meta_info":{"completion_tokens":5,"finish_reason":null}})",
      R"({"text":"Hello","output_ids":[257],"meta_info":{"completion_tokens":6,)"
      R"("finish_reason":{"type":"stop","matched":257}}})",
      "[DONE]"}},
    {"ollama",
     [](const std::string& url, std::chrono::milliseconds silence) {
       return connect_ollama({.url = url, .silence_limit = silence},
                             {.model = "m", .tokenizer = call_tokenizer()});
     },
     {R"({"model":"m","response":"Hel","done":false})",
      R"({"model":"m","response":"lo","done":false})",
      R"({"model":"m","response":"","done":true,"done_reason":"stop","eval_count":3})"},
     kLines},
    {"openai",
     [](const std::string& url, std::chrono::milliseconds silence) {
       return connect_chat_server({.url = url, .silence_limit = silence});
     },
     {R"({"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]})",
      R"({"id":"a","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]})",
      R"({"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})",
      R"({"id":"a","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}})", "[DONE]"}},
};

// A request that each of them accepts.
GenerateRequest request(std::chrono::milliseconds time_limit = {}) {
  auto chat = std::make_shared<message::ChatRequest>();
  chat->messages.push_back({.content = "Hi"});
  return {.prompt = {1},
          .text = "Hi",
          .chat = std::move(chat),
          .is_watched = true,
          .time_limit = time_limit};
}

/// Keeps what the upstream sends, and passes on the rest.
class Keeping final : public EventSink {
 public:
  explicit Keeping(std::shared_ptr<RecordingSink> sink) : sink_(std::move(sink)) {}
  void on_token(const Token& token) override { sink_->on_token(token); }
  void on_upstream(const message::UpstreamPart& part) override {
    if (const auto* head = std::get_if<message::UpstreamHead>(&part)) {
      kept_ = {.status = head->status,
               .type = std::string(head->type),
               .coding = std::string(head->coding),
               .retry_after_s = head->retry_after_s,
               .asked_bytes = head->asked_bytes};
    } else if (const auto* body = std::get_if<std::string_view>(&part)) {
      kept_.body.emplace_back(*body);
    } else if (const Error* error = std::get<message::UpstreamEnd>(part).error) {
      kept_.broken = *error;
    }
  }
  void on_end(const RunEnd& end) override {
    kept_.was_cancelled = end.reason == FinishReason::cancelled;
    sink_->on_end(end);
  }
  /// Call it when the run has ended.
  [[nodiscard]] const KeptAnswer& kept() const { return kept_; }

 private:
  const std::shared_ptr<RecordingSink> sink_;
  KeptAnswer kept_;  // used by the engine's thread until the end
};

// The answer is the same when the bytes that were kept of it are read again.
void expect_the_same_again(std::string_view kind, const std::string& url, const KeptAnswer& kept,
                           const RecordingSink& sink) {
  if (kept.status == 0) return;  // there was no answer
  KeptAnswer answer = kept;
  answer.url = url;
  auto again = std::make_shared<RecordingSink>();
  const std::atomic<bool> is_cancelled = false;
  const Status read =
      read_kept_answer(kind, answer, request(), *call_tokenizer(), is_cancelled, again);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(again->ids(), sink.ids());
  EXPECT_EQ(again->text(), sink.text());
  ASSERT_TRUE(again->end());
  EXPECT_EQ(again->end()->reason, sink.end()->reason);
  EXPECT_EQ(again->end()->usage, sink.end()->usage);
  // The bytes do not tell for how long nothing of the answer came.
  if (sink.end()->error.message.find("for too long") != std::string::npos) return;
  EXPECT_EQ(again->end()->error, sink.end()->error);
}

std::string recorded(const Dialect& dialect) {
  return std::string(kHead) + chunked(dialect.events, dialect.framing) + std::string(kLast);
}

// The answers to all questions at the start, in one document.
std::string question(std::string_view path) {
  std::string body =
      R"({"default_generation_settings":{"n_ctx":512},"total_slots":3,"bos_token":"","eos_token":"",)"
      R"("version":"0","model_info":{"general.architecture":"a","a.context_length":512},)"
      R"("data":[{"id":"m","max_model_len":512,"meta":{"n_vocab":2}}]})";
  if (path == "/tokenize") {
    body = R"({"tokens":[{"id":0,"piece":"a"},{"id":1,"piece":"b"}]})";
  }
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// Answers the questions, and generations as `misbehave` says.
class Upstream {
 public:
  using Misbehave = std::function<void(int connection)>;
  explicit Upstream(Misbehave misbehave)
      : misbehave_(std::move(misbehave)), server_([this](int connection, int) {
          const std::string request = http::read_request(connection);
          if (!request.empty()) {
            EXPECT_NE(request.find("accept-encoding: identity\r\n"), std::string::npos);
          }
          const auto begin = request.find(' ') + 1;
          const std::string path = request.substr(begin, request.find(' ', begin) - begin);
          const bool is_generation = path == "/completion" || path == "/v1/completions" ||
                                     path == "/generate" || path == "/api/generate" ||
                                     path == "/v1/chat/completions";
          if (is_generation) {
            misbehave_(connection);
          } else if (!request.empty()) {
            http::say(connection, question(path));
          }
        }) {}

  std::string url() const {
    const std::string url = server_.url();
    return url.substr(0, url.size() - 1);
  }

 private:
  const Misbehave misbehave_;
  http::FakeServer server_;
};

TEST(Faults, AnswersAreCutAtEveryByte) {
  for (const Dialect& dialect : kDialects) {
    SCOPED_TRACE(dialect.name);
    const std::string whole = recorded(dialect);
    std::atomic<std::size_t> cut = 0;
    const Upstream upstream(
        [&](int connection) { http::say(connection, std::string_view(whole).substr(0, cut)); });
    const auto engine = dialect.connect(upstream.url(), 120s);
    ASSERT_TRUE(engine) << engine.error().message;
    // Every token that came whole is passed on, and no other.
    const std::string_view texts[] = {"", "Hel", "Hello"};
    std::size_t events = 0;
    for (std::size_t at = 0; at <= whole.size(); ++at) {
      SCOPED_TRACE(at);
      cut = at;
      if (std::string_view(whole).substr(0, at).ends_with(dialect.framing.end)) ++events;
      auto sink = std::make_shared<RecordingSink>();
      auto keeping = std::make_shared<Keeping>(sink);
      const auto run = (*engine)->start(request(), keeping);
      ASSERT_TRUE(run) << run.error().message;
      ASSERT_TRUE(sink->wait_end(10s));
      const RunEnd end = *sink->end();
      expect_the_same_again(dialect.name, upstream.url(), keeping->kept(), *sink);
      EXPECT_EQ(sink->calls_after_end(), 0U);
      EXPECT_EQ(sink->text(), texts[std::min<std::size_t>(events, 2)]);
      ASSERT_EQ(end.reason, events < 3 ? FinishReason::error : FinishReason::stop);
      if (end.reason == FinishReason::stop) continue;
      EXPECT_EQ(end.error.code, Errc::unavailable);
      EXPECT_FALSE(end.error.message.empty());
    }
    EXPECT_EQ(events, dialect.events.size());
  }
}

struct Fault {
  std::string_view name;
  Upstream::Misbehave misbehave;
  std::string_view error;  // "": the answer is whole
  Errc code = Errc::unavailable;
  std::chrono::milliseconds most = 700ms;  // until the run has ended
  FinishReason reason = FinishReason::error;
  std::chrono::milliseconds time_limit{0};
};

std::string of(std::string_view head, std::string_view body = {}) {
  return "HTTP/1.1 " + std::string(head) + "\r\n\r\n" + std::string(body);
}

Upstream::Misbehave say_once(std::string bytes) {
  return [bytes = std::move(bytes)](int connection) { http::say(connection, bytes); };
}

// Sends `first`, then `again` until the other side is gone.
Upstream::Misbehave say_for_ever(std::string first, std::string again,
                                 std::chrono::milliseconds pause = 1ms) {
  return [=](int connection) {
    http::say(connection, first);
    while (http::say(connection, again)) std::this_thread::sleep_for(pause);
  };
}

// Sends `first` and then waits until the other side is gone.
Upstream::Misbehave say_and_hang(std::string first) {
  return [first = std::move(first)](int connection) {
    http::say(connection, first);
    static_cast<void>(http::read_head(connection));
  };
}

std::string document(const std::string& type, const std::string& body) {
  return of(
      "200 OK\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()),
      body);
}

std::string http_chunk(const std::string& bytes) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}

std::vector<Fault> faults(const Dialect& dialect) {
  const std::string whole = recorded(dialect);
  const std::string head(kHead);
  const std::string ok = "200 OK\r\nContent-Type: ";
  const std::string first = head + chunked({dialect.events[0]});
  std::vector<std::string> until_end = dialect.events;
  until_end.resize(3);
  return {
      {"Silent", say_and_hang(""), "nothing has happened"},
      {"SilentBehindTheHead", say_and_hang(head), "nothing has happened"},
      {"SilentBehindAToken", say_and_hang(first), "nothing has happened"},
      {"CommentsForEver", say_for_ever(first, http_chunk(": ping\n\n")), "", Errc::unavailable,
       700ms, FinishReason::cancelled, 200ms},
      {"AByteNowAndThen", say_for_ever(head, http_chunk("d"), 20ms), "", Errc::unavailable, 700ms,
       FinishReason::cancelled, 200ms},
      {"NothingButCommentsForEver", say_for_ever(first, http_chunk(": ping\n\n"), 20ms),
       "for too long", Errc::unavailable, 2500ms},
      {"GarbageForEver", say_for_ever(first, http_chunk("data: x\n\n")), "not JSON"},
      {"GarbageFirst", say_once(head + http_chunk("data: {\"a\"\n\n")), "not JSON"},
      {"BinaryForEver", say_for_ever("", std::string("\x00\xff\x16\x03", 4)), "refused"},
      {"NoNewlineForEver", say_for_ever(head, http_chunk(std::string(1 << 20, 'x')), 0ms), "event",
       Errc::unavailable, 5000ms},
      {"EventTooLarge", say_once(head + http_chunk("data: " + std::string(5 << 20, '1') + "\n\n")),
       "event", Errc::unavailable, 5000ms},
      {"HeadersForEver",
       say_for_ever("HTTP/1.1 200 OK\r\n", "X-Y: " + std::string(999, 'z') + "\r\n"), "refused",
       Errc::unavailable},
      {"DeepJson", say_once(head + chunked({std::string(100'000, '[')})), "not JSON"},
      {"DeepAndWhole",
       say_once(head + chunked({std::string(100'000, '[') + std::string(100'000, ']')})),
       "not JSON"},
      {"AnArray", say_once(head + chunked({"[1]"})), ""},
      {"ANumber", say_once(head + chunked({"1e999"})), ""},
      {"Compressed",
       say_once(of(ok + "text/event-stream\r\nContent-Encoding: gzip", "\x1f\x8b\x08")), "gzip"},
      {"ChunkSizeBroken", say_once(head + "zz\r\n"), "refused"},
      {"ChunkSizeHuge", say_once(head + "ffffffffffffffff0\r\n"), "refused"},
      {"ChunkEndBroken", say_once(head + "1\r\nxyz\r\n"), "refused"},
      {"APage", say_once(document("text/html", "<h1>Hello</h1>")), "'text/html'"},
      {"ErrorWithStatus200",
       say_once(document("application/json", R"({"error":{"message":"out of memory"}})")),
       "out of memory"},
      {"ErrorTextWithStatus200",
       say_once(document("application/json", R"({"error":"out of memory"})")), "out of memory"},
      {"RefusedAsEvent",
       say_once(head + chunked({R"({"error":{"code":400,"message":"no such grammar"}})"})),
       "no such grammar", Errc::invalid},
      {"RefusedWithStatus200",
       say_once(
           document("application/json", R"({"error":{"code":400,"message":"no such grammar"}})")),
       "no such grammar", Errc::invalid},
      {"ErrorAsEvent", say_once(head + chunked({R"({"error":{"message":"out of memory"}})"})),
       "out of memory"},
      {"NothingAtAll", say_once(of(ok + "text/event-stream\r\nContent-Length: 0")), "broke off"},
      {"NoContent", say_once(of("204 No Content")), "status 204"},
      {"Redirect", say_once(of("302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0")),
       "status 302"},
      {"Upgrade", say_once(of("101 Switching Protocols\r\nUpgrade: websocket")), ""},
      {"ErrorForEver", say_for_ever(of("500 Oops"), std::string(4096, 'x'), 0ms), "status 500"},
      {"WithoutItsType",
       [dialect](int connection) {
         std::string bytes = of("200 OK\r\nContent-Type: text/plain");
         for (const std::string& event : dialect.events) {
           bytes += "data: " + event + "\n: " + std::string(60'000, '.') + "\n\n";
         }
         http::say(connection, bytes);
       },
       "", Errc::unavailable, 700ms, FinishReason::stop},
      {"HangsBehindTheEnd", say_and_hang(head + chunked(until_end)), "", Errc::unavailable, 1500ms,
       FinishReason::stop},
      {"GoesOnBehindTheEnd",
       say_for_ever(head + chunked(until_end), http_chunk("data: {\"a\": 1}\n\n")), "",
       Errc::unavailable, 1500ms, FinishReason::stop},
      {"OneByteAtATime",
       [whole](int connection) {
         for (const char c : whole) http::say(connection, std::string_view(&c, 1));
       },
       "", Errc::unavailable, 5000ms, FinishReason::stop},
      {"UntilTheConnectionEnds",
       [dialect](int connection) {
         http::say(connection, of("200 OK\r\nContent-Type: text/event-stream"));
         for (const std::string& event : dialect.events) {
           http::say(connection, ":\r\n\r\ndata:" + event + "\r\n\r\n");
         }
       },
       "", Errc::unavailable, 700ms, FinishReason::stop},
  };
}

TEST(Faults, EndRunsInTimeAndSayWhy) {
  for (const Dialect& dialect : kDialects) {
    if (dialect.framing.begin.empty()) continue;  // the table's answers are event streams
    for (const Fault& fault : faults(dialect)) {
      SCOPED_TRACE(std::string(dialect.name) + " " + std::string(fault.name));
      const Upstream upstream(fault.misbehave);
      const auto engine = dialect.connect(upstream.url(), 300ms);
      ASSERT_TRUE(engine) << engine.error().message;
      auto sink = std::make_shared<RecordingSink>();
      const auto begun = Clock::now();
      auto keeping = std::make_shared<Keeping>(sink);
      const auto run = (*engine)->start(request(fault.time_limit), keeping);
      ASSERT_TRUE(run) << run.error().message;
      ASSERT_TRUE(sink->wait_end(20s));
      EXPECT_LT(Clock::now() - begun, fault.most);
      const RunEnd end = *sink->end();
      expect_the_same_again(dialect.name, upstream.url(), keeping->kept(), *sink);
      EXPECT_EQ(end.reason, fault.reason) << end.error.message;
      if (end.reason == FinishReason::stop) {
        EXPECT_EQ(sink->text(), "Hello");
        continue;
      }
      if (end.reason != FinishReason::error) continue;
      EXPECT_EQ(end.error.code, fault.code) << end.error.message;
      EXPECT_NE(end.error.message.find(fault.error), std::string::npos) << end.error.message;
    }
  }
}

// Questions are answered in the same bad ways, and the caller still goes on in time.
TEST(Faults, QuestionsEndInTimeToo) {
  const Upstream::Misbehave rows[] = {
      say_once(""),
      say_once(of("200 OK\r\nContent-Length: 2", "[]")),
      say_once(of("200 OK\r\nContent-Length: 2", "{}")),
      say_once(of("200 OK\r\nContent-Length: 1", "<")),
      say_once(of("200 OK", std::string(100'000, '['))),
      say_once(of("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1", "\x1f")),
      say_once(of("404 Not Found\r\nContent-Length: 0")),
      say_for_ever("HTTP/1.1 200 OK\r\n", "X-Y: " + std::string(999, 'z') + "\r\n"),
      say_for_ever(of("200 OK"), std::string(1 << 20, ' '), 0ms),
  };
  for (const auto& misbehave : rows) {
    for (const Dialect& dialect : kDialects) {
      const http::FakeServer server([&](int connection, int) {
        if (!http::read_request(connection).empty()) misbehave(connection);
      });
      const auto begun = Clock::now();
      const auto engine = dialect.connect(server.url(), 300ms);
      EXPECT_LT(Clock::now() - begun, 30s);  // an endless answer must not be read for ever
      ASSERT_FALSE(engine);
      EXPECT_EQ(engine.error().code, Errc::unavailable) << engine.error().message;
    }
  }
}

}  // namespace
}  // namespace tenon::engine
