#include "tenon/grammar/string_scanner.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/grammar/int_map.h"
#include "tenon/regex/dfa.h"

namespace tenon::grammar {

namespace {

using vocab::ByteClasses;

enum class Place : std::uint8_t {
  text,        // in the content
  backslash,   // after one
  hex,         // within the digits of \u
  low,         // after \uD83D: a backslash must follow
  low_letter,  // and a u
  low_hex,     // and the digits of the other half
  after,       // the closing quote
};

using ContentState = std::uint32_t;

// The content's automaton: that of its language, beside a place in the excluded texts.
class Content {
 public:
  static constexpr ContentState kStart = regex::Dfa::kStart;

  Content(std::shared_ptr<regex::ExprSet> exprs, regex::Expr language,
          std::vector<std::string> excluded)
      : exprs_(std::move(exprs)), dfa_(*exprs_, language), excluded_(std::move(excluded)) {
    if (excluded_.empty()) return;
    std::ranges::sort(excluded_);
    states_.push_back({regex::Dfa::kFailed, 0, 0, 0});
    intern({regex::Dfa::kStart, 0, static_cast<std::uint32_t>(excluded_.size()), 0});
  }

  // Without exclusions the states are those of the language's automaton.
  ContentState step(ContentState state, std::uint8_t byte) {
    if (excluded_.empty()) return dfa_.step(state, byte);
    const std::uint64_t memo = std::uint64_t{state} << 8U | byte;
    ContentState next = steps_.find(memo);
    if (next == IntMap::kNone) {
      next = compute(states_[state], byte);
      steps_.insert(memo, next);
    }
    return next;
  }
  [[nodiscard]] bool is_accepting(ContentState id) const {
    if (excluded_.empty()) return dfa_.is_accepting(id);
    const State& state = states_[id];
    const bool is_excluded = state.from < state.to && excluded_[state.from].size() == state.depth;
    return dfa_.is_accepting(state.dfa) && !is_excluded;
  }
  [[nodiscard]] bool is_live(ContentState id) {
    const Expected<bool> live = dfa_.is_live(in_language(id));
    return live && *live;
  }
  /// The same without exclusions.
  [[nodiscard]] ContentState base(ContentState id) {
    return excluded_.empty() ? id : intern({states_[id].dfa, 0, 0, 0});
  }
  /// What may follow, exclusions aside.
  [[nodiscard]] regex::Expr language(ContentState id) const {
    return dfa_.language(in_language(id));
  }
  [[nodiscard]] bool has_exclusions(ContentState id) const {
    return !excluded_.empty() && states_[id].from < states_[id].to;
  }
  [[nodiscard]] const regex::ExprSet& exprs() const { return *exprs_; }
  [[nodiscard]] std::array<std::uint8_t, 256> byte_classes(ContentState id) const {
    return exprs_->byte_classes(dfa_.language(in_language(id)));
  }

 private:
  struct State {
    regex::Dfa::State dfa;
    // The excluded texts [from, to) begin with the `depth` bytes read so far.
    std::uint32_t from, to, depth;
    auto operator<=>(const State&) const = default;
  };

  [[nodiscard]] regex::Dfa::State in_language(ContentState id) const {
    return excluded_.empty() ? id : states_[id].dfa;
  }
  ContentState compute(const State state, std::uint8_t byte) {
    const auto byte_at = [&](const std::string& text) {
      return state.depth < text.size() ? static_cast<std::uint8_t>(text[state.depth]) : -1;
    };
    const auto begin = excluded_.begin();
    const auto range =
        std::ranges::equal_range(begin + state.from, begin + state.to, int{byte}, {}, byte_at);
    State next{dfa_.step(state.dfa, byte), 0, 0, 0};
    if (!range.empty()) {
      next.from = static_cast<std::uint32_t>(range.begin() - begin);
      next.to = static_cast<std::uint32_t>(range.end() - begin);
      next.depth = state.depth + 1;
    }
    return intern(next);
  }
  ContentState intern(const State& state) {
    const auto [place, is_new] = ids_.try_emplace(state, static_cast<ContentState>(states_.size()));
    if (is_new) states_.push_back(state);
    return place->second;
  }

  std::shared_ptr<regex::ExprSet> exprs_;
  regex::Dfa dfa_;
  std::vector<std::string> excluded_;
  std::vector<State> states_;
  std::map<State, ContentState> ids_;
  IntMap steps_;
};

// A state: where in the content's automaton, and where in an escape.
struct Point {
  ContentState content = Content::kStart;
  Place place = Place::text;
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
  StringScanner(std::shared_ptr<regex::ExprSet> exprs, regex::Expr content, StringOptions options)
      : content_(std::move(exprs), content, std::move(options.excluded)),
        escapes_(options.escapes),
        any_character_(options.any_character) {
    after_ = intern({.place = Place::after});
    start_ = text(Content::kStart);
  }

  State start() override { return start_; }

  State step(State state, std::uint8_t byte) override {
    if (points_[state].place == Place::text) return in_text(points_[state].content, byte);
    const Point point = points_[state];  // a copy: points_ grows
    switch (point.place) {
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
      case Place::text:
      case Place::after:
        break;
    }
    return kDead;
  }

