// What the server costs beside the model: CPU per request with a tool call, and per streamed token,
// from the socket through templates, the parser and the encoder, with an engine that only plays
// bytes. The client's thread is not in the figures; the scripted engine's thread is.
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tenon/api/service.h"
#include "tenon/engine/scripted.h"

namespace tenon {
namespace {

constexpr std::string_view kTemplate =
    "{%- if tools %}<|im_start|>system\n<tools>\n{% for tool in tools %}{{ tool | tojson }}\n"
    "{% endfor %}</tools><tool_call><|im_end|>\n{% endif %}"
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"San Francisco\"}}\n"
    "</tool_call>";
constexpr std::string_view kBody =
    R"("messages":[{"role":"user","content":"What is the weather in San Francisco?"}],)"
    R"("tools":[{"type":"function","function":{"name":"get_weather","description":"The weather",)"
    R"("parameters":{"type":"object","properties":{"location":{"type":"string"}}}}}]})";

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A server in this process whose model says `text`.
class Server {
 public:
  explicit Server(std::string text) : service_(api::ServiceOptions{.version = "bench"}) {
    engine::ScriptedEngine::Options options;
    options.chat_template = kTemplate;
    auto engine = std::make_shared<engine::ScriptedEngine>(
        options, std::vector<engine::Script>{{.text = std::move(text)}});
    auto model = chat::Model::create({.name = "m", .format = "hermes"}, std::move(engine));
    if (!model) throw std::runtime_error(model.error().message);
    chat::ModelRegistry models;
    if (Status added = models.add(*model); !added) throw std::runtime_error(added.error().message);
    service_.set_models(std::move(models));
    auto server = http::Server::start(
        {.port = 0},
        [this](std::shared_ptr<http::Exchange> exchange) { service_.handle(std::move(exchange)); });
    if (!server) throw std::runtime_error(server.error().message);
    server_ = *std::move(server);
  }
  std::uint16_t port() const { return server_->port(); }

 private:
  api::Service service_;
  std::unique_ptr<http::Server> server_;
};

// One kept-alive connection. Reads until `end` stands at the end of what has come.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("the benchmark's own server does not answer");
    }
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::string_view ask(const std::string& wire, std::string_view end) {
    if (::send(socket_, wire.data(), wire.size(), MSG_NOSIGNAL) < 0) std::abort();
    answer_.clear();
    while (!std::string_view(answer_).ends_with(end)) {
      char buffer[65536];
      const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
      if (n <= 0) std::abort();
      answer_.append(buffer, static_cast<std::size_t>(n));
    }
    return answer_;
  }

 private:
  int socket_;
  std::string answer_;
};

std::string wire_of(std::string_view fields) {
  const std::string body =
      std::string("{\"model\":\"m\",") + std::string(fields) + std::string(kBody);
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Runs requests and reports the CPU of everything but this thread, per `parts` of each request.
void measure(benchmark::State& state, const std::string& wire, std::string_view end,
             const std::string& text, double parts, const char* counter) {
  const Server server(text);
  Client client(server.port());
  for (int i = 0; i < 50; ++i) client.ask(wire, end);  // warm
  const double process = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double own = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (auto _ : state) benchmark::DoNotOptimize(client.ask(wire, end));
  const double cpu = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - process) -
                     (seconds_of(CLOCK_THREAD_CPUTIME_ID) - own);
  state.counters[counter] = cpu * 1e6 / (static_cast<double>(state.iterations()) * parts);
}

void whole_call(benchmark::State& state) {
  measure(state, wire_of(""), "}}", std::string(kCall), 1, "cpu_us_per_request");
}
BENCHMARK(whole_call)->UseRealTime()->Unit(benchmark::kMicrosecond);

void streamed_text(benchmark::State& state) {
  const std::string text(static_cast<std::size_t>(state.range(0)), 'x');
  measure(state, wire_of("\"stream\":true,"), "data: [DONE]\n\n\r\n0\r\n\r\n", text,
          static_cast<double>(text.size()), "cpu_us_per_token");
}
BENCHMARK(streamed_text)->Arg(1000)->UseRealTime()->Unit(benchmark::kMicrosecond);

void streamed_arguments(benchmark::State& state) {
  const std::string filler(static_cast<std::size_t>(state.range(0)), 'x');
  const std::string text =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"location\": \"" + filler +
      "\"}}\n</tool_call>";
  measure(state, wire_of("\"stream\":true,"), "data: [DONE]\n\n\r\n0\r\n\r\n", text,
          static_cast<double>(text.size()), "cpu_us_per_token");
}
BENCHMARK(streamed_arguments)->Arg(1000)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon
