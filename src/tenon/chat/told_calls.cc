#include "tenon/chat/told_calls.h"

#include <algorithm>
#include <utility>

#include "tenon/base/ids.h"

namespace tenon::chat {

using message::ChatEvent;

namespace {

constexpr std::string_view kBlank = " \t\r\n";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlank) == std::string_view::npos;
}

message::Diagnostic diagnostic(std::string_view code, std::string text) {
  return {std::string(code), std::move(text)};
}

}  // namespace

// An upstream may write several calls at the same time, but a client is told one after the other:
// pieces of later calls wait until the present one is over.
void ToldCalls::feed(const engine::CallPiece& piece, std::vector<ChatEvent>& out) {
  // More of a call that is over. Spaces are left out; other text is content, behind the present
  // call.
  if (over_.contains(piece.index)) {
    if (is_blank(piece.arguments)) return;
    if (!std::exchange(has_told_of_more_, true)) {
      out.emplace_back(diagnostic("broken_call", "more came of a call that was whole: content"));
    }
    more_ += piece.arguments;
    return pass_more(out);
  }
  if (piece.index != index_) interrupt(out);
  // The present call is over, so one that waited is opened; if it is whole already, it is over as
  // well, and the next one follows.
  while (!is_open_ && !waiting_.empty()) {
    open_first(out);
    if (piece.index != index_) interrupt(out);
  }
  if (!is_open_) {
    is_open_ = true;
    index_ = piece.index;
    call_ = {};
  }
  if (piece.index == index_) return take(call_, piece, out);
  wait(piece);
}

// What waits is bounded. A call that passes the bound is cut and told as incomplete; a call that
// would begin beyond it is left out whole, which is told, too (has_left_out_).
void ToldCalls::wait(const engine::CallPiece& piece) {
  const auto found = waiting_.find(piece.index);
  const std::size_t bytes =
      piece.name.size() + piece.arguments.size() + (found == waiting_.end() ? sizeof(Call) : 0);
  const bool is_too_much = waiting_bytes_ + bytes > kMaxWaitingBytes;
  has_left_out_ = has_left_out_ || is_too_much;
  if (is_too_much && found == waiting_.end()) return;
  Call& later = waiting_[piece.index];
  later.is_cut = later.is_cut || is_too_much;
  if (later.is_cut) return;
  if (later.name.empty()) later.name = piece.name;
  later.arguments += piece.arguments;
  later.waiting_bytes += bytes;
  waiting_bytes_ += bytes;
}

// Opens the first of the calls that wait.
void ToldCalls::open_first(std::vector<ChatEvent>& out) {
  const auto first = waiting_.extract(waiting_.begin());
  is_open_ = true;
  index_ = first.key();
  call_ = {};
  const Call& call = first.mapped();
  waiting_bytes_ -= call.waiting_bytes;
  take(call_, {.index = index_, .name = call.name, .arguments = call.arguments}, out);
  call_.is_cut = call.is_cut;
}

// Arguments may come before the name.
void ToldCalls::take(Call& call, const engine::CallPiece& piece, std::vector<ChatEvent>& out) {
  if (call.name.empty()) call.name = piece.name;
  // Kept until the name is known, or, for a call that becomes content, until its end.
  if (!call.is_passed || call.is_content) call.arguments += piece.arguments;
  if (call.name.empty()) return;
  std::string_view text = piece.arguments;
  if (!call.is_passed) {
    begin(call, out);
    text = call.arguments;
  }
  if (call.is_content) return;
  const bool had_begun = call.filter.has_begun();
  std::string copy;
  // Text after the value is of no use, unless it is only space.
  if (call.misfits.empty()) text.remove_prefix(call.filter.feed(text, copy));
  if (!call.misfits.empty() || !is_blank(text)) call.misfits += text;
  // Some servers send null for a call without arguments.
  if (!had_begun && copy == "null") copy = "{}";
  // Holds back the name of a member until its value begins, so that it can be left out.
  copy = call.hold.pass(copy);
  if (!copy.empty()) out.emplace_back(message::CallArguments{.text = std::move(copy)});
}

// The name is complete. What happens to an unknown one is the client's choice: it is corrected,
// forwarded, or becomes content.
void ToldCalls::begin(Call& call, std::vector<ChatEvent>& out) {
  call.is_passed = true;
  if (!knows(call.name)) {
    const std::string who = "'" + call.name + "' is not among the request's tools; its call ";
    const std::string meant =
        options_.corrected_name ? options_.corrected_name(call.name) : std::string();
    if (!meant.empty()) {
      out.emplace_back(diagnostic(format::kNameFixed, who + "is taken for one of '" + meant + "'"));
      call.name = meant;
    } else if (options_.any_tool) {
      out.emplace_back(diagnostic("forwarded_tool", who + "is passed on"));
    } else {
      out.emplace_back(diagnostic("unknown_tool", who + "is content"));
      call.is_content = true;
      return;
    }
  }
  has_begun_ = true;
  constexpr std::size_t kIdLength = 24;
  out.emplace_back(
      message::CallBegin{.id = random_id(options_.id_prefix, kIdLength), .name = call.name});
}

