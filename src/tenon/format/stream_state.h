#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/format/definition.h"
#include "tenon/format/fence.h"
#include "tenon/format/lead.h"
#include "tenon/format/member_hold.h"
#include "tenon/message/event.h"

/// What the stream parser remembers, by how long it holds: an answer, a section of calls, one call,
/// one place where calls failed. Each is a struct that is fresh by one assignment (`call = {}`), so
/// no field can be left over from the one before.
namespace tenon::format {

/// How many bytes may be read again for each byte of input, and at the start.
inline constexpr std::int64_t kRereadPerByte = 4;
inline constexpr std::int64_t kFirstReread = 4096;
/// Larger than the rank of any syntax.
inline constexpr std::size_t kAnyRank = std::numeric_limits<std::size_t>::max();

/// The place of a control token, in byte offsets.
struct ControlPlace {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const ControlPlace&) const = default;
};

/// A section of calls: from its first call until text, or another section, follows it.
struct SectionState {
  const Syntax* syntax = nullptr;  // of its first call; null: no section has begun
  bool is_open = false;
  std::size_t closed = 0;  // the number of its close marks that have come

  /// The marks that end the section, in order. Once the first has come, a short one may be part of
  /// the next.
  [[nodiscard]] std::span<const Mark> closes() const {
    return std::span(syntax->close_marks).subspan(closed);
  }
};

/// What may follow the last call.
struct BehindCall {
  std::span<const Mark> tail;  // what should follow it
  char bracket = '\0';         // with which it ends; 0: with none
};

/// A message's head that has begun.
struct HeadState {
  bool is_open = false;
  LiteralId opener = 0;
  std::string held;  // its bytes so far, its opener included
};

/// One call, from its marker until it ends or turns out not to be one.
struct CallState {
  bool is_open = false;
  bool is_committed = false;  // it is certain to be a call, and CallBegin has been sent
  bool is_next = false;       // it stands in a section that is already open
  bool reopens = false;       // it stands behind the end of its section
  bool by_head = false;       // a head began it
  const Syntax* syntax = nullptr;
  std::size_t index = 0;    // of the syntax
  LiteralId literal = 0;    // its marker
  std::string held;         // bytes since its marker, while it is uncertain
  MemberHold hold;          // of its arguments
  message::Diagnostic why;  // why it failed; no code: nothing is to be reported
};

/// A place where a head or a call failed, whose bytes are read again as text. It is over as soon as
/// the automaton releases the first of these bytes.
struct RetryState {
  bool is_on = false;
  std::size_t depth = 0;        // bytes that the automaton has held since the place
  LiteralSet tried;             // literals that failed there
  LiteralId literal = 0;        // it begins other syntaxes than those tried ...
  std::size_t from = 0;         // ... of which this is the first
  bool in_section = false;      // ... as syntax_in_section counts
  message::Diagnostic unknown;  // a syntax tried here read a name that is not a tool's
  message::Diagnostic broken;   // a syntax tried here has a marker that is a call's

  void end() {
    if (is_on) *this = {};
  }
};

/// Bytes that are read again, before new ones. The budget for them grows with the input, so the
/// whole stays linear.
struct RereadState {
  std::string bytes;
  std::size_t at = 0;    // those before it have been read again
  std::size_t back = 0;  // how far `at` goes back once what is being read counts as read
  std::int64_t budget = kFirstReread;
  bool is_new = true;  // what is being read comes for the first time

  [[nodiscard]] std::string_view rest() const { return std::string_view(bytes).substr(at); }
  /// New bytes pay for those that are read again.
  void earn(std::size_t size) {
    if (is_new) budget += kRereadPerByte * static_cast<std::int64_t>(size);
  }
  /// False: they cost too much.
  [[nodiscard]] bool pay(std::size_t size);
  /// Takes the last bytes that were read, which the present reading has ended with, once more.
  void repeat(std::string read);
  /// The present reading has used `size` bytes of rest().
  void advance(std::size_t size);
};

/// The text between calls.
struct TextState {
  enum class Spaces : std::uint8_t { first, after_marker, dropped, plain };
  Automaton::Node node = Automaton::kRoot;
  LiteralSet active;                 // literals that may come now
  LiteralSet gated;                  // those of them that only begin a call in another form
  std::optional<LiteralId> waiting;  // a marker at the beginning of the held bytes, still to act on
  Spaces spaces = Spaces::first;     // the meaning of white space that comes now
  bool reasoning = false;
  bool junk = false;  // there was text since the last marker
  bool seen_marker = false;
  bool has_ended = false;     // the turn ended behind a call; what comes now is no part of it
  bool tells_of_end = false;  // that something came behind the end has not been told yet
  bool at_head = true;        // a message begins here
  bool in_answer = false;     // the head of this message says that it is for the user
  bool owes_close = false;    // a call has ended the reasoning, whose own end may still come
  Lead lead;  // the text since the reasoning or the last call, without text that is held
  Fence fence;
  Lead before_fence;      // the same up to the fence that is held
  std::string_view edge;  // white space that belongs to the last marker
  std::string held_space;
  bool space_is_text = false;  // in reasoning: this run of white space is too long to be held
  std::string text;            // content or reasoning to be sent
};

/// What is remembered of all calls of an answer.
struct CallsState {
  std::uint32_t calls = 0;
  std::set<std::string> ids;       // ids that the model has written
  std::size_t claimed = kAnyRank;  // the lowest rank of any call
  std::string claimed_by;          // of the first call
  LiteralSet leaked;               // markers of calls that became text
  std::string stranger;            // the last name that was not a tool's
  message::Diagnostic suspicion;   // for a failed call: reported if its bytes turn out to be text
};

/// What has come in.
struct InputState {
  // Control tokens that came in as such, as far as they may be part of a marker. Places are byte
  // offsets in the answer.
  std::vector<ControlPlace> controls;
  std::uint64_t taken = 0;       // bytes that have been read for the first time
  std::size_t prompt_bytes = 0;  // bytes of Format::prompt_end that are not used yet
  utf8::Sanitizer sanitizer;
  bool sanitizer_open = false;
};

/// What an answer changes in the parser. The shorter lives are members, so that each can be
/// assigned.
struct AnswerState : TextState, CallsState, InputState {
  SectionState section;
  BehindCall behind;
  HeadState head;
  CallState call;
  RetryState retry;
  RereadState reread;
};

}  // namespace tenon::format
