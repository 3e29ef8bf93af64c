// The two ends of a gateway under load, in one process with one clock: it plays the llama-server
// behind it and the clients before it. bench/load_figures.py starts it, and between its ends Tenon
// or nginx, and makes the table.
//
//     load        prints the player's port, then reads commands, a line each:
//     run PORT PID STREAMS RATE TOKENS        that many streams at once, of RATE tokens a second
//                                             each (0: as fast as they go)
//     requests PORT PID CONNECTIONS COUNT     each connection asks again as soon as it is answered;
//                                             the model's answer comes in one piece
//     far MS                                  from now on the player is so far away: each of its
//                                             answers begins that much later
//
// and answers each by a JSON line. PID (0: none) is the process whose CPU and memory are told.
//
// Every stream is a chat completion with a tool call whose arguments are TOKENS pieces of text that
// no other stream has. As /completion the player writes the call as a model does, as
// /v1/chat/completions it writes the chunks that Tenon makes of it, for a gateway that only
// relays. The client checks each byte of the arguments, that the stream ends as it should, and how
// long each piece took from the player's send() to its own recv().
//
// CPU per token and delays are taken in the window in which all streams are under way: from when
// the last has its first piece until the first has its last one.
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <queue>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loopback.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

constexpr std::size_t kPiece = 4;  // bytes of a token
constexpr std::string_view kArgumentsBegin = R"({"text": ")";
constexpr std::string_view kArgumentsEnd = R"("})";
constexpr std::int64_t kSilenceNs = 20'000'000'000;  // after which a run is given up

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// The text of token `k` of stream `s`.
std::array<char, kPiece> piece(std::size_t s, std::size_t k) {
  std::uint64_t hash = (s * 1'000'003 + k + 1) * 0x9e3779b97f4a7c15;
  std::array<char, kPiece> text{};
  for (char& c : text) {
    c = static_cast<char>('a' + (hash >> 32) % 26);
    hash *= 0x9e3779b97f4a7c15;
  }
  return text;
}

// What both ends know of a run. Whatever the player plays holds its own, so that what is left of a
// run that was given up does not meet the next one's.
struct Plan {
  std::size_t streams = 0;
  std::size_t tokens = 0;
  std::int64_t period_ns = 0;  // between the tokens of a stream
  bool in_one_piece = false;   // the whole answer by one send()
  // When the player sent the token, [streams * tokens].
  std::unique_ptr<std::atomic<std::int64_t>[]> sent_at{};
  mutable std::atomic<bool> is_over = false;
};
std::shared_ptr<const Plan> plan;  // the clients'

void no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void watch(int poll, int socket, std::uint32_t events, int how = EPOLL_CTL_ADD) {
  epoll_event event{.events = events, .data = {.fd = socket}};
  if (::epoll_ctl(poll, how, socket, &event) != 0) fail("epoll_ctl");
}

// The number behind `name` in headers or JSON; -1 without it.
std::int64_t number_after(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return -1;
  return std::atoll(text.data() + at + name.size());
}

// ---------------------------------------------------------------------------------- the player

// One answer: which stream's, and how far it has come.
struct Play {
  std::shared_ptr<const Plan> plan{};
  std::size_t stream = 0;
  std::size_t next = 0;  // of the events
  bool is_chat = false;  // chunks for a client, not the model's own
};

struct Peer {
  std::string in;
  std::string out;  // what the kernel did not take
  bool is_playing = false;
  std::optional<std::pair<std::string, std::string>> held{};  // a request from far away
  std::uint64_t generation = 0;  // tells a socket from an earlier one of the same number
  Play play;
};

struct Due {
  std::int64_t at = 0;
  int socket = -1;
  std::uint64_t generation = 0;
  bool operator<(const Due& other) const { return at > other.at; }
};

