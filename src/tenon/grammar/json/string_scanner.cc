#include "tenon/grammar/json/string_scanner.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/grammar/machine/int_map.h"
#include "tenon/regex/common_characters.h"
#include "tenon/regex/dfa.h"

namespace tenon::grammar {

// Reads JSON strings whose content is in a language. Two automata work together. Content follows
// the characters of the content: the state of the language's automaton, the number of characters
// read as far as it matters, and a place in a sorted list of words, which are excluded texts or all
// texts there are. StringScanner follows the notation: a plain character is passed to Content byte
// by byte, and an escape is collected in a Point (its digits, the first surrogate) until it is a
// character.
//
// A prefix of an escape is refused if no character that it can become is allowed (has_digits_from,
// has_character); up to a million code points may be asked for, so they are grouped by the bytes of
// their UTF-8 form.
//
// States in plain text are rows of a table (next_) with a column for each class of bytes, which is
// what makes walks over a vocabulary fast. Counts and words are beside the language's state, so
// that masks can be shared: ways() names the language that is left as the key under which other
// grammars find the tokens, and leaves counts out of the key where they are far from both ends.
namespace {

using vocab::ByteClasses;

enum class Place : std::uint8_t {
  backslash,   // after a backslash
  hex,         // inside the digits of \u
  low,         // after \uD83D; a backslash must follow
  low_letter,  // and a u
  low_hex,     // and the digits of the second half
  after,       // after the closing quote
};

using ContentState = std::uint32_t;

// The automaton of the content: the state of the language's automaton, the number of characters
// read as far as it matters, and a place in a list of words (the excluded ones, or all there are).
class Content {
 public:
  static constexpr ContentState kStart = regex::Dfa::kStart;
  static constexpr ContentState kDead = regex::Dfa::kFailed;

  Content(std::shared_ptr<regex::ExprSet> exprs, regex::Expr language, const StringOptions& options)
      : exprs_(std::move(exprs)),
        dfa_(*exprs_, language),
        lengths_(dfa_),
        least_(options.least),
        most_(options.most),
        is_list_(options.values.has_value()),
        words_(is_list_ ? *options.values : options.excluded),
        on_error_(options.on_error) {
    is_plain_ = !is_list_ && words_.empty() && !counts();
    if (is_plain_) return;
    if (!is_list_) std::ranges::sort(words_);
    // State 0 is kDead, as in the automaton.
    states_.push_back({.dfa = regex::Dfa::kFailed});
    intern({.dfa = regex::Dfa::kStart, .to = static_cast<std::uint32_t>(words_.size())});
  }

