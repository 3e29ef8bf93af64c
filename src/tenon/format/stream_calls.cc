#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "tenon/base/ids.h"
#include "tenon/format/stream_parser_impl.h"

// One call after another. A marker may begin calls of several syntaxes; they are tried in the order
// of the format. start_call() holds the bytes and lets CallReader follow one syntax. Then one of
// two things happens. Either the name is complete and the call is certain: commit() sends what
// stands before it and CallBegin, arguments pass as they come, and end_call() says what may follow.
// Or the reader meets a byte that does not fit: fail_call() gives the held bytes back, to be read
// as the next syntax or as text, and keeps in mind why (note_failure), because only text that stays
// is worth a diagnostic. A certain call whose arguments break off is closed (spoil_call).

namespace tenon::format {
namespace {

using message::CallArguments;
using message::CallBegin;
using message::CallEnd;

// The length of ids made here, without their prefix.
constexpr std::size_t kIdLength = 24;

}  // namespace

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
  return &other == section.syntax ||
         (other.rank == section.syntax->rank && !other.open.empty() &&
          other.open == section.syntax->open && other.close == section.syntax->close);
}

// The syntax of the next call in the open section: that of the calls before it (`from` 0), or the
// first other one, from `from` - 1 on, that has the same section.
bool StreamParser::Impl::syntax_in_section(LiteralId id, std::size_t from,
                                           std::size_t& index) const {
  const auto begins = [&](const Syntax& s) {
    return (s.next.literals - heads()).contains(id) && may_call(s);
  };
  index = static_cast<std::size_t>(section.syntax - format->syntaxes.data());
  if (from == 0 && begins(*section.syntax)) return true;
  for (index = from == 0 ? 0 : from - 1; index < format->syntaxes.size(); ++index) {
    const Syntax& s = format->syntaxes[index];
    if (&s != section.syntax && shares_section(s) && begins(s)) return true;
  }
  return false;
}

// Whether the marker of the call that failed may begin another one; `from` says where the search
// goes on.
bool StreamParser::Impl::other_syntax(const CallState& failed, LiteralId id,
                                      std::size_t& from) const {
  std::size_t unused = 0;
  const bool is_in_section = failed.is_next && section.is_open;
  const bool is_first = is_in_section && failed.syntax == section.syntax;
  from = is_first ? 1 : failed.index + (is_in_section ? 2 : 1);
  return !failed.by_head &&
         (is_in_section ? syntax_in_section(id, from, unused) : syntax_of(id, from, unused));
}

// A call may begin here. Everything up to its name is held, so that it can become text again.
// Inside markers that do not occur by chance, an unknown name is still a call's; elsewhere only a
// name of the request's tools makes one.
void StreamParser::Impl::start_call(std::size_t index, LiteralId id, bool in_section) {
  assert(!head.is_open && !call.is_open);
  const Syntax& syntax = format->syntaxes[index];
  call = {.is_open = true,
          .is_next = in_section || !syntax.first.literals.contains(id),
          .reopens = in_section && !section.is_open,
          .syntax = &syntax,
          .index = index,
          .literal = id,
          .held = format->literals[id]};
  const Start& start = call.is_next ? syntax.next : syntax.first;
  const bool is_strong =
      format->strong.contains(id) || (in_section && format->strong.shares(syntax.first.literals));
  const bool is_marked = !syntax.needs_tools && is_strong;
  // After a fence, and in another model's tags, a name must match exactly.
  const bool is_tag = is_marked && syntax.rank == 0 &&
                      format->literals[id].find_first_of("<>[]{}|") != std::string::npos;
  start_reader(is_marked, is_tag);
  if (start.keeps_literal) {
    reader.feed(format->literals[id]);
    settle_call();
  }
}

void StreamParser::Impl::start_reader(bool is_marked, bool is_tag) {
  reader.start(
      *call.syntax, (call.is_next ? call.syntax->next : call.syntax->first).rest, format->id,
      {.tools = &tools,
       .corrected = is_marked && options.corrected_name ? &options.corrected_name : nullptr,
       .is_marked = is_tag,
       .any = options.any_tool && (is_marked || options.tools.empty())});
}