class Player {
 public:
  Player()
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)), poll_(::epoll_create1(0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (::bind(listener_, generic(address), size) != 0) fail("bind");
    if (::listen(listener_, 65535) != 0) fail("listen");
    if (::getsockname(listener_, generic(address), &size) != 0) fail("getsockname");
    port_ = ntohs(address.sin_port);
    watch(poll_, listener_, EPOLLIN);
    std::thread([this] { run(); }).detach();
  }
  std::uint16_t port() const { return port_; }
  // From any thread: what requests from now on are answered by.
  void follow(std::shared_ptr<const Plan> next) { plan_ = std::move(next); }
  void move_away(std::int64_t ns) { far_ns_ = ns; }

 private:
  [[noreturn]] void run();
  void accept_all();
  void read(int socket);
  void answer(int socket, Peer& peer, std::string_view target, std::string_view body);
  void begin(int socket, Peer& peer, Play play);
  void advance(const Due& due);
  void send(int socket, Peer& peer, std::string_view bytes);
  void send_json(int socket, Peer& peer, std::string_view json);
  void close(int socket);
  timespec until_next() const;

  const int listener_;
  const int poll_;
  std::uint16_t port_ = 0;
  std::atomic<std::shared_ptr<const Plan>> plan_;
  std::atomic<std::int64_t> far_ns_ = 0;
  std::uint64_t generations_ = 0;
  std::unordered_map<int, Peer> peers_;
  std::priority_queue<Due> due_;
};

// What a model writes before and behind the pieces, token by token.
constexpr std::array<std::string_view, 12> kBefore = {"<tool_call>", "\n",   "{\"",    "name",
                                                      "\": \"",      "note", "\", \"", "arguments",
                                                      "\": ",        "{\"",  "text",   "\": \""};
constexpr std::array<std::string_view, 3> kBehind = {"\"}", "}\n", "</tool_call>"};

std::size_t events_of(const Play& play) {
  return play.is_chat ? play.plan->tokens + 6
                      : kBefore.size() + play.plan->tokens + kBehind.size() + 1;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// Which of the pieces event `at` is, or `tokens`.
std::size_t token_of(const Play& play) {
  const std::size_t first = play.is_chat ? 3 : kBefore.size();
  return play.next < first ? play.plan->tokens : std::min(play.plan->tokens, play.next - first);
}

// An event of llama-server's /completion.
void append_completion(const Play& play, std::string& out) {
  const std::size_t at = play.next;
  const std::size_t token = token_of(play);
  std::string text;
  if (at < kBefore.size()) {
    text = escaped(kBefore[at]);
  } else if (token < play.plan->tokens) {
    const auto bytes = piece(play.stream, token);
    text.assign(bytes.data(), bytes.size());
  } else if (at - kBefore.size() - play.plan->tokens < kBehind.size()) {
    text = escaped(kBehind[at - kBefore.size() - play.plan->tokens]);
  } else {
    out +=
        R"(data: {"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"model":"player",)"
        R"("tokens_predicted":)" +
        std::to_string(at) +
        R"(,"tokens_evaluated":100,"has_new_line":true,"truncated":false,"stop_type":"eos",)"
        R"("stopping_word":"","tokens_cached":200,"timings":{"cache_n":0,"prompt_n":100,)"
        R"("prompt_ms":10.5,"predicted_n":100,"predicted_ms":3333.3,"predicted_per_second":30.0}})"
        "\n\n";
    return;
  }
  out += R"(data: {"index":0,"content":")" + text + R"(","tokens":[)" +
         std::to_string(1000 + at % 1000) + R"(],"stop":false,"id_slot":-1,"tokens_predicted":)" +
         std::to_string(at + 1) + R"(,"tokens_evaluated":100})" + "\n\n";
}

