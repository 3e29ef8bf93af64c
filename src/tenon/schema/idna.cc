#include "tenon/schema/idna.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/regex/regex.h"

namespace tenon::schema {
namespace {

constexpr std::size_t kMostLabelBytes = 63;
constexpr std::size_t kMostBytes = 253;
constexpr std::string_view kPrefix = "xn--";

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Empty if it is not UTF-8, which no name is.
std::u32string code_points(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const utf8::Decoded next = utf8::decode(text);
    if (next.length == 0) return {};
    out.push_back(next.code_point);
    text.remove_prefix(next.length);
  }
  return out;
}

// Punycode (RFC 3492) -----------------------------------------------------------------------------

// The parameters of section 5, and below the procedures of section 6.
constexpr std::uint32_t kBase = 36;
constexpr std::uint32_t kLeast = 1;
constexpr std::uint32_t kMost = 26;
constexpr std::uint32_t kFirstBias = 72;
constexpr std::uint32_t kFirstCode = 128;

// Section 6.1: the bias by which digits are weighed, from how large the last delta was.
std::uint32_t adapted(std::uint32_t delta, std::uint32_t count, bool is_first) {
  constexpr std::uint32_t kDamp = 700;
  constexpr std::uint32_t kSkew = 38;
  delta = is_first ? delta / kDamp : delta / 2;
  delta += delta / count;
  std::uint32_t k = 0;
  for (; delta > (kBase - kLeast) * kMost / 2; k += kBase) delta /= kBase - kLeast;
  return k + (kBase - kLeast + 1) * delta / (delta + kSkew);
}

// The digit from which on a number goes on with one more digit (section 3.3).
std::uint32_t threshold(std::uint32_t k, std::uint32_t bias) {
  return k <= bias ? kLeast : std::min(k - bias, kMost);
}

std::optional<std::uint32_t> digit_of(char c) {
  if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a');
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0') + 26;
  return std::nullopt;
}

// `text` must be lower case and no longer than a label, which keeps all sums small enough.
std::optional<std::u32string> decoded(std::string_view text) {
  const std::size_t hyphen = text.rfind('-');
  std::u32string out;
  if (hyphen != std::string_view::npos) {
    out.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(hyphen));
    text.remove_prefix(hyphen + 1);
  }
  std::uint64_t code = kFirstCode;
  std::uint64_t at = 0;
  std::uint32_t bias = kFirstBias;
  while (!text.empty()) {
    const std::uint64_t before = at;
    std::uint64_t weight = 1;
    for (std::uint32_t k = kBase;; k += kBase) {
      const auto digit = text.empty() ? std::nullopt : digit_of(text[0]);
      if (!digit) return std::nullopt;
      text.remove_prefix(1);
      at += *digit * weight;
      if (at > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
      const std::uint32_t least = threshold(k, bias);
      if (*digit < least) break;
      weight *= kBase - least;
    }
    const std::uint64_t count = out.size() + 1;
    bias = adapted(static_cast<std::uint32_t>(at - before), static_cast<std::uint32_t>(count),
                   before == 0);
    code += at / count;
    at %= count;
    if (code > 0x10FFFF) return std::nullopt;
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), static_cast<char32_t>(code));
    ++at;
  }
  return out;
}