  ContentState step(ContentState state, std::uint8_t byte) {
    if (is_plain_) return dfa_.step(state, byte);
    if (is_list_ && !may_read(states_[state], byte)) return kDead;
    const std::uint64_t memo = std::uint64_t{state} << 8U | byte;
    ContentState next = steps_.find(memo);
    if (next == IntMap::kNone) {
      next = compute(states_[state], byte);
      steps_.insert(memo, next);
    }
    return next;
  }
  /// The state after any common character, if all of them lead to the same state.
  std::optional<ContentState> step_common(ContentState id) {
    if (looks_at_words(id)) return std::nullopt;
    const auto next = dfa_.step_common(in_language(id));
    if (!next || is_plain_) return next;
    return intern({.dfa = *next, .read = read_one_more(states_[id].read)});
  }
  /// Bytes of one class lead to the same state, unless words are compared.
  [[nodiscard]] const std::array<std::uint8_t, 256>& byte_classes() const {
    return dfa_.byte_classes();
  }
  [[nodiscard]] bool looks_at_words(ContentState id) const {
    return is_list_ || has_exclusions(id);
  }
  [[nodiscard]] bool is_accepting(ContentState id) const {
    if (is_plain_) return dfa_.is_accepting(id);
    const State& state = states_[id];
    const bool is_word = state.from < state.to && words_[state.from].size() == state.depth;
    if (is_list_) return is_word;
    return dfa_.is_accepting(state.dfa) && !is_word && state.read >= least_ && state.read <= most_;
  }
  [[nodiscard]] bool is_live(ContentState id) {
    if (is_list_) return states_[id].from < states_[id].to;
    if (!is_plain_ && states_[id].read > most_) return false;
    if (!has_room()) return false;  // this is not a verdict
    const Expected<bool> live = lengths_.is_live(in_language(id), least_left(id), most_left(id));
    if (!live && on_error_) on_error_(live.error());
    return live && *live;
  }
  /// False: the expressions have reached a limit, and it has been reported.
  [[nodiscard]] bool has_room() const {
    const Status status = exprs_->status();
    if (!status && on_error_) on_error_(status.error());
    return status.has_value();
  }
  [[nodiscard]] const std::function<void(const Error&)>& on_error() const { return on_error_; }
  /// Empty where counts or words could make a difference. A least count does not: a text of free
  /// characters can be made as long as it has to be.
  [[nodiscard]] regex::Dfa::FreeText free_text(ContentState id) {
    if (looks_at_words(id) || most_ != regex::Lengths::kUnbounded) return {};
    return dfa_.free_text(in_language(id));
  }
  /// The same state without exclusions.
  [[nodiscard]] ContentState base(ContentState id) {
    if (is_plain_ || is_list_) return id;
    return intern({.dfa = states_[id].dfa, .read = states_[id].read});
  }
  /// What may follow, without exclusions and counts; nothing: the content is one of a list.
  [[nodiscard]] std::optional<regex::Expr> language(ContentState id) const {
    if (is_list_) return std::nullopt;
    return dfa_.language(in_language(id));
  }
  [[nodiscard]] bool has_exclusions(ContentState id) const {
    return !is_plain_ && !is_list_ && states_[id].from < states_[id].to;
  }
  [[nodiscard]] bool counts() const { return least_ != 0 || most_ != regex::Lengths::kUnbounded; }
  /// The least and the largest number of further characters.
  [[nodiscard]] std::uint64_t least_left(ContentState id) const {
    const std::uint64_t read = is_plain_ ? 0 : states_[id].read;
    return least_ > read ? least_ - read : 0;
  }
  [[nodiscard]] std::uint64_t most_left(ContentState id) const {
    if (most_ == regex::Lengths::kUnbounded) return most_;
    return most_ - states_[id].read;
  }
  /// The least number of further bytes of the unescaped text.
  [[nodiscard]] std::uint64_t least_bytes(ContentState id) const {
    const auto language = this->language(id);
    return std::max<std::uint64_t>(language ? exprs_->least_bytes(*language) : 0, least_left(id));
  }
  /// What is known of the next `longest` characters.
  struct Ahead {
    std::optional<regex::Expr> free;  ///< The texts that can come first are those that can come
                                      ///< first in this expression.
    std::optional<regex::Expr> far;   ///< A guess: the same for texts with few repetitions, see
                                      ///< ExprSet.
    bool is_far_from_end = false;     ///< Counts make no difference to what can come first.
  };
  [[nodiscard]] Ahead ahead(ContentState id, std::uint64_t longest, regex::Expr any_character,
                            bool may_guess) {
    const regex::Expr language = dfa_.language(in_language(id));
    // Whatever comes first, a long enough text can follow.
    if (exprs_->holds_long_texts(language) && most_left(id) == regex::Lengths::kUnbounded) {
      return {.free = exprs_->repeat(any_character, 0, regex::ExprSet::kUnbounded), .far = {}};
    }
    std::optional<regex::Expr> rest;
    for (const regex::Expr part : exprs_->intersected(language)) {
      const auto counts = exprs_->as_repetition_of(any_character, part);
      if (counts && counts->min == 0 && counts->max == regex::ExprSet::kUnbounded) continue;
      if (rest) return {};
      rest = part;
    }
    const auto bound = rest ? exprs_->completion_bound(*rest) : std::optional<std::uint64_t>(0);
    const std::uint64_t most = most_left(id);
    const bool leaves_room = !counts() || (bound && most >= longest && most - longest >= *bound);
    auto free = leaves_room && rest ? exprs_->free_part(*rest) : std::nullopt;
    const bool is_far_from_end = leaves_room && least_left(id) == 0;
    // If the texts have only some lengths, the count may fit none of those to which a text leads.
    if (free && !is_far_from_end && !exprs_->grows_by_one(*free)) free.reset();
    std::optional<regex::Expr> far;
    if (may_guess && rest && !free && is_far_from_end && wrong_guesses_ < kMostWrongGuesses) {
      const auto [known, is_new] = far_.try_emplace(*rest);
      if (is_new) known->second = exprs_->with_far_counts(*rest);
      far = known->second;
      if (far && repeats_much_.contains(*far)) far.reset();
    }
    return {.free = free, .far = far, .is_far_from_end = is_far_from_end};
  }
  /// Whether a walk has borne out the guess `far`. Where guesses are wrong one after the other, as
  /// for `\p{L}{1,40}` with its tokens of many letters, no more are made: each costs a walk.
  void judge_guess(regex::Expr far, bool is_right) {
    wrong_guesses_ = is_right ? 0 : wrong_guesses_ + 1;
    if (!is_right) repeats_much_.insert(far);
  }
  /// The languages of the states made so far.
  [[nodiscard]] std::vector<regex::Expr> languages() const {
    std::vector<regex::Expr> result;
    for (regex::Dfa::State state = regex::Dfa::kStart; state < dfa_.state_count(); ++state) {
      result.push_back(dfa_.language(state));
    }
    return result;
  }
  [[nodiscard]] const std::shared_ptr<regex::ExprSet>& exprs() const { return exprs_; }
  [[nodiscard]] std::array<std::uint8_t, 256> byte_classes(ContentState id) const {
    return exprs_->byte_classes(dfa_.language(in_language(id)));
  }
  /// Without the expressions, which are shared.
  [[nodiscard]] std::size_t memory_bytes() const {
    constexpr std::size_t kNodeBytes = 24;  // of the map, in addition to the state
    std::size_t bytes = states_.size() * (2 * sizeof(State) + kNodeBytes) + steps_.memory_bytes() +
                        dfa_.state_count() * dfa_.class_count() * sizeof(regex::Dfa::State);
    for (const std::string& word : words_) bytes += sizeof(word) + word.capacity();
    return bytes;
  }
  [[nodiscard]] regex::ByteSet alphabet(ContentState id) const {
    return exprs_->alphabet(dfa_.language(in_language(id)));
  }

