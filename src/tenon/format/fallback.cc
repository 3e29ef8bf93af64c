// A model may write calls in another form than its own (docs/formats.md). The other forms are
// further syntaxes of its format, each with a place in the order. One automaton searches for all of
// them at once, one parser holds back what must be held, and a marker that begins several forms is
// tried for one form after the other on the bytes held, as within a format. So nothing is parsed
// twice, text streams as before, and what is true of the parser stays true.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/format/definition.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"

namespace tenon::format {
namespace {

/// Every key of `some` is in `all`.
bool are_among(std::vector<std::string> some, std::vector<std::string> all) {
  std::ranges::sort(some);
  std::ranges::sort(all);
  return std::ranges::includes(all, some);
}

/// `own` reads every call that `other` reads.
bool covers(const Syntax& own, const Syntax& other) {
  return own.open == other.open && own.close == other.close && own.call == other.call &&
         own.parameter == other.parameter && own.quote_open == other.quote_open &&
         own.quote_close == other.quote_close && own.string_quote == other.string_quote &&
         own.item == other.item && own.entities == other.entities &&
         own.section_optional == other.section_optional &&
         own.object.name_is_key == other.object.name_is_key &&
         are_among(other.object.name, own.object.name) &&
         are_among(other.object.arguments, own.object.arguments) &&
         are_among(other.object.id, own.object.id) &&
         are_among(other.object.wrapper, own.object.wrapper);
}

std::string_view first_literal_of(const Syntax& syntax) {
  const Pattern& pattern = syntax.open.empty() ? syntax.call : syntax.open;
  const auto first = std::ranges::find(pattern, Piece::Kind::literal, &Piece::kind);
  return first == pattern.end() ? std::string_view("{") : std::string_view(first->text);
}

/// The beginning of the form decides where it may stand: a tag anywhere, a fence at the beginning
/// of a line, and an object or a list only where a sentence has ended.
Lead::Place place_of(const Syntax& syntax) {
  const std::string_view first = first_literal_of(syntax);
  if (first == "{" || first == "[") return Lead::Place::sentence;
  return first.starts_with("```") ? Lead::Place::line : Lead::Place::anywhere;
}

/// Few tokens of a text begin like the form.
bool can_be_held(const Syntax& syntax) {
  const std::string_view first = first_literal_of(syntax);
  return first.starts_with('<') || first.starts_with("```") || first.starts_with('[') ||
         first == "{";
}

void add_syntaxes(Format& format, const Format& other, AnswerMode mode) {
  for (const Syntax& syntax : other.syntaxes) {
    // A mask offers forms of other formats, but no form that was borrowed.
    const auto has_it = [&](const Syntax& own) {
      return covers(own, syntax) && !(mode == AnswerMode::held && own.borrowed);
    };
    if (syntax.borrowed || std::ranges::any_of(format.syntaxes, has_it)) continue;
    if (mode == AnswerMode::held && !can_be_held(syntax)) continue;
    Syntax& added = format.syntaxes.emplace_back(syntax);
    added.rank = other.fallback_order;
    added.of = other.info.name;
    added.place = place_of(added);
    // Under a mask a call is certain once its name is complete.
    if (mode != AnswerMode::held) continue;
    // Together with lists, so that a mask searches for both at once.
    if (first_literal_of(syntax).starts_with('[')) added.place = Lead::Place::sentence;
    added.holds_call = false;
    added.name_first = true;
  }
}

LiteralSet literals_of(const std::vector<Mark>& marks) {
  LiteralSet set;
  for (const Mark& mark : marks) set |= LiteralSet::of(mark.literal);
  return set;
}

void note_markers(Format& format) {
  LiteralSet weak;    // ends of calls that only a name distinguishes from text
  LiteralSet marked;  // ends of other calls
  for (const Syntax& syntax : format.syntaxes) {
    format.stray_ends |= literals_of(syntax.call_tail) | literals_of(syntax.close_marks);
    // A text that only a name distinguishes from text is not a marker, so the log need not mention
    // it.
    if (!syntax.needs_tools) format.call_markers |= syntax.first.literals | syntax.next.literals;
    format.has_gated = format.has_gated || syntax.rank > 0;
    (syntax.needs_tools ? weak : marked) |=
        literals_of(syntax.call_tail) | literals_of(syntax.close_marks);
  }
  weak -= marked;
  format.stray_ends &= format.strong;
  format.call_markers = ((format.call_markers & format.strong) | format.stray_ends) - weak -
                        format.head.first_openers;
}

/// Text is inside frames of the format, where the grammar puts no calls.
bool is_framed(const Format& format) {
  return !format.content_open.empty() || !format.prompt_end.empty() || !format.between.empty();
}

}  // namespace

std::vector<std::string> wrapped_arguments(const ObjectKeys& keys) {
  std::vector<std::string> inside = keys.arguments;
  std::erase(inside, "parameters");
  return inside;
}

// One format after the other is added, and its tables are made again: a format whose markers do not
// go together with those before it is left out, and the others stay.
std::shared_ptr<const Format> with_fallbacks(const Format& own, Fallbacks which, AnswerMode mode) {
  if (mode == AnswerMode::held && is_framed(own)) which = Fallbacks::none;
  std::vector<std::shared_ptr<const Format>> others;
  for (auto& other : all()) {
    const bool is_wanted = which == Fallbacks::all && !own.syntaxes.empty();
    if (is_wanted && other->fallback_order > 0 && other->info.name != own.info.name) {
      others.push_back(std::move(other));
    }
  }
  std::ranges::stable_sort(others, {}, [](const auto& other) { return other->fallback_order; });
  auto format = std::make_shared<Format>(own);
  for (const auto& other : others) {
    Format tried = *format;
    add_syntaxes(tried, *other, mode);
    if (const auto why = relink(tried)) {
      log::warn("format '" + own.info.name + "': '" + other->info.name +
                "' is no fallback of it: " + *why);
      continue;
    }
    *format = std::move(tried);
  }
  note_markers(*format);
  return format;
}

}  // namespace tenon::format