// Section 6.3: "bücher" becomes "bcher-kva". The ASCII characters come first, and then each other
// character as the distance from the one before it, in the order of the code points.
std::string encoded(const std::u32string& label) {
  std::string out;
  for (const char32_t c : label) {
    if (c < kFirstCode) out.push_back(static_cast<char>(c));
  }
  const auto basic = static_cast<std::uint32_t>(out.size());
  if (basic > 0) out.push_back('-');
  std::uint32_t code = kFirstCode;
  std::uint32_t delta = 0;
  std::uint32_t bias = kFirstBias;
  for (std::uint32_t done = basic; done < label.size(); ++code, ++delta) {
    std::uint32_t next = std::numeric_limits<std::uint32_t>::max();
    for (const char32_t c : label) {
      if (c >= code) next = std::min(next, static_cast<std::uint32_t>(c));
    }
    delta += (next - code) * (done + 1);
    code = next;
    for (const char32_t c : label) {
      if (c < code) ++delta;
      if (c != code) continue;
      std::uint32_t rest = delta;
      for (std::uint32_t k = kBase;; k += kBase) {
        const std::uint32_t least = threshold(k, bias);
        const std::uint32_t digit = rest < least ? rest : least + (rest - least) % (kBase - least);
        out.push_back(static_cast<char>(digit < 26 ? 'a' + digit : '0' + (digit - 26)));
        if (rest < least) break;
        rest = (rest - least) / (kBase - least);
      }
      bias = adapted(delta, done + 1, done == basic);
      delta = 0;
      ++done;
    }
  }
  return out;
}

// What code points are ----------------------------------------------------------------------------

// A class of code points, written as the inside of a class in a pattern.
class Class {
 public:
  explicit Class(const std::string& members) {
    auto compiled = regex::Regex::compile("^[" + members + "]$");
    if (compiled) regex_ = *std::move(compiled);
  }

  [[nodiscard]] bool contains(char32_t c) const {
    std::string text;
    utf8::append(text, c);
    return regex_ != nullptr && regex_->contains_match(text).value_or(false);
  }

 private:
  std::shared_ptr<const regex::Regex> regex_;
};

bool is_mark(char32_t c) {
  static const Class kMarks(R"(\p{M})");
  return c >= 0x300 && kMarks.contains(c);
}

bool is_nonspacing(char32_t c) {
  static const Class kNonspacing(R"(\p{Mn})");
  return c >= 0x300 && kNonspacing.contains(c);
}

// RFC 5892, section 2, without the rules that depend on neighbours.
bool is_allowed(char32_t c) {
  static const Class kAllowed(
      R"(\-a-z0-9\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}\u06FD\u06FE\u0F0B\u3007)");
  // Exceptions, old Hangul, ignorable code points, and blocks that normalisation would change.
  static const Class kBarred(
      R"(\u0640\u07FA\u302E\u302F\u3031-\u3035\u303B\u1100-\u11FF\uA960-\uA97F\uD7B0-\uD7FF)"
      R"(\u034F\u180B-\u180F\uFE00-\uFE0F\u{E0100}-\u{E01EF}\u2100-\u214F\u3130-\u318F)"
      R"(\uF900-\uFAFF\uFB00-\uFB4F\uFF00-\uFFEF)");
  return kAllowed.contains(c) && !kBarred.contains(c);
}

bool is_greek(char32_t c) {
  static const Class kGreek(R"(\p{Script=Greek})");
  return kGreek.contains(c);
}

bool is_hebrew(char32_t c) {
  static const Class kHebrew(R"(\p{Script=Hebrew})");
  return kHebrew.contains(c);
}

bool is_kana_or_han(char32_t c) {
  static const Class kKanaAndHan(R"(\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han})");
  return kKanaAndHan.contains(c);
}

bool joins(char32_t c) {
  static const Class kJoining(
      R"(\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mandaic}\p{Script=Mongolian})");
  return kJoining.contains(c);
}

