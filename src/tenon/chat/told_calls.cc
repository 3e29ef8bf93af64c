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

void ToldCalls::feed(const engine::CallPiece& piece, std::vector<ChatEvent>& out) {
  if (over_.contains(piece.index)) {
    if (piece.arguments.empty() || std::exchange(has_told_of_more_, true)) return;
    out.emplace_back(diagnostic("broken_call", "more came of a call that was whole: left out"));
    return;
  }
  if (is_open_ && piece.index != index_ && is_whole()) end(/*truncated=*/false, out);
  if (!is_open_ && !waiting_.empty()) open_first(out);
  if (!is_open_) {
    is_open_ = true;
    index_ = piece.index;
    call_ = {};
  }
  if (piece.index == index_) return take(call_, piece, out);
  Call& later = waiting_[piece.index];
  waiting_bytes_ += piece.name.size() + piece.arguments.size() + sizeof(Call);
  if (waiting_bytes_ > kMaxWaitingBytes) return;  // its arguments are cut, and told as such
  if (later.name.empty()) later.name = piece.name;
  later.arguments += piece.arguments;
}

// Of those that wait.
void ToldCalls::open_first(std::vector<ChatEvent>& out) {
  const auto first = waiting_.extract(waiting_.begin());
  is_open_ = true;
  index_ = first.key();
  call_ = {};
  const Call& call = first.mapped();
  take(call_, {.index = index_, .name = call.name, .arguments = call.arguments}, out);
}

// Arguments may stand before the name.
void ToldCalls::take(Call& call, const engine::CallPiece& piece, std::vector<ChatEvent>& out) {
  if (call.name.empty()) call.name = piece.name;
  call.arguments += piece.arguments;
  if (call.name.empty()) return;
  const bool is_first = !call.is_passed;
  if (is_first) begin(call, out);
  const std::string_view text = is_first ? std::string_view(call.arguments) : piece.arguments;
  if (call.is_content || text.empty()) return;
  out.emplace_back(message::CallArguments{.text = std::string(text)});
}

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

// A call without arguments has none to be cut.
bool ToldCalls::is_whole() const {
  const std::size_t last = call_.arguments.find_last_not_of(kBlank);
  if (last == std::string::npos) return true;
  // Asked whenever something else comes: most of what is not whole is known by its end.
  return call_.arguments[last] == '}' && json::parse(call_.arguments).has_value();
}

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
  const bool is_cut = truncated && !is_whole();
  if (!is_cut && is_blank(call_.arguments)) out.emplace_back(message::CallArguments{.text = "{}"});
  out.emplace_back(message::CallEnd{.incomplete = is_cut});
}

void ToldCalls::interrupt(std::vector<ChatEvent>& out) {
  if (is_open_ && is_whole()) end(/*truncated=*/false, out);
}

void ToldCalls::finish(bool truncated, std::vector<ChatEvent>& out) {
  if (is_open_) end(truncated, out);
  while (!waiting_.empty()) {
    open_first(out);
    end(truncated || waiting_bytes_ > kMaxWaitingBytes, out);
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
