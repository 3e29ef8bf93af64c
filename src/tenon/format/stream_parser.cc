#include "tenon/format/stream_parser.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "tenon/base/ids.h"
#include "tenon/base/utf8.h"
#include "tenon/format/call_reader.h"
#include "tenon/format/definition.h"
#include "tenon/format/fence.h"
#include "tenon/format/format.h"
#include "tenon/format/lead.h"
#include "tenon/format/member_hold.h"
#include "tenon/format/space.h"

// Two modes. In text, an automaton searches for all markers at once, and a set says which of them
// may come now. A marker that begins a call leads to the mode `call`, where CallReader follows the
// syntax. Until the call is certain, its bytes are held. If it turns out not to be a call they are
// read again as text, in which the same marker at the same place is not taken (`tried_`), or is
// taken for the next syntax that it begins. Bytes that are read again are paid from a budget that
// grows with the input, so the whole stays linear for every text.

namespace tenon::format {
namespace {

using message::CallArguments;
using message::CallBegin;
using message::CallEnd;
using message::ChatEvent;
using message::ContentDelta;
using message::Diagnostic;
using message::ReasoningDelta;

// White space that may belong to a marker is held back up to this number of bytes.
constexpr std::size_t kMaxSpace = 1024;
// The length of ids made here, without their prefix.
constexpr std::size_t kIdLength = 24;
// How many bytes may be read again for each byte of input, and at the start.
constexpr std::int64_t kRereadPerByte = 4;
constexpr std::int64_t kFirstReread = 4096;
// The length of a message's head.
constexpr std::size_t kMaxHead = 512;
constexpr std::size_t kAnyRank = std::numeric_limits<std::size_t>::max();

LiteralSet bit(LiteralId id) {
  return LiteralSet::of(id);
}

/// The place of a control token, in byte offsets.
struct Place {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const Place&) const = default;
};

/// The control tokens that are part of `literal`; if several fit, the longest.
std::vector<Place> controls_in(std::string_view literal, const std::vector<std::string>& controls) {
  std::vector<Place> places;
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

/// The meaning of a head; `text` is all of it except its end.
struct Head {
  std::string_view channel;
  std::string_view recipient;
};

// The word after the last `before` that begins a word.
std::string_view last_word(std::string_view text, std::string_view before) {
  constexpr std::string_view kEnds = " \t\r\n<";
  if (before.empty()) return {};
  for (std::size_t at = text.rfind(before); at != std::string_view::npos;
       at = at > 0 ? text.rfind(before, at - 1) : std::string_view::npos) {
    const bool is_marker = before.starts_with('<');
    if (!is_marker && at > 0 && !is_space(text[at - 1]) && text[at - 1] != '>') continue;
    std::string_view word = text.substr(at + before.size());
    word.remove_prefix(std::min(word.find_first_not_of(kSpace), word.size()));
    return word.substr(0, std::min(word.find_first_of(kEnds), word.size()));
  }
  return {};
}

bool is_one_of(std::string_view word, const std::vector<std::string>& words) {
  return !word.empty() && std::ranges::find(words, word) != words.end();
}

/// The mode text.
struct TextState {
  enum class Spaces : std::uint8_t { first, after_marker, dropped, plain };
  Automaton::Node node = Automaton::kRoot;
  LiteralSet active;                 // literals that may come now
  LiteralSet gated;                  // those of them that only begin a call in another form
  std::optional<LiteralId> waiting;  // a marker at the beginning of the held bytes, still to act on
  Spaces spaces = Spaces::first;     // the meaning of white space that comes now
  bool reasoning = false;
  bool in_section = false;
  bool reopens = false;  // of the call: it stands behind the end of its section
  bool junk = false;     // there was text since the last marker
  bool seen_marker = false;
  bool has_ended = false;     // the turn ended behind a call; what comes now is no part of it
  bool tells_of_end = false;  // that something came behind the end has not been told yet
  bool at_head = true;        // a message begins here
  bool in_answer = false;     // the head of this message says that it is for the user
  bool in_head = false;       // `held` is the beginning of a head
  bool by_head = false;       // of the call: a head began it
  bool owes_close = false;    // a call has ended the reasoning, whose own end may still come
  Lead lead;  // the text since the reasoning or the last call, without text that is held
  Fence fence;
  Lead before_fence;  // the same up to the fence that is held
  const Syntax* section = nullptr;
  std::size_t closed = 0;      // number of its close marks that have come
  std::span<const Mark> tail;  // what should follow the last call
  char bracket = '\0';         // with which the last call ends; 0: with none
  std::string_view edge;       // white space that belongs to the last marker
  std::string held_space;
  bool space_is_text = false;  // in reasoning: this run of white space is too long to be held
  std::string text;            // content or reasoning to be sent
};

/// The mode call, and the calls of this answer.
struct CallState {
  bool in_call = false;
  bool committed = false;
  bool is_next = false;  // in a section that is already open
  MemberHold hold;       // of the call's arguments
  const Syntax* syntax = nullptr;
  std::size_t syntax_index = 0;
  LiteralId call_literal = 0;
  std::string held;  // bytes since the call's first marker, while the call is uncertain
  std::uint32_t calls = 0;
  std::set<std::string> ids;       // ids that the model has written
  std::size_t claimed = kAnyRank;  // the lowest rank of any call
  std::string claimed_by;          // of the first call
  LiteralSet leaked;               // markers of calls that became text
  Diagnostic suspicion;            // for a failed call: reported if its bytes turn out to be text
  Diagnostic unknown;    // set if one of the syntaxes tried here read a name that is not a tool's
  std::string stranger;  // the last such name
  Diagnostic broken;     // set if one of the syntaxes tried here has a marker that is a call's
  std::string why_code;  // why the call that is being tried failed
  std::string why_text;
};

/// Bytes that are read again, as text, because the call that they seemed to begin failed.
struct RereadState {
  std::string again;
  std::size_t again_at = 0;
  std::int64_t budget = kFirstReread;
  bool is_first_time = true;  // the bytes being read are not from `again`
  bool retrying = false;      // the automaton has held every byte since the place of a failed call
  std::size_t retry_depth = 0;  // the number of these bytes
  LiteralSet tried;             // literals that failed there
  LiteralId retry_literal = 0;
  std::size_t retry_from = 0;    // for retry_literal, the first syntax not tried yet
  bool retries_section = false;  // ... as syntax_in_section counts
};

/// What has come in.
struct InputState {
  // Control tokens that came in as such, as far as they may be part of a marker. Places are byte
  // offsets in the answer.
  std::vector<Place> controls;
  std::uint64_t taken = 0;       // bytes that have been read for the first time
  std::size_t prompt_bytes = 0;  // bytes of Format::prompt_end that are not used yet
  utf8::Sanitizer sanitizer;
  bool sanitizer_open = false;
};

/// What an answer changes in the parser. reset() replaces all of it at once.
struct AnswerState : TextState, CallState, RereadState, InputState {};

}  // namespace

// It is its state, so that the modes name the fields plainly.
struct StreamParser::Impl : AnswerState {
  Impl(std::shared_ptr<const Format> format_in, ParseOptions options_in)
      : format(std::move(format_in)), options(std::move(options_in)) {
    for (std::size_t i = 0; i < options.tools.size(); ++i) {
      tools[options.tools[i]] = i < options.schemas.size() ? &options.schemas[i] : nullptr;
    }
    for (const std::string& literal : format->literals) {
      controls_of.push_back(controls_in(literal, options.control_markers));
    }
    reset();
  }

