// What the server costs: CPU per request and per streamed token, memory per open stream, and how
// long a token takes from the producer to the client. The server runs in a child process, so that
// its CPU and memory can be told from the client's. The producer plays the engine: what its thread
// spends on waiting for the next token's time is counted apart, what it spends in write() is the
// server's. What Tenon costs between a client and a model, beside nginx, is load.cc's to tell.
//
//     http_bench --benchmark_filter=streams/5000
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <queue>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "loopback.h"
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/http/server.h"

namespace {

namespace http = tenon::http;
using Clock = std::chrono::steady_clock;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::abort();
}

void tell_port(int port_pipe, std::uint16_t port) {
  if (::write(port_pipe, &port, sizeof port) != sizeof port) fail("write");
}

// ------------------------------------------------------------------------------------ the server

double thread_cpu_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// One thread that writes the tokens of all streams, each in its own rhythm, like an engine.
class Producer {
 public:
  /// `own_cpu_us` is told what the thread spends outside of write().
  explicit Producer(std::atomic<double>& own_cpu_us)
      : own_cpu_us_(own_cpu_us), thread_([this] { run(); }) {}

  void add(std::shared_ptr<http::Exchange> exchange, Clock::duration period, int tokens) {
    const std::lock_guard lock(mutex_);
    // Streams that came together do not beat together.
    offset_ = (offset_ + period / 7 + std::chrono::microseconds(37)) % period;
    due_.push({Clock::now() + offset_, std::move(exchange), period, tokens});
    changed_.notify_one();
  }

 private:
  struct Due {
    Clock::time_point at;
    std::shared_ptr<http::Exchange> exchange;
    Clock::duration period;
    int tokens;
    bool operator<(const Due& other) const { return at > other.at; }
  };

  void run() {
    std::unique_lock lock(mutex_);
    double in_write_us = 0;
    while (true) {
      if (due_.empty()) {
        changed_.wait(lock);
        continue;
      }
      if (Clock::now() < due_.top().at) {
        changed_.wait_until(lock, due_.top().at);
        continue;
      }
      Due next = due_.top();
      due_.pop();
      lock.unlock();
      // As long as a chunk of Chat Completions usually is.
      std::string event = "data: {\"t\":" + std::to_string(now_ns()) + ",\"pad\":\"";
      event.append(200, 'x').append("\"}\n\n");
      const double before = thread_cpu_us();
      next.exchange->write(std::move(event));
      if (--next.tokens == 0) next.exchange->end_stream();
      const double after = thread_cpu_us();
      in_write_us += after - before;
      own_cpu_us_ = after - in_write_us;
      lock.lock();
      next.at += next.period;
      if (next.tokens > 0) due_.push(std::move(next));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Due> due_;
  Clock::duration offset_{0};
  std::atomic<double>& own_cpu_us_;
  std::thread thread_;
};

// Answers "/stream <tokens> <period in microseconds>", read from two headers, and everything else
// with a small body.
[[noreturn]] void serve(int port_pipe, std::atomic<double>& engine_cpu_us) {
  static Producer producer(engine_cpu_us);
  const std::string body(600, 'j');
  auto server =
      http::Server::start({.port = 0}, [&body](const std::shared_ptr<http::Exchange>& exchange) {
        if (exchange->request().path != "/stream") return exchange->respond({.body = body});
        const int tokens = std::atoi(std::string(exchange->request().header("tokens")).c_str());
        const int period = std::atoi(std::string(exchange->request().header("period")).c_str());
        exchange->begin_stream("text/event-stream", {{"Cache-Control", "no-cache"}});
        producer.add(exchange, std::chrono::microseconds(period), tokens);
      });
  if (!server) fail(server.error().message.c_str());
  tell_port(port_pipe, (*server)->port());
  while (true) ::pause();
}

// A child process that listens, and what it costs.
class Process {
 public:
  /// `run` is the child's life.
  explicit Process(const std::function<void(int port_pipe, std::atomic<double>& engine)>& run) {
    void* shared = ::mmap(nullptr, sizeof *engine_cpu_us_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("mmap");
    engine_cpu_us_ = new (shared) std::atomic<double>(0);
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail("pipe");
    child_ = ::fork();
    if (child_ < 0) fail("fork");
    if (child_ == 0) run(ends[1], *engine_cpu_us_);
    if (::read(ends[0], &port_, sizeof port_) != sizeof port_) fail("read");
    ::close(ends[0]);
    ::close(ends[1]);
    ::clock_getcpuclockid(child_, &clock_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::munmap(engine_cpu_us_, sizeof *engine_cpu_us_);
  }

  std::uint16_t port() const { return port_; }
  /// Without that of the thread that plays the engine.
  double cpu_us() const {
    timespec time{};
    ::clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3 -
           engine_cpu_us();
  }
  double engine_cpu_us() const { return *engine_cpu_us_; }
  double resident_kb() const {
    std::ifstream status("/proc/" + std::to_string(child_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("VmRSS:", 0) == 0) return std::atof(line.c_str() + 6);
    }
    return 0;
  }
  int connect() const {
    sockaddr_in address = loopback(port_);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, generic(address), sizeof address) != 0) fail("connect");
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
  }

 private:
  pid_t child_ = 0;
  clockid_t clock_{};
  std::atomic<double>* engine_cpu_us_ = nullptr;  // in memory shared with the child
  std::uint16_t port_ = 0;
};

void say(int socket, std::string_view text) {
  if (::send(socket, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    fail("send");
  }
}

// ---------------------------------------------------------------------------------- requests

// `connections` clients, each of which asks again as soon as it has its answer.
void requests(benchmark::State& state) {
  const Process server(serve);
  const auto connections = static_cast<std::size_t>(state.range(0));
  const std::string request =
      "POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench\r\nAccept: */*\r\n"
      "Authorization: Bearer 0123456789\r\nContent-Type: application/json\r\n"
      "Content-Length: 1000\r\n\r\n" +
      std::string(1000, 'x');
  const int poll = ::epoll_create1(0);
  for (std::size_t i = 0; i < connections; ++i) {
    const int socket = server.connect();
    epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event);
    say(socket, request);
  }
  std::array<epoll_event, 256> events{};
  std::string room(64 << 10, '\0');
  const double cpu_before = server.cpu_us();
  std::int64_t answers = 0;
  for (auto _ : state) {
    // An iteration is an answer; those that come together are counted together.
    static thread_local int ready = 0;
    while (ready == 0) {
      const int count = ::epoll_wait(poll, events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i) {
        const int socket = events[static_cast<std::size_t>(i)].data.fd;
        if (::recv(socket, room.data(), room.size(), 0) <= 0) fail("recv");
        say(socket, request);
        ++ready;
      }
    }
    --ready;
    ++answers;
  }
  state.counters["server_cpu_us"] = (server.cpu_us() - cpu_before) / static_cast<double>(answers);
  ::close(poll);
}
BENCHMARK(requests)->Arg(1)->Arg(64)->MinTime(2)->UseRealTime();

// ----------------------------------------------------------------------------------- streams

// range(0) streams at once of range(1) tokens a second each, for about five seconds.
void streams(benchmark::State& state) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);

