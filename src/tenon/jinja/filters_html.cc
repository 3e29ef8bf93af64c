#include <cstdio>
#include <string>
#include <string_view>

#include "tenon/jinja/filters.h"
#include "tenon/jinja/markup.h"
#include "tenon/jinja/unicode.h"

/// Filters of HTML and of addresses, which follow markupsafe and jinja2's utils.
namespace tenon::jinja {
namespace {

// urllib's quote: everything but letters, digits, "_.-~" and, in a path, "/" becomes %XX. In a
// query a space is a plus.
void quote(std::string& out, std::string_view text, bool is_query) {
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '~' ||
                          (c == '/' && !is_query);
    if (is_plain) {
      out += c;
    } else if (c == ' ' && is_query) {
      out += '+';
    } else {
      char escape[4];
      std::snprintf(escape, sizeof(escape), "%%%02X", static_cast<unsigned char>(c));
      out += escape;
    }
  }
}

}  // namespace

namespace filters {

Value escape(Runtime& rt, const FilterInput& in) {
  return escaped(rt, in.value, false);
}

Value forceescape(Runtime& rt, const FilterInput& in) {
  return escaped(rt, in.value, true);
}

Value safe(Runtime& rt, const FilterInput& in) {
  return markup(rt.to_string(in.value));
}

Value striptags(Runtime& rt, const FilterInput& in) {
  return without_tags(rt, in.value);
}

Value urlencode(Runtime& rt, const FilterInput& in) {
  std::string out;
  const bool is_iterable = in.value.is_mapping() || in.value.is_list() || in.value.is(Tag::tuple) ||
                           in.value.is(Tag::view) || in.value.is(Tag::iterator) ||
                           in.value.is(Tag::undefined) || in.value.is(Tag::range);
  if (!is_iterable) {
    // One value is quoted as a path.
    const Value string = rt.to_string(in.value);
    rt.charge(std::size_t{string.size} * 4);
    quote(out, rt.text_of(string).bytes, false);
    return rt.string_copy(out, in.value.is_data() || !string.is(Tag::string));
  }
  // Else pairs: "a=1&b=2".
  Value source = in.value;
  if (in.value.is_mapping()) {
    source.tag = Tag::view;
    source.view = rt.arena().make<View>(in.value, View::Kind::items);
  }
  Iterator* walk = rt.iterate(source);
  Value item;
  for (bool is_first = true; rt.next(*walk, item); is_first = false) {
    const Value both = rt.collect(item);
    if (both.list->size != 2) rt.value_error("not enough values to unpack (expected 2)");
    if (!is_first) out += '&';
    quote(out, rt.text_of(rt.to_string(both.list->items[0])).bytes, true);
    out += '=';
    quote(out, rt.text_of(rt.to_string(both.list->items[1])).bytes, true);
    rt.charge(std::size_t{both.list->items[0].size} * 4);
    rt.arena().foresee(out.size());
  }
  // The text is gathered outside the buffer of origins, so all of it counts as data.
  return rt.string_copy(out, true);
}

Value xmlattr(Runtime& rt, const FilterInput& in) {
  const Value& autospace = in[0];
  if (in.value.is(Tag::undefined)) rt.fail_undefined(in.value);
  if (!in.value.is_mapping()) lacks(rt, in.value, "items");
  const TextBuffer::Mark mark = rt.begin_text();
  bool is_first = true;
  for (std::size_t i = 0; i < entry_count(in.value); ++i) {
    Value key;
    Value item;
    rt.entry_at(in.value, i, key, item);
    if (item.is(Tag::none) || item.is(Tag::undefined)) continue;
    if (!key.is_string()) rt.type_error("expected string or bytes-like object");
    // Such a key could add an attribute of its own or end the tag.
    if (rt.text_of(key).bytes.find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      rt.value_error("Invalid character in attribute name: " + rt.described(key));
    }
    if (!is_first || flag(rt, autospace, true)) rt.put(" ", false);
    is_first = false;
    rt.put_string(escaped(rt, key));
    rt.put("=\"", false);
    rt.put_string(escaped(rt, item));
    rt.put("\"", false);
  }
  return rt.end_text(mark);
}

// Makes HTML links of plain addresses: http://, https:// and www. Other parameters than `nofollow`
// have no effect.
Value urlize(Runtime& rt, const FilterInput& in) {
  const Value html = escaped(rt, in.value);
  const Text text = rt.text_of(html);
  rt.charge(text.bytes.size());
  std::string rel = flag(rt, in[1]) ? "nofollow noopener" : "noopener";
  const TextBuffer::Mark mark = rt.begin_text();
  for (std::size_t at = 0; at < text.bytes.size();) {
    rt.step();
    const std::size_t begin = at;
    std::size_t next = at;
    // The text is cut into words and the spaces between them, each kept as it is.
    const bool is_gap = unicode::next_is_space(text.bytes, next);
    while (at < text.bytes.size()) {
      next = at;
      if (unicode::next_is_space(text.bytes, next) != is_gap) break;
      at = next;
    }
    // Brackets and punctuation around a word are no part of the address.
    std::size_t from = begin;
    std::size_t to = at;
    while (from < to && std::string_view("(<").find(text.bytes[from]) != std::string_view::npos)
      ++from;
    while (to > from &&
           std::string_view(".,)>\n").find(text.bytes[to - 1]) != std::string_view::npos)
      --to;
    const std::string_view word = text.bytes.substr(from, to - from);
    const bool is_full = word.starts_with("https://") || word.starts_with("http://");
    // A host without `http` needs a dot behind its "www.".
    const bool is_host = word.starts_with("www.") && word.find('.', 4) != std::string_view::npos;
    if (is_gap || (!is_full && !is_host)) {
      rt.put_text(text, begin, at);
      continue;
    }
    rt.put_text(text, begin, from);
    rt.put(is_full ? "<a href=\"" : "<a href=\"https://", false);
    rt.put_text(text, from, to);
    rt.put("\" rel=\"" + rel + "\">", false);
    rt.put_text(text, from, to);
    rt.put("</a>", false);
    rt.put_text(text, to, at);
  }
  return rt.end_text(mark);
}

}  // namespace filters

}  // namespace tenon::jinja