// The chunk that Tenon makes of it.
void append_chat(const Play& play, std::string& out) {
  const std::size_t at = play.next;
  const std::size_t token = token_of(play);
  if (at == play.plan->tokens + 5) {
    out += "data: [DONE]\n\n";
    return;
  }
  out += R"(data: {"id":"chatcmpl-b1946ac92492d2347c6235b4","object":"chat.completion.chunk",)"
         R"("created":1763800000,"model":"m","system_fingerprint":"fp_tenon_0.1.0","choices":)"
         R"([{"index":0,"delta":{)";
  const auto arguments = [&out](std::string_view text) {
    out += R"("tool_calls":[{"index":0,"function":{"arguments":")";
    out += escaped(text);
    out += R"("}}])";
  };
  if (at == 0) {
    out += R"("role":"assistant","content":null)";
  } else if (at == 1) {
    out += R"("tool_calls":[{"index":0,"id":"call_b1946ac92492d2347c6235b4","type":"function",)"
           R"("function":{"name":"note","arguments":""}}])";
  } else if (at == 2) {
    arguments(kArgumentsBegin);
  } else if (token < play.plan->tokens) {
    const auto bytes = piece(play.stream, token);
    arguments({bytes.data(), bytes.size()});
  } else if (at == play.plan->tokens + 3) {
    arguments(kArgumentsEnd);
  } else {
    out += R"(},"logprobs":null,"finish_reason":"tool_calls"}],"tenon":)"
           R"({"guarantee":"unenforced","repairs":[],"format":"hermes"}})"
           "\n\n";
    return;
  }
  out += R"(},"logprobs":null,"finish_reason":null}]})"
         "\n\n";
}

void append_http_chunk(std::string& out, std::string_view data) {
  std::array<char, 24> size{};
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  out.append(size.data(), static_cast<std::size_t>(digits)).append(data).append("\r\n");
}