  bool is_accepting(State state) const override { return state == after_; }
  bool is_final(State state) const override { return state == after_; }
  std::optional<ByteClasses> classes(State state) override {
    const Point point = points_[state];
    if (point.place != Place::text) return std::nullopt;
    const std::array<std::uint8_t, 256> of = content_.byte_classes(point.content);
    ByteClasses classes;
    classes.of = of;
    classes.count = *std::ranges::max_element(of) + 1U;
    if (classes.count >= ByteClasses::kNone) return std::nullopt;
    for (unsigned byte = 0; byte < 256; ++byte) {
      // Control characters and bytes that are not in UTF-8 are refused, the others are looked up by
      // themselves.
      const bool is_read = byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0xC0 &&
                           byte != 0xC1 && byte < 0xF5;
      if (!is_read) classes.of[byte] = ByteClasses::kNone;
    }
    return classes;
  }
  int rare_byte() const override { return '\\'; }
  Border border(State state) const override {
    return points_[state].place == Place::text ? Border::quote : Border::none;
  }
  State without_exclusions(State state) override {
    const Point point = points_[state];
    return point.place == Place::text ? text(content_.base(point.content)) : state;
  }
  Keys keys(State state, std::uint32_t longest) const override {
    const Point& point = points_[state];
    if (point.place != Place::text || content_.has_exclusions(point.content)) return {};
    const regex::Expr language = content_.language(point.content);
    const auto spelled = static_cast<std::uint64_t>(escapes_);
    const auto counts = content_.exprs().as_repetition_of(any_character_, language);
    if (counts && any_character_ != regex::ExprSet::kNothing) {
      // How many there must be matters to the end alone.
      const std::uint64_t most = std::min(counts->max, longest);
      const std::uint64_t least = std::min(counts->min, longest + 1);
      return {.inside = {kAnyText + most, spelled},
              .whole = {kAnyText + most, least << 8U | spelled}};
    }
    regex::Fingerprint key = content_.exprs().fingerprint(language);
    if (key == regex::Fingerprint{}) return {};
    key.high += spelled;
    return {key, key};
  }

 private:
  State intern(const Point& point) {
    const auto [place, is_new] = ids_.try_emplace(point.key(), static_cast<State>(points_.size()));
    if (is_new) points_.push_back(point);
    return place->second;
  }

  // The state in the content, dead where the content is: the hot path, hence a table of its own.
  State text(ContentState content) {
    if (content >= text_states_.size()) text_states_.resize(content + 1, kUnknown);
    State& known = text_states_[content];
    if (known == kUnknown) {
      known =
          content_.is_live(content) ? intern({.content = content, .place = Place::text}) : kDead;
    }
    return known;
  }

  State in_text(ContentState content, std::uint8_t byte) {
    if (byte == '"') return content_.is_accepting(content) ? after_ : kDead;
    if (byte == '\\') {
      const State state = intern({.content = content, .place = Place::backslash});
      return escapes_lead_on(content) ? state : kDead;
    }
    return byte < 0x20 ? kDead : text(content_.step(content, byte));
  }

  // Whether some escape is possible: all of them spell a character that the content must allow.
  bool escapes_lead_on(ContentState content) {
    for (const char c : std::string_view("\"\\/bfnrt")) {
      if (text(content_.step(content, *simple_escape(static_cast<std::uint8_t>(c)))) != kDead)
        return true;
    }
    return has_digits_from(content, 0, 0);
  }

  State after_backslash(const Point& point, std::uint8_t byte) {
    if (const auto meant = simple_escape(byte)) return text(content_.step(point.content, *meant));
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
  State spelled(ContentState content, unsigned code) {
    if (code < 0x80) return text(content_.step(content, static_cast<std::uint8_t>(code)));
    if (code >= 0x10000) {
      content = content_.step(content, static_cast<std::uint8_t>(0xF0U | code >> 18U));
      content = content_.step(content, static_cast<std::uint8_t>(0x80U | (code >> 12U & 0x3FU)));
    } else if (code >= 0x800) {
      content = content_.step(content, static_cast<std::uint8_t>(0xE0U | code >> 12U));
    } else {
      content = content_.step(content, static_cast<std::uint8_t>(0xC0U | code >> 6U));
    }
    if (code >= 0x800) {
      content = content_.step(content, static_cast<std::uint8_t>(0x80U | (code >> 6U & 0x3FU)));
    }
    return text(content_.step(content, static_cast<std::uint8_t>(0x80U | (code & 0x3FU))));
  }

  // Whether some character whose \u begins with these digits is possible. Remembered, because up to
  // 65,536 characters are asked for.
  bool has_digits_from(ContentState content, unsigned digits, unsigned value) {
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

  bool has_low(ContentState content, std::uint16_t high) {
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

  static constexpr State kUnknown = 0xFFFFFFFE;
  static constexpr std::uint64_t kAnyText = std::uint64_t{0x7E78} << 32U;  // no fingerprint

  Content content_;
  UnicodeEscapes escapes_;
  regex::Expr any_character_;
  State start_ = kDead;
  State after_ = kDead;
  std::vector<Point> points_;
  std::unordered_map<std::uint64_t, State> ids_;
  std::vector<State> text_states_;  // by state of the content
  std::unordered_map<std::uint64_t, bool> leads_on_;
};

}  // namespace

std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                             regex::Expr content, StringOptions options) {
  return std::make_shared<StringScanner>(std::move(exprs), content, std::move(options));
}

}  // namespace tenon::grammar