  void reset();
  void feed(std::string_view bytes, bool is_control);
  void finish(bool truncated);
  void finish_call(bool truncated);
  void interrupt(bool is_marker);
  void settle_held();
  void begin_behind_prompt();
  void run(std::string_view bytes);
  std::size_t read(std::string_view bytes);
  std::size_t leave_out(std::string_view bytes);

  // Text.
  std::size_t read_text(std::string_view bytes);
  void earn(std::size_t size);
  bool take(const LiteralSet& ended, std::size_t depth, std::uint64_t end);
  void note_leak(const LiteralSet& ended, std::uint64_t end);
  [[nodiscard]] bool has_its_controls(LiteralId id, std::uint64_t end) const;
  void forget_controls();
  [[nodiscard]] bool is_at_retry(std::size_t before) const;
  void on_literal(LiteralId id);
  void act_on(LiteralId id);
  bool begins_call(LiteralId id);
  void release_node(std::uint16_t keep);
  [[nodiscard]] bool waits_for_longer(LiteralId id) const;
  void put_held(std::string_view bytes);
  void put(std::string_view text);
  void put_answer(std::string_view text);
  void put_content(std::string_view text);
  void put_reasoning(std::string_view text);
  void on_junk();
  [[nodiscard]] bool may_have_stray_brackets() const;
  [[nodiscard]] bool may_reopen() const;
  void drop_space();
  void at_marker(std::string_view space = {});
  void refresh();
  void begin_reasoning();
  void end_reasoning();

  // Heads of messages.
  [[nodiscard]] bool is_head(LiteralId id) const {
    return format->head.openers.contains(id) ||
           (at_head && format->head.first_openers.contains(id));
  }
  // A literal that begins a head begins nothing else.
  [[nodiscard]] LiteralSet heads() const {
    return format->head.openers | format->head.first_openers;
  }
  void start_head(LiteralId id);
  std::size_t read_head(std::string_view bytes);
  [[nodiscard]] bool is_no_head() const;
  void end_head();
  void fail_head();
  void call_by_head(std::string_view recipient);

  // Calls.
  void start_reader(bool is_marked, bool is_tag);
  [[nodiscard]] bool pay_for_held();
  void read_again();
  void read_once_more(const std::string& bytes);
  void start_call(std::size_t syntax_index, LiteralId id, bool in_section_now);
  std::size_t read_call(std::string_view bytes);
  void settle_call();
  void commit();
  void tell_of_call();
  void end_call(bool incomplete);
  void fail_call();
  void spoil_call();
  [[nodiscard]] bool may_call(const Syntax& syntax) const;
  [[nodiscard]] bool may_stand(const Syntax& syntax, const Lead& before) const {
    return syntax.rank == 0 ||
           before.admits(options.others_first ? Lead::Place::first : syntax.place);
  }
  [[nodiscard]] bool may_stand(LiteralId id, std::size_t before) const;
  // Whether something asks for the text before a call.
  [[nodiscard]] bool has_lead() const { return format->has_gated || !options.tools.empty(); }
  [[nodiscard]] bool syntax_of(LiteralId id, std::size_t from, std::size_t& index) const;
  [[nodiscard]] bool shares_section(const Syntax& other) const;
  [[nodiscard]] bool syntax_in_section(LiteralId id, std::size_t from, std::size_t& index) const;
  [[nodiscard]] bool other_syntax(LiteralId id, std::size_t& from) const;

  // Events.
  [[nodiscard]] bool is_open_end_marker() const;
  [[nodiscard]] std::span<const Mark> closes() const;
  void flush_text();
  void flush_arguments();
  void send_arguments(std::string json);
  std::string complete_arguments();
  void diagnose(std::string code, std::string text);

  std::shared_ptr<const Format> format;
  ParseOptions options;
  // For each literal: its bytes that are control tokens.
  std::vector<std::vector<Place>> controls_of;
  ToolSchemas tools;  // pointers into options.schemas

