#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/chat/call_check.h"
#include "tenon/chat/marker_hold.h"
#include "tenon/chat/prepared.h"
#include "tenon/chat/responder.h"
#include "tenon/chat/stop_matcher.h"
#include "tenon/chat/told_calls.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/run_slot.h"
#include "tenon/format/format.h"
#include "tenon/format/stream_parser.h"
#include "tenon/message/event.h"
#include "tenon/repair/argument_repairer.h"
#include "tenon/schema/schema.h"

namespace tenon::chat {

/// The value of Finish::format for calls that an engine has reported itself.
inline constexpr std::string_view kToldFormat = "tool_calls";

struct TurnOptions {
  std::shared_ptr<const format::Format> format;  ///< Null: everything is content.
  format::ParseOptions parse;
  std::vector<std::string> stop;
  std::vector<std::string> turn_begins;  ///< As ModelOptions has them.
  bool parallel_tool_calls = true;
  /// The answer ends after so many calls, which is reported as `call_limit`; 0: any number.
  std::uint32_t max_calls = 0;
  message::Loop loop;          ///< For Finish::loop.
  message::KeptPrefix prefix;  ///< For Finish::prefix.
  /// Collects the tokens for Finish::tokens; null: they are not wanted.
  std::shared_ptr<message::AnswerTokens> tokens;
  /// A call that repeats the one before, equal to the byte in name and arguments, is left out and
  /// reported as `repeated_call`; after the second repeat the answer is over.
  bool drops_repeats = false;
  bool tells_calls = false;  ///< The engine takes messages, and may report calls itself.
  /// The engine tells how many tokens each piece has; if not, only its usage is known.
  bool counts_tokens = true;
  Opening opening;
  /// Tools whose calls no grammar guarantees; "" stands for text in the response format.
  std::vector<std::string> unenforced;
  /// The client wants log probabilities, with this many of the likeliest tokens; absent: none.
  std::optional<std::uint32_t> logprobs;
  bool has_response_format = false;  ///< The text must be in a response format.
  /// Validates a text in a response format once it is whole; null: no need, or no way, to do so.
  std::shared_ptr<const schema::Schema> text_schema;
  /// The guarantee of an answer that the engine has constrained.
  message::Guarantee when_constrained = message::Guarantee::masked;
  bool is_masked = false;  ///< Only calls of tools in `unenforced` are repaired: the others fit.
  std::vector<message::Diagnostic> diagnostics;  ///< Events that come first.
  /// Repairs and validates calls; what is still wrong is reported as `invalid_arguments`. Null:
  /// what the grammar allows is valid.
  std::unique_ptr<CallCheck> check;
};

/// One answer of a model: receives the engine's tokens and makes the events. The engine's thread
/// calls on_token and on_end; any thread may use run().
class Turn final : public engine::EventSink {
 public:
  Turn(TurnOptions options, std::shared_ptr<message::ChatSink> sink);

  void on_token(const engine::Token& token) override;
  void on_reasoning(std::string_view text) override;
  void on_call(const engine::CallPiece& piece) override;
  void on_upstream(const message::UpstreamPart& part) override;
  void on_end(const engine::RunEnd& end) override;

  /// The slot of the run that feeds this turn.
  engine::RunSlot<engine::Run>& run() { return run_; }

