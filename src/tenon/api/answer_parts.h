#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// Parts of answers that several dialects share.
namespace tenon::api {

/// By what means an answer's calls are valid, and what was changed of what the model wrote: the
/// member `tenon` of every answer. One note serves one choice, from one thread at a time.
///
///     note.add(event);                  // each event
///     answer.set("tenon", note.encode());
class AnswerNote {
 public:
  /// Enough to see what happens; a model that errs at every step must not fill our memory.
  static constexpr std::size_t kMaxRepairs = 64;

  /// `format`: name of the tool-call format; "" without one. `is_json`: the text is in a response
  /// format, and the guarantee covers it, too.
  explicit AnswerNote(std::string format, bool is_json)
      : format_(std::move(format)), is_due_(is_json) {}

  void add(const message::ChatEvent& event);
  /// The ids of the tokens stand elsewhere in the answer.
  void leave_out_ids() { has_ids_ = false; }

  /// Adds the note of another choice: the guarantee becomes the weaker one of both.
  void add(const AnswerNote& choice);

  /// `{"guarantee", "repairs", "format"}`. The guarantee is null if there is nothing to guarantee;
  /// the format is that of the calls, if there are any. With `"taint": "unenforced"` after
  /// chat::kTaintUnenforced, with `"usage": "estimated"` if some of the usage was not counted,
  /// with `rlm` if a recursive model answered, with `loop` if the conversation repeats its calls,
  /// with `prefix` if the request has the tokens of an earlier answer, and with `tokens` if they
  /// were asked for: an object, or a list of one for each choice.
  [[nodiscard]] json::Value encode() const;

 private:
  std::string format_;
  bool is_due_;                                  // there are calls, or JSON was asked for
  std::optional<message::Guarantee> guarantee_;  // set at the end of the choice
  bool is_tainted_ = false;
  bool is_estimated_ = false;
  std::vector<message::Diagnostic> left_out_;  // of the request; the same for all choices
  std::vector<message::Diagnostic> repairs_;
  json::Object rlm_;  // of the last choice that ended
  message::Loop loop_;
  message::KeptPrefix prefix_;
  std::vector<std::shared_ptr<const message::AnswerTokens>> tokens_;  // of each choice
  bool has_ids_ = true;
};

/// Whether the answer's text must be JSON, so that the guarantee covers it.
[[nodiscard]] bool wants_json(const message::ChatRequest& request);

/// Names of the tools whose calls have an input instead of arguments.
[[nodiscard]] std::vector<std::string> custom_names(const std::vector<message::Tool>& tools);

/// `[{"token", "logprob", "bytes", "top_logprobs"}, ...]`
[[nodiscard]] json::Array encode_token_logprobs(const std::vector<message::TokenLogprob>& logprobs);

/// The arguments of a call as an object, whatever the model wrote. Text that was cut is closed; a
/// last member whose name is not whole or whose value has not begun is left out. Arguments that are
/// not an object become the member `input`.
[[nodiscard]] json::Object call_input(std::string_view arguments);

/// `[1, 2, ...]`
[[nodiscard]] json::Array encode_ids(std::span<const std::int32_t> ids);

/// The usage as Chat Completions and Completions report it.
[[nodiscard]] json::Value encode_usage(const message::Usage& usage);

/// Events of streams.
void append_error_event(const ApiError& error, std::string& out);
void append_done(std::string& out);
void append_keep_alive(std::string& out);
/// Members as text, each with a comma before it: `,"index":0`. Their values are not copied.
void append_members(std::initializer_list<json::Member> members, std::string& data);
/// The event `type`, whose data are `{"type": type}` and then `members`.
void append_event(std::string_view type, std::initializer_list<json::Member> members,
                  std::string& out);
void append_event(std::string_view type, const json::Object& members, std::string& out);

}  // namespace tenon::api