 private:
  struct State {
    regex::Dfa::State dfa = regex::Dfa::kStart;
    // The words [from, to) begin with the `depth` bytes read so far.
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t depth = 0;
    std::uint64_t read = 0;  // characters, as far as it matters
    auto operator<=>(const State&) const = default;
  };
  struct Hash {
    std::size_t operator()(const State& state) const {
      std::uint64_t hash = 0;
      for (const std::uint64_t part :
           {std::uint64_t{state.dfa}, std::uint64_t{state.from} << 32U | state.to,
            std::uint64_t{state.depth}, state.read}) {
        hash = (hash ^ part) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 29U;
      }
      return hash;
    }
  };

  // For a list: the words are sorted, so their next bytes are too.
  [[nodiscard]] bool may_read(const State& state, std::uint8_t byte) const {
    std::uint32_t from = state.from;
    if (from < state.to && words_[from].size() == state.depth) ++from;
    if (from >= state.to) return false;
    const auto next = [&](std::uint32_t word) {
      return static_cast<std::uint8_t>(words_[word][state.depth]);
    };
    return next(from) <= byte && byte <= next(state.to - 1);
  }
  [[nodiscard]] regex::Dfa::State in_language(ContentState id) const {
    return is_plain_ ? id : states_[id].dfa;
  }
  ContentState compute(const State state, std::uint8_t byte) {
    const auto byte_at = [&](const std::string& text) {
      return state.depth < text.size() ? static_cast<std::uint8_t>(text[state.depth]) : -1;
    };
    const auto begin = words_.begin();
    const auto range =
        std::ranges::equal_range(begin + state.from, begin + state.to, int{byte}, {}, byte_at);
    State next;
    if (!is_list_) next.dfa = dfa_.step(state.dfa, byte);
    if (!range.empty()) {
      next.from = static_cast<std::uint32_t>(range.begin() - begin);
      next.to = static_cast<std::uint32_t>(range.end() - begin);
      next.depth = state.depth + 1;
    }
    const bool is_new_character = (byte & 0xC0U) != 0x80U;
    next.read = is_new_character ? read_one_more(state.read) : state.read;
    return intern(next);
  }
  // Without a most, characters beyond the least are not counted, so long texts have few states.
  [[nodiscard]] std::uint64_t read_one_more(std::uint64_t read) const {
    if (!counts()) return read;
    return most_ == regex::Lengths::kUnbounded ? std::min(read + 1, least_) : read + 1;
  }
  ContentState intern(const State& state) {
    const auto [place, is_new] = ids_.try_emplace(state, static_cast<ContentState>(states_.size()));
    if (is_new) states_.push_back(state);
    return place->second;
  }

