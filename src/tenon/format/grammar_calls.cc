// Forms whose slots are the same and differ only in the text around them share the rules of the
// slots (Alike), and forms after which the same text may come share what follows (Family). So a
// format with ten spellings of one marker needs no ten copies of each tool's arguments.

#include "tenon/format/grammar_calls.h"

#include <algorithm>

#include "tenon/format/entities.h"

namespace tenon::format {

// Calls in the format's forms.
NodeId CallGrammar::calls(Where where) {
  std::vector<NodeId> ways;
  for (Family& family : families()) ways.push_back(calls_of(family, where));
  return rules_.choice(std::move(ways));
}

// `betweens` are the texts between two calls (tail, separator), `ends` those behind the last one
// (tail, perhaps white space, close). Forms with the same lists are one family.
std::vector<CallGrammar::Family> CallGrammar::families() {
  std::vector<Alike> groups;
  add_form(groups, format_.syntaxes.front());
  for (const Syntax& form : format_.forms) add_form(groups, form);
  std::vector<Family> all;
  for (Alike& group : groups) {
    std::vector<std::string> betweens;
    std::vector<std::string> ends;
    for (const Syntax* const form : group.forms) {
      const std::string tail = parts_of(form->call).tail;
      add_new(betweens, tail + text_of(form->separator));
      add_new(ends, tail + text_of(form->close));
      add_new(ends, tail + space_before_end(*form) + text_of(form->close));
      if (!form->behind.empty()) add_new(ends, tail + text_of(form->close) + form->behind);
    }
    const auto same = std::ranges::find_if(all, [&](const Family& family) {
      return family.betweens == betweens && family.ends == ends;
    });
    if (same != all.end()) {
      same->alike.push_back(std::move(group));
    } else {
      all.push_back({std::move(betweens), std::move(ends), {std::move(group)}});
    }
  }
  return all;
}

void CallGrammar::add_form(std::vector<Alike>& groups, const Syntax& form) {
  // Where the name comes behind the arguments, each tool's arguments are read side by side until
  // then; with many tools such a form is left out.
  if (tools_.size() > kMostBehindArguments && names_behind_arguments(form.call)) return;
  Pattern slots = parts_of(form.call).slots;
  for (Alike& group : groups) {
    if (group.slots != slots || !is_filled_alike(*group.forms.front(), form)) continue;
    group.forms.push_back(&form);
    return;
  }
  groups.push_back({std::move(slots), {&form}});
}

bool CallGrammar::is_filled_alike(const Syntax& a, const Syntax& b) {
  return a.parameter == b.parameter && a.string_quote == b.string_quote && a.item == b.item &&
         a.entities == b.entities && a.layout == b.layout && a.notation == b.notation &&
         a.object == b.object;
}

bool CallGrammar::names_behind_arguments(const Pattern& call) {
  const auto body = std::ranges::find(call, Piece::Kind::arguments, &Piece::kind);
  return std::find_if(body, call.end(), [](const Piece& piece) {
           return piece.kind == Piece::Kind::name;
         }) != call.end();
}

NodeId CallGrammar::calls_of(Family& family, Where where) {
  const bool is_behind_prompt = where != Where::behind && !format_.prompt_end.empty();
  std::vector<NodeId> first;
  std::vector<NodeId> next;
  bool several = options_.parallel && format_.info.parallel;
  for (Alike& group : family.alike) {
    begin_form(*group.forms.front());
    group.filled = call_slots(group.slots);
    // `begins` open the section with the first call, `heads` begin each further one.
    std::vector<std::string> begins;
    std::vector<std::string> heads;
    for (const Syntax* const form : group.forms) {
      several = several && form->several;
      const std::string head = parts_of(form->call).head;
      const std::string begin = text_of(form->open) + head;
      add_new(heads, head);
      add_new(begins, is_behind_prompt ? behind_prompt(begin) : begin);
      if (where != Where::behind && !form->before.empty()) add_new(begins, form->before + begin);
    }
    first.push_back(rules_.sequence({any_marker(begins), group.filled}));
    next.push_back(rules_.sequence({any_marker(heads), group.filled}));
  }
  begin_form(format_.syntaxes.front());
  NodeId all = rules_.choice(std::move(first));
  if (several) {
    const NodeId more =
        rules_.sequence({any_marker(family.betweens), rules_.choice(std::move(next))});
    all = rules_.sequence({all, any_number(more)});
  }
  std::vector<NodeId> parts{all, any_marker(family.ends)};
  if (!format_.has_known_edges) {
    const bool is_name_first = !format_.prompt_end.empty();
    if (where == Where::must_begin && !is_name_first) parts.insert(parts.begin(), edge_space());
    if (several) parts.push_back(edge_space());
  }
  return rules_.sequence(std::move(parts));
}

// The white space between calls may also come after the last one: many models write a line break
// after each call and then their end token; otherwise they would be forced to make one more call,
// again and again.
std::string CallGrammar::space_before_end(const Syntax& form) const {
  if (!options_.parallel || !format_.info.parallel || !form.several) return {};
  if (!format_.has_known_edges && form.close.empty()) return {};  // edge_space() includes it
  const std::string separator = text_of(form.separator);
  const std::string space = separator.substr(0, separator.find_first_not_of(" \t\r\n"));
  return text_of(form.close).starts_with(space) ? std::string() : space;
}

bool CallGrammar::is_filled(const Piece& piece) {
  return piece.kind != Piece::Kind::literal && piece.kind != Piece::Kind::space &&
         piece.kind != Piece::Kind::skip && piece.kind != Piece::Kind::word;
}

Pattern::const_iterator CallGrammar::slots_end(const Pattern& call) {
  return std::find_if(call.rbegin(), call.rend(), is_filled).base();
}

// "<tool_call>\n${object}\n</tool_call>" has the head "<tool_call>\n", the slot, and the tail
// "\n</tool_call>".
CallGrammar::CallParts CallGrammar::parts_of(const Pattern& call) {
  const auto first = std::ranges::find_if(call, is_filled);
  const auto behind = slots_end(call);
  CallParts parts{text_of(Pattern(call.begin(), first)), Pattern(first, behind),
                  text_of(Pattern(behind, call.end()))};
  // The closing characters of a written-out object belong to it, so that forms end alike.
  const std::size_t closing = std::min(parts.tail.find_first_not_of("\"}"), parts.tail.size());
  if (closing > 0) {
    parts.slots.push_back({Piece::Kind::literal, parts.tail.substr(0, closing)});
    parts.tail.erase(0, closing);
  }
  return parts;
}

// Parts that tools share come once, so that tools are distinguished where they differ.
NodeId CallGrammar::call_slots(const Pattern& slots) {
  std::vector<NodeId> parts;
  if (slots.front().kind == Piece::Kind::object) parts.push_back(object_before_name());
  std::vector<NodeId> ways;
  for_each_tool([&] { ways.push_back(filled(slots)); });
  parts.push_back(rules_.choice(std::move(ways)));
  return rules_.sequence(std::move(parts));
}

// `pattern` for the current tool.
NodeId CallGrammar::filled(const Pattern& pattern) {
  std::vector<NodeId> parts;
  std::string text;
  // Literals next to each other become one marker, so that a control token across them is found.
  const auto end_text = [&] {
    if (!text.empty()) parts.push_back(marker(std::exchange(text, {})));
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const Piece& piece = pattern[i];
    switch (piece.kind) {
      case Piece::Kind::space:
        if (!is_own()) break;
        [[fallthrough]];
      case Piece::Kind::literal:
      case Piece::Kind::skip:
      case Piece::Kind::word:
        text += piece.text;
        continue;
      default:
        break;
    }
    end_text();
    switch (piece.kind) {
      case Piece::Kind::space:
        parts.push_back(spaces());
        break;
      case Piece::Kind::name:
      case Piece::Kind::again:
        parts.push_back(
            rules_.literal(syntax().entities ? with_entities(tool_->name) : tool_->name));
        break;
      case Piece::Kind::id:
        parts.push_back(id());
        break;
      case Piece::Kind::arguments:
        parts.push_back(json_arguments());
        break;
      case Piece::Kind::object:
        if (i > 0) parts.push_back(object_before_name());  // otherwise all tools share it
        parts.push_back(object_from_name());
        break;
      case Piece::Kind::keywords:
        parts.push_back(keywords());
        break;
      case Piece::Kind::members:
        parts.push_back(members_object());
        break;
      case Piece::Kind::index:
        parts.push_back(rules_.add(node::Pattern{"[0-9]{1,9}"}));
        break;
      case Piece::Kind::parameters:
        parts.push_back(parameters());
        break;
      default:
        break;  // of a parameter only; the definition has been checked
    }
  }
  end_text();
  return rules_.sequence(std::move(parts));
}

}  // namespace tenon::format