void Player::run() {
  std::array<epoll_event, 256> events{};
  while (true) {
    const timespec wait = until_next();
    const int ready = ::epoll_pwait2(poll_, events.data(), events.size(),
                                     due_.empty() ? nullptr : &wait, nullptr);
    for (int i = 0; i < ready; ++i) {
      const int socket = events[static_cast<std::size_t>(i)].data.fd;
      if (socket == listener_) {
        accept_all();
        continue;
      }
      if ((events[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) {
        const auto peer = peers_.find(socket);
        if (peer == peers_.end()) continue;
        send(socket, peer->second, {});
      }
      if ((events[static_cast<std::size_t>(i)].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        read(socket);
      }
    }
    // So many at most before sockets are looked at again.
    for (int i = 0; i < 64 && !due_.empty() && due_.top().at <= now_ns(); ++i) {
      const Due due = due_.top();
      due_.pop();
      advance(due);
    }
  }
}

timespec Player::until_next() const {
  if (due_.empty()) return {};
  const std::int64_t left = std::max<std::int64_t>(0, due_.top().at - now_ns());
  return {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
}

void Player::accept_all() {
  while (true) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
    if (socket < 0) return;
    no_delay(socket);
    Peer& peer = peers_[socket];
    peer = {};
    peer.generation = ++generations_;
    watch(poll_, socket, EPOLLIN);
  }
}

void Player::close(int socket) {
  peers_.erase(socket);
  ::close(socket);
}

void Player::read(int socket) {
  static std::string room(256 << 10, '\0');
  const auto found = peers_.find(socket);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  const auto bytes = ::recv(socket, room.data(), room.size(), 0);
  if (bytes < 0 && errno == EAGAIN) return;
  if (bytes <= 0) return close(socket);
  peer.in.append(room.data(), static_cast<std::size_t>(bytes));
  while (true) {
    const auto head_end = peer.in.find("\r\n\r\n");
    if (head_end == std::string::npos) return;
    std::string head = peer.in.substr(0, head_end + 2);
    const std::string target =
        head.substr(head.find(' ') + 1, head.find(" HTTP") - head.find(' ') - 1);
    std::ranges::transform(head, head.begin(),
                           [](char c) { return static_cast<char>(std::tolower(c)); });
    const auto length = static_cast<std::size_t>(
        std::max<std::int64_t>(0, number_after(head, "\r\ncontent-length: ")));
    if (peer.in.size() < head_end + 4 + length) return;
    std::string body = peer.in.substr(head_end + 4, length);
    peer.in.erase(0, head_end + 4 + length);
    if (const std::int64_t far = far_ns_; far > 0) {
      peer.held.emplace(target, std::move(body));
      due_.push({now_ns() + far, socket, peer.generation});
    } else {
      answer(socket, peer, target, body);
    }
    if (peer.in.empty()) std::string().swap(peer.in);
  }
}

void Player::answer(int socket, Peer& peer, std::string_view target, std::string_view body) {
  const auto stream =
      static_cast<std::size_t>(std::max<std::int64_t>(0, number_after(body, "\"seed\":")));
  if (target == "/completion") return begin(socket, peer, {.plan = plan_, .stream = stream});
  if (target == "/v1/chat/completions")
    return begin(socket, peer, {.plan = plan_, .stream = stream, .is_chat = true});
  if (target == "/props") {
    return send_json(socket, peer,
                     R"({"chat_template":"","bos_token":"","eos_token":"<|im_end|>",)"
                     R"("total_slots":100000,"default_generation_settings":{"n_ctx":32768}})");
  }
  if (target == "/v1/models") {
    return send_json(socket, peer, R"({"data":[{"id":"player","meta":{"n_vocab":4096}}]})");
  }
  if (target != "/tokenize") return send_json(socket, peer, R"({"status":"ok"})");
  std::string ids;
  const auto add = [&ids](const std::string& id) { ids += (ids.empty() ? "" : ",") + id; };
  if (body.find("with_pieces") != std::string_view::npos) {
    for (int id = 0; id < 4096; ++id) {
      add(R"({"id":)" + std::to_string(id) + R"(,"piece":"p)" + std::to_string(id) + "\"}");
    }
  } else if (body.find(R"("content":"<|im_end|>")") != std::string_view::npos) {
    add("1");
  } else {
    const auto begin = body.find(R"("content":")") + 11;
    const auto end = body.find(R"(","add_special")", begin);
    for (std::size_t at = begin; at < end; at += kPiece) {
      add(std::to_string(256 + static_cast<unsigned char>(body[at]) * 8));
    }
  }
  send_json(socket, peer, R"({"tokens":[)" + ids + "]}");
}

void Player::begin(int socket, Peer& peer, Play play) {
  if (play.plan == nullptr || play.stream >= play.plan->streams) return close(socket);
  std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  if (play.plan->in_one_piece) {
    std::string events;
    for (; play.next < events_of(play); ++play.next) {
      play.is_chat ? append_chat(play, events) : append_completion(play, events);
    }
    append_http_chunk(head, events);
    return send(socket, peer, head.append("0\r\n\r\n"));
  }
  send(socket, peer, head);
  peer.is_playing = true;
  // Streams that came together do not beat together.
  const std::int64_t period = play.plan->period_ns;
  const std::int64_t offset =
      period == 0 ? 0 : static_cast<std::int64_t>(play.stream * 7'368'787) % period;
  peer.play = std::move(play);
  due_.push({now_ns() + offset, socket, peer.generation});
}

void Player::advance(const Due& due) {
  const auto found = peers_.find(due.socket);
  if (found == peers_.end() || found->second.generation != due.generation) return;
  Peer& peer = found->second;
  if (const auto held = std::exchange(peer.held, {})) {
    return answer(due.socket, peer, held->first, held->second);
  }
  if (!peer.is_playing) return;
  if (peer.play.plan->is_over) return close(due.socket);  // of a run that was given up
  if (!peer.out.empty()) {                                // the gateway does not read: later
    due_.push({now_ns() + 1'000'000, due.socket, due.generation});
    return;
  }
  Play& play = peer.play;
  std::string event;
  play.is_chat ? append_chat(play, event) : append_completion(play, event);
  std::string chunk;
  append_http_chunk(chunk, event);
  const std::size_t token = token_of(play);
  const bool is_piece = token < play.plan->tokens;
  if (++play.next == events_of(play)) {
    chunk += "0\r\n\r\n";
    peer.is_playing = false;
  } else {
    due_.push({due.at + play.plan->period_ns, due.socket, due.generation});
  }
  if (is_piece) play.plan->sent_at[play.stream * play.plan->tokens + token] = now_ns();
  send(due.socket, peer, chunk);
}

void Player::send(int socket, Peer& peer, std::string_view bytes) {
  const bool was_waiting = !peer.out.empty();
  peer.out += bytes;
  const auto sent = ::send(socket, peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
  if (sent > 0) peer.out.erase(0, static_cast<std::size_t>(sent));
  if (was_waiting == !peer.out.empty()) return;
  watch(poll_, socket, peer.out.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
  if (peer.out.empty()) std::string().swap(peer.out);
}

void Player::send_json(int socket, Peer& peer, std::string_view json) {
  send(socket, peer,
       "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(json.size()) + "\r\n\r\n" + std::string(json));
}

// ---------------------------------------------------------------------------------- the clients

std::string request_of(std::size_t stream) {
  std::string number = std::to_string(stream);
  number.insert(0, 8 - std::min<std::size_t>(8, number.size()), '0');
  const std::string body =
      R"({"model":"m","stream":true,"seed":)" + std::to_string(stream) +
      R"(,"messages":[{"role":"system","content":"You keep notes. Answer by calling a tool."},)"
      R"({"role":"user","content":"Please write down what was said in meeting )" +
      number +
      R"(."}],"tools":[{"type":"function","function":{"name":"note","description":"Keeps a note",)"
      R"("parameters":{"type":"object","properties":{"text":{"type":"string","description":)"
      R"("What is to be kept"}},"required":["text"]}}},{"type":"function","function":{"name":)"
      R"("get_weather","description":"The weather","parameters":{"type":"object","properties":)"
      R"({"location":{"type":"string"}},"required":["location"]}}}]})";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n"
         "User-Agent: load\r\nAuthorization: Bearer 0123456789\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Reads one answer, cut anywhere, and checks it.
class Answer {
 public:
  explicit Answer(std::size_t stream) : stream_(stream) {}

  /// Returns what has been refused, or null. Tells of each piece of the arguments.
  template <class OnPiece>
  const char* feed(std::string_view bytes, OnPiece on_piece) {
    while (!bytes.empty() && !is_whole_) {
      if (left_ > 0) {
        const std::size_t taken = std::min(left_, bytes.size());
        events_ += bytes.substr(0, taken);
        bytes.remove_prefix(taken);
        left_ -= taken;
        if (const char* wrong = take_events(on_piece)) return wrong;
        continue;
      }
      // The head and the lines between chunks.
      line_ += bytes.front();
      bytes.remove_prefix(1);
      if (!line_.ends_with(is_head_ ? "\r\n\r\n" : "\r\n")) continue;
      if (is_head_) {
        if (!line_.starts_with("HTTP/1.1 200")) return "the status is not 200";
        is_head_ = false;
      } else if (line_.size() > 2) {
        left_ = std::strtoul(line_.c_str(), nullptr, 16);
        is_last_ = left_ == 0;
      } else {
        is_whole_ = is_last_;
      }
      line_.clear();
    }
    if (!is_whole_) return nullptr;
    if (!bytes.empty()) return "there are bytes behind the answer";
    if (at_ != expected_size() || !is_finished_ || !is_done_) return "the answer has not all parts";
    return nullptr;
  }
  bool is_whole() const { return is_whole_; }
  std::size_t tokens() const { return tokens_; }

 private:
  static std::size_t expected_size() {
    return kArgumentsBegin.size() + kPiece * plan->tokens + kArgumentsEnd.size();
  }

  template <class OnPiece>
  const char* take_events(OnPiece on_piece) {
    std::string_view rest = events_;
    for (auto end = rest.find("\n\n"); end != std::string_view::npos; end = rest.find("\n\n")) {
      if (const char* wrong = take_event(rest.substr(0, end))) return wrong;
      rest.remove_prefix(end + 2);
    }
    events_.erase(0, events_.size() - rest.size());
    const std::size_t whole = at_ <= kArgumentsBegin.size()
                                  ? 0
                                  : std::min((at_ - kArgumentsBegin.size()) / kPiece, plan->tokens);
    for (; tokens_ < whole; ++tokens_) on_piece(stream_, tokens_);
    return nullptr;
  }

  const char* take_event(std::string_view event) {
    if (is_done_) return "there is an event behind [DONE]";
    if (event.starts_with(":")) return nullptr;
    if (!event.starts_with("data: ")) return "an event does not begin with data";
    event.remove_prefix(6);
    if (event == "[DONE]") {
      is_done_ = true;
      return nullptr;
    }
    if (is_finished_) return "there is a chunk behind the last";
    if (event.find(R"("finish_reason":"tool_calls")") != std::string_view::npos) {
      is_finished_ = true;
    } else if (event.find(R"("finish_reason":")") != std::string_view::npos) {
      return "a chunk has another finish_reason";  // null may be left out
    }
    constexpr std::string_view kKey = R"("arguments":")";
    auto at = event.find(kKey);
    if (at == std::string_view::npos) return nullptr;
    for (at += kKey.size(); at < event.size() && event[at] != '"'; ++at) {
      if (event[at] == '\\') ++at;
      if (at_ == expected_size() || event[at] != expected(at_)) return "the arguments differ";
      ++at_;
    }
    return nullptr;
  }

  char expected(std::size_t at) const {
    if (at < kArgumentsBegin.size()) return kArgumentsBegin[at];
    at -= kArgumentsBegin.size();
    if (at >= kPiece * plan->tokens) return kArgumentsEnd[at - kPiece * plan->tokens];
    return piece(stream_, at / kPiece)[at % kPiece];
  }

  std::size_t stream_;
  std::string line_;
  std::string events_;
  std::size_t left_ = 0;    // of the chunk
  std::size_t at_ = 0;      // in the arguments
  std::size_t tokens_ = 0;  // pieces that have been told of
  bool is_head_ = true;
  bool is_last_ = false;
  bool is_whole_ = false;
  bool is_finished_ = false;
  bool is_done_ = false;
};

// The process between the two ends.
class Subject {
 public:
  explicit Subject(pid_t pid) : pid_(pid) {
    if (pid != 0 && ::clock_getcpuclockid(pid, &clock_) != 0) fail("clock_getcpuclockid");
  }
  double cpu_us() const {
    if (pid_ == 0) return 0;
    timespec time{};
    ::clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
  }
  double resident_kb() const {
    if (pid_ == 0) return 0;
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6);
    }
    return 0;
  }

 private:
  pid_t pid_;
  clockid_t clock_{};
};

int connect_to(std::uint16_t port) {
  sockaddr_in address = loopback(port);
  for (int tries = 0;; ++tries) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, generic(address), sizeof address) == 0) {
      no_delay(socket);
      return socket;
    }
    ::close(socket);
    if (tries == 100) fail("connect");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void say(int socket, const std::string& text) {
  if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    fail("send");
  }
}

