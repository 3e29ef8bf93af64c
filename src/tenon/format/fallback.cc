// A model that no grammar holds may write calls in another form than its own (docs/formats.md). The
// other forms are further syntaxes of its format, each with its place in the order: one automaton
// looks for all of them at once, what is held is held by one parser, and the same marker is tried
// for the one form after the other on the bytes held, as within a format. So nothing is parsed
// twice, text streams as it did, and what holds of the parser holds of the whole.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"

namespace tenon::format {
namespace {

/// Every key of `some` is one of `all`.
bool are_among(std::vector<std::string> some, std::vector<std::string> all) {
  std::ranges::sort(some);
  std::ranges::sort(all);
  return std::ranges::includes(all, some);
}

/// `own` reads each call that `other` reads.
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

void add_syntaxes(Format& format, const Format& other) {
  for (const Syntax& syntax : other.syntaxes) {
    const auto has_it = [&syntax](const Syntax& own) { return covers(own, syntax); };
    if (syntax.borrowed || std::ranges::any_of(format.syntaxes, has_it)) continue;
    Syntax& added = format.syntaxes.emplace_back(syntax);
    added.rank = other.fallback_order;
    added.of = other.info.name;
  }
}

LiteralSet literals_of(const std::vector<Mark>& marks) {
  LiteralSet set = 0;
  for (const Mark& mark : marks) set |= LiteralSet{1} << mark.literal;
  return set;
}

void note_markers(Format& format) {
  for (const Syntax& syntax : format.syntaxes) {
    format.stray_ends |= literals_of(syntax.call_tail) | literals_of(syntax.close_marks);
    format.call_markers |= syntax.first.literals | syntax.next.literals;
  }
  format.stray_ends &= format.strong;
  format.call_markers = (format.call_markers & format.strong) | format.stray_ends;
}

}  // namespace

std::shared_ptr<const Format> with_fallbacks(const Format& own, Fallbacks which) {
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
    add_syntaxes(tried, *other);
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
