#include "tenon/jinja/dumps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tenon/base/utf8.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/sorting.h"
#include "tenon/jinja/unicode.h"

/// The tojson filter of transformers: Python's json.dumps, with the origin of every byte.
namespace tenon::jinja {
namespace {

class Dumper {
 public:
  // options: ensure_ascii, indent, separators, sort_keys; missing where they are not given.
  Dumper(Runtime& rt, const Value* options) : rt_(rt) {
    ensure_ascii_ = !options[0].is(Tag::missing) && rt.truth(options[0]);
    const Value& indent = options[1];
    // json.dumps takes a text or a number of spaces. Zero or less still breaks lines.
    if (indent.is_string()) {
      indent_ = rt.text_of(indent).bytes;
      is_indented_ = true;
    } else if (!indent.is(Tag::missing) && !indent.is(Tag::none)) {
      indent_width_ = std::max<std::int64_t>(0, index_of(rt, indent));
      is_indented_ = true;
    }
    // Python leaves out the space where a line break follows.
    if (is_indented_) item_separator_ = ",";
    if (!options[2].is(Tag::missing) && !options[2].is(Tag::none)) {
      // Any two strings, such as (",", ":") for text without spaces.
      const Value both = rt.collect(options[2]);
      if (both.list->size != 2 || !both.list->items[0].is_string() ||
          !both.list->items[1].is_string()) {
        rt.value_error("separators must be a pair of strings");
      }
      item_separator_ = rt.text_of(both.list->items[0]).bytes;
      key_separator_ = rt.text_of(both.list->items[1]).bytes;
    }
    sort_keys_ = !options[3].is(Tag::missing) && rt.truth(options[3]);
  }

  void dump(const Value& value) {
    const bool is_data = value.is_data();
    switch (value.tag) {
      case Tag::none:
        rt_.put("null", is_data);
        return;
      case Tag::boolean:
        rt_.put(value.boolean ? "true" : "false", is_data);
        return;
      case Tag::integer:
      case Tag::big_integer:
        rt_.repr(value);
        return;
      case Tag::real:
        dump_real(value);
        return;
      case Tag::string:
      case Tag::rope:
        dump_string(rt_.text_of(value));
        return;
      case Tag::list:
      case Tag::json_list:
      case Tag::tuple:
        dump_list(value);
        return;
      case Tag::dict:
      case Tag::json_dict:
        dump_dict(value);
        return;
      default:
        rt_.type_error("Object of type " + std::string(type_name(value)) +
                       " is not JSON serializable");
    }
  }

 private:
  // Python writes these three although JSON has no such numbers.
  void dump_real(const Value& value) {
    if (std::isfinite(value.real)) {
      rt_.repr(value);
    } else {
      rt_.put(std::isnan(value.real) ? "NaN"
              : value.real > 0       ? "Infinity"
                                     : "-Infinity",
              value.is_data());
    }
  }

  // With ensure_ascii, Python escapes DEL as well: `[^\ -~]` in json/encoder.py.
  [[nodiscard]] bool is_plain(char c) const {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && c != '"' && c != '\\' && (!ensure_ascii_ || byte < 0x7F);
  }

  // Text that needs no escape is copied in runs; each escape has the origin of its character. The
  // quotes count as the string's first and last byte, so a string of the user is data as a whole.
  void dump_string(const Text& text) {
    // Each byte is looked at, but cheaply.
    rt_.charge(text.bytes.size() / 4);
    std::uint32_t run = 0;
    // `at` only grows from call to call, so the runs are walked over once.
    const auto origin_at = [&](std::size_t at) {
      if (text.runs == nullptr) return text.is_data;
      while (run + 1 < text.run_count && at >= text.runs[run].end) ++run;
      return text.runs[run].is_data;
    };
    rt_.put("\"", origin_at(0));
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.bytes.size();) {
      const char c = text.bytes[at];
      if (is_plain(c)) {
        ++at;
        continue;
      }
      rt_.put_text(text, begin, at);
      const bool is_data = origin_at(at);
      const char32_t point = unicode::next(text.bytes, at);
      begin = at;
      put_escape(point, is_data);
    }
    rt_.put_text(text, begin, text.bytes.size());
    rt_.put("\"", origin_at(text.bytes.empty() ? 0 : text.bytes.size() - 1));
  }

  // The short escapes of JSON; all others have four hexadecimal digits.
  void put_escape(char32_t point, bool is_data) {
    switch (point) {
      case '"':
        rt_.put("\\\"", is_data);
        return;
      case '\\':
        rt_.put("\\\\", is_data);
        return;
      case '\n':
        rt_.put("\\n", is_data);
        return;
      case '\r':
        rt_.put("\\r", is_data);
        return;
      case '\t':
        rt_.put("\\t", is_data);
        return;
      case '\f':
        rt_.put("\\f", is_data);
        return;
      case '\b':
        rt_.put("\\b", is_data);
        return;
      default:
        break;
    }
    char buffer[16];
    int size;
    // Beyond the basic plane, JSON's escapes are a pair of surrogates (RFC 8259, section 7).
    if (point < 0x10000) {
      size = std::snprintf(buffer, sizeof(buffer), "\\u%04x", static_cast<unsigned>(point));
    } else {
      const unsigned rest = static_cast<unsigned>(point) - 0x10000;
      size = std::snprintf(buffer, sizeof(buffer), "\\u%04x\\u%04x", 0xD800 + (rest >> 10),
                           0xDC00 + (rest & 0x3FF));
    }
    rt_.put({buffer, static_cast<std::size_t>(size)}, is_data);
  }

