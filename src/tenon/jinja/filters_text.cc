#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/jinja/filters.h"
#include "tenon/jinja/format.h"
#include "tenon/jinja/indexing.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/string_methods.h"
#include "tenon/jinja/unicode.h"

/// Filters of text. They keep the origin of each byte. Where they lay text out (wordwrap, truncate)
/// they follow Python's textwrap and jinja2, character by character.
namespace tenon::jinja {
namespace {

// The value as a str. Fails as Python does for a value that has no such attribute or operation.
Value need_text(Runtime& rt, const Value& value, bool is_added_to = false) {
  if (value.is(Tag::undefined)) rt.fail_undefined(value);
  if (value.is_string()) return value;
  if (is_added_to && !value.is_list()) {
    rt.type_error("unsupported operand type(s) for +=: '" + std::string(type_name(value)) +
                  "' and 'str'");
  }
  lacks(rt, value, "splitlines");
}

// The chunks of Python's textwrap: runs of space, and words, which are cut after hyphens between
// letters.
std::vector<std::pair<std::size_t, std::size_t>> chunks(Budget& budget, std::string_view bytes,
                                                        bool breaks_hyphens) {
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  // textwrap knows the white space of ASCII only; a no-break space does not separate words.
  const auto is_gap = [&](std::size_t at) {
    return bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r');
  };
  const auto is_letter = [&](std::size_t at) {
    const char c = at < bytes.size() ? bytes[at] : '\0';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    budget.step();
    const std::size_t begin = at;
    if (is_gap(at)) {
      while (at < bytes.size() && is_gap(at)) ++at;
    } else {
      while (at < bytes.size() && !is_gap(at)) {
        // A hyphen is a place to break if two letters stand on each side of it, as in "well-known".
        ++at;
        if (breaks_hyphens && bytes[at - 1] == '-' && at - begin >= 3 && is_letter(at - 2) &&
            is_letter(at - 3) && is_letter(at) && is_letter(at + 1)) {
          break;
        }
      }
    }
    parts.emplace_back(begin, at);
  }
  return parts;
}

// Appends `line`, with `joint` between the lines that it is broken into. `width` counts characters.
// `breaks_words` cuts words that are longer than a line, `breaks_hyphens` also breaks behind
// hyphens.
void wrap_line(TextBuffer& out, const Value& line, std::int64_t width, bool breaks_words,
               bool breaks_hyphens, const Value& joint) {
  if (width <= 0) out.value_error("invalid width " + std::to_string(width) + " (must be > 0)");
  const Text text = out.text_of(line);
  auto parts = chunks(out, text.bytes, breaks_hyphens);
  const auto is_blank = [&](const std::pair<std::size_t, std::size_t>& part) {
    return text.bytes[part.first] == ' ' ||
           (text.bytes[part.first] >= '\t' && text.bytes[part.first] <= '\r');
  };
  // Counts the characters of a part, at most one more than a line holds, because a long word is
  // counted once for each of its lines.
  const auto size_of = [&](const std::pair<std::size_t, std::size_t>& part, std::int64_t most) {
    std::int64_t size = 0;
    for (std::size_t at = part.first; at < part.second && size <= most; ++at) {
      size += (static_cast<unsigned char>(text.bytes[at]) & 0xC0U) != 0x80 ? 1 : 0;
    }
    out.charge(static_cast<std::size_t>(size));
    return size;
  };
  bool is_first_line = true;
  std::size_t next = 0;
  while (next < parts.size()) {
    out.step();
    // Space at the beginning of a line is dropped, but not at the text's.
    if (!is_first_line && is_blank(parts[next])) ++next;
    if (next == parts.size()) break;
    std::int64_t used = 0;
    std::size_t begin = parts[next].first;
    std::size_t end = begin;
    // Where space at the end of the line so far begins; npos: the line ends in a word.
    std::size_t last_blank = std::string_view::npos;
    const std::size_t first = next;
    while (next < parts.size()) {
      const std::int64_t size = size_of(parts[next], width);
      if (size > width - used) break;
      used += size;
      last_blank = is_blank(parts[next]) ? parts[next].first : std::string_view::npos;
      end = parts[next].second;
      ++next;
    }
    if (next < parts.size()) {
      if (size_of(parts[next], width) > width) {  // a word longer than a line
        if (breaks_words) {
          const std::size_t cut = unicode::offset(
              text.bytes, static_cast<std::size_t>(width - used), parts[next].first);
          // If the line is full, the empty piece still comes after the space before it.
          last_blank = std::string_view::npos;
          if (cut > parts[next].first) {
            if (is_blank(parts[next])) last_blank = parts[next].first;
            end = cut;
            parts[next].first = cut;
          }
        } else if (next == first) {  // a word that may not be cut gets a line of its own
          if (is_blank(parts[next])) last_blank = parts[next].first;
          end = parts[next].second;
          ++next;
        }
      }
    }
    // Space at a line's end is dropped.
    if (last_blank != std::string_view::npos) end = last_blank;
    if (end > begin) {
      if (!is_first_line) out.put_string(joint);
      out.put_text(text, begin, end);
      is_first_line = false;
    } else if (next == first && parts[next].first == begin) {
      break;  // nothing was taken and nothing can be: the loop would not end
    }
  }
}

}  // namespace

namespace filters {

Value capitalize(Runtime& rt, const FilterInput& in) {
  return capitalized(rt, rt.to_string(in.value));
}

Value center(Runtime& rt, const FilterInput& in) {
  const Value& width = in[0];
  const Value items[1] = {or_default(width, make_int(80))};
  return call_string_method(rt, rt.to_string(in.value), MethodId::center, {items, 1, nullptr, 0});
}

// `"%s and %s"|format(a, b)` or `"%(x)s"|format(x=a)`.
Value format(Runtime& rt, const FilterInput& in) {
  if (in.args.size != 0 && in.args.keyword_count != 0) {
    rt.fail("FilterArgumentError",
            "can't handle positional and keyword arguments at the same time");
  }
  Value arguments = rt.make_list(in.args.size, false, Tag::tuple);
  if (in.args.keyword_count != 0) {
    arguments = rt.make_dict();
    for (std::uint32_t i = 0; i < in.args.keyword_count; ++i) {
      rt.set(arguments, in.args.keywords[i].key, in.args.keywords[i].value);
    }
  } else {
    for (std::uint32_t i = 0; i < in.args.size; ++i) rt.append(arguments, in.args.items[i]);
  }
  return percent(rt, rt.to_string(in.value), arguments);
}

Value indent(Runtime& rt, const FilterInput& in) {
  const Value string = need_text(rt, in.value, true);
  Value indention;
  if (in[0].is_string()) {
    indention = in[0];
  } else {
    const std::int64_t width = in[0].is(Tag::missing) ? 4 : index_of(rt, in[0]);
    const TextBuffer::Mark spaces = rt.begin_text();
    rt.put_repeated(" ", width, false);
    indention = rt.end_text(spaces);
  }
  // The line break that is added keeps one at the end of the text, as in jinja2.
  const Value lines =
      call_string_method(rt, rt.concat(string, make_string("\n")), MethodId::splitlines, {});
  const bool blank = flag(rt, in[2]);
  const TextBuffer::Mark mark = rt.begin_text();
  if (flag(rt, in[1])) rt.put_string(indention);
  for (std::uint32_t i = 0; i < lines.list->size; ++i) {
    const Value& line = lines.list->items[i];
    if (i != 0) {
      // Line breaks are rewritten as `\n` and belong to the text.
      rt.put("\n", string.is_data());
      if (blank || line.size != 0) rt.put_string(indention);
    }
    rt.put_string(line);
  }
  return rt.end_text(mark);
}

Value lower(Runtime& rt, const FilterInput& in) {
  return mapped_case(rt, rt.to_string(in.value), unicode::Case::lower);
}

Value replace(Runtime& rt, const FilterInput& in) {
  const Value items[3] = {rt.to_string(in[0]), rt.to_string(in[1]),
                          is_absent(in[2]) ? make_int(-1) : in[2]};
  return call_string_method(rt, rt.to_string(in.value), MethodId::replace, {items, 3, nullptr, 0});
}

Value string(Runtime& rt, const FilterInput& in) {
  return rt.to_string(in.value);
}

Value title(Runtime& rt, const FilterInput& in) {
  return title_words(rt, rt.to_string(in.value));
}

Value trim(Runtime& rt, const FilterInput& in) {
  const Value& chars = in[0];
  const Value items[1] = {or_default(chars, none_value())};
  return call_string_method(rt, rt.to_string(in.value), MethodId::strip, {items, 1, nullptr, 0});
}

// `leeway`: a text that is longer by no more than this stays whole. The end counts as part of the
// length.
Value truncate(Runtime& rt, const FilterInput& in) {
  const std::int64_t length = in[0].is(Tag::missing) ? 255 : index_of(rt, in[0]);
  const Value end = or_default(in[2], make_string("..."));
  const std::int64_t leeway = is_absent(in[3]) ? 5 : index_of(rt, in[3]);
  const std::int64_t end_size = rt.length_or_fail(end);
  if (length < end_size || leeway < 0) {
    rt.fail("AssertionError", "expected length >= " + std::to_string(end_size));
  }
  const std::int64_t size = rt.length_or_fail(in.value);
  if (size <= length + std::min<std::int64_t>(leeway, std::int64_t{1} << 40)) return in.value;
  const Value kept = slice(rt, in.value, {none_value(), make_int(length - end_size), none_value()});
  if (flag(rt, in[1])) return binary(rt, Op::add, kept, end);
  // Without killwords, the last word that was begun is dropped.
  const Value items[2] = {make_string(" "), make_int(1)};
  const Value words = call_string_method(rt, kept, MethodId::rsplit, {items, 2, nullptr, 0});
  return binary(rt, Op::add, words.list->items[0], end);
}

Value upper(Runtime& rt, const FilterInput& in) {
  return mapped_case(rt, rt.to_string(in.value), unicode::Case::upper);
}

Value wordcount(Runtime& rt, const FilterInput& in) {
  const Value string = rt.to_string(in.value);
  const std::string_view bytes = rt.text_of(string).bytes;
  rt.charge(bytes.size() * 4);
  // Runs of `\w` of Python's regular expressions.
  std::int64_t count = 0;
  bool was_word = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const char32_t point = unicode::next(bytes, at);
    const bool is_word =
        point == '_' || unicode::is(point, unicode::kAlpha | unicode::kDecimal | unicode::kDigit |
                                               unicode::kNumeric);
    count += is_word && !was_word;
    was_word = is_word;
  }
  return make_int(count);
}

Value wordwrap(Runtime& rt, const FilterInput& in) {
  const std::int64_t width = in[0].is(Tag::missing) ? 79 : index_of(rt, in[0]);
  const bool breaks_words = flag(rt, in[1], true);
  const bool breaks_hyphens = flag(rt, in[3], true);
  const Value joint = is_absent(in[2]) ? make_string("\n") : in[2];
  const Value lines = call_string_method(rt, need_text(rt, in.value), MethodId::splitlines, {});
  const TextBuffer::Mark mark = rt.begin_text();
  for (std::uint32_t i = 0; i < lines.list->size; ++i) {
    if (i != 0) rt.put_string(joint);
    wrap_line(rt, lines.list->items[i], width, breaks_words, breaks_hyphens, joint);
  }
  return rt.end_text(mark);
}

}  // namespace filters

}  // namespace tenon::jinja