std::size_t StreamParser::Impl::read_call(std::string_view bytes) {
  // The decision about held bytes must fall at the same byte however the text is cut.
  if (!call.is_committed) bytes = bytes.substr(0, kMaxHeld + 1 - call.held.size());
  const std::size_t used = reader.feed(bytes);
  if (!call.is_committed) call.held += bytes.substr(0, used);
  reread.earn(used);
  settle_call();
  return used;
}

// Acts on what the reader knows now.
void StreamParser::Impl::settle_call() {
  const CallReader::Status status = reader.status();
  if (!call.is_committed && reader.has_name() && status != CallReader::Status::bad) {
    const bool holds = call.syntax->holds_call && call.held.size() <= kMaxHeld;
    if (status == CallReader::Status::done || (status == CallReader::Status::named && !holds) ||
        call.held.size() > kMaxHeld) {
      commit();
    }
  }
  if (status == CallReader::Status::done) return end_call(false);
  if (status == CallReader::Status::bad) {
    if (call.is_committed) return spoil_call();
    if (reader.is_unknown_tool()) {
      call.why = {"unknown_tool", "'" + reader.name() +
                                      "' is not among the request's tools; its "
                                      "call stays content"};
    } else {
      call.why = {"broken_call",
                  "a call could not be parsed: it broke off before it was certain; its text stays "
                  "content"};
    }
    return fail_call();
  }
  if (!call.is_committed && call.held.size() > kMaxHeld) {
    call.why = {"oversized_call",
                "no tool's name within " + std::to_string(kMaxHeld) + " bytes of a call"};
    fail_call();
  }
}

// From here on it is a call, and nothing of it can become text. The events before it go out first,
// in their order: the end of reasoning, the text, then CallBegin.
void StreamParser::Impl::commit() {
  call.is_committed = true;
  prompt_bytes = 0;
  suspicion = {};
  call.held.clear();
  if (reasoning) {
    end_reasoning();
    owes_close = true;
  }
  put_content(fence.at_call(call.syntax->rank == 0 && before_fence.admits(Lead::Place::line)));
  if (spaces == Spaces::first || spaces == Spaces::after_marker) drop_space();
  spaces = Spaces::after_marker;
  flush_text();
  tell_of_call();
  // The client's own kind of id, whatever the format's is: if a template needs another one, shaping
  // makes it. An id that the model has already used would not distinguish calls.
  const bool is_of_use = !reader.id().empty() && ids.insert(reader.id()).second;
  out->emplace_back(CallBegin{
      calls++, is_of_use ? reader.id() : random_id(options.id_prefix, kIdLength), reader.name()});
  retry.end();
}

