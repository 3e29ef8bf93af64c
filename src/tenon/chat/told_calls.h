#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::chat {

/// The calls of an answer whose engine tells them by itself (Takes::messages), as events of one
/// call after the other: arguments are passed on as they come; a call that begins before the one at
/// hand is whole waits for it. Ids are made here, since servers repeat theirs. A call of a tool
/// that the request does not have goes the way that ParseOptions say, and is content, as JSON,
/// where they say nothing (Diagnostic "unknown_tool").
///
/// Indices of events are of no meaning: whoever takes them counts calls. One object serves one
/// answer, from one thread.
class ToldCalls {
 public:
  static constexpr std::size_t kMaxWaitingBytes = std::size_t{16} << 20;

  explicit ToldCalls(format::ParseOptions options) : options_(std::move(options)) {}

  void feed(const engine::CallPiece& piece, std::vector<message::ChatEvent>& out);
  /// Something else comes: the call at hand is over if it is whole.
  void interrupt(std::vector<message::ChatEvent>& out);
  /// The answer is over; `truncated` if it was cut.
  void finish(bool truncated, std::vector<message::ChatEvent>& out);

  /// Null for a tool without one.
  [[nodiscard]] const json::Value* schema_of(std::string_view tool) const;
  [[nodiscard]] bool has_begun() const { return has_begun_; }

 private:
  struct Call {
    std::string name;
    std::string arguments;
    bool is_content = false;  // of an unknown tool
    bool is_passed = false;   // its name is known, and its beginning was passed on
  };

  void open_first(std::vector<message::ChatEvent>& out);
  void take(Call& call, const engine::CallPiece& piece, std::vector<message::ChatEvent>& out);
  void begin(Call& call, std::vector<message::ChatEvent>& out);
  void end(bool truncated, std::vector<message::ChatEvent>& out);
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] bool knows(std::string_view tool) const;

  const format::ParseOptions options_;
  bool has_begun_ = false;
  bool has_told_of_more_ = false;  // that came of a call which was over
  bool is_open_ = false;
  std::uint32_t index_ = 0;  // of the call at hand
  Call call_;
  std::set<std::uint32_t> over_;
  std::map<std::uint32_t, Call> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace tenon::chat