double part_ms(const std::vector<std::int64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return static_cast<double>(
             sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]) /
         1e6;
}

class Clients {
 public:
  Clients(std::uint16_t port, pid_t pid) : port_(port), subject_(pid), poll_(::epoll_create1(0)) {}
  ~Clients() {
    for (const auto& [socket, answer] : open_) ::close(socket);
    ::close(poll_);
  }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  void streams();
  void requests(std::size_t connections);

 private:
  bool poll(int timeout_ms);
  void read(int socket);
  void on_piece(std::size_t stream, std::size_t token, std::int64_t now);
  void ask(int socket, std::size_t stream) {
    open_.insert_or_assign(socket, Answer(stream));
    say(socket, request_of(stream));
  }

  const std::uint16_t port_;
  const Subject subject_;
  const int poll_;
  std::unordered_map<int, Answer> open_;
  std::size_t next_ = 0;  // stream to be asked for
  bool asks_again_ = false;
  std::size_t finished_ = 0;
  std::size_t begun_ = 0;  // have their first piece
  std::size_t pieces_ = 0;
  std::string wrong_;  // the first fault
  std::string room_ = std::string(256 << 10, '\0');
  std::int64_t last_ns_ = 0;  // something came
  // The window.
  std::int64_t window_begin_ = 0;
  std::int64_t window_end_ = 0;
  double window_cpu_us_ = 0;
  std::size_t window_pieces_ = 0;
  std::vector<std::int64_t> delays_;
};

