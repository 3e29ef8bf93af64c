#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/chat/responder.h"
#include "tenon/chat/stop_matcher.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/message/event.h"

namespace tenon::chat {

using Fault = std::string(std::string_view tool, const json::Value& schema,
                          std::string_view arguments);

struct TurnOptions {
  std::shared_ptr<const format::Format> format;  ///< Null: everything is content.
  format::ParseOptions parse;
  std::vector<std::string> stop;
  bool parallel_tool_calls = true;
  Opening opening;
  /// Tools whose calls no grammar guarantees; "": nor text in the response format.
  std::vector<std::string> unenforced;
  bool is_json = false;                          ///< The text is to be in a response format.
  std::vector<message::Diagnostic> diagnostics;  ///< Events that come first.
  /// How a call's arguments break its tool's schema, told as `invalid_arguments`; "": they fit.
  /// Null: what the grammar takes fits.
  Fault* fault = nullptr;
};

/// One answer of a model: takes the engine's tokens, gives the events. The engine's thread calls
/// on_token and on_end; cancel, pause, resume and attach may be called from any thread.
class Turn final : public engine::EventSink {
 public:
  Turn(TurnOptions options, std::shared_ptr<message::ChatSink> sink);

  void on_token(const engine::Token& token) override;
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
  void pass(message::ChatEvent& event);
  std::string judge(const message::ChatEvent& event);
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
  StopMatcher stops_;
  Opening opening_;
  const bool parallel_;
  const std::vector<std::string> unenforced_;
  const bool is_json_;
  std::vector<message::Diagnostic> diagnostics_;
  Fault* const fault_;
  std::vector<message::ChatEvent> events_;       // of the token in hand
  std::vector<message::TokenLogprob> logprobs_;  // of the tokens since the last event
  std::uint32_t tokens_ = 0;                     // of the answer
  std::uint32_t pending_tokens_ = 0;             // since the last event
  std::uint32_t reasoning_tokens_ = 0;
  std::size_t calls_ = 0;
  bool is_enforced_ = true;  // every call is whole, and of a tool that a grammar can hold
  message::ToolCall call_;   // the one at hand, if fault_ is to judge it
  bool is_over_ = false;     // what the engine still sends is not part of the answer

  // Held while the run is paused or resumed, so that what was wanted last is done last. Taken
  // before mutex_.
  std::mutex flow_mutex_;
  bool pause_wanted_ = false;

  std::mutex mutex_;  // guards the members below; never held while the sink or the engine is called
  std::shared_ptr<engine::Run> run_;
  bool cancel_wanted_ = false;
};

}  // namespace tenon::chat
