#include "tenon/jinja/bytes.h"

#include <string>
#include <string_view>

#include "tenon/base/utf8.h"
#include "tenon/jinja/string_methods.h"
#include "tenon/jinja/unicode.h"

/// Methods of Python's bytes. They call the methods of str on a text in which each byte beyond
/// ASCII is a character of the private use area, because no method of str takes such a character
/// for a letter, a digit or a space.
namespace tenon::jinja {
namespace {

using M = MethodId;

// Byte 0x80 is U+F780, and so on.
constexpr char32_t kPrivate = 0xF700;

// For str, some control characters are spaces and line ends; for bytes they are not.
bool is_alike(unsigned char byte, M id) {
  if (byte >= 0x80 || (byte >= 0x1C && byte <= 0x1F)) return false;
  return id != M::splitlines || (byte != '\v' && byte != '\f');
}

Value text_of_bytes(Runtime& rt, const Value& bytes, M id) {
  std::string text;
  for (const char c : bytes.bytes()) {
    const auto byte = static_cast<unsigned char>(c);
    utf8::append(text, is_alike(byte, id) ? byte : kPrivate + byte);
  }
  return rt.string_copy(text, bytes.is_data());
}

// The way back. Text that a method has added itself, such as spaces, is ASCII.
Value bytes_of_text(Runtime& rt, const Value& string) {
  const Text text = rt.text_of(string);
  std::string bytes;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const char32_t point = unicode::next(text.bytes, at);
    bytes += static_cast<char>(point < 0x80 ? point : point - kPrivate);
  }
  return make_bytes(rt, bytes, text.is_data || text.runs != nullptr);
}

// The argument that a method of str gets in place of the one that the method of bytes was given.
Value argument_for_text(Runtime& rt, const Value& given, M id) {
  if (given.is(Tag::bytes)) return text_of_bytes(rt, given, id);
  if (given.is_string()) rt.type_error("a bytes-like object is required, not 'str'");
  // join() takes a list; startswith() and endswith() take a tuple of affixes.
  const bool is_list = given.is_list() || given.is(Tag::tuple);
  if (!is_list || (id != M::join && !given.is(Tag::tuple))) return given;
  const auto size = static_cast<std::uint32_t>(rt.length(given).value_or(0));
  Value list = rt.make_list(size, given.is_data(), given.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::uint32_t i = 0; i < size; ++i) {
    const Value item = rt.item_at(given, i);
    if (!item.is(Tag::bytes)) {
      rt.type_error("sequence item " + std::to_string(i) + ": expected a bytes-like object, " +
                    std::string(type_name(item)) + " found");
    }
    rt.append(list, text_of_bytes(rt, item, id));
  }
  return list;
}

Value hex_of(Runtime& rt, const Value& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes.bytes()) {
    text += kDigits[static_cast<unsigned char>(c) >> 4U];
    text += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return rt.string_copy(text, bytes.is_data());
}

}  // namespace

std::string encoding_name(Runtime& rt, const Value& argument, std::string_view method) {
  if (argument.is(Tag::missing)) return "utf8";
  if (!argument.is_string()) {
    rt.type_error(std::string(method) + "() argument 'encoding' must be str, not " +
                  std::string(type_name(argument)));
  }
  std::string name;
  for (const char c : rt.text_of(argument).bytes) {
    if (c != '-' && c != '_') name += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return name;
}

void fail_encoding(Runtime& rt) {
  rt.fail("UnsupportedError", "only UTF-8 is supported as an encoding");
}

Value make_bytes(TextBuffer& out, std::string_view bytes, bool is_data) {
  Value value = out.string_copy(bytes, is_data);
  value.tag = Tag::bytes;
  return value;
}

Value call_bytes_method(Runtime& rt, const Value& self, MethodId id, const Args& args) {
  rt.charge(self.size);
  if (id == M::decode) {
    Value bound[2];
    bind_arguments(rt, args, "decode", {"encoding", "errors"}, 0, bound);
    const std::string encoding = encoding_name(rt, bound[0], "decode");
    const bool is_ascii = encoding == "ascii";
    if (!is_ascii && encoding != "utf8") fail_encoding(rt);
    const bool fits = is_ascii ? unicode::is_ascii(self.bytes()) : utf8::is_valid(self.bytes());
    if (fits) return make_string(self.bytes(), self.is_data());
    rt.fail("UnicodeDecodeError",
            std::string(is_ascii ? "'ascii'" : "'utf-8'") + " codec can't decode the bytes");
  }
  if (id == M::hex) {
    positional_only(rt, args, "hex", 0, 0);
    return hex_of(rt, self);
  }
  // Each bytes argument becomes a text by the same rule, so that it can be found in the text of
  // self.
  auto* items = args.size == 0 ? nullptr : rt.arena().array<Value>(args.size);
  for (std::uint32_t i = 0; i < args.size; ++i) {
    items[i] = argument_for_text(rt, args.items[i], id);
  }
  auto* keywords =
      args.keyword_count == 0 ? nullptr : rt.arena().array<Keyword>(args.keyword_count);
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    keywords[i] = {args.keywords[i].key, argument_for_text(rt, args.keywords[i].value, id)};
  }
  const Value result = call_string_method(rt, text_of_bytes(rt, self, id), id,
                                          {items, args.size, keywords, args.keyword_count});
  if (result.is_string()) return bytes_of_text(rt, result);
  // Numbers and truth values are right as they are; find() counts characters, which are bytes here.
  if (!result.is(Tag::list) && !result.is(Tag::tuple)) return result;
  Value list = rt.make_list(result.list->size, result.is_data(), result.tag);
  for (std::uint32_t i = 0; i < result.list->size; ++i) {
    rt.append(list, bytes_of_text(rt, result.list->items[i]));
  }
  return list;
}

}  // namespace tenon::jinja