// A call that was refused as a call is content, written so that a person can read what the model
// wanted.
void ToldCalls::end(bool truncated, std::vector<ChatEvent>& out) {
  is_open_ = false;
  over_.insert(index_);
  if (call_.is_content) {
    const bool is_json = json::parse(call_.arguments).has_value();
    std::string arguments = is_json ? call_.arguments : json::quoted(call_.arguments);
    if (is_blank(call_.arguments)) arguments = "{}";
    out.emplace_back(message::ContentDelta{"{\"name\": " + json::quoted(call_.name) +
                                           ", \"arguments\": " + arguments + "}"});
    return;
  }
  if (!call_.is_passed) {
    if (!is_blank(call_.arguments)) {
      out.emplace_back(
          diagnostic("broken_call", "a call came without a name; its text is content"));
      out.emplace_back(message::ContentDelta{call_.arguments});
    }
    return;
  }
  const bool is_done = call_.filter.status() == format::JsonFilter::Status::done;
  const bool is_cut = call_.is_cut || (truncated && call_.filter.has_begun() && !is_done);
  end_arguments(is_cut, out);
  out.emplace_back(message::CallEnd{.incomplete = is_cut});
}

// A call without arguments has none that could be cut.
void ToldCalls::end_arguments(bool is_cut, std::vector<ChatEvent>& out) {
  using Status = format::JsonFilter::Status;
  format::JsonFilter& filter = call_.filter;
  bool is_spoilt = !is_cut && filter.status() != Status::done;
  std::string rest;
  // Nothing came that begins as JSON: no arguments at all, or text that becomes a JSON string.
  if (!filter.has_begun()) {
    is_spoilt = !call_.misfits.empty();
    rest = is_spoilt ? json::quoted(std::exchange(call_.misfits, {})) : "{}";
    // Cut by a limit: the arguments stay as incomplete as they are, and the event says so.
  } else if (is_cut) {
    filter.finish(rest);
    rest = call_.hold.pass(rest);
    rest += call_.hold.release();
    // The value is closed where it broke. A member whose value has not begun goes, name and all.
  } else if (is_spoilt) {
    more_ += filter.left_out();
    // What the filter holds is the beginning of a value, unless it only looked like a number.
    const bool has_value = filter.is_holding() && !filter.holds_no_number();
    filter.close(rest);
    const bool is_begun = call_.hold.has_name() && !has_value;
    rest = is_begun ? call_.hold.end_without(rest) : call_.hold.pass(rest);
    rest += call_.hold.release();
  }
  if (!rest.empty()) out.emplace_back(message::CallArguments{.text = std::move(rest)});
  if (filter.is_repaired()) {
    out.emplace_back(
        diagnostic("mended_arguments", "arguments were not JSON and could be repaired"));
  }
  if (is_spoilt || !call_.misfits.empty()) {
    out.emplace_back(diagnostic("spoilt_call", "the arguments of '" + call_.name +
                                                   "' were not JSON; they were made so, and what "
                                                   "did not fit is content"));
  }
  more_ += call_.misfits;
}

// Content may not come within a call, so it waits for its end.
void ToldCalls::pass_more(std::vector<ChatEvent>& out) {
  if (is_open_ || more_.empty()) return;
  out.emplace_back(message::ContentDelta{std::exchange(more_, {})});
}

void ToldCalls::interrupt(std::vector<ChatEvent>& out) {
  const bool is_whole = call_.filter.status() == format::JsonFilter::Status::done || call_.is_cut;
  if (!is_open_ || !is_whole) return;
  end(/*truncated=*/false, out);
  pass_more(out);
}

void ToldCalls::finish(bool truncated, std::vector<ChatEvent>& out) {
  if (is_open_) end(truncated, out);
  while (!waiting_.empty()) {
    open_first(out);
    end(truncated, out);
  }
  pass_more(out);
  if (has_left_out_) {
    out.emplace_back(
        diagnostic("broken_call", "more calls came at once than can wait: some of it is left out"));
  }
}

bool ToldCalls::knows(std::string_view tool) const {
  return std::ranges::find(options_.tools, tool) != options_.tools.end();
}

const json::Value* ToldCalls::schema_of(std::string_view tool) const {
  const auto found = std::ranges::find(options_.tools, tool);
  const auto at = static_cast<std::size_t>(found - options_.tools.begin());
  if (found == options_.tools.end() || at >= options_.schemas.size()) return nullptr;
  return &options_.schemas[at];
}

}  // namespace tenon::chat
