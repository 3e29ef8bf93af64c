#include "tenon/jinja/markup.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "tenon/base/utf8.h"
#include "tenon/jinja/filter.h"
#include "tenon/jinja/string_methods.h"
#include "tenon/jinja/unicode.h"

/// Text as HTML and as ASCII: the results of markupsafe's functions, and of Python's
/// html.unescape() and ascii().
namespace tenon::jinja {
namespace {

struct Entity {
  std::string_view name;
  char32_t first;
  char32_t second;  // 0: there is only one
};

// kEntities: the names of HTML 5 in order. A name that may lack its semicolon is there twice.
#include "tenon/jinja/html_entities.inc"

// How many characters html.unescape() looks at.
constexpr std::size_t kLongestEntity = 32;

const Entity* entity_of(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kEntities), std::end(kEntities), name,
                       [](const Entity& a, std::string_view b) { return a.name < b; });
  return found != std::end(kEntities) && found->name == name ? found : nullptr;
}

// Numbers of control characters stand for characters of Windows-1252; html.unescape() reads them
// so.
constexpr char32_t kC1[] = {0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                            0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                            0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                            0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

// Code points that HTML forbids as references; html.unescape() removes them.
bool is_left_out(char32_t point) {
  return (point >= 0x1 && point <= 0x8) || point == 0xB || (point >= 0xE && point <= 0x1F) ||
         point == 0x7F || (point >= 0xFDD0 && point <= 0xFDEF) || (point & 0xFFFE) == 0xFFFE;
}

std::string character_of_number(char32_t point) {
  std::string text;
  if (point == 0 || (point >= 0xD800 && point <= 0xDFFF) || point > 0x10FFFF) {
    utf8::append(text, 0xFFFD);
  } else if (point >= 0x80 && point <= 0x9F) {
    utf8::append(text, kC1[point - 0x80]);
  } else if (!is_left_out(point)) {
    utf8::append(text, point);
  }
  return text;
}

// What a character reference stands for, and its length with the `&`; 0: it is not a reference.
struct Reference {
  std::string text;
  std::size_t length = 0;
};

// "&#65;" or "&#x41;", with or without the semicolon. The number stops growing above Unicode.
Reference number_at(std::string_view text) {
  const bool is_hex = text.size() > 2 && (text[2] == 'x' || text[2] == 'X');
  std::size_t at = is_hex ? 3 : 2;
  const std::size_t begin = at;
  char32_t point = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const int digit = c >= '0' && c <= '9'             ? c - '0'
                      : is_hex && c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : is_hex && c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                       : -1;
    if (digit < 0) break;
    point = std::min<char32_t>(point * (is_hex ? 16 : 10) + static_cast<char32_t>(digit), 0x110000);
  }
  if (at == begin) return {};
  if (at < text.size() && text[at] == ';') ++at;
  return {character_of_number(point), at};
}

// "&amp;" and the like. The characters of a name are those of Python's pattern in html.unescape().
Reference name_at(std::string_view text) {
  std::size_t end = 1;
  for (std::size_t characters = 0; characters < kLongestEntity && end < text.size();) {
    const char c = text[end];
    if (std::string_view("\t\n\f <&#;").find(c) != std::string_view::npos) break;
    characters += (static_cast<unsigned char>(c) & 0xC0U) != 0x80 ? 1 : 0;
    ++end;
  }
  if (end < text.size() && text[end] == ';') ++end;
  // The whole name, or else its longest beginning that is a name: `&ampx` is `&x`.
  for (; end > 2; --end) {
    if (const Entity* found = entity_of(text.substr(1, end - 1))) {
      Reference reference{{}, end};
      utf8::append(reference.text, found->first);
      if (found->second != 0) utf8::append(reference.text, found->second);
      return reference;
    }
  }
  return {};
}

}  // namespace

