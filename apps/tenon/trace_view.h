#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/chat/model.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

namespace tenon::app {

/// What an answer was made of, for a person: the prompt as the model reads it, the tokens and the
/// parser's events in the order of their times, and why a call failed.
class AnswerTrace {
 public:
  using Clock = std::chrono::steady_clock;
  /// Lines of tokens and events; what comes after is counted.
  static constexpr std::size_t kMaxRows = 4096;

  explicit AnswerTrace(const message::ChatRequest& request);

  void run(const message::RunBegin& run);
  void made(const message::MadeToken& token, Clock::duration at);
  void piece(const message::MadePiece& piece, Clock::duration at);
  void event(const message::ChatEvent& event, Clock::duration at);
  /// The request was not answered.
  void refused(std::string_view why);

  /// All of it. Nothing in it is obeyed by a terminal, except our own colours.
  [[nodiscard]] std::string text(bool has_colours) const;
  /// For each thing that went wrong, a sentence; empty if nothing did.
  [[nodiscard]] std::vector<std::string> faults() const;

 private:
  struct Row {
    Clock::duration at{};
    std::string token;  // its text, quoted; "": an event
    std::string what;   // of an event
    std::optional<std::uint32_t> legal;
    bool is_control = false;
  };
  void add(Row row);
  [[nodiscard]] std::string prompt_text(bool has_colours) const;
  [[nodiscard]] std::string timeline() const;
  [[nodiscard]] std::string ending() const;

  const std::vector<message::Tool> tools_;
  const message::ToolMode mode_;
  const std::optional<std::uint32_t> max_tokens_;
  std::vector<message::RunBegin> runs_;
  std::vector<std::string> controls_;
  std::vector<Row> rows_;
  std::size_t left_out_ = 0;
  std::size_t tokens_ = 0;
  message::Fold fold_;
  std::string refusal_;
};

/// `model`, whose answers are traced: `tell` gets the trace of each when it is over, on the thread
/// of its last event, before that is passed on.
[[nodiscard]] std::shared_ptr<chat::Model> with_trace(std::shared_ptr<chat::Model> model,
                                                      std::function<void(const AnswerTrace&)> tell);

/// Whether stderr may get our own escape sequences.
[[nodiscard]] bool paints_traces();
/// Prints a trace to stderr.
void print_trace(const AnswerTrace& trace);

}  // namespace tenon::app
