#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

/// Makes text of models, clients and servers safe for a person's terminal.
namespace tenon::app {

/// `text` without anything that a terminal obeys. Control characters other than line ends and tabs
/// (escape sequences among them), and characters that reorder text (bidirectional embeddings,
/// overrides and isolates), become `\u001b`, `\u202e`; a byte that is not UTF-8 becomes `\xff`. If
/// `keeps_lines` is false, line ends are escaped, too.
[[nodiscard]] std::string printable(std::string_view text, bool keeps_lines = true);

/// printable(text) if the file descriptor is a terminal, else text as it is.
[[nodiscard]] std::string shown(std::string_view text, int descriptor);

/// Whether stdout may get our own escape sequences: it is a terminal and NO_COLOR is not set.
[[nodiscard]] bool has_colours();

/// Tells the user on stderr what a command waits for, once, if this object lives for longer than a
/// moment: a wait without a word looks like a program that hangs.
class WaitNotice {
 public:
  static constexpr std::chrono::seconds kMoment{3};

  explicit WaitNotice(std::string text);
  ~WaitNotice() = default;  // ends the thread, which tells nothing then
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // last, because it uses the others
};

}  // namespace tenon::app