  // Line breaks and brackets have the origin of the list or dict that they belong to.
  void new_line(bool is_data) {
    rt_.put("\n", is_data);
    if (indent_.data() != nullptr) {
      for (std::int64_t i = 0; i < level_; ++i) rt_.put(indent_, is_data);
    } else {
      // A very large width could overflow as a product; put_repeated() refuses it by itself.
      rt_.put_repeated(
          " ", indent_width_ > (std::int64_t{1} << 40) ? indent_width_ : indent_width_ * level_,
          is_data);
    }
  }

  void dump_list(const Value& list) {
    const Budget::Deeper deeper(rt_);
    const bool is_data = list.is_data();
    const std::int64_t size = *rt_.length(list);
    if (size == 0) return rt_.put("[]", is_data);
    rt_.put("[", is_data);
    ++level_;
    for (std::int64_t i = 0; i < size; ++i) {
      if (i != 0) rt_.put(item_separator_, is_data);
      if (is_indented_) new_line(is_data);
      dump(rt_.item_at(list, i));
    }
    --level_;
    if (is_indented_) new_line(is_data);
    rt_.put("]", is_data);
  }

  void dump_dict(const Value& dict) {
    const Budget::Deeper deeper(rt_);
    const bool is_data = dict.is_data();
    const std::size_t size = entry_count(dict);
    if (size == 0) return rt_.put("{}", is_data);
    Value order;
    // Numbers of entries are sorted by the keys, which must have an order among each other, as in
    // Python.
    if (sort_keys_) {
      order = rt_.make_list(static_cast<std::uint32_t>(size));
      Value keys = rt_.make_list(static_cast<std::uint32_t>(size));
      for (std::size_t i = 0; i < size; ++i) {
        Value key;
        Value value;
        rt_.entry_at(dict, i, key, value);
        rt_.append(order, make_int(static_cast<std::int64_t>(i)));
        rt_.append(keys, key);
      }
      sort_values(rt_, order.list->items, keys.list->items, static_cast<std::uint32_t>(size),
                  false);
    }
    rt_.put("{", is_data);
    ++level_;
    for (std::size_t i = 0; i < size; ++i) {
      Value key;
      Value value;
      rt_.entry_at(dict, sort_keys_ ? static_cast<std::size_t>(order.list->items[i].integer) : i,
                   key, value);
      if (i != 0) rt_.put(item_separator_, is_data);
      if (is_indented_) new_line(is_data);
      dump_key(key);
      rt_.put(key_separator_, is_data);
      dump(value);
    }
    --level_;
    if (is_indented_) new_line(is_data);
    rt_.put("}", is_data);
  }

  // json.dumps makes text of other keys: 1 becomes "1", True becomes "true", None becomes "null".
  void dump_key(const Value& key) {
    if (key.is_string()) return dump_string(rt_.text_of(key));
    if (!key.is_number() && !key.is(Tag::none)) {
      rt_.type_error("keys must be str, int, float, bool or None, not " +
                     std::string(type_name(key)));
    }
    rt_.put("\"", key.is_data());
    dump(key);
    rt_.put("\"", key.is_data());
  }

  Runtime& rt_;
  bool ensure_ascii_ = false;
  bool is_indented_ = false;
  bool sort_keys_ = false;
  std::string_view indent_;  // text for each level; null: indent_width_ spaces
  std::int64_t indent_width_ = 0;
  std::int64_t level_ = 0;
  std::string_view item_separator_ = ", ";
  std::string_view key_separator_ = ": ";
};

}  // namespace

Value dumps(Runtime& rt, const Value& value, const Value* options) {
  Dumper dumper(rt, options);
  const TextBuffer::Mark mark = rt.begin_text();
  dumper.dump(value);
  return rt.end_text(mark);
}

namespace {

// The values of a parsed text as values of the template, which it may change.
Value own(Runtime& rt, const json::Value& value, bool is_data) {
  const Budget::Deeper deeper(rt);
  if (const json::Array* array = value.if_array()) {
    Value list = rt.make_list(static_cast<std::uint32_t>(array->size()), is_data);
    for (const json::Value& item : *array) rt.append(list, own(rt, item, is_data));
    return list;
  }
  if (const json::Object* object = value.if_object()) {
    Value dict = rt.make_dict(is_data);
    for (const json::Member& member : object->members()) {
      rt.set(dict, rt.string_copy(member.key, is_data), own(rt, member.value, is_data));
    }
    return dict;
  }
  if (const std::string* text = value.if_string()) return rt.string_copy(*text, is_data);
  Value result = rt.import(value);
  result.flags = is_data ? kData : 0;
  return result;
}

}  // namespace

Value from_json(Runtime& rt, const Value& text) {
  if (!text.is_string()) {
    rt.type_error("the JSON object must be str, not " + std::string(type_name(text)));
  }
  const Text source = rt.text_of(text);
  rt.charge(source.bytes.size());
  // The text may be the user's, so it has limits of its own.
  json::ParseOptions limits;
  limits.max_depth = 128;
  limits.max_bytes = std::size_t{4} << 20;
  limits.max_values = std::size_t{1} << 18;
  const Expected<json::Value> parsed = json::parse(source.bytes, limits);
  if (!parsed) rt.value_error(parsed.error().message);
  // Text of mixed origin counts as data as a whole: the parser knows of no runs.
  return own(rt, *parsed, text.is_data() || source.runs != nullptr);
}

}  // namespace tenon::jinja