  CallReader reader;  // start() prepares it for a call
  std::string clean;  // what the sanitizer made of the bytes that came last
  std::vector<ChatEvent>* out = nullptr;
};

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
  std::vector<ChatEvent> none;
  out = &none;
  prompt_bytes = format->prompt_end.size();
  controls = controls_in(format->prompt_end, options.control_markers);
  run(format->prompt_end);
  lead.begin();
  out = nullptr;
}

// ---- input ----

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
  forget_controls();
  flush_arguments();
  flush_text();
}

// Drops the control tokens before everything that is held.
void StreamParser::Impl::forget_controls() {
  if (controls.empty()) return;
  const std::size_t held_now = in_head || (in_call && !committed) ? held.size()
                               : in_call                          ? reader.bytes_in_doubt()
                                         : std::size_t{format->automaton.depth(node)};
  const std::uint64_t from = taken - held_now;
  std::erase_if(controls, [from](const Place& place) { return place.end <= from; });
}

// Bytes that were held for a call and turned out to be text are read again, before new ones.
// `is_first_time` tells the two apart, because only new bytes earn the allowance that reading again
// spends.
void StreamParser::Impl::run(std::string_view bytes) {
  while (true) {
    is_first_time = again_at >= again.size();
    if (!is_first_time) {
      again_at += read(std::string_view(again).substr(again_at));
      if (again_at >= again.size()) {
        again.clear();
        again_at = 0;
      }
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
  return in_call ? read_call(bytes) : in_head ? read_head(bytes) : read_text(bytes);
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
  while (in_call) {
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
    send_arguments(hold.release());
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
  const auto cost = static_cast<std::int64_t>(again.size());
  if (cost > budget) {
    put(std::exchange(again, {}));
    again_at = 0;
    return;
  }
  budget -= cost;
  run({});
}

void StreamParser::Impl::interrupt(bool is_marker) {
  settle_held();
  if (!in_call) {
    release_node(0);
    if (!fence.is_around_calls()) put_content(fence.release());
    if (is_marker) at_marker();
  }
  flush_arguments();
  flush_text();
}

// Called when nothing more comes that could decide about the held bytes.
void StreamParser::Impl::settle_held() {
  while (in_head) {
    fail_head();
    run({});
  }
  while (in_call && !committed) {
    if (reader.has_arguments()) return commit();  // only its end was uncertain
    if (why_code.empty()) {
      why_code = "broken_call";
      why_text =
          "a call could not be parsed: the text ends inside a marker or before its name is whole";
    }
    fail_call();
    run({});
  }
}

// The automaton holds the beginning of a marker that was expected here, and of no other.
bool StreamParser::Impl::is_open_end_marker() const {
  if (junk || reasoning || node == Automaton::kRoot) return false;
  const std::string bytes = format->automaton.held(node);
  const auto begins = [&](const Mark& mark) {
    return format->literals[mark.literal].starts_with(bytes);
  };
  return std::any_of(tail.begin(), tail.end(), begins) ||
         (in_section && std::ranges::any_of(closes(), begins));
}

// The marks that end the section, in order. Once the first has come, a short one may be part of the
// next.
std::span<const Mark> StreamParser::Impl::closes() const {
  return std::span(section->close_marks).subspan(closed);
}

// ---- text ----

// Computes the literals that may come now. Called whenever something changes on which they depend.
void StreamParser::Impl::refresh() {
  active = gated = {};
  const auto add_openers = [this] {
    for (const Syntax& s : format->syntaxes) {
      if (!may_call(s)) continue;
      LiteralSet& set = s.rank > 0 ? gated : active;
      set |= s.first.literals - heads();
      if (s.section_optional) set |= s.next.literals;
    }
  };
  if (reasoning) {
    active = format->reasoning_closers;
    active |= format->head.end.empty() ? format->content_openers
                                       : format->head.openers | format->head.between;
    if (format->call_ends_reasoning) {
      add_openers();
      active &= format->strong | format->reasoning_closers | format->content_openers;
    }
    return;
  }
  active |= format->drops | format->head.openers;
  if (at_head) active |= format->head.first_openers;
  if (options.parse_reasoning && (!junk || format->reasoning_anywhere)) {
    active |= format->reasoning_openers;
  }
  if (options.parse_reasoning && !junk) {
    // Before any other marker it closes reasoning that the prompt has opened; after a call,
    // reasoning that the call ended.
    if (!seen_marker || owes_close) active |= format->reasoning_closers;
  }
  LiteralSet expected;
  for (const Mark& mark : tail) expected |= bit(mark.literal);
  if (in_section) {
    for (const Mark& mark : closes()) expected |= bit(mark.literal);
    for (const Mark& mark : section->separator_marks) expected |= bit(mark.literal);
    for (const Syntax& s : format->syntaxes) {
      if (shares_section(s) && may_call(s)) expected |= s.next.literals - heads();
    }
  }
  if (may_reopen()) {
    for (const Syntax& s : format->syntaxes) {
      if (shares_section(s) && may_call(s)) expected |= s.next.literals - heads();
    }
  }
  if (junk) expected &= format->strong;
  if (calls > 0 && !junk) expected |= format->stray_ends | format->ends;
  add_openers();
  active |= expected;
  gated -= active;
  active |= gated;
}

// One automaton searches for all literals of the format (Aho and Corasick 1975). The bytes of the
// present node are a possible beginning of a literal and are held; a byte that leads to a shallower
// node releases those before it. While `retrying`, a literal that has just been tried at this place
// and failed is not tried again.
std::size_t StreamParser::Impl::read_text(std::string_view bytes) {
  const Automaton& automaton = format->automaton;
  const std::uint64_t place = taken - (again.size() - again_at);
  std::size_t at = 0;
  std::size_t earned = 0;
  while (at < bytes.size()) {
    if (node == Automaton::kRoot) {
      const std::size_t plain = at;
      while (at < bytes.size() && !automaton.begins(static_cast<unsigned char>(bytes[at]))) ++at;
      if (at > plain) retrying = false;
      put(bytes.substr(plain, at - plain));
      if (at == bytes.size()) break;
    }
    const std::size_t before = automaton.depth(node);
    const Automaton::Node next = automaton.next(node, static_cast<unsigned char>(bytes[at]));
    const std::size_t depth = automaton.depth(next);
    if (depth == before + 1) {
      if (retrying && before != retry_depth) retrying = false;
      ++retry_depth;
    } else {  // the first of the held bytes begin no literal after all
      retrying = false;
      const std::string was = automaton.held(node) + bytes[at];
      put_held(std::string_view(was).substr(0, before + 1 - depth));
    }
    node = next;
    ++at;
    if (automaton.ends(node).is_empty()) continue;
    earn(at - earned);
    earned = at;
    if (take(automaton.ends(node), depth, place + at)) break;
  }
  earn(at - earned);
  return at;
}

// Bytes that are read for the first time pay for those that are read again.
void StreamParser::Impl::earn(std::size_t size) {
  if (is_first_time) budget += kRereadPerByte * static_cast<std::int64_t>(size);
}

// The control tokens in a literal that ends at `end` came in as such.
bool StreamParser::Impl::has_its_controls(LiteralId id, std::uint64_t end) const {
  const std::uint64_t begin = end - format->literals[id].size();
  const std::vector<Place>& wanted = controls_of[id];
  return std::all_of(wanted.begin(), wanted.end(), [&](const Place& place) {
    const Place there{begin + place.begin, begin + place.end};
    return std::find(controls.begin(), controls.end(), there) != controls.end();
  });
}

// A literal with `before` held bytes in front of it is the one that failed, or the same one without
// the white space before it.
bool StreamParser::Impl::is_at_retry(std::size_t before) const {
  const std::string bytes = before > 0 ? format->automaton.held(node).substr(0, before) : "";
  return bytes.find_first_not_of(kSpace) == std::string::npos;
}

// Acts on the longest literal that ends at `end` and may come now, if there is one.
bool StreamParser::Impl::take(const LiteralSet& ended, std::size_t depth, std::uint64_t end) {
  // The end marker of a call that became text is text too.
  const LiteralSet candidates = (ended & active) - (leaked & format->drops & format->stray_ends);
  if (candidates.is_empty()) {
    note_leak(ended, end);
    return false;
  }
  LiteralId best = 0;
  std::size_t best_size = 0;
  candidates.for_each([&](LiteralId id) {
    const std::size_t size = format->literals[id].size();
    if (!has_its_controls(id, end)) return;
    const bool is_spent = retrying && tried.contains(id) && is_at_retry(depth - size);
    if (is_spent && !format->drops.contains(id)) return;  // it may still be a marker by itself
    if (!may_stand(id, depth - size)) return;
    if (size > best_size) {
      best = id;
      best_size = size;
    }
  });
  if (best_size == 0) return false;
  if (best_size == depth && waits_for_longer(best)) {
    waiting = best;
    return false;
  }
  waiting.reset();
  if (best_size != depth) retrying = false;
  release_node(static_cast<std::uint16_t>(best_size));
  on_literal(best);
  return true;
}

// A call marker where no call may come is text; it is noted for the reader of the log.
void StreamParser::Impl::note_leak(const LiteralSet& ended, std::uint64_t end) {
  const LiteralSet news = (ended & format->call_markers) - leaked;
  if (news.is_empty() || reasoning || retrying || options.tools.empty()) return;
  std::string_view marker;  // the one without white space before it
  news.for_each([&](LiteralId id) {
    if (!has_its_controls(id, end)) return;
    leaked |= bit(id);
    const std::string_view literal = format->literals[id];
    if (marker.empty() || literal.size() < marker.size()) marker = literal;
  });
  if (marker.empty()) return;
  diagnose("leaked_marker",
           "'" + std::string(marker) + "' stands where it says nothing; it stays content");
}

// Sends what the automaton holds as text, except the last `keep` bytes, and returns to the root.
void StreamParser::Impl::release_node(std::uint16_t keep) {
  if (node == Automaton::kRoot) return;
  const std::string bytes = format->automaton.held(node);
  node = Automaton::kRoot;
  if (bytes.size() > keep) put_held(std::string_view(bytes).substr(0, bytes.size() - keep));
}

// A marker that says nothing by itself waits while a longer one may come from it, which is taken in
// its place.
bool StreamParser::Impl::waits_for_longer(LiteralId id) const {
  const LiteralSet says_more =
      format->content_openers | format->reasoning_openers | format->head.between;
  if (reasoning || !format->drops.contains(id) || says_more.contains(id)) return false;
  if (std::ranges::any_of(format->syntaxes, [id](const Syntax& s) {
        return s.first.literals.contains(id) || s.next.literals.contains(id);
      })) {
    return false;
  }
  const std::string& marker = format->literals[id];
  bool waits = false;
  active.for_each([&](LiteralId other) {
    const std::string& longer = format->literals[other];
    waits = waits || (longer.size() > marker.size() && longer.starts_with(marker));
  });
  return waits;
}

// Sends held bytes that begin no marker after all, but for one that has waited for them.
void StreamParser::Impl::put_held(std::string_view bytes) {
  if (const auto id = std::exchange(waiting, std::nullopt)) {
    const std::string& marker = format->literals[*id];
    const std::size_t at = bytes.find(marker);
    if (at != std::string_view::npos) {
      put(bytes.substr(0, at));
      on_literal(*id);
      bytes.remove_prefix(at + marker.size());
    }
  }
  put(bytes);
}

void StreamParser::Impl::on_literal(LiteralId id) {
  if (is_head(id)) return start_head(id);
  const bool begins_message =
      format->head.between.contains(id) || format->head.closers.contains(id);
  act_on(id);
  if (!begins_message || in_call || reasoning || format->head.end.empty()) return;
  at_head = true;
  in_answer = false;
  refresh();
}

// What a literal means depends on where it stands. The order of the questions is the order of
// precedence: the end of reasoning, the end of a call or of its section, the marker that ends the
// turn, the beginning of a call, and last what only separates texts or stands alone.
void StreamParser::Impl::act_on(LiteralId id) {
  const HeadRule& head = format->head;
  const bool ends_reasoning = (format->reasoning_closers | format->content_openers).contains(id) ||
                              (!head.end.empty() && head.between.contains(id));
  if (reasoning && ends_reasoning) {
    end_reasoning();
    return;
  }
  if (!reasoning) {
    const auto mark_in = [id](std::span<const Mark> marks) {
      return static_cast<std::size_t>(
          std::find_if(marks.begin(), marks.end(),
                       [id](const Mark& mark) { return mark.literal == id; }) -
          marks.begin());
    };
    if (const std::size_t i = mark_in(tail); i < tail.size()) {
      const Mark& mark = tail[i];
      tail = tail.subspan(i + 1);
      return at_marker(mark.space);
    }
    if (in_section) {
      const std::span<const Mark> ends = closes();
      if (const std::size_t i = mark_in(ends); i < ends.size()) {
        closed += i + 1;
        in_section = i + 1 < ends.size();
        tail = {};
        return at_marker(ends[i].space);
      }
      if (mark_in(section->separator_marks) < section->separator_marks.size()) return at_marker();
    }
  }
  if (!reasoning && calls > 0 && !junk && format->ends.contains(id)) {
    at_marker();
    has_ended = tells_of_end = true;
    return;
  }
  if (!(retrying && tried.contains(id)) && begins_call(id)) return;
  if ((format->content_openers | format->head.between).contains(id)) {
    lead.begin();
  } else if (!reasoning && has_lead()) {
    lead.feed(format->literals[id]);
  }
  if (!reasoning && (format->stray_ends - format->drops).contains(id)) {
    diagnose("stray_marker", "'" + format->literals[id] + "' ends no call; it is left out");
  }
  at_marker();
  if (!reasoning && format->reasoning_openers.contains(id)) {
    begin_reasoning();
    refresh();
  }
}

// Whether a call begins with the marker.
bool StreamParser::Impl::begins_call(LiteralId id) {
  std::size_t index = 0;
  const std::size_t from = retrying && retry_literal == id ? retry_from : 0;
  // Inside a section the same literal may begin the next call or a new section.
  const bool is_section = in_section || may_reopen();
  if (is_section && (from == 0 || retries_section) && syntax_in_section(id, from, index)) {
    start_call(index, id, true);
    return true;
  }
  if (!syntax_of(id, from, index)) return false;
  start_call(index, id, false);
  return true;
}

// ---- heads of messages ----

void StreamParser::Impl::start_head(LiteralId id) {
  in_head = true;
  call_literal = id;
  held = format->literals[id];
}

// A head of a message (`<|channel|>analysis<|message|>`) is held until its end is there. It fails
// as soon as it cannot become one, so text that begins like a head is not held for long.
std::size_t StreamParser::Impl::read_head(std::string_view bytes) {
  const std::uint64_t place = taken - (again.size() - again_at);
  std::size_t used = 0;
  while (used < bytes.size() && in_head) {
    held += bytes[used++];
    earn(1);  // earned before it may have to be paid
    if (held.ends_with(format->head.end) &&
        has_its_controls(format->head.end_literal, place + used)) {
      end_head();
    } else if (held.size() > kMaxHead || is_no_head()) {
      fail_head();
    }
  }
  return used;
}

// The last byte shows that this is a message: a head has words only, and no marker that ends one.
bool StreamParser::Impl::is_no_head() const {
  if (std::string_view("\n\r{}\"").find(held.back()) != std::string_view::npos) return true;
  const HeadRule& rule = format->head;
  bool is_over = false;
  (rule.closers | rule.between | format->ends).for_each([&](LiteralId id) {
    is_over = is_over || held.ends_with(format->literals[id]);
  });
  return is_over;
}

// The head is complete and decides what the message is.
void StreamParser::Impl::end_head() {
  const HeadRule& rule = format->head;
  const std::string_view text(held.data(), held.size() - rule.end.size());
  const Head head{last_word(text, rule.channel), last_word(text, rule.recipient)};
  const bool is_content = is_one_of(head.channel, rule.content);
  const bool is_reasoning = !is_content && (is_one_of(head.channel, rule.reasoning) ||
                                            is_one_of(head.recipient, rule.reasoning));
  const bool has_tool = rule.calls && !is_content && !head.recipient.empty() &&
                        !is_one_of(head.recipient, rule.readers) &&
                        !is_one_of(head.recipient, rule.reasoning);
  in_answer = is_content || is_one_of(head.recipient, rule.readers);
  if (has_tool && may_call(format->syntaxes.front())) return call_by_head(head.recipient);
  if (has_tool || (is_reasoning && !options.parse_reasoning)) return fail_head();
  in_head = false;
  held.clear();
  if (reasoning) end_reasoning();
  lead.begin();
  at_marker();
  if (!is_reasoning) return;
  begin_reasoning();
  refresh();
}

void StreamParser::Impl::fail_head() {
  in_head = false;
  if (!pay_for_held()) return;
  if (!retrying) tried = {};
  tried |= format->head.openers | format->head.first_openers;
  read_again();
}

// The reader of calls gets the head in the form that the format itself writes.
void StreamParser::Impl::call_by_head(std::string_view recipient) {
  const std::string name(recipient);
  in_head = false;
  by_head = true;
  syntax_index = 0;
  syntax = &format->syntaxes.front();
  is_next = committed = false;
  in_call = true;
  why_code.clear();
  start_reader(/*is_marked=*/true, /*is_tag=*/true);
  std::string_view before;
  for (const Piece& piece : syntax->call) {
    if (piece.kind == Piece::Kind::name) break;
    if (piece.kind == Piece::Kind::literal) before = piece.text;
  }
  const std::size_t at = before.rfind(format->head.recipient);
  if (at != std::string_view::npos) before.remove_prefix(at + format->head.recipient.size());
  for (const Piece& piece : syntax->first.rest) {
    using Kind = Piece::Kind;
    const bool is_field = piece.kind == Kind::literal || piece.kind == Kind::space ||
                          piece.kind == Kind::word || piece.kind == Kind::skip;
    if (!is_field && piece.kind != Kind::name) break;
    reader.feed(is_field                   ? piece.text
                : name.starts_with(before) ? name.substr(before.size())
                                           : name);
  }
  settle_call();
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

// A marker ends the text before it; white space beside it is not content.
void StreamParser::Impl::at_marker(std::string_view space) {
  if (!fence.is_around_calls()) put_content(fence.release());
  prompt_bytes = 0;
  suspicion = {};
  edge = space;
  flush_text();
  seen_marker = true;
  junk = at_head = false;
  if (spaces == Spaces::first || spaces == Spaces::after_marker) drop_space();
  if (!reasoning) spaces = Spaces::after_marker;
  refresh();
}

// Behind a call, before a marker that is due there, a model may write brackets too many.
bool StreamParser::Impl::may_have_stray_brackets() const {
  return bracket != '\0' && !junk && spaces == Spaces::after_marker &&
         (!tail.empty() || in_section);
}

// The section has just ended. Where a model has closed it too early, its calls go on.
bool StreamParser::Impl::may_reopen() const {
  return section != nullptr && !in_section && closed > 0 && !junk && !reasoning &&
         spaces == Spaces::after_marker;
}

// The held white space belongs to the marker behind it, and so do brackets in it.
void StreamParser::Impl::drop_space() {
  const std::string_view brackets = trimmed(held_space);
  if (!brackets.empty()) {
    diagnose("stray_marker", "'" + std::string(brackets) + "' ends no call; it is left out");
  }
  held_space.clear();
}

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
      return is_space(byte) || (has_brackets && byte == bracket) ||
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

void StreamParser::Impl::on_junk() {
  if (junk) return;
  junk = true;
  owes_close = at_head = false;
  refresh();
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

// ---- calls ----

bool StreamParser::Impl::may_call(const Syntax& s) const {
  if (in_answer && s.rank == 0) return false;  // text that looks like a call there is an example
  if (s.rank > claimed || ((s.rank > 0 || s.needs_tools) && reasoning)) return false;
  return !options.tools.empty() || (options.any_tool && !s.needs_tools);
}

// For a literal that only begins calls in other forms: whether the text before it, `before` bytes
// of which are held, allows a call.
bool StreamParser::Impl::may_stand(LiteralId id, std::size_t before) const {
  if (!gated.contains(id)) return true;
  Lead here = lead;
  if (before > 0) here.feed(std::string_view(format->automaton.held(node)).substr(0, before));
  return std::ranges::any_of(format->syntaxes, [&](const Syntax& s) {
    const bool begins =
        s.first.literals.contains(id) || (s.section_optional && s.next.literals.contains(id));
    return begins && s.rank > 0 && may_call(s) && may_stand(s, here);
  });
}

// The first syntax, from `from` on, that begins with `id`.
bool StreamParser::Impl::syntax_of(LiteralId id, std::size_t from, std::size_t& index) const {
  for (index = from; index < format->syntaxes.size(); ++index) {
    const Syntax& s = format->syntaxes[index];
    if (heads().contains(id)) continue;
    const bool begins =
        s.first.literals.contains(id) || (s.section_optional && s.next.literals.contains(id));
    if (begins && may_call(s) && may_stand(s, lead)) return true;
  }
  return false;
}

// Whether calls of `other` may stand in the section that is open: it begins and ends alike.
bool StreamParser::Impl::shares_section(const Syntax& other) const {
  return &other == section || (other.rank == section->rank && !other.open.empty() &&
                               other.open == section->open && other.close == section->close);
}

// The syntax of the next call in the open section: that of the calls before it (`from` 0), or the
// first other one, from `from` - 1 on, that has the same section.
bool StreamParser::Impl::syntax_in_section(LiteralId id, std::size_t from,
                                           std::size_t& index) const {
  const auto begins = [&](const Syntax& s) {
    return (s.next.literals - heads()).contains(id) && may_call(s);
  };
  index = static_cast<std::size_t>(section - format->syntaxes.data());
  if (from == 0 && begins(*section)) return true;
  for (index = from == 0 ? 0 : from - 1; index < format->syntaxes.size(); ++index) {
    const Syntax& s = format->syntaxes[index];
    if (&s != section && shares_section(s) && begins(s)) return true;
  }
  return false;
}

// Whether the marker of the call that failed may begin another one; `from` says where the search
// goes on.
bool StreamParser::Impl::other_syntax(LiteralId id, std::size_t& from) const {
  std::size_t unused = 0;
  const bool is_in_section = is_next && in_section;
  from = is_in_section && syntax == section ? 1 : syntax_index + (is_in_section ? 2 : 1);
  return !by_head &&
         (is_in_section ? syntax_in_section(id, from, unused) : syntax_of(id, from, unused));
}

// A call may begin here. Everything up to its name is held, so that it can become text again.
// Inside markers that do not occur by chance, an unknown name is still a call's; elsewhere only a
// name of the request's tools makes one.
void StreamParser::Impl::start_call(std::size_t index, LiteralId id, bool in_section_now) {
  syntax_index = index;
  syntax = &format->syntaxes[index];
  is_next = in_section_now || !syntax->first.literals.contains(id);
  reopens = in_section_now && !in_section;
  call_literal = id;
  in_call = true;
  committed = by_head = false;
  held = format->literals[id];
  why_code.clear();
  const Start& start = is_next ? syntax->next : syntax->first;
  const bool is_strong = format->strong.contains(id) ||
                         (in_section_now && format->strong.shares(syntax->first.literals));
  const bool is_marked = !syntax->needs_tools && is_strong;
  // After a fence, and in another model's tags, a name must match exactly.
  const bool is_tag = is_marked && syntax->rank == 0 &&
                      format->literals[id].find_first_of("<>[]{}|") != std::string::npos;
  start_reader(is_marked, is_tag);
  if (start.keeps_literal) {
    reader.feed(format->literals[id]);
    settle_call();
  }
}

void StreamParser::Impl::start_reader(bool is_marked, bool is_tag) {
  reader.start(
      *syntax, (is_next ? syntax->next : syntax->first).rest, format->id,
      {.tools = &tools,
       .corrected = is_marked && options.corrected_name ? &options.corrected_name : nullptr,
       .is_marked = is_tag,
       .any = options.any_tool && (is_marked || options.tools.empty())});
}

std::size_t StreamParser::Impl::read_call(std::string_view bytes) {
  // The decision about held bytes must fall at the same byte however the text is cut.
  if (!committed) bytes = bytes.substr(0, kMaxHeld + 1 - held.size());
  const std::size_t used = reader.feed(bytes);
  if (!committed) held += bytes.substr(0, used);
  earn(used);
  settle_call();
  return used;
}

// Acts on what the reader knows now.
void StreamParser::Impl::settle_call() {
  const CallReader::Status status = reader.status();
  if (!committed && reader.has_name() && status != CallReader::Status::bad) {
    const bool holds = syntax->holds_call && held.size() <= kMaxHeld;
    if (status == CallReader::Status::done || (status == CallReader::Status::named && !holds) ||
        held.size() > kMaxHeld) {
      commit();
    }
  }
  if (status == CallReader::Status::done) return end_call(false);
  if (status == CallReader::Status::bad) {
    if (committed) return spoil_call();
    why_code = reader.is_unknown_tool() ? "unknown_tool" : "broken_call";
    why_text =
        reader.is_unknown_tool()
            ? "'" + reader.name() + "' is not among the request's tools; its call stays content"
            : "a call could not be parsed: it broke off before it was certain; its text stays "
              "content";
    return fail_call();
  }
  if (!committed && held.size() > kMaxHeld) {
    why_code = "oversized_call";
    why_text = "no tool's name within " + std::to_string(kMaxHeld) + " bytes of a call";
    fail_call();
  }
}

// From here on it is a call, and nothing of it can become text. The events before it go out first,
// in their order: the end of reasoning, the text, then CallBegin.
void StreamParser::Impl::commit() {
  committed = true;
  prompt_bytes = 0;
  suspicion = {};
  held.clear();
  if (reasoning) {
    end_reasoning();
    owes_close = true;
  }
  put_content(fence.at_call(syntax->rank == 0 && before_fence.admits(Lead::Place::line)));
  if (spaces == Spaces::first || spaces == Spaces::after_marker) drop_space();
  spaces = Spaces::after_marker;
  flush_text();
  tell_of_call();
  // The client's own kind of id, whatever the format's is: if a template needs another one, shaping
  // makes it. An id that the model has already used would not distinguish calls.
  const bool is_of_use = !reader.id().empty() && ids.insert(reader.id()).second;
  out->emplace_back(CallBegin{
      calls++, is_of_use ? reader.id() : random_id(options.id_prefix, kIdLength), reader.name()});
  retrying = false;
}

// Reports what is unusual about the call that begins now.
void StreamParser::Impl::tell_of_call() {
  if (calls == 0) claimed_by = syntax->rank > 0 ? syntax->of : format->info.name;
  if (syntax->rank > 0 && syntax->rank != claimed) {
    diagnose("fallback_format",
             "calls come as '" + syntax->of + "' writes them, not as '" + format->info.name + "'");
  }
  claimed = std::min(claimed, syntax->rank);
  const auto diagnose_stranger = [&](std::string_view code, const std::string& what) {
    diagnose(std::string(code),
             "'" + reader.written_name() + "' is not among the request's tools; its call " + what);
  };
  if (reader.name() != reader.written_name()) {
    diagnose_stranger(kNameFixed, "is taken for one of '" + reader.name() + "'");
  } else if (!options.tools.empty() && !tools.contains(reader.name())) {
    diagnose_stranger("forwarded_tool", "is passed on");
  }
}

// Reports what was repaired or ignored in the call, then decides where the parser stands: in a
// section, whose end is awaited, or behind a call alone. Bytes that the reader has not used are
// read once more as text.
void StreamParser::Impl::end_call(bool incomplete) {
  flush_arguments();
  if (reader.is_repaired())
    diagnose("mended_arguments", "arguments were not JSON and could be repaired");
  if (!reader.ignored().empty()) {
    diagnose("ignored_member", "the call of '" + reader.name() + "' has " + reader.ignored() +
                                   ", which is no part of a call");
  }
  if (reader.has_repeated())
    diagnose("repeated_key", "a parameter of '" + reader.name() + "' was given twice");
  out->emplace_back(CallEnd{calls - 1, incomplete});
  in_call = committed = false;
  hold = {};
  lead.begin_behind_call();
  if (syntax->has_section() && (!is_next || in_section || reopens)) {
    in_section = true;
    section = syntax;
    closed = 0;
  } else if (!in_section) {
    section = nullptr;
  }
  tail = syntax->call_tail;
  bracket = syntax->bracket;
  if (reader.has_used_tail()) tail = tail.subspan(1);
  at_marker();
  read_once_more(reader.unused());
}

// The last bytes that were read, all of which are in `again` if it holds any, are read as text.
void StreamParser::Impl::read_once_more(const std::string& bytes) {
  if (bytes.empty()) return;
  if (!again.empty()) {
    again_at -= bytes.size();  // `run` will add what was just used
  } else {
    again = bytes;
    again_at = 0;
  }
}

void StreamParser::Impl::spoil_call() {
  std::string left_out = reader.close();
  diagnose("spoilt_call", "the arguments of '" + reader.name() +
                              "' could not be parsed to their end: they were closed where they "
                              "broke off, and the rest is content");
  left_out = complete_arguments() + left_out;
  end_call(false);
  put(left_out);
}

// The held bytes are not a call; they are read again.
void StreamParser::Impl::fail_call() {
  assert(!committed);
  in_call = false;
  std::size_t from = 0;
  const bool has_other = other_syntax(call_literal, from);
  // If the prompt has written the marker, any text may follow it.
  const bool is_marked =
      format->strong.contains(call_literal) && prompt_bytes == 0 && !syntax->needs_tools;
  // Text may well look like a bare call of something.
  if (why_code == "unknown_tool" && !is_marked && !is_next) why_code = "near_miss";
  // With a known name a short marker is enough; but a single bracket occurs in any text.
  const bool is_named = reader.has_name() && format->literals[call_literal].size() > 1;
  if (!retrying) unknown = broken = {};
  // The syntaxes that are tried here later may know the marker as one of other formats.
  if (is_marked && !why_code.empty() && broken.code.empty()) broken = {why_code, why_text};
  // It has been reported that a call in markers failed; that the object inside it is not a call
  // either need not be reported again.
  const bool is_told = why_code == "near_miss" && reader.name() == stranger;
  if (reader.is_unknown_tool() && !is_told) {
    stranger = reader.name();
    unknown = {why_code, why_text};
    // The end marker of the call becomes text too.
    for (const Mark& mark : syntax->call_tail) leaked |= bit(mark.literal);
    for (const Mark& mark : syntax->close_marks) leaked |= bit(mark.literal);
  }
  if (!has_other && !unknown.code.empty()) {
    suspicion = std::exchange(unknown, {});
  } else if (!has_other && !broken.code.empty()) {
    suspicion = std::exchange(broken, {});
  } else if (!has_other && !why_code.empty() && is_named) {
    suspicion = {why_code, why_text};
  }
  if (!pay_for_held()) return;
  if (!retrying) tried = {};
  if (by_head) tried |= format->head.openers | format->head.first_openers;
  if (has_other) {
    retry_literal = call_literal;
    retry_from = from;
    retries_section = is_next && in_section;
  } else {
    // Also the same marker without the white space before it, unless that begins more syntaxes.
    (is_next ? syntax->next : syntax->first).literals.for_each([&](LiteralId id) {
      if (id == call_literal || !other_syntax(id, from)) tried |= bit(id);
    });
  }
  read_again();
}

// False: reading the held bytes again would cost too much, so they are text.
bool StreamParser::Impl::pay_for_held() {
  const auto cost = static_cast<std::int64_t>(held.size());
  if (cost <= budget) {
    budget -= cost;
    return true;
  }
  node = Automaton::kRoot;
  put(held);
  held.clear();
  return false;
}

// The held bytes are read once more, as text.
void StreamParser::Impl::read_again() {
  retrying = true;
  retry_depth = 0;
  // The held bytes are either all still in `again`, or were never there. In the first case `run`
  // will add what was just used; unsigned arithmetic makes that come out right.
  if (!again.empty()) {
    again_at -= held.size();
  } else {
    again = std::move(held);
    again_at = 0;
  }
  held.clear();
  node = Automaton::kRoot;
}

// ---- events ----

void StreamParser::Impl::flush_text() {
  if (text.empty()) return;
  if (reasoning) {
    out->emplace_back(ReasoningDelta{text});
  } else {
    out->emplace_back(ContentDelta{text});
  }
  text.clear();
}

void StreamParser::Impl::flush_arguments() {
  if (!in_call || !committed || reader.arguments().empty()) return;
  send_arguments(hold.pass(reader.arguments()));
  reader.arguments().clear();
}

void StreamParser::Impl::send_arguments(std::string json) {
  if (!json.empty()) out->emplace_back(CallArguments{calls - 1, std::move(json)});
}

// Sends what the reader has closed. A member whose value never came is no argument: null is a value
// that the model did not write and that the schema may refuse. Returns the member's text.
std::string StreamParser::Impl::complete_arguments() {
  flush_arguments();
  std::string member;
  const bool has_value =
      reader.completes_value() || reader.completion().find_first_of("{[") != std::string::npos;
  if (hold.has_name() && !has_value) {
    member = hold.held();
    send_arguments(hold.end_without(reader.completion()));
  } else {
    std::string end = hold.pass(reader.completion());
    end += hold.release();
    send_arguments(std::move(end));
  }
  return member;
}

void StreamParser::Impl::diagnose(std::string code, std::string message) {
  flush_text();
  out->emplace_back(Diagnostic{std::move(code), std::move(message)});
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
  return !impl_->tail.empty();
}

void StreamParser::reset() {
  impl_->reset();
}

}  // namespace tenon::format
