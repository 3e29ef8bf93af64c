#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/format/json_filter.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::chat {

/// Holds the beginning of an object's member back until its value begins, in JSON text that comes
/// in pieces and is right so far: where no value comes, the member was never passed on.
///
///     MemberHold hold;
///     hold.pass(R"({"a": 1, "b")");   // `{"a": 1`
///     hold.pass(": 2}");              // `, "b": 2}`
class MemberHold {
 public:
  /// A name that is longer is passed on.
  static constexpr std::size_t kMaxHeld = 4096;

  /// What may be passed on, of what was held and of `json`.
  [[nodiscard]] std::string pass(std::string_view json);
  /// A member's name, or its beginning, is held.
  [[nodiscard]] bool has_name() const { return held_.find('"') != std::string::npos; }
  /// What is held, which is passed on now.
  [[nodiscard]] std::string release() { return std::exchange(held_, {}); }
  /// Leaves the member out: of `rest`, which would have ended the text with a value for it, the
  /// brackets alone remain.
  [[nodiscard]] std::string end_without(std::string_view rest);

 private:
  void put(char byte, std::string& out) { (is_member_ ? held_ : out) += byte; }
  void begin_value(std::string& out);

  std::string held_;
  std::vector<bool> is_object_;  // the levels that are open
  bool is_member_ = false;       // a member has begun, and its value has not
  bool is_named_ = false;        // its name is over
  bool is_string_ = false;
  bool is_escaped_ = false;
};

/// The calls of an answer whose engine tells them by itself (Takes::messages), as events of one
/// call after the other: arguments are passed on as they come; a call that begins before the one at
/// hand is whole waits for it, one without arguments until the end, for they may still come. What
/// waits beyond kMaxWaitingBytes is left out, and its call incomplete (Diagnostic "broken_call").
/// More of a call that is whole is content (again "broken_call"). Arguments are mended as they pass
/// like those that a format's parser reads (JsonFilter, Diagnostic "mended_arguments"); where they
/// break JSON they are closed so that they are JSON, a member without a value is left out, and what
/// does not fit is content (Diagnostic "spoilt_call"); what does not begin as JSON at all becomes a
/// JSON string. Ids are made here, since servers repeat theirs. A call of a tool that the request
/// does not have goes the way that ParseOptions say, and is content, as JSON, where they say
/// nothing (Diagnostic "unknown_tool").
///
/// Indices of events are of no meaning: whoever takes them counts calls. One object serves one
/// answer, from one thread.
class ToldCalls {
 public:
  static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

  explicit ToldCalls(format::ParseOptions options) : options_(std::move(options)) {}

  void feed(const engine::CallPiece& piece, std::vector<message::ChatEvent>& out);
  /// Something else comes: the call at hand is over if it is whole. If it is not, is_open() says
  /// so, and what comes has to wait.
  void interrupt(std::vector<message::ChatEvent>& out);
  /// The answer is over; `truncated` if it was cut.
  void finish(bool truncated, std::vector<message::ChatEvent>& out);

  /// Null for a tool without one.
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool has_begun() const { return has_begun_; }

 private:
  struct Call {
    std::string name;
    std::string arguments;    // as they came; of a call that is passed on only what came before
    bool is_content = false;  // of an unknown tool
    bool is_passed = false;   // its name is known, and its beginning was passed on
    bool is_cut = false;      // it had to wait with too much
    format::JsonFilter filter{};
    MemberHold hold{};
    std::string misfits;            // what the filter did not take
    std::size_t waiting_bytes = 0;  // what waiting_bytes_ has of it
  };

  void open_first(std::vector<message::ChatEvent>& out);
  void take(Call& call, const engine::CallPiece& piece, std::vector<message::ChatEvent>& out);
  void begin(Call& call, std::vector<message::ChatEvent>& out);
  void end_arguments(bool is_cut, std::vector<message::ChatEvent>& out);
  void wait(const engine::CallPiece& piece);
  void end(bool truncated, std::vector<message::ChatEvent>& out);
  void pass_more(std::vector<message::ChatEvent>& out);
  [[nodiscard]] bool knows(std::string_view tool) const;

  const format::ParseOptions options_;
  bool has_begun_ = false;
  std::string more_;  // that came of calls which were over
  bool has_told_of_more_ = false;
  bool is_open_ = false;
  std::uint32_t index_ = 0;  // of the call at hand
  Call call_;
  std::set<std::uint32_t> over_;
  std::map<std::uint32_t, Call> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool has_left_out_ = false;  // something, since too much waited
};

}  // namespace tenon::chat