  const auto count = static_cast<std::size_t>(state.range(0));
  const auto rate = static_cast<int>(state.range(1));
  const int tokens = std::max(2, 5 * rate);
  const std::string request =
      "GET /stream HTTP/1.1\r\nHost: a\r\nTokens: " + std::to_string(tokens) +
      "\r\nPeriod: " + std::to_string(1'000'000 / rate) + "\r\n\r\n";
  for (auto _ : state) {
    const Process server(serve);
    const double idle_kb = server.resident_kb();
    const int poll = ::epoll_create1(0);
    std::vector<int> sockets;
    for (std::size_t i = 0; i < count; ++i) {
      sockets.push_back(server.connect());
      epoll_event event{.events = EPOLLIN, .data = {.fd = sockets.back()}};
      ::epoll_ctl(poll, EPOLL_CTL_ADD, sockets.back(), &event);
      say(sockets.back(), request);
    }
    const double cpu_before = server.cpu_us();
    const double engine_before = server.engine_cpu_us();
    double peak_kb = 0;
    std::size_t whole = 0;
    std::size_t received = 0;
    std::vector<std::int64_t> delays;
    delays.reserve(count * static_cast<std::size_t>(tokens));
    std::array<epoll_event, 256> events{};
    std::string room(64 << 10, '\0');
    while (whole < count) {
      const int ready = ::epoll_wait(poll, events.data(), events.size(), 20'000);
      if (ready <= 0) break;
      for (int i = 0; i < ready; ++i) {
        const int socket = events[static_cast<std::size_t>(i)].data.fd;
        const auto bytes = ::recv(socket, room.data(), room.size(), 0);
        if (bytes <= 0) fail("recv");
        const std::string_view text(room.data(), static_cast<std::size_t>(bytes));
        const std::int64_t now = now_ns();
        constexpr std::string_view kMark = "\"t\":";
        for (std::size_t at = text.find(kMark); at != std::string_view::npos;
             at = text.find(kMark, at + 1)) {
          ++received;
          delays.push_back(now - std::atoll(text.data() + at + kMark.size()));
        }
        if (text.ends_with("0\r\n\r\n")) ++whole;
      }
      if (received > delays.capacity() / 2 && peak_kb == 0) peak_kb = server.resident_kb();
    }
    std::sort(delays.begin(), delays.end());
    const auto part = [&](double share) {
      if (delays.empty()) return 0.0;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(delays.size() - 1));
      return static_cast<double>(delays[at]) / 1e6;
    };
    state.counters["whole"] = static_cast<double>(whole);
    const auto tokens_seen = static_cast<double>(std::max<std::size_t>(received, 1));
    state.counters["server_cpu_us_per_token"] = (server.cpu_us() - cpu_before) / tokens_seen;
    state.counters["engine_cpu_us_per_token"] =
        (server.engine_cpu_us() - engine_before) / tokens_seen;
    state.counters["server_kb_per_stream"] = (peak_kb - idle_kb) / static_cast<double>(count);
    state.counters["server_idle_kb"] = idle_kb;
    state.counters["delay_ms_p50"] = part(0.5);
    state.counters["delay_ms_p99"] = part(0.99);
    for (const int socket : sockets) ::close(socket);
    ::close(poll);
  }
}
void at_rates(benchmark::internal::Benchmark* bench) {
  bench->Args({32, 500})->Args({100, 20})->Args({1000, 5})->Args({5000, 1});
  bench->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
}
BENCHMARK(streams)->Apply(at_rates);

}  // namespace