// Canonical combining class 9.
bool is_virama(char32_t c) {
  constexpr char32_t kViramas[] = {
      0x94D,   0x9CD,   0xA4D,   0xACD,   0xB4D,   0xBCD,   0xC4D,   0xCCD,   0xD3B,
      0xD3C,   0xD4D,   0xDCA,   0xE3A,   0xEBA,   0xF84,   0x1039,  0x103A,  0x1714,
      0x1715,  0x1734,  0x17D2,  0x1A60,  0x1B44,  0x1BAA,  0x1BAB,  0x1BF2,  0x1BF3,
      0x2D7F,  0xA806,  0xA82C,  0xA8C4,  0xA953,  0xA9C0,  0xAAF6,  0xABED,  0x10A3F,
      0x11046, 0x11070, 0x1107F, 0x110B9, 0x11133, 0x11134, 0x111C0, 0x11235, 0x112EA,
      0x1134D, 0x11442, 0x114C2, 0x115BF, 0x1163F, 0x116B6, 0x1172B, 0x11839, 0x1193D,
      0x1193E, 0x119E0, 0x11A34, 0x11A47, 0x11A99, 0x11C3F, 0x11D44, 0x11D45, 0x11D97};
  return std::ranges::binary_search(kViramas, c);
}

bool is_arabic_digit(char32_t c) {
  return c >= 0x660 && c <= 0x669;
}

bool is_extended_digit(char32_t c) {
  return c >= 0x6F0 && c <= 0x6F9;
}

// Rules of labels ---------------------------------------------------------------------------------

// RFC 5892, appendix A: code points that need certain neighbours.
bool fits_neighbours(const std::u32string& label, std::size_t i) {
  const char32_t before = i > 0 ? label[i - 1] : 0;
  const char32_t after = i + 1 < label.size() ? label[i + 1] : 0;
  switch (label[i]) {
    case 0xB7:  // middle dot
      return before == 'l' && after == 'l';
    case 0x375:  // Greek lower numeral sign
      return is_greek(after);
    case 0x5F3:  // geresh and gershayim
    case 0x5F4:
      return is_hebrew(before);
    case 0x30FB:  // Katakana middle dot
      return std::ranges::any_of(label, is_kana_or_han);
    case 0x200C:  // zero width non-joiner
      return is_virama(before) || (joins(before) && joins(after));
    case 0x200D:  // zero width joiner
      return is_virama(before);
    default:
      return is_allowed(label[i]);
  }
}

// RFC 5891, section 5.4, of a label with characters beyond ASCII.
bool is_u_label(const std::u32string& label) {
  if (label.empty() || label.front() == '-' || label.back() == '-' || is_mark(label.front())) {
    return false;
  }
  // Two hyphens at this place are kept for prefixes such as "xn--".
  if (label.size() >= 4 && label[2] == '-' && label[3] == '-') return false;
  if (std::ranges::any_of(label, is_arabic_digit) &&
      std::ranges::any_of(label, is_extended_digit)) {
    return false;
  }
  for (std::size_t i = 0; i < label.size(); ++i) {
    if (!fits_neighbours(label, i)) return false;
  }
  return true;
}

enum class Direction : std::uint8_t { left, right, arabic_number, number, mark, neutral };

// The classes of the rule, as far as it tells them apart, by scripts. The characters of a label are
// allowed ones, so other classes do not occur.
Direction direction_of(char32_t c) {
  static const Class kRightToLeft(
      R"(\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko})"
      R"(\p{Script=Samaritan}\p{Script=Mandaic}\p{Script=Adlam})");
  if (is_arabic_digit(c)) return Direction::arabic_number;
  if ((c >= '0' && c <= '9') || is_extended_digit(c)) return Direction::number;
  if (c == '-' || c == 0xB7 || c == 0x200C || c == 0x200D) return Direction::neutral;
  if (is_nonspacing(c)) return Direction::mark;
  return kRightToLeft.contains(c) ? Direction::right : Direction::left;
}

// RFC 5893, section 2, of a label in a name that has right-to-left characters.
bool fits_bidi_rule(const std::u32string& label) {
  const Direction first = direction_of(label.front());
  if (first != Direction::left && first != Direction::right) return false;
  bool has[6] = {};
  Direction last = first;
  for (const char32_t c : label) {
    const Direction direction = direction_of(c);
    has[static_cast<std::size_t>(direction)] = true;
    if (direction != Direction::mark) last = direction;
  }
  const bool has_number = has[static_cast<std::size_t>(Direction::number)];
  const bool has_arabic_number = has[static_cast<std::size_t>(Direction::arabic_number)];
  if (first == Direction::left) {
    return !has[static_cast<std::size_t>(Direction::right)] && !has_arabic_number &&
           (last == Direction::left || last == Direction::number);
  }
  return !has[static_cast<std::size_t>(Direction::left)] && !(has_number && has_arabic_number) &&
         last != Direction::neutral;
}

