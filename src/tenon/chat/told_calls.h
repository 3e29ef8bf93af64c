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
#include "tenon/format/json_filter.h"
#include "tenon/format/member_hold.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::chat {

/// The calls of an answer whose engine reports them itself (Takes::messages), as events of one call
/// after the other:
/// - Arguments are passed on as they come. A call that begins before the present one is whole waits
///   for it; one without arguments waits until the end, because they may still come. Beyond
///   kMaxWaitingBytes, what waits is left out and its call incomplete. More pieces of a call that
///   is whole are content. Both give the Diagnostic "broken_call".
/// - Arguments are repaired as they pass, like those that a format's parser reads (JsonFilter,
///   Diagnostic "mended_arguments"). Where they break JSON they are closed to be JSON, a member
///   without a value is left out, and the rest is content (Diagnostic "spoilt_call"). Text that
///   does not begin as JSON at all becomes a JSON string.
/// - Ids are made here, since servers repeat theirs.
/// - A call of a tool that the request does not have is treated as ParseOptions say; if they say
///   nothing, it is content, as JSON (Diagnostic "unknown_tool").
///
/// The indices of events mean nothing: the receiver counts calls. One object serves one answer,
/// from one thread.
class ToldCalls {
 public:
  static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

  explicit ToldCalls(format::ParseOptions options) : options_(std::move(options)) {}

  void feed(const engine::CallPiece& piece, std::vector<message::ChatEvent>& out);
  /// Something else comes: the present call is over if it is whole. If it is not, is_open() says
  /// so, and what comes has to wait.
  void interrupt(std::vector<message::ChatEvent>& out);
  /// The answer is over; `truncated` if it was cut.
  void finish(bool truncated, std::vector<message::ChatEvent>& out);

  /// Null for a tool without a schema.
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool has_begun() const { return has_begun_; }

 private:
  struct Call {
    std::string name;
    std::string arguments;    // as they came; for a call that is passed on, only what came before
    bool is_content = false;  // it is of an unknown tool
    bool is_passed = false;   // its name is known, and its beginning was passed on
    bool is_cut = false;      // too much of it had to wait
    format::JsonFilter filter{};
    format::MemberHold hold{};
    std::string misfits;            // text that the filter did not accept
    std::size_t waiting_bytes = 0;  // its part of waiting_bytes_
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
  std::string more_;  // pieces that came for calls which were over
  bool has_told_of_more_ = false;
  bool is_open_ = false;
  std::uint32_t index_ = 0;  // of the present call
  Call call_;
  std::set<std::uint32_t> over_;
  std::map<std::uint32_t, Call> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool has_left_out_ = false;  // something was left out, because too much waited
};

}  // namespace tenon::chat
