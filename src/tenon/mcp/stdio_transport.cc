#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/base/process.h"
#include "tenon/mcp/transport.h"

// Messages over the pipes of a program
//
// One line is one message. One thread waits for all pipes and for wake_ (step): send() only appends
// to waiting_, so a program that does not read blocks no caller. Programs are not always exact:
// they print lines that are no messages, which are left out up to a bound, or a message over
// several lines, whose lines are kept in held_ until the brackets are closed (Nesting) or nothing
// comes for kBetweenLines. A line that looks like an answer and cannot be parsed fails the call
// that it answers, so that its caller does not wait in vain.

namespace tenon::mcp {
namespace {

constexpr std::size_t kMaxErrorBytes = 8192;  // the last bytes of standard error that are kept
constexpr int kMaxStrayLines = 1000;          // between two messages
// Stopping a program takes at most twice this time.
constexpr std::chrono::milliseconds kGrace{300};
// How long to wait for the next line of a message that is printed over several lines.
constexpr std::chrono::milliseconds kBetweenLines{250};

/// The nesting of a JSON text that arrives in pieces: its open brackets, and whether it is inside a
/// string.
class Nesting {
 public:
  void feed(std::string_view text) {
    for (const char c : text) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (is_in_string_) {
        is_escaped_ = c == '\\';
        is_in_string_ = c != '"';
      } else if (c == '"') {
        is_in_string_ = true;
      } else if (c == '{' || c == '[') {
        ++depth_;
      } else if (c == '}' || c == ']') {
        --depth_;
      }
    }
  }
  // A line never ends inside a string.
  bool may_go_on() const { return depth_ > 0 && !is_in_string_; }

 private:
  std::int64_t depth_ = 0;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
};

class StdioTransport final : public Transport {
 public:
  StdioTransport(std::string name, std::unique_ptr<Process> process, std::size_t max_bytes,
                 TransportHandlers handlers, int wake)
      : name_(std::move(name)),
        process_(std::move(process)),
        max_bytes_(max_bytes),
        handlers_(std::move(handlers)),
        wake_(wake),
        thread_([this] { work(); }) {}
  StdioTransport(const StdioTransport&) = delete;
  StdioTransport& operator=(const StdioTransport&) = delete;
  ~StdioTransport() override {
    is_closing_ = true;
    wake();
    thread_.join();
    process_->stop(kGrace);
    ::close(wake_);
  }

