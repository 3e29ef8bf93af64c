#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/chat/call_check.h"
#include "tenon/chat/responder.h"
#include "tenon/chat/stop_matcher.h"
#include "tenon/chat/told_calls.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/message/event.h"
#include "tenon/repair/mender.h"

namespace tenon::chat {

/// As what Finish::format names calls that an engine has told by itself.
inline constexpr std::string_view kToldFormat = "tool_calls";

struct TurnOptions {
  std::shared_ptr<const format::Format> format;  ///< Null: everything is content.
  format::ParseOptions parse;
  std::vector<std::string> stop;
  bool parallel_tool_calls = true;
  bool tells_calls = false;  ///< The engine takes messages, and may tell calls by itself.
  Opening opening;
  /// Tools whose calls no grammar guarantees; "": nor text in the response format.
  std::vector<std::string> unenforced;
  bool is_json = false;  ///< The text is to be in a response format.
  /// What it means that the engine has held an answer to a grammar.
  message::Guarantee held = message::Guarantee::masked;
  bool is_masked = false;  ///< Only calls of tools in `unenforced` are mended: the others fit.
  std::vector<message::Diagnostic> diagnostics;  ///< Events that come first.
  /// Mends and judges calls; what is still wrong is told as `invalid_arguments`. Null: what the
  /// grammar takes fits.
  std::unique_ptr<CallCheck> check;
};

/// One answer of a model: takes the engine's tokens, gives the events. The engine's thread calls
/// on_token and on_end; cancel, pause, resume and attach may be called from any thread.
class Turn final : public engine::EventSink {
 public:
  Turn(TurnOptions options, std::shared_ptr<message::ChatSink> sink);

  void on_token(const engine::Token& token) override;
  void on_reasoning(std::string_view text) override;
  void on_call(const engine::CallPiece& piece) override;
  void on_end(const engine::RunEnd& end) override;

  /// Hands over the run that feeds this turn. Cancels it if that was wanted meanwhile.
  void attach(std::unique_ptr<engine::Run> run);
  void cancel();
  void pause();
  void resume();
  /// Lets go of the run, which cancels it.
  void detach();

 private:
  void feed(std::string_view bytes, bool is_control);
  void begin();
  void pass_all();
  void pass_told(std::vector<message::ChatEvent>& events);
  void pass(message::ChatEvent& event);
  void pass_call(message::ChatEvent& event);
  void begin_call(const message::CallBegin& begin);
  void pass_arguments(message::CallArguments arguments);
  void end_call(const message::CallEnd& end);
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;
  [[nodiscard]] const json::Value& known_schema_of(std::string_view tool) const;
  void weaken(message::Guarantee to);
  void tell(std::string code, std::string message);
  [[nodiscard]] message::Guarantee guarantee(const message::Finish& finish, bool is_held) const;
  void pass_content(std::string text);
  void flush_content();
  void emit(const message::ChatEvent& event);
  void stop_generation();
  [[nodiscard]] message::FinishReason reason(const engine::RunEnd& end) const;
  [[nodiscard]] std::shared_ptr<engine::Run> current_run();

  const std::string request_;  // for log lines: what the log was about when this was made

  // Of the engine's thread.
  std::shared_ptr<message::ChatSink> sink_;
  std::unique_ptr<format::StreamParser> parser_;  // null without a format
  utf8::Sanitizer sanitizer_;                     // instead of the parser
  std::unique_ptr<ToldCalls> told_calls_;         // null where the engine tells none
  std::vector<message::ChatEvent> told_;          // what waits for the end of the parser's call
  bool is_parser_in_call_ = false;
  std::string claimed_by_{kToldFormat};  // of the first call
  StopMatcher stops_;
  Opening opening_;
  const bool parallel_;
  const std::vector<std::string> unenforced_;
  const bool is_json_;
  const message::Guarantee held_;
  const bool is_masked_;
  const bool forwards_;  // also calls of tools that the client did not send
  std::vector<message::Diagnostic> diagnostics_;
  const std::unique_ptr<CallCheck> check_;
  std::vector<message::ChatEvent> events_;       // of the token in hand
  std::vector<message::TokenLogprob> logprobs_;  // of the tokens since the last event
  std::uint32_t tokens_ = 0;                     // of the answer
  std::uint32_t pending_tokens_ = 0;             // since the last event
  std::uint32_t reasoning_tokens_ = 0;
  std::size_t calls_ = 0;
  message::Guarantee guarantee_ = message::Guarantee::masked;  // of the calls so far
  message::ToolCall call_;                          // the one at hand, if check_ is to judge it
  std::unique_ptr<repair::ArgumentMender> mender_;  // of its arguments
  bool is_over_ = false;  // what the engine still sends is not part of the answer

  // Held while the run is paused or resumed, so that what was wanted last is done last. Taken
  // before mutex_.
  std::mutex flow_mutex_;
  bool pause_wanted_ = false;

  std::mutex mutex_;  // guards the members below; never held while the sink or the engine is called
  std::shared_ptr<engine::Run> run_;
  bool cancel_wanted_ = false;
};

}  // namespace tenon::chat
