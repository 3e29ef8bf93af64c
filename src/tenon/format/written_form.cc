// Finds the form in which a template writes calls. The patterns of a definition are followed
// through the text that the template wrote: white space is taken as it comes, literals must be
// there, and slots must contain what the sample's calls say. The pattern that remains, with the
// template's white space and literals, is the template's form. A JSON object with name and
// arguments is written out member by member, so that its members may be in any order and with any
// white space.
//
// The text is tried from each place at which calls may begin (read). Each syntax of the definition
// is tried, and the form counts only if the format's own parser reads it back with the same calls,
// because a form that the parser cannot read must not be enforced.
//
// There are up to three samples. Two calls show the separator, one call shows what comes after the
// last, and a call with values inside a value and letters beyond ASCII shows how the template
// writes values: as JSON or in Python's notation, and with which white space. The work is limited
// (budget_), because a template may write any text.
#include "tenon/format/written_form.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/format/definition.h"
#include "tenon/format/entities.h"
#include "tenon/format/read_back.h"
#include "tenon/format/space.h"
#include "tenon/format/value_style.h"
#include "tenon/json/object_end.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

using message::ToolCall;

constexpr std::size_t kMostAround = 256;  // bytes before the calls, and after them

// How Python writes values whose strings need no escapes.
constexpr ValueStyle kPythonRepr = {"True", "False", "None", ", ", ": ", "'", false, false};

// A stretch of the text, and what stands there.
struct SlotAt {
  std::size_t begin = 0;
  std::size_t end = 0;
  Piece::Kind kind = Piece::Kind::literal;
};

/// Follows one syntax through one sample.
class FormReader {
 public:
  FormReader(const Format& format, const Syntax& syntax, const CallSample& sample)
      : format_(format), syntax_(syntax), calls_(sample.calls), before_(sample.before) {
    // The end of the prompt begins the call.
    if (!format.prompt_end.empty() && sample.before.ends_with(format.prompt_end)) {
      prompt_end_ = format.prompt_end;
    }
    text_ = prompt_end_ + sample.text;
  }

  /// The form, from the first place on at which the calls can be read.
  std::optional<Syntax> read() {
    const std::size_t last = text_.find(calls_.front().name);
    if (last == std::string::npos) return std::nullopt;
    const Pattern& first = syntax_.open.empty() ? syntax_.call : syntax_.open;
    const bool begins_with_space = first.front().kind == Piece::Kind::space;
    // The text before the calls may be anything, so each place is tried; the first call's name must
    // come after it.
    for (std::size_t begin = 0; begin <= last; ++begin) {
      if (is_space(text_[begin]) && !begins_with_space) continue;
      at_ = begin;
      form_ = syntax_;
      if (!read_calls()) continue;
      form_.before = before_calls(begin);
      form_.behind = behind_calls();
      if (form_.before.size() > kMostAround || form_.behind.size() > kMostAround) continue;
      calls_at_ = {begin, at_};
      return std::move(form_);
    }
    return std::nullopt;
  }
  /// For the form that was read: the sample's calls alone.
  [[nodiscard]] std::string calls_text() const {
    const std::size_t begin = std::max(calls_at_.first, prompt_end_.size());
    return text_.substr(begin, calls_at_.second - begin);
  }
  /// The same with the text before and after them.
  [[nodiscard]] std::string whole_text(const Syntax& form) const {
    return text_.substr(prompt_end_.size(), calls_at_.second - prompt_end_.size()) + form.behind;
  }