  std::shared_ptr<regex::ExprSet> exprs_;
  regex::Dfa dfa_;
  regex::Lengths lengths_;
  std::uint64_t least_;
  std::uint64_t most_;
  bool is_list_;
  bool is_plain_ = false;  // the states are exactly those of the language's automaton
  std::vector<std::string> words_;
  std::function<void(const Error&)> on_error_;
  std::vector<State> states_;
  std::unordered_map<State, ContentState, Hash> ids_;
  IntMap steps_;
  std::unordered_map<regex::Expr, std::optional<regex::Expr>> far_;
  std::unordered_set<regex::Expr> repeats_much_;  // of the languages with far counts
  static constexpr unsigned kMostWrongGuesses = 2;
  unsigned wrong_guesses_ = 0;  // since the last right one
};

// A state outside the plain text: a state of the content's automaton, and a place in an escape.
struct Point {
  ContentState content = Content::kStart;
  Place place = Place::after;
  std::uint8_t digits = 0;  // digits of an escape read so far
  std::uint16_t value = 0;  // their value
  std::uint16_t high = 0;   // the lower ten bits of the first surrogate

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
      : content_(std::move(exprs), content, options),
        escapes_(options.escapes),
        is_list_(options.values.has_value()),
        any_character_(options.any_character),
        any_text_(content_.exprs()->repeat(any_character_, 0, regex::ExprSet::kUnbounded)) {
    number_columns();
    after_ = intern({.place = Place::after});
    start_ = text(Content::kStart);
  }

  State start() override { return start_; }

  State step(State state, std::uint8_t byte) override {
    assert(state != kDead);
    if (is_text(state)) {
      const std::size_t at = std::size_t{state} * columns_ + column_of_[byte];
      if (next_[at] != kUnknown) return next_[at];
      const State next = in_text(contents_[state], byte);
      // Where words are compared, bytes of one column may lead to different states.
      if (!content_.looks_at_words(contents_[state])) next_[at] = next;
      return next;
    }
    const Point point = points_[state - kFirstPoint];  // a copy, because points_ grows
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
      case Place::after:
        break;
    }
    return kDead;
  }

