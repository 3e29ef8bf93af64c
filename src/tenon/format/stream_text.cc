#include <algorithm>
#include <string>
#include <utility>

#include "tenon/format/space.h"
#include "tenon/format/stream_parser_impl.h"

// Text that is certain to be no part of a marker, on its way to the events. It becomes reasoning or
// content. White space is the difficulty: beside a marker it belongs to the marker, so it is held
// until a word or a marker decides (`spaces`, `held_space`). Two more things are held here: the
// lines of a fence that may hold nothing but calls (Fence), and brackets behind a call that may be
// left over from it. `junk` says that text has come since the last marker; then the ends of calls
// are no longer expected.

namespace tenon::format {
namespace {

using message::ContentDelta;
using message::Diagnostic;
using message::ReasoningDelta;

// White space that may belong to a marker is held back up to this number of bytes.
constexpr std::size_t kMaxSpace = 1024;

}  // namespace

// Text leaves here, once it is certain to be no part of a marker. A prompt that ended within a
// marker gives its bytes first; they belong to the prompt and not to the answer.
void StreamParser::Impl::put(std::string_view bytes) {
  const std::size_t of_prompt = std::min(prompt_bytes, bytes.size());
  prompt_bytes -= of_prompt;
  bytes.remove_prefix(of_prompt);
  if (bytes.empty()) return;
  if (!suspicion.code.empty()) {  // text that began like a call
    const Diagnostic said = std::exchange(suspicion, {});
    diagnose(said.code, said.message);
  }
  if (reasoning) {
    put_reasoning(bytes);
  } else {
    put_answer(bytes);
  }
}

// Text for the user. What may be a line of a fence around calls is held.
void StreamParser::Impl::put_answer(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!fence.is_open()) {
      const std::size_t plain = fence.plain(bytes);
      if (has_lead()) lead.feed(bytes.substr(0, plain));
      if (plain > 0) put_content(bytes.substr(0, plain));
      bytes.remove_prefix(plain);
      if (bytes.empty()) return;
      before_fence = lead;
    }
    const Fence::Reading reading = fence.step(bytes.front());
    if (reading == Fence::Reading::closed) {
      lead.begin_behind_call();
      continue;
    }
    if (has_lead()) lead.feed(bytes.substr(0, 1));
    bytes.remove_prefix(1);
    if (reading == Fence::Reading::text) put_content(fence.release());
  }
}

// White space beside a marker belongs to the marker, so white space is held until a word decides.
// Held brackets and commas may be left over from a call that ended too early (may_reopen); they are
// dropped if another call follows.
void StreamParser::Impl::put_content(std::string_view bytes) {
  if (bytes.empty()) return;
  if (spaces != Spaces::plain) {
    const bool has_brackets = may_have_stray_brackets();
    const bool may_go_on = may_reopen();
    const auto is_held = [&](char byte) {
      return is_space(byte) || (has_brackets && byte == behind.bracket) ||
             (may_go_on && std::string_view(",;]}").find(byte) != std::string_view::npos);
    };
    const auto word =
        static_cast<std::size_t>(std::ranges::find_if_not(bytes, is_held) - bytes.begin());
    if (spaces != Spaces::dropped) held_space.append(bytes.substr(0, word));
    bytes.remove_prefix(word);
    if (bytes.empty() && held_space.size() <= kMaxSpace) return;
    if (spaces == Spaces::after_marker && held_space.starts_with(edge)) {
      held_space.erase(0, edge.size());
    }
    text += std::exchange(held_space, {});
    spaces = Spaces::plain;
    on_junk();
  }
  text += bytes;
}

// Leading white space is dropped; trailing white space waits for the text after it.
void StreamParser::Impl::put_reasoning(std::string_view bytes) {
  if (spaces == Spaces::dropped) {
    bytes.remove_prefix(std::min(bytes.find_first_not_of(kSpace), bytes.size()));
    if (bytes.empty()) return;
    spaces = Spaces::plain;
  }
  const std::size_t last = bytes.find_last_not_of(kSpace);
  if (last != std::string_view::npos) {
    text.append(held_space).append(bytes.substr(0, last + 1));
    held_space.clear();
    space_is_text = false;
    bytes.remove_prefix(last + 1);
  }
  held_space += bytes;
  space_is_text = space_is_text || held_space.size() > kMaxSpace;  // then the whole run is text
  if (space_is_text) text += std::exchange(held_space, {});
}

void StreamParser::Impl::on_junk() {
  if (junk) return;
  junk = true;
  owes_close = at_head = false;
  refresh();
}

// Behind a call, before a marker that is due there, a model may write brackets too many.
bool StreamParser::Impl::may_have_stray_brackets() const {
  return behind.bracket != '\0' && !junk && spaces == Spaces::after_marker &&
         (!behind.tail.empty() || section.is_open);
}

// The section has just ended. Where a model has closed it too early, its calls go on.
bool StreamParser::Impl::may_reopen() const {
  return section.syntax != nullptr && !section.is_open && section.closed > 0 && !junk &&
         !reasoning && spaces == Spaces::after_marker;
}

// The held white space belongs to the marker behind it, and so do brackets in it.
void StreamParser::Impl::drop_space() {
  const std::string_view brackets = trimmed(held_space);
  if (!brackets.empty()) {
    diagnose("stray_marker", "'" + std::string(brackets) + "' ends no call; it is left out");
  }
  held_space.clear();
}

void StreamParser::Impl::begin_reasoning() {
  flush_text();
  at_head = false;
  reasoning = true;
  space_is_text = false;
  spaces = Spaces::dropped;
}

// The answer begins anew: white space before its first word is dropped, and calls may come again.
void StreamParser::Impl::end_reasoning() {
  held_space.clear();
  flush_text();
  reasoning = false;
  suspicion = {};
  seen_marker = true;
  junk = at_head = false;
  spaces = Spaces::dropped;
  lead.begin();
  refresh();
}

void StreamParser::Impl::flush_text() {
  if (text.empty()) return;
  if (reasoning) {
    out->emplace_back(ReasoningDelta{text});
  } else {
    out->emplace_back(ContentDelta{text});
  }
  text.clear();
}

void StreamParser::Impl::diagnose(std::string code, std::string message) {
  flush_text();
  out->emplace_back(Diagnostic{std::move(code), std::move(message)});
}

}  // namespace tenon::format