  Status send(const json::Value& message, std::int64_t /*id*/,
              const std::vector<http::Header>& /*headers*/) override {
    const std::string line = json::to_string(message) + "\n";
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return Unexpected(Error{Errc::unavailable, name_ + " has ended"});
      if (waiting_.size() + line.size() > max_bytes_) {
        return Unexpected(Error{Errc::limit_exceeded, name_ + " does not read what it is sent"});
      }
      waiting_ += line;
    }
    wake();
    return {};
  }
  void abandon(std::int64_t /*id*/) override {}
  // Messages are read in the order in which they are written.
  void begin(const std::string& /*version*/, const json::Value& hello,
             const CallOptions& /*call*/) override {
    (void)send(hello, 0, {});
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof one);
  }

  void work() {
    const crash::ThreadStack stack;
    std::string why;
    while (why.empty() && !is_closing_) why = step();
    if (is_closing_) return;
    process_->stop(kGrace);
    if (const std::string ending = process_->ending(); !ending.empty()) why += ", " + ending;
    handlers_.on_closed({.why = {Errc::unavailable, name_ + " " + why}, .said = errors_});
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }

  // Waits for an event and handles it. Returns why the transport is over, or "".
  std::string step() {
    const bool has_more = has_waiting();
    std::array<pollfd, 4> fds{pollfd{wake_, POLLIN, 0}, pollfd{process_->output(), POLLIN, 0},
                              pollfd{process_->errors(), POLLIN, 0},
                              pollfd{has_more ? process_->input() : -1, POLLOUT, 0}};
    const int longest = held_.empty() ? -1 : static_cast<int>(kBetweenLines.count());
    const int count_of_ready = ::poll(fds.data(), fds.size(), longest);
    if (count_of_ready < 0) return errno == EINTR ? "" : "cannot be waited for";
    if (count_of_ready == 0) give_up_held();
    if (fds[0].revents != 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_, &count, sizeof count);
    }
    if (fds[2].revents != 0) read_errors();
    if (fds[3].revents != 0 && !write_some()) return "reads no more";
    return fds[1].revents != 0 ? read_output() : "";
  }

  bool has_waiting() {
    const std::lock_guard lock(mutex_);
    return !waiting_.empty();
  }
  bool write_some() {
    const std::lock_guard lock(mutex_);
    const auto written = process_->write_input(waiting_);
    if (written) waiting_.erase(0, *written);
    return written.has_value();
  }

  // Cuts what has come into lines. A message of more than max_bytes_ ends the transport: its end
  // could not be found again in what follows.
  std::string read_output() {
    const auto count = ::read(process_->output(), buffer_.data(), buffer_.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return "";
    if (count <= 0) return "has ended";
    std::string_view bytes(buffer_.data(), static_cast<std::size_t>(count));
    for (auto end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
      line_ += bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
      if (line_.size() + held_.size() > max_bytes_) break;
      take_line();
      line_.clear();
      if (stray_lines_ > kMaxStrayLines) return "writes lines that are no messages";
    }
    line_ += bytes;
    return line_.size() + held_.size() <= max_bytes_
               ? ""
               : "wrote a message of more than " + std::to_string(max_bytes_) + " bytes";
  }

  void take_line() {
    // A byte order mark, with which some programs begin.
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (line_.starts_with(kMark)) line_.erase(0, kMark.size());
    const auto begin = line_.find_first_not_of(" \t\r");
    if (begin == std::string::npos) return;
    auto message = parse_message(line_);
    const bool is_message =
        message && (message->if_object() != nullptr || message->if_array() != nullptr);
    // Inside a message that is printed over several lines, a line is part of that message, unless
    // it is a whole message by itself.
    if (!held_.empty() && (!is_message || message->find("jsonrpc") == nullptr)) {
      return hold_line();
    }
    give_up_held();
    if (is_message) {
      stray_lines_ = 0;
      return handlers_.on_message(*std::move(message));
    }
    // It begins as JSON: the first line of a message over several lines, or a broken message.
    if (line_[begin] == '{' || line_[begin] == '[') {
      hold_line();
      if (!held_.empty()) return;
      if (glance_at(line_).is_answer) {
        handlers_.on_unreadable(line_, message ? Error{} : std::move(message.error()));
      }
    }
    count_stray();
  }

  // Keeps the line for those that follow, or gives up the kept lines if nothing can follow.
  void hold_line() {
    nesting_.feed(line_);
    const bool is_first = held_.empty();
    held_ += line_;
    held_ += '\n';
    if (nesting_.may_go_on()) return;
    auto message = parse_message(held_);
    if (is_first || !message) return is_first ? drop_held() : give_up_held();
    drop_held();
    stray_lines_ = 0;
    handlers_.on_message(*std::move(message));
  }
  void drop_held() {
    held_.clear();
    nesting_ = {};
  }
  // Gives up the kept lines: their rest does not come, or is not JSON.
  void give_up_held() {
    if (held_.empty()) return;
    const auto message = parse_message(held_);
    if (!message && glance_at(held_).is_answer) handlers_.on_unreadable(held_, message.error());
    drop_held();
    count_stray();
  }

  void count_stray() {
    ++stray_lines_;
    if (!std::exchange(has_warned_, true)) {
      log::warn(name_ + " writes to its standard output what is no message: " +
                std::string(log::content(std::string_view(line_).substr(0, 200))));
    }
  }

  void read_errors() {
    const auto count = ::read(process_->errors(), buffer_.data(), buffer_.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return process_->close_errors();
    errors_.append(buffer_.data(), static_cast<std::size_t>(count));
    if (errors_.size() > kMaxErrorBytes) errors_.erase(0, errors_.size() - kMaxErrorBytes);
  }

  const std::string name_;
  const std::unique_ptr<Process> process_;
  const std::size_t max_bytes_;
  const TransportHandlers handlers_;
  const int wake_;
  std::atomic<bool> is_closing_ = false;

  // Used by the thread:
  std::array<char, 65536> buffer_{};
  std::string line_;
  std::string held_;  // lines of a message that is not complete
  Nesting nesting_;   // of held_
  std::string errors_;
  int stray_lines_ = 0;
  bool has_warned_ = false;  // about such lines

  std::mutex mutex_;
  std::string waiting_;  // still to be written
  bool is_closed_ = false;

  std::thread thread_;  // last, because it uses the others
};

}  // namespace

Expected<std::unique_ptr<Transport>> start_stdio(const ServerConfig& server,
                                                 const ClientOptions& options,
                                                 TransportHandlers handlers) {
  auto process = Process::start({.arguments = server.command,
                                 .environment = plain_environment(server.environment),
                                 .folder = server.folder});
  if (!process) return Unexpected(std::move(process.error()));
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return Unexpected(Error{Errc::unavailable, "there is no eventfd left"});
  return std::make_unique<StdioTransport>(server.name, *std::move(process),
                                          options.max_message_bytes, std::move(handlers), wake);
}

}  // namespace tenon::mcp