  Table table() const override {
    return {.next = next_.data(),
            .states = static_cast<State>(contents_.size()),
            .columns = columns_,
            .column_of = column_of_.data()};
  }
  std::optional<State> step_common(State state) override {
    if (!is_text(state)) return std::nullopt;
    const std::size_t at = std::size_t{state} * columns_ + columns_ - 1;
    if (next_[at] != kUnknown) return next_[at];
    const std::optional<ContentState> content = content_.step_common(contents_[state]);
    if (!content) return std::nullopt;
    const State next = text(*content);
    next_[at] = next;
    return next;
  }
  bool is_accepting(State state) const override { return state == after_; }
  bool is_final(State state) const override { return state == after_; }
  std::uint16_t kind(State state, std::uint8_t byte) const override {
    const bool is_by_column = is_text(state) && !content_.looks_at_words(contents_[state]);
    return is_by_column ? column_of_[byte] : byte;
  }
  // Inside an escape: the value before it plus the rest of it. So a way through an escape never
  // looks shorter, and escapes that are nearly complete are tried first.
  std::uint32_t least(State state) override {
    if (state == after_) return 0;
    const bool is_escape = !is_text(state);
    const Point* const point = is_escape ? &points_[state - kFirstPoint] : nullptr;
    const ContentState content = is_escape ? point->content : contents_[state];
    const std::uint64_t rest = is_escape ? left_of_escape(*point) : 0;
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::min(content_.least_bytes(content) + 1 + rest, kMost));
  }
  std::optional<ByteClasses> classes(State state) override {
    if (!is_text(state) || !content_.language(contents_[state])) return std::nullopt;
    const ContentState content = contents_[state];
    const std::array<std::uint8_t, 256> of = content_.byte_classes(content);
    const regex::ByteSet alphabet = content_.alphabet(content);
    ByteClasses classes;
    classes.of = of;
    classes.count = *std::ranges::max_element(of) + 1U;
    if (classes.count >= ByteClasses::kNone) return std::nullopt;
    for (unsigned byte = 0; byte < 256; ++byte) {
      // Control characters and bytes that are never allowed are refused; quotes and backslashes are
      // looked up by themselves.
      const bool is_read = byte >= 0x20 && byte != '"' && byte != '\\' &&
                           alphabet.contains(static_cast<std::uint8_t>(byte));
      if (!is_read) classes.of[byte] = ByteClasses::kNone;
    }
    if (step_common(state)) {
      classes.of[vocab::TokenTrie::kUnit] = static_cast<std::uint8_t>(classes.count++);
    }
    return classes;
  }
  int rare_byte() const override { return '\\'; }
  Border border(State state) const override {
    // Few tokens lead into a list, so looking for the rest of each one is faster.
    return is_text(state) && content_.language(contents_[state]) ? Border::quote : Border::none;
  }
  State without_exclusions(State state) override {
    return is_text(state) ? text(content_.base(contents_[state])) : state;
  }
  Ways ways(State state, std::uint32_t longest, bool may_guess) override {
    const Way itself{.key = {}, .state = state, .instead = {}};
    const Ways unknown{.inside = itself, .whole = itself, .exact = {}};
    if (!is_text(state) || content_.has_exclusions(contents_[state])) return unknown;
    const ContentState content = contents_[state];
    const std::optional<regex::Expr> language = content_.language(content);
    if (!language) return unknown;
    const auto spelled = static_cast<std::uint64_t>(escapes_);
    const auto by_itself = [&](const regex::Fingerprint& key) {
      return Way{.key = key, .state = state, .instead = {}};
    };
    if (const auto ways = ways_of_any_text(state, *language, longest)) return *ways;
    regex::Fingerprint key = content_.exprs()->fingerprint(*language);
    const Content::Ahead ahead = content_.ahead(content, longest, any_character_, may_guess);
    const auto walking = [&](regex::Expr other, std::uint64_t kind, bool is_guess) {
      Way way{.key = content_.exprs()->fingerprint(other),
              .state = state,
              .instead = other,
              .is_guess = is_guess};
      if (way.key != regex::Fingerprint{}) way.key.high += kind + spelled;
      return way;
    };
    const std::optional<Way> shared = ahead.free ? std::optional(walking(*ahead.free, kFree, false))
                                      : ahead.far ? std::optional(walking(*ahead.far, kFar, true))
                                                  : std::nullopt;
    if (key == regex::Fingerprint{}) {
      return {.inside = shared.value_or(itself), .whole = itself, .exact = {}};
    }
    key.high += spelled;
    if (!content_.counts()) {
      return {.inside = shared.value_or(by_itself(key)),
              .whole = ahead.far ? *shared : by_itself(key),
              .exact = key};
    }
    const std::uint64_t least = content_.least_left(content);
    const std::uint64_t most = content_.most_left(content);
    const auto with = [&key](std::uint64_t from, std::uint64_t to) {
      return regex::fingerprint_of(std::to_string(key.high) + ' ' + std::to_string(key.low) + ' ' +
                                   std::to_string(from) + ' ' + std::to_string(to));
    };
    const regex::Fingerprint counted = with(least, most);
    if (ahead.free) return {.inside = *shared, .whole = by_itself(counted), .exact = counted};
    const regex::Fingerprint exact =
        ahead.is_far_from_end ? with(0, regex::Lengths::kUnbounded) : counted;
    if (ahead.far) return {.inside = *shared, .whole = *shared, .exact = exact};
    // A text that ends within a token has at most `longest` characters, whatever may come later.
    const regex::Fingerprint ended =
        with(std::min<std::uint64_t>(least, longest + 1), std::min<std::uint64_t>(most, longest));
    return {.inside = by_itself(ahead.is_far_from_end ? key : counted),
            .whole = by_itself(ended),
            .exact = exact};
  }
  std::optional<At> begin(const Way& way) override {
    if (!way.instead) return At{this, way.state};
    return simple(content_.exprs()->both(any_text_, *way.instead));
  }
  bool confirms(const Way& way, const At& walked) override {
    if (!way.is_guess) return true;
    assert(std::ranges::any_of(
        simple_, [&](const auto& entry) { return entry.second.get() == walked.scanner; }));
    const auto& walker = static_cast<const StringScanner&>(*walked.scanner);
    const bool is_right = content_.exprs()->are_counts_far(walker.content_.languages());
    content_.judge_guess(*way.instead, is_right);
    return is_right;
  }
  std::size_t memory_bytes() const override {
    constexpr std::size_t kNodeBytes = 32;  // of a map's entry
    std::size_t bytes =
        content_.memory_bytes() +
        (text_states_.capacity() + contents_.capacity() + next_.capacity()) * sizeof(State) +
        points_.size() * (sizeof(Point) + kNodeBytes) + leads_on_.size() * kNodeBytes;
    for (const auto& [language, scanner] : simple_) bytes += scanner->memory_bytes();
    return bytes;
  }
  std::uint32_t absorbs(State state) override {
    if (!is_text(state) || content_.counts() || content_.has_exclusions(contents_[state])) return 0;
    const auto language = content_.language(contents_[state]);
    return language ? content_.exprs()->absorbed_characters(*language) : 0;
  }
  regex::Dfa::FreeText free_text(State state) override {
    if (!is_text(state)) return {};
    regex::Dfa::FreeText free = content_.free_text(contents_[state]);
    free.ascii &= regex::plain_characters();
    return free;
  }
  std::optional<At> any_text() override { return simple(any_text_); }
  bool is_any_text(State state) const override {
    return is_text(state) && content_.language(contents_[state]) == any_text_ &&
           !content_.counts() && !content_.has_exclusions(contents_[state]);
  }