void Clients::on_piece(std::size_t stream, std::size_t token, std::int64_t now) {
  ++pieces_;
  if (window_begin_ != 0 && window_end_ == 0 && !plan->in_one_piece) {
    const std::int64_t sent = plan->sent_at[stream * plan->tokens + token];
    if (sent >= window_begin_) delays_.push_back(now - sent);
  }
  if (token == 0 && ++begun_ == plan->streams) {
    window_begin_ = now;
    window_cpu_us_ = -subject_.cpu_us();
    window_pieces_ = 0 - pieces_;
  }
  if (token + 1 == plan->tokens && window_begin_ != 0 && window_end_ == 0) {
    window_end_ = now;
    window_cpu_us_ += subject_.cpu_us();
    window_pieces_ += pieces_;
  }
}

bool Clients::poll(int timeout_ms) {
  std::array<epoll_event, 256> events{};
  const int ready = ::epoll_wait(poll_, events.data(), events.size(), timeout_ms);
  for (int i = 0; i < ready; ++i) read(events[static_cast<std::size_t>(i)].data.fd);
  return ready > 0;
}

void Clients::read(int socket) {
  const auto bytes = ::recv(socket, room_.data(), room_.size(), 0);
  const std::int64_t now = now_ns();
  last_ns_ = now;
  const auto found = open_.find(socket);
  if (found == open_.end()) return;
  const char* wrong = bytes <= 0 ? "the connection was closed" : nullptr;
  if (bytes > 0) {
    wrong = found->second.feed(
        {room_.data(), static_cast<std::size_t>(bytes)},
        [&](std::size_t stream, std::size_t token) { on_piece(stream, token, now); });
  }
  if (wrong != nullptr && wrong_.empty()) {
    wrong_ =
        std::string(wrong) + ": " +
        std::string(room_.data(), static_cast<std::size_t>(std::clamp<ssize_t>(bytes, 0, 300)));
  }
  if (wrong == nullptr && !found->second.is_whole()) return;
  if (wrong == nullptr) ++finished_;
  if (wrong == nullptr && asks_again_) {
    if (next_ < plan->streams) ask(socket, next_++);
    return;
  }
  ::close(socket);
  open_.erase(found);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c < ' ' ? ' ' : c;
  }
  return out + "\"";
}