// Letters, digits and hyphens, without a hyphen at either end (RFC 5890, section 2.3.1).
bool is_ldh_label(const std::u32string& label) {
  return !label.empty() && label.front() != '-' && label.back() != '-' &&
         std::ranges::all_of(label, [](char32_t c) {
           return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                  (c >= 'A' && c <= 'Z');
         });
}

// The U-label that an A-label stands for, or the label itself if it is a U-label; nothing if it is
// neither. Adds the length in ASCII to `bytes`.
std::optional<std::u32string> meaning_of(const std::u32string& label, std::size_t& bytes) {
  const bool is_ascii = std::ranges::all_of(label, [](char32_t c) { return c < 0x80; });
  std::string ascii = kPrefix.data();
  std::u32string meaning = label;
  if (is_ascii) {
    ascii = lowered(std::string(label.begin(), label.end()));
    if (!is_ldh_label(label)) return std::nullopt;
    if (ascii.starts_with(kPrefix) && ascii.size() <= kMostLabelBytes) {
      const auto text = decoded(std::string_view(ascii).substr(kPrefix.size()));
      // Encoding it again must give the same label, as one U-label has one A-label.
      const bool is_canonical = text && ascii == std::string(kPrefix) + encoded(*text);
      if (!is_canonical || !is_u_label(*text)) return std::nullopt;
      meaning = *text;
    }
  } else {
    if (label.size() > kMostLabelBytes || !is_u_label(label)) return std::nullopt;
    ascii += encoded(label);
  }
  bytes += ascii.size();
  if (ascii.size() > kMostLabelBytes) return std::nullopt;
  return meaning;
}

// The rule of directions looks at all labels as soon as one of them has a character that is written
// from right to left.
bool is_name(const std::vector<std::u32string>& labels) {
  std::vector<std::u32string> meanings;
  std::size_t bytes = labels.size() - 1;  // the dots
  for (const std::u32string& label : labels) {
    auto meaning = meaning_of(label, bytes);
    if (!meaning || bytes > kMostBytes) return false;
    meanings.push_back(*std::move(meaning));
  }
  const bool is_bidi = std::ranges::any_of(meanings, [](const std::u32string& label) {
    return std::ranges::any_of(label, [](char32_t c) {
      const Direction direction = direction_of(c);
      return direction == Direction::right || direction == Direction::arabic_number;
    });
  });
  return !is_bidi || std::ranges::all_of(meanings, fits_bidi_rule);
}

}  // namespace

bool is_hostname(std::string_view text) {
  if (text.size() > kMostBytes) return false;
  // The pattern decides all but A-labels.
  return lowered(text).find(kPrefix) == std::string::npos || is_idn_hostname(text);
}

bool is_idn_hostname(std::string_view text) {
  constexpr std::size_t kMostUtf8Bytes = 4 * kMostBytes;  // no name within kMostBytes has more
  if (text.size() > kMostUtf8Bytes) return false;
  std::vector<std::u32string> labels(1);
  for (const char32_t c : code_points(text)) {
    // The ideographic, fullwidth and halfwidth full stops count as dots (RFC 3490, section 3.1).
    const bool is_dot = c == '.' || c == 0x3002 || c == 0xFF0E || c == 0xFF61;
    if (is_dot) {
      labels.emplace_back();
    } else {
      labels.back().push_back(c);
    }
  }
  return is_name(labels);
}

}  // namespace tenon::schema
