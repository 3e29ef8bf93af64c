#include "tenon/base/utf8.h"

#include <algorithm>
#include <cstring>

// All that reads goes through scan(), which reads one character at the beginning of a text and
// says whether it is valid, may become valid with more bytes, or is wrong. Text that is ASCII is
// passed in steps of eight bytes before. The Sanitizer is the same for text that comes in pieces:
// it keeps the bytes of a character that is not decided yet, so where the pieces are cut makes no
// difference.
namespace tenon::utf8 {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What stands at the beginning of a text.
enum class Verdict : std::uint8_t {
  whole,  // a valid character
  open,   // text ends inside what may become a character
  wrong,  // `length` bytes are the maximal subpart of an ill-formed character
};

// "Maximal subpart" is the Unicode Standard's word (chapter 3, "U+FFFD Substitution of Maximal
// Subparts"): how many bytes one replacement character stands for.
struct Scan {
  Verdict verdict;
  std::uint8_t length;      // bytes: the character, what there is of it, or the subpart
  char32_t code_point = 0;  // if whole
};

// `text` is not empty.
Scan scan(std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(0);
  const Lead lead = lead_of(first);
  // 80 to C1 and F5 to FF begin no character.
  if (lead.length == 0) return {Verdict::wrong, 1};
  if (lead.length == 1) return {Verdict::whole, 1, first};

  // 5, 4 or 3 bits of the character, by its length.
  char32_t code_point = first & (0x7FU >> lead.length);
  for (std::uint8_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Verdict::open, i};
    const unsigned char byte = byte_at(i);
    // The second byte has a narrower range behind some leads, which excludes overlong forms (E0,
    // F0), surrogates (ED) and what is above U+10FFFF (F4).
    const bool fits =
        i == 1 ? byte >= lead.least_second && byte <= lead.most_second : (byte & 0xC0) == 0x80;
    if (!fits) return {Verdict::wrong, i};
    code_point = code_point << 6 | (byte & 0x3FU);
  }
  return {Verdict::whole, lead.length, code_point};
}

// How many bytes at the beginning are ASCII. Reads eight at a time, since most text is ASCII.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Decoded decode(std::string_view text) {
  if (text.empty()) return {};
  const Scan first = scan(text);
  if (first.verdict != Verdict::whole) return {};
  return {first.code_point, first.length};
}

void append(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point >= 0x110000 || (code_point >= 0xD800 && code_point < 0xE000)) {
    // No UTF-8 exists for surrogates and numbers beyond Unicode.
    out.append(kReplacement);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (true) {
    // After each other character, since a word of another language may be followed by ASCII again.
    at += ascii_prefix(text.substr(at));
    if (at == text.size()) return at;
    const Scan next = scan(text.substr(at));
    if (next.verdict != Verdict::whole) return at;
    at += next.length;
  }
}

std::size_t open_tail(std::string_view text) {
  // An unfinished character is at most three bytes long. The first byte from the right that is no
  // continuation decides.
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    if ((static_cast<unsigned char>(tail.front()) & 0xC0) == 0x80) continue;  // not a lead byte yet
    const Scan last = scan(tail);
    return last.verdict == Verdict::open && last.length == length ? length : 0;
  }
  return 0;
}

std::size_t length(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t ascii = ascii_prefix(text);
    count += ascii;
    text.remove_prefix(ascii);
    if (text.empty()) break;
    const Scan next = scan(text);
    // Each byte of a wrong character counts as one.
    text.remove_prefix(next.verdict == Verdict::whole ? next.length : 1);
    ++count;
  }
  return count;
}

std::string sanitized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Sanitizer sanitizer;
  sanitizer.feed(text, out);
  sanitizer.finish(out);
  return out;
}

// `tail_` is an unfinished character at the end of what was fed, at most three bytes.
void Sanitizer::feed(std::string_view bytes, std::string& out) {
  // Byte by byte until the unfinished character is decided: at most three steps.
  while (!tail_.empty() && !bytes.empty()) {
    tail_.push_back(bytes.front());
    const Scan first = scan(tail_);
    if (first.verdict == Verdict::wrong) {
      // The new byte does not fit. It stays, since it may begin a character of its own.
      out.append(kReplacement);
      tail_.clear();
      break;
    }
    bytes.remove_prefix(1);
    if (first.verdict == Verdict::whole) {
      out.append(tail_);
      tail_.clear();
    }
  }
  while (!bytes.empty()) {
    const std::size_t valid = valid_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Scan next = scan(bytes);
    if (next.verdict == Verdict::open) {
      tail_.assign(bytes);
      break;
    }
    out.append(kReplacement);
    bytes.remove_prefix(next.length);
  }
}

void Sanitizer::finish(std::string& out) {
  if (!tail_.empty()) out.append(kReplacement);
  tail_.clear();
}

}  // namespace tenon::utf8
