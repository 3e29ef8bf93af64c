#include "tenon/jinja/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "tenon/base/utf8.h"

namespace tenon::jinja::unicode {
namespace {

// Tables in two stages: kStage1 gives the block of a code point, kStage2 its record in the block.
// Equal blocks and equal records are stored once.
#include "tenon/jinja/unicode_tables.inc"

struct Name {
  std::string_view text;
  char32_t point;
};

// kNames: the names for `\N{...}`, in order.
#include "tenon/jinja/unicode_names.inc"

}  // namespace

const Record& record(char32_t point) {
  if (point >= 0x110000) point = 0xD800;  // a lone surrogate has no properties
  return kRecords[kStage2[kStage1[point / kBlock] * kBlock + point % kBlock]];
}

char32_t next_wide(std::string_view text, std::size_t& at) {
  const utf8::Decoded decoded = utf8::decode(text.substr(at, 4));
  if (decoded.length == 0) {
    ++at;
    return 0xFFFD;
  }
  at += decoded.length;
  return decoded.code_point;
}

// Goes back over continuation bytes, three at most, and reads the character forwards.
char32_t previous_wide(std::string_view text, std::size_t& at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  std::size_t end = begin;
  const char32_t point = next(text, end);
  if (end != at) {  // not one whole character: the last byte counts by itself
    --at;
    return 0xFFFD;
  }
  at = begin;
  return point;
}

// string_view::find may compare `wanted` at every place of `text`. That is bounded for short ones;
// for longer ones memmem() is linear.
std::size_t find(std::string_view text, std::string_view wanted, std::size_t from) {
  if (from > text.size() || wanted.size() > text.size() - from) return std::string_view::npos;
  if (wanted.size() <= 8) return text.find(wanted, from);
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// The search of Knuth, Morris and Pratt, with both texts read backwards.
std::size_t find_last(std::string_view text, std::string_view wanted) {
  const std::size_t size = wanted.size();
  if (size <= 8) return text.rfind(wanted);
  const auto backwards = [&](std::size_t i) { return wanted[size - 1 - i]; };
  std::vector<std::size_t> borders(size, 0);  // [i]: border of the last i + 1 bytes of `wanted`
  std::size_t matched = 0;
  for (std::size_t i = 1; i < size; ++i) {
    while (matched > 0 && backwards(i) != backwards(matched)) matched = borders[matched - 1];
    if (backwards(i) == backwards(matched)) ++matched;
    borders[i] = matched;
  }
  matched = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    while (matched > 0 && text[at] != backwards(matched)) matched = borders[matched - 1];
    if (text[at] == backwards(matched)) ++matched;
    if (matched == size) return at;
  }
  return std::string_view::npos;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::size_t length(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

// A lead byte, then continuation bytes: valid UTF-8 needs no decoding for this.
std::size_t offset(std::string_view text, std::size_t index, std::size_t from) {
  std::size_t at = from;
  while (index > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    --index;
  }
  return at;
}

void append_mapped(std::string& out, char32_t point, Case to) {
  const Record& r = record(point);
  const std::int32_t way = to == Case::upper   ? r.upper
                           : to == Case::lower ? r.lower
                           : to == Case::title ? r.title
                                               : r.fold;
  // A mapping to several characters is a text; all others are a distance to the code point.
  if (way >= kSpecial) {
    out += kStrings[way - kSpecial];
  } else {
    utf8::append(out, static_cast<char32_t>(static_cast<std::int32_t>(point) + way));
  }
}

char32_t by_name(std::string_view name) {
  const Name* found =
      std::lower_bound(std::begin(kNames), std::end(kNames), name,
                       [](const Name& a, std::string_view b) { return a.text < b; });
  return found != std::end(kNames) && found->text == name ? found->point : 0;
}

}  // namespace tenon::jinja::unicode