 private:
  // From at_ on: the section's opening, the calls with separators, and its end. at_ is behind them
  // if that succeeds.
  bool read_calls() {
    Pattern read;
    if (!follow(syntax_.open, nullptr, read)) return false;
    form_.open = std::move(read);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (i > 0) {
        Pattern separator;
        if (!follow_or_space(syntax_.separator, separator)) return false;
        form_.separator = std::move(separator);
      }
      Pattern call;
      if (!follow(syntax_.call, &calls_[i], call)) return false;
      // White space before a call belongs to the separator, or to the opening of the first.
      Pattern& before = i == 0 ? form_.open : form_.separator;
      while (call.front().kind == Piece::Kind::space) {
        before.push_back(call.front());
        call.erase(call.begin());
      }
      // All calls must be written alike, or one pattern cannot stand for them.
      if (i > 0 && call != form_.call) return false;
      form_.call = std::move(call);
    }
    Pattern close;
    if (!follow_or_space(syntax_.close, close)) return false;
    // White space after the calls does not end a section.
    if (count_literals(close) == 0) {
      for (const Piece& piece : close) at_ -= piece.text.size();
      close.clear();
    }
    form_.close = std::move(close);
    return true;
  }
  static std::size_t count_literals(const Pattern& pattern) {
    return static_cast<std::size_t>(
        std::ranges::count(pattern, Piece::Kind::literal, &Piece::kind));
  }
  // Follows a pattern, or white space if the template leaves out its markers.
  bool follow_or_space(const Pattern& pattern, Pattern& out) {
    const std::size_t begin = at_;
    if (follow(pattern, nullptr, out)) {
      if (count_literals(pattern) == 0) take_space(out);
      return true;
    }
    at_ = begin;
    out.clear();
    take_space(out);
    return true;
  }

  // `call` is null if there are no slots.
  // Moves at_ over what the pattern says and appends to `out` the same pattern as it stands here,
  // with the template's own white space.
  bool follow(const Pattern& pattern, const ToolCall* call, Pattern& out) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (!follow_piece(pattern[i], next_literal(pattern, i), call, out)) return false;
    }
    return true;
  }
  static std::string_view next_literal(const Pattern& pattern, std::size_t at) {
    for (std::size_t i = at + 1; i < pattern.size(); ++i) {
      if (pattern[i].kind == Piece::Kind::literal) return pattern[i].text;
      if (pattern[i].kind != Piece::Kind::space) break;
    }
    return {};
  }
  bool follow_piece(const Piece& piece, std::string_view next, const ToolCall* call, Pattern& out) {
    using Kind = Piece::Kind;
    switch (piece.kind) {
      case Kind::space:
        take_space(out);
        return true;
      case Kind::literal:
        if (!is_at(piece.text)) take_space(out);
        return take(piece.text, piece, out);
      case Kind::name:
      case Kind::again:
        take_space(out);
        return take(syntax_.entities ? with_entities(call->name) : call->name, piece, out);
      case Kind::id:
        // A template may number calls itself instead of writing the sample's id.
        return is_at(call->id) ? take(call->id, piece, out) : take_up_to(next, piece, out);
      case Kind::index:
        return take_up_to(next, piece, out);
      case Kind::skip:
      case Kind::word: {
        const std::size_t begin = at_;
        if (!take_up_to(next, piece, out)) return false;
        out.back().text = text_.substr(begin, at_ - begin);
        return true;
      }
      case Kind::arguments:
        take_space(out);
        return take_arguments(*call, piece, out);
      case Kind::object:
        take_space(out);
        return take_object(*call, out);
      case Kind::keywords:
        return is_at("(") && take_keywords(*call, piece, out);
      case Kind::members:
        return is_at("{") && take_up_to("}", piece, out) && skip("}");
      case Kind::parameters:
        return take_parameters(*call, piece, out);
      default:
        return false;  // of a parameter or a result
    }
  }

  [[nodiscard]] bool is_at(std::string_view text) const {
    return std::string_view(text_).substr(at_).starts_with(text);
  }
  bool skip(std::string_view text) {
    if (!is_at(text)) return false;
    at_ += text.size();
    return true;
  }
  bool take(std::string_view text, const Piece& piece, Pattern& out) {
    if (!skip(text)) return false;
    out.push_back(piece);
    return true;
  }
  bool take_up_to(std::string_view next, const Piece& piece, Pattern& out) {
    const std::size_t end = next.empty() ? std::string::npos : text_.find(next, at_);
    if (end == std::string::npos) return false;
    at_ = end;
    out.push_back(piece);
    return true;
  }
  std::string take_space() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void take_space(Pattern& out) { add_space(take_space(), out); }
  static void add_space(std::string space, Pattern& out) {
    if (!space.empty()) out.push_back({Piece::Kind::space, std::move(space)});
  }

  // The end of the object that begins at `begin`, if it is the arguments of `call`.
  [[nodiscard]] std::optional<std::size_t> arguments_end(const ToolCall& call, std::size_t begin) {
    if (begin >= text_.size() || text_[begin] != '{') return std::nullopt;
    const std::size_t end = json::object_end(text_, begin, budget_);
    if (end == std::string::npos) return std::nullopt;
    const std::string_view text = std::string_view(text_).substr(begin, end - begin);
    const auto read = json::parse(text);
    const auto meant = json::parse(call.arguments);
    if (!read || !meant || *read != *meant) return std::nullopt;
    note_layout(*read, text);
    return end;
  }
  // "{"a": 1}" is as json.dumps writes it, {"a":1} is compact; anything else may have line breaks.
  void note_layout(const json::Value& value, std::string_view text) {
    const bool is_asked =
        text == json::dumps(value, {.ensure_ascii = false, .keep_numbers = true}) ||
        text == json::dumps(value, {.keep_numbers = true});
    if (is_asked) return;
    form_.layout = text == json::to_string(value) ? Layout::compact : Layout::any;
  }
  bool take_arguments(const ToolCall& call, const Piece& piece, Pattern& out) {
    const auto end = arguments_end(call, at_);
    if (!end) return false;
    at_ = *end;
    out.push_back(piece);
    return true;
  }

  bool take_keywords(const ToolCall& call, const Piece& piece, Pattern& out) {
    const std::size_t begin = at_;
    if (!take_up_to(")", piece, out) || !skip(")")) return false;
    const std::string_view text = std::string_view(text_).substr(begin, at_ - begin);
    const auto arguments = json::parse(call.arguments);
    for (const json::Member& member : *arguments->if_object()) {
      if (member.value.if_object() == nullptr) continue;
      const bool is_json =
          text.find("=" + json::dumps(member.value, {.ensure_ascii = false})) != text.npos ||
          text.find("=" + json::to_string(member.value)) != text.npos;
      if (is_json) form_.notation = Notation::json;
    }
    return true;
  }

  // Writes an object out: everything that is not a slot is literal.
  bool take_object(const ToolCall& call, Pattern& out) {
    if (at_ >= text_.size() || text_[at_] != '{') return false;
    const std::size_t end = json::object_end(text_, at_, budget_);
    if (end == std::string::npos) return false;
    std::vector<SlotAt> slots;
    // The first object inside that equals the arguments is their place.
    for (std::size_t begin = at_ + 1; begin < end && slots.empty(); ++begin) {
      if (const auto behind = arguments_end(call, begin)) {
        slots.push_back({begin, *behind, Piece::Kind::arguments});
      }
    }
    if (slots.empty()) return false;
    // Finds `"get_weather"` outside of the arguments, which may hold the same text.
    const auto add_text = [&](std::string_view text, Piece::Kind kind) {
      const std::string quoted = json::quoted(text);
      for (std::size_t at = text_.find(quoted, at_); at < end; at = text_.find(quoted, at + 1)) {
        if (at >= slots.front().begin && at < slots.front().end) continue;
        slots.push_back({at + 1, at + quoted.size() - 1, kind});
        return true;
      }
      return false;
    };
    if (!add_text(call.name, Piece::Kind::name)) return false;
    if (!add_text(call.id, Piece::Kind::id)) add_member_id(end, slots);
    std::ranges::sort(slots, {}, &SlotAt::begin);
    for (const SlotAt& slot : slots) {
      out.push_back({Piece::Kind::literal, text_.substr(at_, slot.begin - at_)});
      out.push_back({slot.kind, {}});
      at_ = slot.end;
    }
    out.push_back({Piece::Kind::literal, text_.substr(at_, end - at_)});
    at_ = end;
    return true;
  }
  // The member with the id, if the template numbers calls itself: text, or a number.
  void add_member_id(std::size_t end, std::vector<SlotAt>& slots) {
    for (const std::string& key : syntax_.object.id) {
      std::size_t at = text_.find(json::quoted(key), at_);
      if (at >= end || (at >= slots.front().begin && at < slots.front().end)) continue;
      at = text_.find_first_not_of(" :\n\t", at + json::quoted(key).size());
      if (at >= end) continue;
      const bool is_text = text_[at] == '"';
      const std::size_t begin = at + (is_text ? 1 : 0);
      const std::size_t behind =
          is_text ? text_.find('"', begin) : text_.find_first_not_of("0123456789", begin);
      if (behind >= end || behind == begin) continue;
      slots.push_back({begin, behind, is_text ? Piece::Kind::id : Piece::Kind::index});
      return;
    }
  }

  // White space between two parameters belongs to each of them, after it or before it.
  bool take_parameters(const ToolCall& call, const Piece& piece, Pattern& out) {
    const auto arguments = json::parse(call.arguments);
    Pattern core = syntax_.parameter;
    while (!core.empty() && core.back().kind == Piece::Kind::space) core.pop_back();
    while (!core.empty() && core.front().kind == Piece::Kind::space) core.erase(core.begin());
    std::vector<std::string> spaces{take_space()};
    Pattern parameter;
    for (const json::Member& member : *arguments->if_object()) {
      Pattern read;
      if (!follow_parameter(core, member, read)) return false;
      if (spaces.size() > 1 && read != parameter) return false;
      parameter = std::move(read);
      spaces.push_back(take_space());
    }
    // Two parameters at least: one alone does not show what is between them.
    if (spaces.size() < 3) return false;
    const std::string& between = spaces[1];
    if (!std::all_of(spaces.begin() + 1, spaces.end() - 1,
                     [&](const std::string& space) { return space == between; })) {
      return false;
    }
    const bool is_behind = spaces.back() == between;
    if (!is_behind && spaces.front() != between) return false;
    if (is_behind) {
      add_space(between, parameter);
      add_space(spaces.front(), out);
    } else {
      parameter.insert(parameter.begin(), {Piece::Kind::space, between});
    }
    out.push_back(piece);
    if (!is_behind) add_space(spaces.back(), out);
    form_.parameter = std::move(parameter);
    return true;
  }
  bool follow_parameter(const Pattern& pattern, const json::Member& member, Pattern& out) {
    const std::string* const text = member.value.if_string();
    for (const Piece& piece : pattern) {
      switch (piece.kind) {
        case Piece::Kind::key:
          if (!take(syntax_.entities ? with_entities(member.key) : member.key, piece, out)) {
            return false;
          }
          break;
        case Piece::Kind::type: {
          const std::size_t bar = piece.text.find('|');
          const std::string_view other = std::string_view(piece.text).substr(bar + 1);
          const std::string_view word = text != nullptr
                                            ? std::string_view(piece.text).substr(0, bar)
                                        : other == "*" ? std::string_view("number")
                                                       : other;
          if (!take(word, piece, out)) return false;
          break;
        }
        case Piece::Kind::value:
          take_space(out);
          if (text != nullptr ? !take(*text, piece, out) : !take_value(member.value, piece, out)) {
            return false;
          }
          break;
        default:
          if (!follow_piece(piece, {}, nullptr, out)) return false;
      }
    }
    return true;
  }

  // Takes a value that is not text: as JSON, or in Python's notation.
  bool take_value(const json::Value& value, const Piece& piece, Pattern& out) {
    for (const std::string& json : {json::dumps(value, {.ensure_ascii = false}), json::dumps(value),
                                    json::to_string(value)}) {
      if (!take(json, piece, out)) continue;
      note_layout(value, json);
      return true;
    }
    std::string python;
    append_value(python, value, kPythonRepr);
    if (!take(python, piece, out)) return false;
    form_.notation = Notation::python;
    return true;
  }

  // ---- Around the calls -------------------------------------------------------------------------

  // Without the reasoning, which has its place in every form.
  std::string before_calls(std::size_t begin) const {
    if (begin < prompt_end_.size()) return {};
    std::string_view rest = std::string_view(text_).substr(0, begin).substr(prompt_end_.size());
    const std::size_t words = rest.find_first_not_of(kSpace);
    const auto begins_with = [&](const std::vector<std::string>& markers) {
      return words != std::string_view::npos &&
             std::ranges::any_of(markers, [&](const std::string& marker) {
               return rest.substr(words).starts_with(marker);
             });
    };
    // If thinking is switched off, some templates write only its end.
    const bool has_reasoning = starts_in_reasoning(format_, before_) ||
                               begins_with(format_.reasoning_open) ||
                               begins_with(format_.reasoning_close);
    std::size_t end = 0;
    for (const std::string& close : format_.reasoning_close) {
      const std::size_t at = has_reasoning ? rest.find(close) : std::string_view::npos;
      if (at != std::string_view::npos) end = std::max(end, at + close.size());
    }
    rest.remove_prefix(end);
    if (end > 0 && rest.find_first_not_of(kSpace) == std::string_view::npos) return {};
    return std::string(rest);
  }
  // White space, and markers that are not content. What follows them ends the turn.
  std::string behind_calls() const {
    std::string_view rest = std::string_view(text_).substr(at_);
    std::size_t end = 0;
    const auto marker_at = [&](const std::vector<std::string>& markers) {
      const auto found = std::ranges::find_if(
          markers, [&](const std::string& marker) { return rest.substr(end).starts_with(marker); });
      return found == markers.end() ? std::size_t{0} : found->size();
    };
    while (end < rest.size()) {
      if (marker_at(format_.stop) > 0) break;
      const std::size_t size = is_space(rest[end]) ? 1 : marker_at(format_.drop);
      if (size == 0) break;
      end += size;
    }
    return std::string(rest.substr(0, end));
  }

  const Format& format_;
  const Syntax& syntax_;
  const std::vector<ToolCall>& calls_;
  const std::string& before_;
  std::string prompt_end_;
  std::string text_;
  std::size_t at_ = 0;
  // Bytes of objects, because a template may write any braces.
  std::size_t budget_ = std::size_t{1} << 20;
  Syntax form_;
  std::pair<std::size_t, std::size_t> calls_at_;
};

