#include "tenon/format/stream_parser.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/format/space.h"
#include "tenon/format/stream_parser_impl.h"

// Three modes. In text, an automaton searches for all markers at once, and a set says which of them
// may come now (stream_markers.cc). A marker that begins a head or a call leads to its mode. Until
// the head or the call is certain, its bytes are held. If it turns out to be text they are read
// again; then the same marker at the same place is not taken (RetryState), or is taken for the next
// syntax that it begins.
//
// This file has the input: where bytes come from, in which order they are read, and what happens to
// held ones when the answer ends. Bytes that are read again come before new ones and are paid from
// a budget that grows with the input (RereadState), so the whole stays linear for every text: each
// new byte allows kRereadPerByte bytes to be read again, and what exceeds that is text unread.

namespace tenon::format {
namespace {

// The control tokens that are part of `literal`; if several fit, the longest.
std::vector<ControlPlace> controls_in(std::string_view literal,
                                      const std::vector<std::string>& controls) {
  std::vector<ControlPlace> places;
  for (std::size_t at = 0; at < literal.size();) {
    std::size_t size = 0;
    for (const std::string& control : controls) {
      if (literal.substr(at).starts_with(control)) size = std::max(size, control.size());
    }
    if (size > 0) places.push_back({at, at + size});
    at += std::max<std::size_t>(size, 1);
  }
  return places;
}

}  // namespace

bool RereadState::pay(std::size_t size) {
  const auto cost = static_cast<std::int64_t>(size);
  if (cost > budget) return false;
  budget -= cost;
  return true;
}

// The bytes are either all still in `bytes`, where the present reading ends with them, or were
// never there.
void RereadState::repeat(std::string read) {
  if (bytes.empty()) {
    bytes = std::move(read);
  } else {
    back += read.size();
  }
}

void RereadState::advance(std::size_t size) {
  at += size;
  assert(at >= back && at <= bytes.size());
  at -= std::exchange(back, 0);
  if (at < bytes.size()) return;
  bytes.clear();
  at = 0;
}

StreamParser::Impl::Impl(std::shared_ptr<const Format> format_in, ParseOptions options_in)
    : format(std::move(format_in)), options(std::move(options_in)) {
  for (std::size_t i = 0; i < options.tools.size(); ++i) {
    tools[options.tools[i]] = i < options.schemas.size() ? &options.schemas[i] : nullptr;
  }
  for (const std::string& literal : format->literals) {
    controls_of.push_back(controls_in(literal, options.control_markers));
  }
  reset();
}

void StreamParser::Impl::reset() {
  static_cast<AnswerState&>(*this) = {};
  lead.begin();
  if (options.parse_reasoning && starts_in_reasoning(*format, options.prompt_tail)) {
    begin_reasoning();
  }
  refresh();
  begin_behind_prompt();
}

// The end of the prompt is read as if the answer began with it, except for content in it.
void StreamParser::Impl::begin_behind_prompt() {
  if (format->prompt_end.empty()) return;
  std::vector<message::ChatEvent> none;
  out = &none;
  prompt_bytes = format->prompt_end.size();
  controls = controls_in(format->prompt_end, options.control_markers);
  run(format->prompt_end);
  lead.begin();
  out = nullptr;
}

// Makes valid UTF-8 of the bytes before anything else reads them, so that every cut of a character
// ends in the same text. Almost all output is valid and is read where it lies. A token is taken as
// a control token by its place in the output, so that a marker is recognised however the bytes are
// held and read again.
void StreamParser::Impl::feed(std::string_view bytes, bool control) {
  if (control && sanitizer_open) {  // a control token cuts off the character before it
    clean.clear();
    sanitizer.finish(clean);
    sanitizer = {};
    sanitizer_open = false;
    run(clean);
  }
  if (sanitizer_open || utf8::valid_prefix(bytes) != bytes.size()) {
    clean.clear();
    sanitizer.feed(bytes, clean);
    sanitizer_open = true;  // from now on a tail may be held; only malformed output needs this
    bytes = clean;
  }
  if (control && !bytes.empty()) controls.push_back({taken, taken + bytes.size()});
  run(bytes);
  if (!controls.empty()) forget_controls();
  flush_arguments();
  flush_text();
}

// Drops the control tokens before everything that is held.
void StreamParser::Impl::forget_controls() {
  const std::size_t held_now = head.is_open                         ? head.held.size()
                               : call.is_open && !call.is_committed ? call.held.size()
                               : call.is_open                       ? reader.bytes_in_doubt()
                                              : std::size_t{format->automaton.depth(node)};
  const std::uint64_t from = taken - held_now;
  std::erase_if(controls, [from](const ControlPlace& place) { return place.end <= from; });
}

// The control tokens in a literal that ends at `end` came in as such.
bool StreamParser::Impl::has_its_controls(LiteralId id, std::uint64_t end) const {
  const std::uint64_t begin = end - format->literals[id].size();
  const std::vector<ControlPlace>& wanted = controls_of[id];
  return std::all_of(wanted.begin(), wanted.end(), [&](const ControlPlace& place) {
    const ControlPlace there{begin + place.begin, begin + place.end};
    return std::find(controls.begin(), controls.end(), there) != controls.end();
  });
}

// Bytes that were held for a call and turned out to be text are read again, before new ones.
void StreamParser::Impl::run(std::string_view bytes) {
  while (true) {
    reread.is_new = reread.bytes.empty();
    if (!reread.is_new) {
      reread.advance(read(reread.rest()));
    } else if (!bytes.empty()) {
      const std::size_t used = read(bytes);
      taken += used;
      bytes.remove_prefix(used);
    } else {
      break;
    }
  }
}

std::size_t StreamParser::Impl::read(std::string_view bytes) {
  if (has_ended) return leave_out(bytes);
  return call.is_open ? read_call(bytes) : head.is_open ? read_head(bytes) : read_text(bytes);
}

// Behind a call and the marker that ends the turn the model only imagines what the tool returns.
std::size_t StreamParser::Impl::leave_out(std::string_view bytes) {
  if (tells_of_end && bytes.find_first_not_of(kSpace) != std::string_view::npos) {
    tells_of_end = false;
    diagnose("behind_end",
             "what stands behind a call and the marker that ends the turn is left out");
  }
  return bytes.size();
}

// An end can close several calls: what a cut call held may itself begin one. What is left at the
// end is text, except white space behind a marker, which no format means.
void StreamParser::Impl::finish(bool truncated) {
  if (sanitizer_open) {
    clean.clear();
    sanitizer.finish(clean);
    run(clean);
  }
  settle_held();
  while (call.is_open) {
    finish_call(truncated);
    settle_held();
  }
  if (is_open_end_marker()) node = Automaton::kRoot;
  release_node(0);
  put_content(fence.finish());
  // Brackets too many at the answer's end say nothing.
  if (may_reopen() && held_space.find_first_not_of(" \t\r\n]}") == std::string::npos) drop_space();
  if (!seen_marker || reasoning || !trimmed(held_space).empty()) text += held_space;
  held_space.clear();
  flush_text();
}

// The text ends inside a call. What stands behind a marker that ended the call after all is read
// again, and may have another call in it.
void StreamParser::Impl::finish_call(bool truncated) {
  const bool was_over = !truncated && reader.may_be_whole();
  const bool whole = was_over || reader.is_whole();
  std::string left_out = truncated ? reader.finish() : reader.close();
  if (truncated) {
    flush_arguments();
    send_arguments(call.hold.release());
  } else {
    left_out = complete_arguments() + left_out;
  }
  if (!was_over) {
    diagnose(whole ? "unclosed_call" : "incomplete_call",
             whole ? "the text ends before the call's end marker"
                   : "the text ends inside the call's arguments");
  }
  end_call(!whole);
  put(left_out);
  if (!reread.pay(reread.bytes.size())) {
    const std::string unread = std::exchange(reread.bytes, {});
    return put(unread);
  }
  run({});
}

void StreamParser::Impl::interrupt(bool is_marker) {
  settle_held();
  if (!call.is_open) {
    release_node(0);
    if (!fence.is_around_calls()) put_content(fence.release());
    if (is_marker) at_marker();
  }
  flush_arguments();
  flush_text();
}

// Called when nothing more comes that could decide about the held bytes.
void StreamParser::Impl::settle_held() {
  while (head.is_open) {
    fail_head();
    run({});
  }
  while (call.is_open && !call.is_committed) {
    if (reader.has_arguments()) return commit();  // only its end was uncertain
    if (call.why.code.empty()) {
      call.why = {
          "broken_call",
          "a call could not be parsed: the text ends inside a marker or before its name is whole"};
    }
    fail_call();
    run({});
  }
}

// The held bytes are no head and no call: they are read again as text, or are text at once where
// that would cost too much.
void StreamParser::Impl::read_again(std::string held) {
  node = Automaton::kRoot;
  if (!reread.pay(held.size())) {
    retry = {};
    return put(held);
  }
  retry.is_on = true;
  retry.depth = 0;
  reread.repeat(std::move(held));
}

// ---- the public face ----

StreamParser::StreamParser(std::shared_ptr<const Format> format, ParseOptions options)
    : impl_(std::make_unique<Impl>(std::move(format), std::move(options))) {}
StreamParser::~StreamParser() = default;
StreamParser::StreamParser(StreamParser&&) noexcept = default;
StreamParser& StreamParser::operator=(StreamParser&&) noexcept = default;

void StreamParser::feed(std::string_view bytes, bool is_control,
                        std::vector<message::ChatEvent>& out) {
  impl_->out = &out;
  impl_->feed(bytes, is_control);
}

void StreamParser::interrupt(bool is_marker, std::vector<message::ChatEvent>& out) {
  impl_->out = &out;
  impl_->interrupt(is_marker);
}

void StreamParser::finish(bool truncated, std::vector<message::ChatEvent>& out) {
  impl_->out = &out;
  impl_->finish(truncated);
}

const json::Value* StreamParser::schema_of(std::string_view tool) const {
  const auto found = impl_->tools.find(tool);
  return found == impl_->tools.end() ? nullptr : found->second;
}

std::size_t StreamParser::call_count() const {
  return impl_->calls;
}
const std::string& StreamParser::claimed_by() const {
  return impl_->claimed_by;
}
bool StreamParser::awaits_end_marker() const {
  return !impl_->behind.tail.empty();
}

void StreamParser::reset() {
  impl_->reset();
}

}  // namespace tenon::format
