#include <algorithm>
#include <span>
#include <utility>

#include "tenon/format/space.h"
#include "tenon/format/stream_parser_impl.h"

// Text and the markers in it. One automaton searches for all literals of the format (Aho and
// Corasick 1975). The bytes of its present node are a possible beginning of a literal, and are all
// that is held of text. Which literals may come now is a set, `active`, which refresh() computes
// from the parser's state; it is called where the state changes, so that each byte costs one step
// of the automaton and one intersection of sets.
//
// The longest literal that ends at a byte and may come there is taken, unless it says nothing by
// itself and a longer one may still come from it (`waiting`). act_on() then decides what it means.
// A call in a form of another format is only begun where the text before it allows one (Lead).

namespace tenon::format {

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
  const LiteralSet expected = expected_markers();
  add_openers();
  active |= expected;
  gated -= active;
  active |= gated;
}

// The markers that belong to the calls before: their ends, the end of their section, and the next
// call in it.
LiteralSet StreamParser::Impl::expected_markers() const {
  LiteralSet expected;
  for (const Mark& mark : behind.tail) expected |= LiteralSet::of(mark.literal);
  if (section.is_open) {
    for (const Mark& mark : section.closes()) expected |= LiteralSet::of(mark.literal);
    for (const Mark& mark : section.syntax->separator_marks) {
      expected |= LiteralSet::of(mark.literal);
    }
  }
  if (section.is_open || may_reopen()) {
    for (const Syntax& s : format->syntaxes) {
      if (shares_section(s) && may_call(s)) expected |= s.next.literals - heads();
    }
  }
  if (junk) expected &= format->strong;
  if (calls > 0 && !junk) expected |= format->stray_ends | format->ends;
  return expected;
}

// One automaton searches for all literals of the format (Aho and Corasick 1975). The bytes of the
// present node are a possible beginning of a literal and are held; a byte that leads to a shallower
// node releases those before it. While the retry lasts, a literal that has just been tried at this
// place and failed is not tried again.
std::size_t StreamParser::Impl::read_text(std::string_view bytes) {
  const Automaton& automaton = format->automaton;
  const std::uint64_t begin = place();
  std::size_t at = 0;
  std::size_t earned = 0;
  while (at < bytes.size()) {
    if (node == Automaton::kRoot) {
      const std::size_t plain = at;
      while (at < bytes.size() && !automaton.begins(static_cast<unsigned char>(bytes[at]))) ++at;
      if (at > plain) retry.end();
      put(bytes.substr(plain, at - plain));
      if (at == bytes.size()) break;
    }
    const std::size_t before = automaton.depth(node);
    const Automaton::Node next = automaton.next(node, static_cast<unsigned char>(bytes[at]));
    const std::size_t depth = automaton.depth(next);
    if (depth == before + 1) {
      if (before != retry.depth) retry.end();
      ++retry.depth;
    } else {  // the first of the held bytes begin no literal after all
      retry.end();
      const std::string was = automaton.held(node) + bytes[at];
      put_held(std::string_view(was).substr(0, before + 1 - depth));
    }
    node = next;
    ++at;
    if (automaton.ends(node).is_empty()) continue;
    reread.earn(at - earned);
    earned = at;
    if (take(automaton.ends(node), depth, begin + at)) break;
  }
  reread.earn(at - earned);
  return at;
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
    const bool is_spent = retry.is_on && retry.tried.contains(id) && is_at_retry(depth - size);
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
  if (best_size != depth) retry.end();
  release_node(static_cast<std::uint16_t>(best_size));
  on_literal(best);
  return true;
}

// A call marker where no call may come is text; it is noted for the reader of the log.
void StreamParser::Impl::note_leak(const LiteralSet& ended, std::uint64_t end) {
  const LiteralSet news = (ended & format->call_markers) - leaked;
  if (news.is_empty() || reasoning || retry.is_on || options.tools.empty()) return;
  std::string_view marker;  // the one without white space before it
  news.for_each([&](LiteralId id) {
    if (!has_its_controls(id, end)) return;
    leaked |= LiteralSet::of(id);
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

// The automaton holds the beginning of a marker that was expected here, and of no other.
bool StreamParser::Impl::is_open_end_marker() const {
  if (junk || reasoning || node == Automaton::kRoot) return false;
  const std::string bytes = format->automaton.held(node);
  const auto begins = [&](const Mark& mark) {
    return format->literals[mark.literal].starts_with(bytes);
  };
  return std::any_of(behind.tail.begin(), behind.tail.end(), begins) ||
         (section.is_open && std::ranges::any_of(section.closes(), begins));
}

void StreamParser::Impl::on_literal(LiteralId id) {
  if (is_head(id)) return start_head(id);
  const bool begins_message =
      format->head.between.contains(id) || format->head.closers.contains(id);
  act_on(id);
  if (!begins_message || call.is_open || reasoning || format->head.end.empty()) return;
  at_head = true;
  in_answer = false;
  refresh();
}

// What a literal means depends on where it stands. The order of the questions is the order of
// precedence: the end of reasoning, the end of a call or of its section, the marker that ends the
// turn, the beginning of a call, and last what only separates texts or stands alone.
void StreamParser::Impl::act_on(LiteralId id) {
  const HeadRule& rule = format->head;
  const bool ends_reasoning = (format->reasoning_closers | format->content_openers).contains(id) ||
                              (!rule.end.empty() && rule.between.contains(id));
  if (reasoning && ends_reasoning) {
    end_reasoning();
    return;
  }
  if (!reasoning && act_on_end(id)) return;
  if (!(retry.is_on && retry.tried.contains(id)) && begins_call(id)) return;
  if ((format->content_openers | rule.between).contains(id)) {
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

// Acts on a marker that ends the last call, its section or the turn, or that stands between two
// calls. Marks may be left out: a later one stands for those before it, too.
bool StreamParser::Impl::act_on_end(LiteralId id) {
  const auto mark_in = [id](std::span<const Mark> marks) {
    return static_cast<std::size_t>(std::ranges::find(marks, id, &Mark::literal) - marks.begin());
  };
  if (const std::size_t i = mark_in(behind.tail); i < behind.tail.size()) {
    const Mark& mark = behind.tail[i];
    behind.tail = behind.tail.subspan(i + 1);
    at_marker(mark.space);
    return true;
  }
  if (section.is_open) {
    const std::span<const Mark> ends = section.closes();
    if (const std::size_t i = mark_in(ends); i < ends.size()) {
      section.closed += i + 1;
      section.is_open = i + 1 < ends.size();
      behind.tail = {};
      at_marker(ends[i].space);
      return true;
    }
    if (mark_in(section.syntax->separator_marks) < section.syntax->separator_marks.size()) {
      at_marker();
      return true;
    }
  }
  if (calls == 0 || junk || !format->ends.contains(id)) return false;
  at_marker();
  has_ended = tells_of_end = true;
  return true;
}

// Whether a call begins with the marker.
bool StreamParser::Impl::begins_call(LiteralId id) {
  std::size_t index = 0;
  const std::size_t from = retry.is_on && retry.literal == id ? retry.from : 0;
  // Inside a section the same literal may begin the next call or a new section.
  const bool is_section = section.is_open || may_reopen();
  if (is_section && (from == 0 || retry.in_section) && syntax_in_section(id, from, index)) {
    start_call(index, id, true);
    return true;
  }
  if (!syntax_of(id, from, index)) return false;
  start_call(index, id, false);
  return true;
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

}  // namespace tenon::format
