#include "tenon/grammar/string_scanner.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/regex/dfa.h"

namespace tenon::grammar {

namespace {

using vocab::ByteClasses;

enum class Place : std::uint8_t {
  before,      // the opening quote
  text,        // in the content
  backslash,   // after one
  hex,         // within the digits of \u
  low,         // after \uD83D: a backslash must follow
  low_letter,  // and a u
  low_hex,     // and the digits of the other half
  after,       // the closing quote
};

// A state: where in the content's automaton, and where in an escape.
struct Point {
  regex::Dfa::State content = regex::Dfa::kStart;
  Place place = Place::before;
  std::uint8_t digits = 0;  // read of an escape
  std::uint16_t value = 0;  // of these digits
  std::uint16_t high = 0;   // the surrogate before, its lower ten bits

  [[nodiscard]] std::uint64_t key() const {
    return std::uint64_t{content} << 32U | std::uint64_t{static_cast<std::uint8_t>(place)} << 28U |
           std::uint64_t{digits} << 26U | std::uint64_t{value} << 10U | high;
  }
};

std::optional<unsigned> hex_digit(std::uint8_t c) {
  if (c >= '0' && c <= '9') return c - unsigned{'0'};
  if (c >= 'a' && c <= 'f') return c - unsigned{'a'} + 10;
  if (c >= 'A' && c <= 'F') return c - unsigned{'A'} + 10;
  return std::nullopt;
}

std::optional<std::uint8_t> simple_escape(std::uint8_t c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return std::nullopt;
  }
}

bool is_control(unsigned code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

class StringScanner final : public Scanner {
 public:
  StringScanner(std::shared_ptr<regex::ExprSet> exprs, regex::Expr content, UnicodeEscapes escapes,
                bool is_open)
      : exprs_(std::move(exprs)), dfa_(*exprs_, content), escapes_(escapes) {
    after_ = intern({.place = Place::after});
    start_ = text(regex::Dfa::kStart);
    if (start_ != kDead && !is_open) start_ = intern({});
    make_classes();
  }

  State start() override { return start_; }

  State step(State state, std::uint8_t byte) override {
    const Point point = points_[state];
    switch (point.place) {
      case Place::before:
        return byte == '"' ? text(point.content) : kDead;
      case Place::text:
        return in_text(point, byte);
      case Place::backslash:
        return after_backslash(point, byte);
      case Place::hex:
      case Place::low_hex:
        return in_digits(point, byte);
      case Place::low:
        if (byte != '\\') return kDead;
        return intern({.content = point.content, .place = Place::low_letter, .high = point.high});
      case Place::low_letter:
        if (byte != 'u') return kDead;
        return intern({.content = point.content, .place = Place::low_hex, .high = point.high});
      case Place::after:
        break;
    }
    return kDead;
  }

  bool is_accepting(State state) const override { return state == after_; }
  bool is_final(State state) const override { return state == after_; }
  const ByteClasses* classes(State state) const override {
    return points_[state].place == Place::text && has_classes_ ? &classes_ : nullptr;
  }
  int rare_byte() const override { return '\\'; }
  int last_byte() const override { return '"'; }

 private:
  bool is_live(regex::Dfa::State content) {
    const Expected<bool> live = dfa_.is_live(content);
    return live && *live;
  }

  State intern(const Point& point) {
    const auto [place, is_new] = ids_.try_emplace(point.key(), static_cast<State>(points_.size()));
    if (is_new) points_.push_back(point);
    return place->second;
  }

  // The state in the content, dead where the content is: the hot path, hence a table of its own.
  State text(regex::Dfa::State content) {
    if (content >= text_states_.size()) text_states_.resize(content + 1, kUnknown);
    State& known = text_states_[content];
    if (known == kUnknown) {
      known = is_live(content) ? intern({.content = content, .place = Place::text}) : kDead;
    }
    return known;
  }

  State in_text(const Point& point, std::uint8_t byte) {
    if (byte == '"') return dfa_.is_accepting(point.content) ? after_ : kDead;
    if (byte == '\\') {
      const State state = intern({.content = point.content, .place = Place::backslash});
      return escapes_lead_on(point.content) ? state : kDead;
    }
    return byte < 0x20 ? kDead : text(dfa_.step(point.content, byte));
  }

  // Whether some escape is possible: all of them spell a character that the content must allow.
  bool escapes_lead_on(regex::Dfa::State content) {
    for (const char c : std::string_view("\"\\/bfnrt")) {
      if (text(dfa_.step(content, *simple_escape(static_cast<std::uint8_t>(c)))) != kDead)
        return true;
    }
    return has_digits_from(content, 0, 0);
  }

  State after_backslash(const Point& point, std::uint8_t byte) {
    if (const auto meant = simple_escape(byte)) return text(dfa_.step(point.content, *meant));
    if (byte != 'u' || !has_digits_from(point.content, 0, 0)) return kDead;
    return intern({.content = point.content, .place = Place::hex});
  }

  State in_digits(const Point& point, std::uint8_t byte) {
    const auto digit = hex_digit(byte);
    if (!digit) return kDead;
    const unsigned value = point.value * 16U + *digit;
    if (point.digits < 3) {
      Point next = point;
      ++next.digits;
      next.value = static_cast<std::uint16_t>(value);
      const bool leads_on = point.place == Place::hex
                                ? has_digits_from(point.content, next.digits, value)
                                : has_low_from(point, next.digits, value);
      return leads_on ? intern(next) : kDead;
    }
    if (point.place == Place::low_hex) {
      if (value < 0xDC00 || value > 0xDFFF) return kDead;
      return spelled(point.content, 0x10000U + (unsigned{point.high} << 10U) + (value - 0xDC00U));
    }
    if (value >= 0xD800 && value < 0xDC00 && escapes_ == UnicodeEscapes::any) {
      const auto high = static_cast<std::uint16_t>(value - 0xD800);
      return has_low(point.content, high)
                 ? intern({.content = point.content, .place = Place::low, .high = high})
                 : kDead;
    }
    return is_escapable(value) ? spelled(point.content, value) : kDead;
  }

  [[nodiscard]] bool is_escapable(unsigned code) const {
    if (code == 0 || (code >= 0xD800 && code <= 0xDFFF)) return false;
    return escapes_ == UnicodeEscapes::any || is_control(code);
  }

  // The content after the character `code`.
  State spelled(regex::Dfa::State content, unsigned code) {
    if (code < 0x80) return text(dfa_.step(content, static_cast<std::uint8_t>(code)));
    if (code >= 0x10000) {
      content = dfa_.step(content, static_cast<std::uint8_t>(0xF0U | code >> 18U));
      content = dfa_.step(content, static_cast<std::uint8_t>(0x80U | (code >> 12U & 0x3FU)));
    } else if (code >= 0x800) {
      content = dfa_.step(content, static_cast<std::uint8_t>(0xE0U | code >> 12U));
    } else {
      content = dfa_.step(content, static_cast<std::uint8_t>(0xC0U | code >> 6U));
    }
    if (code >= 0x800) {
      content = dfa_.step(content, static_cast<std::uint8_t>(0x80U | (code >> 6U & 0x3FU)));
    }
    return text(dfa_.step(content, static_cast<std::uint8_t>(0x80U | (code & 0x3FU))));
  }

  // Whether some character whose \u begins with these digits is possible. Remembered, because up to
  // 65,536 characters are asked for.
  bool has_digits_from(regex::Dfa::State content, unsigned digits, unsigned value) {
    const std::uint64_t key = std::uint64_t{content} << 20U | std::uint64_t{digits} << 17U | value;
    if (const auto known = leads_on_.find(key); known != leads_on_.end()) return known->second;
    bool found = false;
    if (digits == 4) {
      if (value >= 0xD800 && value < 0xDC00 && escapes_ == UnicodeEscapes::any) {
        found = has_low(content, static_cast<std::uint16_t>(value - 0xD800));
      } else {
        found = is_escapable(value) && spelled(content, value) != kDead;
      }
    } else if (escapes_ == UnicodeEscapes::any || value == 0) {  // controls are all \u00..
      for (unsigned digit = 0; digit < 16 && !found; ++digit) {
        found = has_digits_from(content, digits + 1, value * 16 + digit);
      }
    } else if (digits == 3) {
      for (unsigned digit = 0; digit < 16 && !found; ++digit) {
        found = has_digits_from(content, 4, value * 16 + digit);
      }
    }
    leads_on_.emplace(key, found);
    return found;
  }

  bool has_low(regex::Dfa::State content, std::uint16_t high) {
    return has_low_from({.content = content, .high = high}, 0, 0);
  }
  bool has_low_from(const Point& point, unsigned digits, unsigned value) {
    unsigned from = value;
    unsigned to = value + 1;
    for (unsigned i = digits; i < 4; ++i) {
      from *= 16;
      to *= 16;
    }
    for (unsigned code = std::max(from, 0xDC00U); code < std::min(to, 0xE000U); ++code) {
      if (spelled(point.content, 0x10000U + (unsigned{point.high} << 10U) + (code - 0xDC00U)) !=
          kDead) {
        return true;
      }
    }
    return false;
  }

  void make_classes() {
    if (dfa_.class_count() + 1 >= ByteClasses::kNone) return;
    has_classes_ = true;
    for (unsigned byte = 0; byte < 256; ++byte) {
      classes_.of[byte] =
          byte < 0x20 || byte == '\\' ? ByteClasses::kNone : dfa_.byte_classes()[byte];
    }
    classes_.of['"'] = static_cast<std::uint8_t>(dfa_.class_count());
    classes_.count = static_cast<unsigned>(dfa_.class_count()) + 1;
    classes_ = classes_.canonical();
  }

  static constexpr State kUnknown = 0xFFFFFFFE;

  std::shared_ptr<regex::ExprSet> exprs_;  // what dfa_ refers to
  regex::Dfa dfa_;
  UnicodeEscapes escapes_;
  ByteClasses classes_;
  bool has_classes_ = false;
  State start_ = kDead;
  State after_ = kDead;
  std::vector<Point> points_;
  std::unordered_map<std::uint64_t, State> ids_;
  std::vector<State> text_states_;  // by state of the content
  std::unordered_map<std::uint64_t, bool> leads_on_;
};

}  // namespace

std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                             regex::Expr content, UnicodeEscapes escapes,
                                             bool is_open) {
  return std::make_shared<StringScanner>(std::move(exprs), content, escapes, is_open);
}

}  // namespace tenon::grammar
