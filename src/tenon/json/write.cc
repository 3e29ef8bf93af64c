#include <algorithm>

#include "tenon/base/utf8.h"
#include "tenon/json/number_text.h"
#include "tenon/json/scan.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

void append_unicode_escape(std::string& out, char32_t unit) {
  out.append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kHex[unit >> shift & 0xF]);
}

// Appends the escape of a byte that is not plain and below 0x80.
void append_escape(std::string& out, char byte) {
  constexpr std::string_view kBytes = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  const std::size_t name = kBytes.find(byte);
  if (name == std::string_view::npos) {
    append_unicode_escape(out, static_cast<unsigned char>(byte));
  } else {
    out.push_back('\\');
    out.push_back(kNames[name]);
  }
}

// `text` must be valid UTF-8.
void append_valid(std::string& out, std::string_view text, bool ensure_ascii) {
  while (true) {
    const std::size_t plain = detail::plain_prefix(text);
    const std::string_view run = text.substr(0, plain);
    text.remove_prefix(plain);
    // Python escapes DEL along with all characters beyond ASCII.
    if (ensure_ascii && run.find('\x7f') != std::string_view::npos) {
      for (const char byte : run) {
        if (byte == '\x7f') {
          append_unicode_escape(out, 0x7F);
        } else {
          out.push_back(byte);
        }
      }
    } else {
      out.append(run);
    }
    if (text.empty()) break;
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      append_escape(out, text.front());
      text.remove_prefix(1);
      continue;
    }
    const utf8::Decoded character = utf8::decode(text);
    if (!ensure_ascii) {
      out.append(text.substr(0, character.length));
    } else if (character.code_point < 0x10000) {
      append_unicode_escape(out, character.code_point);
    } else {
      // A pair of surrogates (RFC 8259, section 7).
      append_unicode_escape(out, 0xD800 + ((character.code_point - 0x10000) >> 10));
      append_unicode_escape(out, 0xDC00 + (character.code_point & 0x3FF));
    }
    text.remove_prefix(character.length);
  }
}

void append_characters(std::string& out, std::string_view text, bool ensure_ascii) {
  const bool is_plain = detail::plain_prefix(text) == text.size();
  if (is_plain && !(ensure_ascii && text.find('\x7f') != std::string_view::npos)) {
    out.append(text);  // nearly all keys and most values
  } else if (utf8::is_valid(text)) {
    append_valid(out, text, ensure_ascii);
  } else {
    // Bytes that are not UTF-8 become U+FFFD, so what is written is always JSON.
    append_valid(out, utf8::sanitized(text), ensure_ascii);
  }
}

void append_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out.push_back('"');
  append_characters(out, text, ensure_ascii);
  out.push_back('"');
}

// The layout that a writer uses.
struct Style {
  std::string_view item_separator = ",";
  std::string_view key_separator = ":";
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool python_numbers = false;
  std::optional<int> indent;
};

// Writes without recursion: a list of the open containers, with the child that comes next in each.
class Writer {
 public:
  Writer(std::string& out, const Style& style) : out_(out), style_(style) {}

  void write(const Value& value) {
    begin(value);
    while (!open_.empty()) {
      Open& top = open_.back();
      if (top.next == top.size) {
        end(top);
        continue;
      }
      if (top.next > 0) out_.append(style_.item_separator);
      new_line(open_.size());
      begin(next_child(top));
    }
  }

 private:
  // A container that has begun: its items or its members, the other of the two is null.
  struct Open {
    const Array* items;
    const Object* members;
    std::size_t size;
    std::size_t next = 0;
    std::vector<const Member*> sorted;  // with sort_keys
  };

  // Writes a scalar or an empty container, or opens a container.
  void begin(const Value& value) {
    switch (value.kind()) {
      case Kind::null:
        out_.append("null");
        return;
      case Kind::boolean:
        out_.append(*value.if_bool() ? "true" : "false");
        return;
      case Kind::string:
        append_string(out_, *value.if_string(), style_.ensure_ascii);
        return;
      case Kind::number:
        if (style_.python_numbers) {
          detail::append_python_number(out_, *value.if_number());
        } else {
          out_.append(value.if_number()->text);
        }
        return;
      case Kind::array:
        if (value.if_array()->empty()) {
          out_.append("[]");
          return;
        }
        out_.push_back('[');
        open_.push_back({value.if_array(), nullptr, value.if_array()->size(), 0, {}});
        return;
      case Kind::object:
        if (value.if_object()->empty()) {
          out_.append("{}");
          return;
        }
        out_.push_back('{');
        open_.push_back({nullptr, value.if_object(), value.if_object()->size(), 0, {}});
        if (style_.sort_keys) sort(open_.back());
        return;
    }
  }

  static void sort(Open& object) {
    for (const Member& member : *object.members) object.sorted.push_back(&member);
    // The order of UTF-8 bytes is the order of code points.
    std::sort(object.sorted.begin(), object.sorted.end(),
              [](const Member* a, const Member* b) { return a->key < b->key; });
  }

  // Writes the key, if there is one, and returns the value.
  const Value& next_child(Open& top) {
    const std::size_t index = top.next++;
    if (top.items != nullptr) return (*top.items)[index];
    const Member& member = style_.sort_keys ? *top.sorted[index] : top.members->members()[index];
    append_string(out_, member.key, style_.ensure_ascii);
    out_.append(style_.key_separator);
    return member.value;
  }

  void end(const Open& top) {
    // Read before pop_back(), which destroys `top`.
    const char close = top.items != nullptr ? ']' : '}';
    open_.pop_back();
    new_line(open_.size());
    out_.push_back(close);
  }

  // Nothing without an indent. With an indent of 0 or less there are line ends and no spaces, as in
  // Python.
  void new_line(std::size_t level) {
    if (!style_.indent) return;
    const int width = std::max(*style_.indent, 0);
    out_.append(1, '\n').append(level * static_cast<std::size_t>(width), ' ');
  }

  std::string& out_;
  const Style& style_;
  std::vector<Open> open_;
};

}  // namespace

void append(std::string& out, const Value& value) {
  Writer(out, Style{}).write(value);
}

std::string to_string(const Value& value) {
  std::string out;
  append(out, value);
  return out;
}

void append_quoted(std::string& out, std::string_view text) {
  append_string(out, text, false);
}

void append_escaped(std::string& out, std::string_view text) {
  append_characters(out, text, false);
}

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

void append_dumps(std::string& out, const Value& value, const DumpsOptions& options) {
  Style style;
  // As in Python: with indent a line end follows the comma, and a space would be left at the end of
  // each line.
  style.item_separator = options.indent ? "," : ", ";
  if (options.item_separator) style.item_separator = *options.item_separator;
  style.key_separator = options.key_separator;
  style.ensure_ascii = options.ensure_ascii;
  style.sort_keys = options.sort_keys;
  style.python_numbers = !options.keep_numbers;
  style.indent = options.indent;
  Writer(out, style).write(value);
}

std::string dumps(const Value& value, const DumpsOptions& options) {
  std::string out;
  append_dumps(out, value, options);
  return out;
}

}  // namespace tenon::json