/// The form of one sample, by the first of the format's ways to write calls that fits.
std::optional<Syntax> form_of(const std::shared_ptr<const Format>& format,
                              const CallSample& sample) {
  std::vector<const Syntax*> ways;
  for (const Syntax& syntax : format->syntaxes) ways.push_back(&syntax);
  for (const Syntax& form : format->forms) ways.push_back(&form);
  for (const Syntax* const way : ways) {
    // Ways of fallbacks are not the model's own.
    if (way->rank > 0) continue;
    FormReader reader(*format, *way, sample);
    auto form = reader.read();
    if (!form || !reads(format, {sample.before, reader.whole_text(*form), sample.calls})) continue;
    // What the definition writes by itself stays as it is there.
    const auto own = render_calls(*format, sample.calls);
    const bool is_plain = form->layout == Layout::asked && form->notation == Notation::own;
    if (own && *own == reader.calls_text() && is_plain) {
      Syntax first = format->syntaxes.front();
      first.before = form->before;
      first.behind = form->behind;
      return first;
    }
    return form;
  }
  return std::nullopt;
}

// How values are written is the same in all forms that differ in nothing else than what is around
// calls.
void add_form(std::vector<Syntax>& forms, Syntax form) {
  bool is_known = false;
  for (Syntax& other : forms) {
    if (other.call != form.call || other.parameter != form.parameter) continue;
    if (form.layout != Layout::asked) other.layout = form.layout;
    if (form.notation != Notation::own) other.notation = form.notation;
    is_known = is_known || (other.open == form.open && other.separator == form.separator &&
                            other.close == form.close && other.before == form.before &&
                            other.behind == form.behind);
  }
  if (!is_known) forms.push_back(std::move(form));
}

}  // namespace

std::shared_ptr<const Format> as_written(const std::shared_ptr<const Format>& format,
                                         const std::vector<CallSample>& samples) {
  std::vector<Syntax> forms;
  for (const CallSample& sample : samples) {
    if (format->syntaxes.empty() || sample.calls.empty()) continue;
    auto form = form_of(format, sample);
    if (!form) continue;
    // A single call does not show what comes between two.
    if (sample.calls.size() == 1 && !forms.empty()) form->separator = forms.front().separator;
    add_form(forms, *std::move(form));
  }
  if (forms.empty()) return format;
  auto written = std::make_shared<Format>(*format);
  written->forms = std::move(forms);
  written->has_known_edges = true;
  return written;
}

}  // namespace tenon::format