// Reports what is unusual about the call that begins now.
void StreamParser::Impl::tell_of_call() {
  if (calls == 0) claimed_by = call.syntax->rank > 0 ? call.syntax->of : format->info.name;
  if (call.syntax->rank > 0 && call.syntax->rank != claimed) {
    diagnose("fallback_format", "calls come as '" + call.syntax->of + "' writes them, not as '" +
                                    format->info.name + "'");
  }
  claimed = std::min(claimed, call.syntax->rank);
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

// Decides where the parser stands behind the call: in a section, whose end is awaited, or behind a
// call alone. Bytes that the reader has not used are read once more as text.
void StreamParser::Impl::end_call(bool incomplete) {
  flush_arguments();
  tell_of_repairs();
  out->emplace_back(CallEnd{calls - 1, incomplete});
  const Syntax& syntax = *call.syntax;
  const bool is_in_section =
      syntax.has_section() && (!call.is_next || section.is_open || call.reopens);
  call = {};
  lead.begin_behind_call();
  if (is_in_section) {
    section = {.syntax = &syntax, .is_open = true};
  } else if (!section.is_open) {
    section = {};
  }
  behind = {.tail = syntax.call_tail, .bracket = syntax.bracket};
  if (reader.has_used_tail()) behind.tail = behind.tail.subspan(1);
  at_marker();
  reread.repeat(reader.unused());
}

// Reports what was repaired or ignored in the call that ends.
void StreamParser::Impl::tell_of_repairs() {
  if (reader.is_repaired()) {
    diagnose("mended_arguments", "arguments were not JSON and could be repaired");
  }
  if (!reader.ignored().empty()) {
    diagnose("ignored_member", "the call of '" + reader.name() + "' has " + reader.ignored() +
                                   ", which is no part of a call");
  }
  if (reader.has_repeated()) {
    diagnose("repeated_key", "a parameter of '" + reader.name() + "' was given twice");
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

// It is not a call of this syntax. Its bytes are read again: as a call of the next syntax that
// begins with the marker, or as text.
void StreamParser::Impl::fail_call() {
  assert(!call.is_committed);
  CallState failed = std::exchange(call, {});
  std::size_t from = 0;
  const bool has_other = other_syntax(failed, failed.literal, from);
  note_failure(failed, has_other);
  if (failed.by_head) retry.tried |= heads();
  if (has_other) {
    retry.literal = failed.literal;
    retry.from = from;
    retry.in_section = failed.is_next && section.is_open;
  } else {
    // Also the same marker without the white space before it, unless that begins more syntaxes.
    const Start& start = failed.is_next ? failed.syntax->next : failed.syntax->first;
    start.literals.for_each([&](LiteralId id) {
      if (id == failed.literal || !other_syntax(failed, id, from)) {
        retry.tried |= LiteralSet::of(id);
      }
    });
  }
  read_again(std::move(failed.held));
}

// Decides what is said of the failure if the bytes turn out to be text. Several syntaxes may be
// tried at one place: an unknown name says more than a marker, and a marker more than the rest.
void StreamParser::Impl::note_failure(CallState& failed, bool has_other) {
  message::Diagnostic& why = failed.why;
  // If the prompt has written the marker, any text may follow it.
  const bool is_marked =
      format->strong.contains(failed.literal) && prompt_bytes == 0 && !failed.syntax->needs_tools;
  // Text may well look like a bare call of something.
  if (why.code == "unknown_tool" && !is_marked && !failed.is_next) why.code = "near_miss";
  // With a known name a short marker is enough; but a single bracket occurs in any text.
  const bool is_named = reader.has_name() && format->literals[failed.literal].size() > 1;
  // The syntaxes that are tried here later may know the marker as one of other formats.
  if (is_marked && !why.code.empty() && retry.broken.code.empty()) retry.broken = why;
  // It has been reported that a call in markers failed; that the object inside it is not a call
  // either need not be reported again.
  const bool is_told = why.code == "near_miss" && reader.name() == stranger;
  if (reader.is_unknown_tool() && !is_told) {
    stranger = reader.name();
    retry.unknown = why;
    // The end marker of the call becomes text too.
    for (const Mark& mark : failed.syntax->call_tail) leaked |= LiteralSet::of(mark.literal);
    for (const Mark& mark : failed.syntax->close_marks) leaked |= LiteralSet::of(mark.literal);
  }
  if (has_other) return;
  if (!retry.unknown.code.empty()) {
    suspicion = std::exchange(retry.unknown, {});
  } else if (!retry.broken.code.empty()) {
    suspicion = std::exchange(retry.broken, {});
  } else if (!why.code.empty() && is_named) {
    suspicion = why;
  }
}

void StreamParser::Impl::flush_arguments() {
  if (!call.is_open || !call.is_committed || reader.arguments().empty()) return;
  send_arguments(call.hold.pass(reader.arguments()));
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
  if (call.hold.has_name() && !has_value) {
    member = call.hold.held();
    send_arguments(call.hold.end_without(reader.completion()));
  } else {
    std::string end = call.hold.pass(reader.completion());
    end += call.hold.release();
    send_arguments(std::move(end));
  }
  return member;
}

}  // namespace tenon::format