 private:
  // For a state in which any character is allowed, as many as are left. Nothing: it is not such a
  // state.
  [[nodiscard]] std::optional<Ways> ways_of_any_text(State state, regex::Expr language,
                                                     std::uint32_t longest) const {
    if (any_character_ == regex::ExprSet::kNothing) return std::nullopt;
    const auto repetition = content_.exprs()->as_repetition_of(any_character_, language);
    const ContentState content = contents_[state];
    const bool counts = content_.counts();
    if (!repetition || (counts && repetition->max != regex::ExprSet::kUnbounded)) {
      return std::nullopt;
    }
    // A language may demand characters in addition to the count.
    std::uint64_t least =
        std::max<std::uint64_t>(counts ? content_.least_left(content) : 0, repetition->min);
    std::uint64_t most = counts ? content_.most_left(content) : repetition->max;
    most = std::min<std::uint64_t>(most, longest);
    least = std::min<std::uint64_t>(least, longest + 1);
    // The least count matters only at the end.
    const auto spelled = static_cast<std::uint64_t>(escapes_);
    const regex::Fingerprint inside{kAnyText + most, spelled};
    const regex::Fingerprint whole{kAnyText + most, least << 8U | spelled};
    return Ways{.inside = {.key = inside, .state = state, .instead = {}},
                .whole = {.key = whole, .state = state, .instead = {}},
                .exact = whole};
  }

  // The scanner of strings whose only condition is a language. Nothing: a limit was reached, and
  // has been reported.
  std::optional<At> simple(regex::Expr language) {
    if (!content_.has_room()) return std::nullopt;
    std::unique_ptr<StringScanner>& scanner = simple_[language];
    if (!scanner) {
      scanner = std::make_unique<StringScanner>(content_.exprs(), language,
                                                StringOptions{.escapes = escapes_,
                                                              .any_character = any_character_,
                                                              .excluded = {},
                                                              .values = {},
                                                              .on_error = content_.on_error()});
    }
    if (scanner->start() != kDead) return At{scanner.get(), scanner->start()};
    // Every text that continues here continues there, so it can be dead only because a limit was
    // reached.
    assert(!content_.exprs()->status());
    return std::nullopt;
  }