 private:
  void feed(std::string_view bytes, bool is_control);
  void keep_logprob(const message::TokenLogprob& logprob);
  void begin();
  void pass_all();
  void pass_told(std::vector<message::ChatEvent>& events);
  void pass_waiting();
  void interrupt_text(bool is_marker);
  [[nodiscard]] bool has_to_wait(std::string_view text, bool is_reasoning);
  void pass_asides();
  void pass_reasoning(std::string text);
  void pass(message::ChatEvent& event);
  void pass_call(message::ChatEvent& event);
  [[nodiscard]] bool holds_repeat(message::ChatEvent& event);
  void pass_to_call(message::ChatEvent& event);
  void drop_repeat();
  void begin_call(const message::CallBegin& begin);
  void pass_arguments(message::CallArguments arguments);
  void end_call(const message::CallEnd& end);
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;
  [[nodiscard]] const json::Value& known_schema_of(std::string_view tool) const;
  void weaken(message::Guarantee to);
  void tell(std::string code, std::string message);
  [[nodiscard]] message::Guarantee guarantee(const message::Finish& finish, bool is_constrained);
  [[nodiscard]] message::Guarantee guarantee_of_text(bool is_constrained);
  void pass_content(std::string text);
  void flush_content();
  void search_stops(std::string text);
  [[nodiscard]] message::Usage usage(const engine::RunEnd& end) const;
  void emit(const message::ChatEvent& event);
  void stop_generation();
  [[nodiscard]] message::FinishReason reason(const engine::RunEnd& end) const;

  const std::string request_;  // the request id of the log when this was made, for log lines

  // Used by the engine's thread.
  std::shared_ptr<message::ChatSink> sink_;
  const bool is_watched_;
  std::unique_ptr<format::StreamParser> parser_;  // null without a format
  utf8::Sanitizer sanitizer_;                     // used if there is no parser
  std::unique_ptr<ToldCalls> told_calls_;         // null if the engine reports no calls
  std::vector<message::ChatEvent> told_;          // wait for the end of the parser's call
  struct Aside {
    std::string text;
    bool is_reasoning = false;
  };
  std::vector<Aside> asides_;  // text that came while a told call was open
  bool is_parser_in_call_ = false;
  std::string claimed_by_{kToldFormat};  // the format of the first call
  std::optional<MarkerHold> markers_;    // of answers whose engine reads calls itself
  StopMatcher stops_;
  std::vector<std::string> stop_;  // those of them that the client has sent
  Opening opening_;
  const bool parallel_;
  const std::uint32_t max_calls_;
  const message::Loop loop_;
  const message::KeptPrefix prefix_;
  const std::shared_ptr<message::AnswerTokens> told_tokens_;  // null: not wanted
  const bool drops_repeats_;
  const bool counts_tokens_;
  const std::optional<std::uint32_t> wants_logprobs_;
  const std::vector<std::string> unenforced_;
  const bool has_response_format_;
  const std::shared_ptr<const schema::Schema> text_schema_;
  std::string text_;  // the answer's text, if it is to be validated
  const message::Guarantee when_constrained_;
  const bool is_masked_;
  const bool forwards_;  // passes on calls of tools that the client did not send, too
  std::vector<message::Diagnostic> diagnostics_;
  const std::unique_ptr<CallCheck> check_;
  std::vector<message::ChatEvent> events_;       // of the present token
  std::vector<message::TokenLogprob> logprobs_;  // of the tokens since the last event
  std::uint32_t tokens_ = 0;                     // of the answer
  std::uint32_t pending_tokens_ = 0;             // since the last event
  std::uint32_t reasoning_tokens_ = 0;
  std::size_t calls_ = 0;
  message::Guarantee guarantee_ = message::Guarantee::masked;  // of the calls so far
  // For leaving out repeats: the call that was passed on last, as the model wrote it, and the
  // events of one that may be equal to it.
  message::ToolCall last_;
  std::vector<message::ChatEvent> held_back_;
  std::size_t held_bytes_ = 0;                          // of arguments in held_back_
  std::size_t repeats_ = 0;                             // since last_
  message::ToolCall call_;                              // the present one, if check_ validates it
  std::unique_ptr<repair::ArgumentRepairer> repairer_;  // for the present call
  bool is_over_ = false;  // what the engine still sends is not part of the answer

  engine::RunSlot<engine::Run> run_;
};

/// The Answer through which the client controls the turn.
[[nodiscard]] std::unique_ptr<Answer> answer_of(std::shared_ptr<Turn> turn,
                                                std::size_t prompt_tokens = 0);

}  // namespace tenon::chat