void Clients::streams() {
  const double idle_kb = subject_.resident_kb();
  const double cpu_before = subject_.cpu_us();
  const std::int64_t begin = now_ns();
  last_ns_ = begin;
  delays_.reserve(plan->streams * plan->tokens);
  for (std::size_t stream = 0; stream < plan->streams; ++stream) {
    const int socket = connect_to(port_);
    watch(poll_, socket, EPOLLIN);
    ask(socket, stream);
    if (stream % 16 == 0) poll(0);
  }
  double peak_kb = 0;
  std::int64_t looked = 0;
  while (!open_.empty() && now_ns() - last_ns_ < kSilenceNs) {
    poll(1000);
    if (last_ns_ - looked < 200'000'000) continue;
    looked = last_ns_;
    peak_kb = std::max(peak_kb, subject_.resident_kb());
  }
  const double cpu_us = subject_.cpu_us() - cpu_before;
  std::ranges::sort(delays_);
  const auto count = static_cast<double>(plan->streams);
  std::printf(
      "{\"streams\": %zu, \"finished\": %zu, \"tokens\": %zu, \"seconds\": %.2f, "
      "\"all_begun_s\": %.3f, \"window_s\": %.2f, \"cpu_us_per_token\": %.2f, "
      "\"cpu_us_per_stream\": %.1f, \"kb_per_stream\": %.2f, \"idle_kb\": %.0f, "
      "\"delay_ms_p50\": %.3f, \"delay_ms_p99\": %.3f, \"delay_ms_max\": %.3f, \"fault\": %s}\n",
      plan->streams, finished_, pieces_, static_cast<double>(now_ns() - begin) / 1e9,
      static_cast<double>(window_begin_ - begin) / 1e9,
      static_cast<double>(window_end_ - window_begin_) / 1e9,
      window_cpu_us_ / static_cast<double>(std::max<std::size_t>(1, window_pieces_)),
      cpu_us / count, (peak_kb - idle_kb) / count, idle_kb, part_ms(delays_, 0.5),
      part_ms(delays_, 0.99), part_ms(delays_, 1), quoted(wrong_).c_str());
}

