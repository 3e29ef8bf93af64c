#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// What answers are made of in more than one dialect.
namespace tenon::api {

/// By what means an answer's calls are right, and what was not taken as the model wrote it: the
/// member `tenon` of every answer. One note serves one choice, from one thread at a time.
///
///     note.add(event);                  // each event
///     answer.set("tenon", note.encode());
class GuaranteeNote {
 public:
  /// Enough to see what is going on; a model that errs at every step must not fill our memory.
  static constexpr std::size_t kMaxRepairs = 64;

  /// `format`: name of the tool-call format; "" if there is none. `is_json`: the text is in a
  /// response format, and the guarantee speaks of it too.
  explicit GuaranteeNote(std::string format, bool is_json)
      : format_(std::move(format)), is_due_(is_json) {}

  void add(const message::ChatEvent& event);
  /// Takes over what another choice has: the guarantee is the weakest of both.
  void add(const GuaranteeNote& choice);

  /// `{"guarantee", "repairs", "format"}`; the guarantee is null where there is nothing to
  /// guarantee, the format is that of the calls, where there are any. With `"taint": "unenforced"`
  /// where chat::kTaintUnenforced was told, `"usage": "estimated"` where nobody has counted all of
  /// it, and `rlm` where a recursive model answered.
  [[nodiscard]] json::Value encode() const;

 private:
  std::string format_;
  bool is_due_;                                  // there are calls, or JSON was asked for
  std::optional<message::Guarantee> guarantee_;  // once it has ended
  bool is_tainted_ = false;
  bool is_estimated_ = false;
  std::vector<message::Diagnostic> left_out_;  // of the request, which all choices share
  std::vector<message::Diagnostic> repairs_;
  json::Object rlm_;  // of the choice that ended last
};

/// The answer's text is to be JSON, of which its guarantee speaks.
[[nodiscard]] bool wants_json(const message::ChatRequest& request);

/// Names of the tools whose calls have an input instead of arguments.
[[nodiscard]] std::vector<std::string> custom_names(const std::vector<message::Tool>& tools);

/// `[{"token", "logprob", "bytes", "top_logprobs"}, ...]`
[[nodiscard]] json::Array encode_token_logprobs(const std::vector<message::TokenLogprob>& logprobs);

/// Arguments of a call as an object, whatever the model made of them: what is cut is closed, but
/// for a member that is only begun, whose name is not whole or whose value has not come; that is
/// left out. Arguments that are no object stand in the member `input`.
[[nodiscard]] json::Object call_input(std::string_view arguments);

/// As Chat Completions and Completions count.
[[nodiscard]] json::Value encode_usage(const message::Usage& usage);

/// Events of streams.
void append_error_event(const ApiError& error, std::string& out);
void append_done(std::string& out);
void append_keep_alive(std::string& out);
/// Members as text, each with a comma before it: `,"index":0`. What they hold is not copied.
void append_members(std::initializer_list<json::Member> members, std::string& data);
/// The event `type`, whose data are `{"type": type}` and then `members`.
void append_event(std::string_view type, std::initializer_list<json::Member> members,
                  std::string& out);
void append_event(std::string_view type, const json::Object& members, std::string& out);

}  // namespace tenon::api