Value unescape_html(TextBuffer& out, const Value& string) {
  const Text text = out.text_of(string);
  out.charge(text.bytes.size());
  const TextBuffer::Mark mark = out.begin_text();
  std::size_t begin = 0;
  for (std::size_t at = text.bytes.find('&'); at != std::string_view::npos;
       at = text.bytes.find('&', at)) {
    out.step();
    const std::string_view rest = text.bytes.substr(at);
    const Reference found = rest.substr(0, 2) == "&#" ? number_at(rest) : name_at(rest);
    if (found.length == 0) {
      // An ampersand that begins no reference is text.
      ++at;
      continue;
    }
    out.put_text(text, begin, at);
    out.put(found.text, text.is_data_at(at));
    at += found.length;
    begin = at;
  }
  out.put_text(text, begin, text.bytes.size());
  return out.end_text(mark);
}

// repr() with everything beyond ASCII as an escape.
Value ascii(Runtime& rt, const Value& value) {
  const Value shown = rt.to_repr(value);
  const Text text = rt.text_of(shown);
  if (unicode::is_ascii(text.bytes)) return shown;
  rt.charge(text.bytes.size() * 2);
  const TextBuffer::Mark mark = rt.begin_text();
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t begin = at;
    const char32_t point = unicode::next(text.bytes, at);
    if (point < 0x80) {
      rt.put_text(text, begin, at);
      continue;
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    const unsigned digits = point < 0x100 ? 2 : point < 0x10000 ? 4 : 8;
    std::string escape = digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
    for (unsigned i = digits; i-- > 0;) escape += kDigits[(point >> (4 * i)) & 15U];
    rt.put(escape, text.is_data_at(begin));
  }
  return rt.end_text(mark);
}

// What is marked safe is not escaped again, except by force.
Value escaped(Runtime& rt, const Value& value, bool force) {
  if (value.is_string() && value.is_markup() && !force) return value;
  const Value string = rt.to_string(value);
  const Text text = rt.text_of(string);
  rt.charge(text.bytes.size());
  const TextBuffer::Mark mark = rt.begin_text();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    std::string_view escape;
    switch (text.bytes[at]) {
      case '&':
        escape = "&amp;";
        break;
      case '<':
        escape = "&lt;";
        break;
      case '>':
        escape = "&gt;";
        break;
      case '\'':
        // markupsafe writes the two quotes as numbers.
        escape = "&#39;";
        break;
      case '"':
        escape = "&#34;";
        break;
      default:
        continue;
    }
    rt.put_text(text, begin, at);
    const Value character = rt.substring(text, at, at + 1);
    rt.put(escape, character.is_data());
    begin = at + 1;
  }
  rt.put_text(text, begin, text.bytes.size());
  return markup(rt.end_text(mark));
}

// Removes runs of tags and comments; the text that is left is separated by single spaces.
Value without_tags(Runtime& rt, const Value& value) {
  const Value string = rt.to_string(value);
  const Text all = rt.text_of(string);
  rt.charge(all.bytes.size());
  // markupsafe 3 removes comments first and tags second, each search from the left.
  const auto strip = [&](const Text& from, std::string_view open, std::string_view close) {
    const TextBuffer::Mark mark = rt.begin_text();
    std::size_t begin = 0;
    while (true) {
      const std::size_t start = from.bytes.find(open, begin);
      if (start == std::string_view::npos) break;
      const std::size_t end = from.bytes.find(close, start);
      if (end == std::string_view::npos) break;
      rt.step();
      rt.put_text(from, begin, start);
      begin = end + close.size();
    }
    rt.put_text(from, begin, from.bytes.size());
    return rt.end_text(mark);
  };
  const Value no_comments = strip(all, "<!--", "-->");
  const Value no_tags = strip(rt.text_of(no_comments), "<", ">");
  const Value words = call_string_method(rt, no_tags, MethodId::split, {});
  const TextBuffer::Mark mark = rt.begin_text();
  for (std::uint32_t i = 0; i < words.list->size; ++i) {
    if (i != 0) rt.put(" ", false);
    rt.put_string(words.list->items[i]);
  }
  return unescape_html(rt, rt.end_text(mark));
}

}  // namespace tenon::jinja