void Clients::requests(std::size_t connections) {
  asks_again_ = true;
  const std::int64_t begin = now_ns();
  last_ns_ = begin;
  const double cpu_before = subject_.cpu_us();
  for (std::size_t i = 0; i < std::min(connections, plan->streams); ++i) {
    const int socket = connect_to(port_);
    watch(poll_, socket, EPOLLIN);
    ask(socket, next_++);
  }
  while (finished_ < plan->streams && wrong_.empty() && now_ns() - last_ns_ < kSilenceNs)
    poll(1000);
  const double cpu_us = subject_.cpu_us() - cpu_before;
  std::printf(
      "{\"requests\": %zu, \"finished\": %zu, \"connections\": %zu, \"seconds\": %.2f, "
      "\"cpu_us_per_request\": %.1f, \"fault\": %s}\n",
      plan->streams, finished_, connections, static_cast<double>(now_ns() - begin) / 1e9,
      cpu_us / static_cast<double>(plan->streams), quoted(wrong_).c_str());
}

}  // namespace

int main() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  Player& player = *new Player;  // whose thread goes on to the process's end
  std::printf("%u\n", player.port());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    std::uint16_t port = 0;
    pid_t pid = 0;
    words >> what;
    if (what == "far") {
      double ms = 0;
      words >> ms;
      player.move_away(static_cast<std::int64_t>(1e6 * ms));
      continue;
    }
    words >> port >> pid;
    const auto next = std::make_shared<Plan>();
    if (what == "run") {
      double rate = 0;
      words >> next->streams >> rate >> next->tokens;
      next->period_ns = rate > 0 ? static_cast<std::int64_t>(1e9 / rate) : 0;
      next->sent_at = std::make_unique<std::atomic<std::int64_t>[]>(next->streams * next->tokens);
      player.follow(plan = next);
      Clients(port, pid).streams();
    } else if (what == "requests") {
      std::size_t connections = 0;
      words >> connections >> next->streams;
      next->tokens = 8;
      next->in_one_piece = true;
      player.follow(plan = next);
      Clients(port, pid).requests(connections);
    } else {
      std::fprintf(stderr, "load: what is %s?\n", what.c_str());
      return 2;
    }
    next->is_over = true;
    std::fflush(stdout);
  }
  return 0;
}