  // The least number of further bytes of an escape, minus one: most escapes need one more letter.
  static std::uint64_t left_of_escape(const Point& point) {
    constexpr std::uint64_t kDigits = 4;
    switch (point.place) {
      case Place::backslash:
      case Place::after:
        return 0;
      case Place::hex:
      case Place::low_hex:
        return kDigits - point.digits;
      case Place::low:
        return kDigits + 2;
      case Place::low_letter:
        return kDigits + 1;
    }
    return 0;
  }

  State intern(const Point& point) {
    const auto [place, is_new] =
        ids_.try_emplace(point.key(), kFirstPoint + static_cast<State>(points_.size()));
    if (is_new) points_.push_back(point);
    return place->second;
  }

  // Finds which bytes lead to the same state everywhere in the text where words are not compared.
  void number_columns() {
    std::map<std::pair<int, bool>, std::uint16_t> columns;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_by_itself = byte < 0x20 || byte == '"' || byte == '\\';
      // Continues a character, which is not counted again.
      const bool goes_on = (byte & 0xC0U) == 0x80U;
      std::pair<int, bool> column{content_.byte_classes()[byte], goes_on};
      if (is_by_itself) column.first = -1 - static_cast<int>(std::max(byte, 0x1FU));
      column_of_[byte] =
          columns.try_emplace(column, static_cast<std::uint16_t>(columns.size())).first->second;
    }
    // The last column is for common characters.
    columns_ = static_cast<std::uint32_t>(columns.size()) + 1;
  }

  // The state in the text for a state of the content; dead if the content is dead.
  State text(ContentState content) {
    if (content >= text_states_.size()) text_states_.resize(content + 1, kUnknown);
    State& known = text_states_[content];
    if (known == kUnknown) {
      known = kDead;
      if (content_.is_live(content)) {
        known = static_cast<State>(contents_.size());
        contents_.push_back(content);
        next_.resize(next_.size() + columns_, kUnknown);
      }
    }
    return known;
  }
  // In plain text, not in an escape or at the end.
  [[nodiscard]] static bool is_text(State state) { return state < kFirstPoint; }

  State in_text(ContentState content, std::uint8_t byte) {
    if (byte == '"') return content_.is_accepting(content) ? after_ : kDead;
    if (byte == '\\') {
      const State state = intern({.content = content, .place = Place::backslash});
      return escapes_lead_on(content) ? state : kDead;
    }
    return byte < 0x20 ? kDead : text(content_.step(content, byte));
  }

  // Whether some escape is possible: each stands for a character that the content must allow.
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

  // Whether \u followed by this code may be written. Control characters always may, because most
  // have no other notation.
  [[nodiscard]] bool is_escapable(unsigned code) const {
    if (code == 0 || (code >= 0xD800 && code <= 0xDFFF)) return false;
    return is_control(code) || (escapes_ == UnicodeEscapes::any && (!is_list_ || code >= 0x80));
  }

  // The content's state after the character `code`.
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

  // Whether some character whose \u begins with these digits is possible.
  bool has_digits_from(ContentState content, unsigned digits, unsigned value) {
    const std::uint64_t key = std::uint64_t{content} << 20U | std::uint64_t{digits} << 17U | value;
    if (const auto known = leads_on_.find(key); known != leads_on_.end()) return known->second;
    const auto [from, to] = codes_from(digits, value);
    const auto has = [&](unsigned first, unsigned end) {
      return has_character(content, std::max(from, first), std::min(to, end));
    };
    bool found = false;
    if (escapes_ == UnicodeEscapes::controls) {
      found = has(1, 0x20) || has(0x7F, 0xA0);
    } else {
      found = has(1, is_list_ ? 0x20 : 0x7F) || has(0x7F, 0xD800) || has(0xE000, 0x10000);
      // All other characters are written as two halves.
      const unsigned first_high = std::clamp(from, 0xD800U, 0xDC00U) - 0xD800U;
      const unsigned end_high = std::clamp(to, 0xD800U, 0xDC00U) - 0xD800U;
      found = found ||
              has_character(content, 0x10000U + (first_high << 10U), 0x10000U + (end_high << 10U));
    }
    leads_on_.emplace(key, found);
    return found;
  }
  // The codes of four digits that begin with these digits.
  static std::pair<unsigned, unsigned> codes_from(unsigned digits, unsigned value) {
    const unsigned shift = 4 * (4 - digits);
    return {value << shift, (value + 1) << shift};
  }

  bool has_low(ContentState content, std::uint16_t high) {
    return has_low_from({.content = content, .high = high}, 0, 0);
  }
  bool has_low_from(const Point& point, unsigned digits, unsigned value) {
    const auto [from, to] = codes_from(digits, value);
    const unsigned first = 0x10000U + (unsigned{point.high} << 10U);
    return has_character(point.content, first + std::clamp(from, 0xDC00U, 0xE000U) - 0xDC00U,
                         first + std::clamp(to, 0xDC00U, 0xE000U) - 0xDC00U);
  }

  // Whether some character in [from, to) can come next. Up to a million are asked for, so they are
  // grouped by their first bytes.
  bool has_character(ContentState content, unsigned from, unsigned to) {
    struct Form {
      unsigned first, end, lead, shift;
    };
    static constexpr Form kForms[] = {{0, 0x80, 0, 0},
                                      {0x80, 0x800, 0xC0, 6},
                                      {0x800, 0x10000, 0xE0, 12},
                                      {0x10000, 0x110000, 0xF0, 18}};
    return std::ranges::any_of(kForms, [&](const Form& form) {
      return has_character_of(content, form.lead, form.shift, std::max(from, form.first),
                              std::min(to, form.end));
    });
  }
  // The same for characters whose next byte is `lead` and the bits of the code from `shift` on.
  bool has_character_of(ContentState content, unsigned lead, unsigned shift, unsigned from,
                        unsigned to) {
    const unsigned size = 1U << shift;
    for (unsigned at = from; at < to; at = (at | (size - 1)) + 1) {
      const unsigned bits = at >> shift & (lead == 0 ? 0x7FU : 0x3FU);
      const ContentState after = content_.step(content, static_cast<std::uint8_t>(lead | bits));
      if (text(after) == kDead) continue;
      const unsigned end = std::min(to, (at | (size - 1)) + 1);
      // If a block of characters is complete, it is enough that its first bytes can be continued.
      const bool is_whole_block = (at & (size - 1)) == 0 && end - at == size;
      if (is_whole_block || has_character_of(after, 0x80, shift - 6, at, end)) return true;
    }
    return false;
  }

  static constexpr State kFirstPoint = 0x80000000;
  // Added to the fingerprints of languages without counts, and of those with far counts.
  static constexpr std::uint64_t kFree = 0x6672;
  static constexpr std::uint64_t kFar = 0x6661;
  static constexpr std::uint64_t kAnyText = std::uint64_t{0x7E78} << 32U;  // not a fingerprint

  Content content_;
  UnicodeEscapes escapes_;
  bool is_list_;  // ASCII has one notation in a list of texts, so that most of the text is forced
  regex::Expr any_character_;
  regex::Expr any_text_;
  State start_ = kDead;
  State after_ = kDead;
  std::vector<ContentState> contents_;  // by state in the text
  std::vector<State> next_;             // [state in the text][column]
  std::array<std::uint16_t, 256> column_of_{};
  std::uint32_t columns_ = 0;
  std::vector<Point> points_;  // by state less kFirstPoint
  std::unordered_map<std::uint64_t, State> ids_;
  std::vector<State> text_states_;  // by state of the content
  std::unordered_map<std::uint64_t, bool> leads_on_;
  std::map<regex::Expr, std::unique_ptr<StringScanner>> simple_;  // by language
};

}  // namespace

std::shared_ptr<Scanner> make_string_scanner(std::shared_ptr<regex::ExprSet> exprs,
                                             regex::Expr content, StringOptions options) {
  return std::make_shared<StringScanner>(std::move(exprs), content, std::move(options));
}

}  // namespace tenon::grammar
