#include "tenon/regex/common_characters.h"

#include <algorithm>

namespace tenon::regex {

namespace {

constexpr Utf8Range kTail{0x80, 0xBF};

// Each list stands for these characters: U+00A1-07FF; 0800-0FFF; 1000-167F, 16C0-17FF, 1840-1FFF
// (1680 and 180E are spaces); 2010-2027, 2030-203F, 2040-205E, 2080-2FFF; 3001-3FFF; 4000-D7FF;
// F900-FEBF, FF00-FFEF.
constexpr std::array<Utf8Range, 2> kLatin{{{0xC2, 0xC2}, {0xA1, 0xBF}}};
constexpr std::array<Utf8Range, 2> kTwoBytes{{{0xC3, 0xDF}, kTail}};
constexpr std::array<Utf8Range, 3> kE0{{{0xE0, 0xE0}, {0xA0, 0xBF}, kTail}};
constexpr std::array<Utf8Range, 3> kE1{{{0xE1, 0xE1}, {0x80, 0x99}, kTail}};
constexpr std::array<Utf8Range, 3> kE1Middle{{{0xE1, 0xE1}, {0x9B, 0x9F}, kTail}};
constexpr std::array<Utf8Range, 3> kE1End{{{0xE1, 0xE1}, {0xA1, 0xBF}, kTail}};
constexpr std::array<Utf8Range, 3> kDashes{{{0xE2, 0xE2}, {0x80, 0x80}, {0x90, 0xA7}}};
constexpr std::array<Utf8Range, 3> kPoints{{{0xE2, 0xE2}, {0x80, 0x80}, {0xB0, 0xBF}}};
constexpr std::array<Utf8Range, 3> kMarks{{{0xE2, 0xE2}, {0x81, 0x81}, {0x80, 0x9E}}};
constexpr std::array<Utf8Range, 3> kSymbols{{{0xE2, 0xE2}, {0x82, 0xBF}, kTail}};
constexpr std::array<Utf8Range, 3> kCjkMarks{{{0xE3, 0xE3}, {0x80, 0x80}, {0x81, 0xBF}}};
constexpr std::array<Utf8Range, 3> kE3{{{0xE3, 0xE3}, {0x81, 0xBF}, kTail}};
constexpr std::array<Utf8Range, 3> kE4ToEc{{{0xE4, 0xEC}, kTail, kTail}};
constexpr std::array<Utf8Range, 3> kEd{{{0xED, 0xED}, {0x80, 0x9F}, kTail}};
constexpr std::array<Utf8Range, 3> kForms{{{0xEF, 0xEF}, {0xA4, 0xBA}, kTail}};
constexpr std::array<Utf8Range, 3> kWideForms{{{0xEF, 0xEF}, {0xBC, 0xBE}, kTail}};
constexpr std::array<Utf8Range, 3> kWideSigns{{{0xEF, 0xEF}, {0xBF, 0xBF}, {0x80, 0xAF}}};
constexpr std::array<std::span<const Utf8Range>, 17> kSequences{
    kLatin,   kTwoBytes, kE0, kE1,     kE1Middle, kE1End, kDashes,    kPoints,   kMarks,
    kSymbols, kCjkMarks, kE3, kE4ToEc, kEd,       kForms, kWideForms, kWideSigns};

}  // namespace

std::span<const std::span<const Utf8Range>> common_characters() {
  return kSequences;
}

std::size_t common_character_length(std::string_view text) {
  // Most texts are ASCII and end here.
  if (text.empty() || static_cast<std::uint8_t>(text[0]) < kLatin[0].first) return 0;
  for (const std::span<const Utf8Range> sequence : kSequences) {
    if (text.size() < sequence.size()) continue;
    const bool is_it = std::ranges::equal(sequence, text.substr(0, sequence.size()),
                                          [](Utf8Range range, char byte) {
                                            const auto value = static_cast<std::uint8_t>(byte);
                                            return range.first <= value && value <= range.last;
                                          });
    if (is_it) return sequence.size();
  }
  return 0;
}

}  // namespace tenon::regex
