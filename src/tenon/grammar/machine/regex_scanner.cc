#include "tenon/grammar/machine/regex_scanner.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/regex/dfa.h"

namespace tenon::grammar {

namespace {

using vocab::ByteClasses;

// A language as a scanner: states are those of a regex::Dfa, which are derivatives of the
// language's expression, made when a text or a mask first reaches them. What masks ask about a
// state (classes, keys, free text) is read off its expression, so equal states of different
// grammars have equal keys. A covered lexeme (node::Lexeme) answers as if nothing could stay in it:
// its inside is known from another lexeme.
class RegexScanner final : public Scanner {
 public:
  RegexScanner(Machine& machine, std::shared_ptr<regex::ExprSet> exprs, regex::Expr language,
               bool is_covered)
      : machine_(machine), exprs_(std::move(exprs)), language_(language), is_covered_(is_covered) {}

  // The automaton is made when it is first needed, because most lexemes of a large grammar are
  // never read.
  State start() override {
    if (!dfa_) dfa_.emplace(*exprs_, language_);
    return if_live(regex::Dfa::kStart);
  }
  State step(State state, std::uint8_t byte) override {
    assert(state != kDead);
    const State next = if_live(dfa_->step(state, byte));
    keep(state, dfa_->byte_classes()[byte], next);
    return next;
  }
  Table table() const override {
    // A walk of a mask has begun; from now on steps are kept (see keep).
    is_walked_ = dfa_.has_value();
    if (next_.empty()) return {};
    return {.next = next_.data(),
            .states = static_cast<State>(next_.size() / columns()),
            .columns = static_cast<std::uint32_t>(columns()),
            .column_of = column_of_.data()};
  }
  std::optional<State> step_common(State state) override {
    const auto common = dfa_->step_common(state);
    if (!common) return std::nullopt;
    const State next = if_live(*common);
    keep(state, columns() - 1, next);
    return next;
  }
  bool is_accepting(State state) const override { return dfa_->is_accepting(state); }
  bool is_final(State state) const override {
    return dfa_->language(state) == regex::ExprSet::kEpsilon;
  }
  std::uint16_t kind(State, std::uint8_t byte) const override { return dfa_->byte_classes()[byte]; }
  std::uint32_t least(State state) override { return exprs_->least_bytes(dfa_->language(state)); }
  std::optional<ByteClasses> classes(State state) override {
    ByteClasses classes;
    classes.of = exprs_->byte_classes(dfa_->language(state));
    classes.count = *std::ranges::max_element(classes.of) + 1U;
    // The number of a class is a byte, and kNone is one of its values.
    if (classes.count + 1 >= ByteClasses::kNone) return std::nullopt;
    // Common characters are one symbol more, if they all lead to the same state.
    classes.of[vocab::TokenTrie::kUnit] =
        step_common(state) ? static_cast<std::uint8_t>(classes.count++) : ByteClasses::kNone;
    return classes;
  }

  Ways ways(State state, std::uint32_t /*longest*/, bool /*may_guess*/) override {
    regex::Fingerprint key = exprs_->fingerprint(dfa_->language(state));
    if (key != regex::Fingerprint{}) key.high += kPlain;
    const Way way{.key = key, .state = state, .instead = {}};
    return {.inside = way, .whole = way, .exact = key};
  }

  std::optional<AllBut> as_all_but(State state) override {
    const auto all_but = exprs_->as_all_but(dfa_->language(state));
    if (!all_but || all_but->text == dfa_->language(state)) return std::nullopt;
    // One scanner for the text that the states of this one have in common. A state with another
    // text gets none: it is walked like any other.
    if (text_ == nullptr)
      text_ = std::make_unique<RegexScanner>(machine_, exprs_, all_but->text, false);
    if (text_->language_ != all_but->text) return std::nullopt;
    const State start = text_->start();
    if (start == kDead) return std::nullopt;
    return AllBut{.text = {text_.get(), start}, .signs = all_but->signs};
  }
  std::uint32_t absorbs(State state) override {
    return is_covered_ ? 0 : exprs_->absorbed_characters(dfa_->language(state));
  }
  regex::Dfa::FreeText free_text(State state) override {
    return is_covered_ ? regex::Dfa::FreeText{} : dfa_->free_text(state);
  }
  bool is_covered() const override { return is_covered_; }
  regex::ByteSet last_bytes() override { return exprs_->last_bytes(language_); }

  // The automata count against the limits of the expressions; each scanner counts its share.
  std::size_t memory_bytes() const override {
    return exprs_->bytes_used() / static_cast<std::size_t>(exprs_.use_count()) +
           lives_.capacity() * sizeof(Life) + next_.capacity() * sizeof(State) +
           (text_ == nullptr ? 0 : text_->next_.capacity() * sizeof(State));
  }

 private:
  // Distinguishes it from the key of the same language as JSON text.
  static constexpr std::uint64_t kPlain = 0x706C;
  enum class Life : std::uint8_t { unknown, live, dead };

  // The last column is that of common characters.
  [[nodiscard]] std::size_t columns() const { return dfa_->class_count() + 1; }
  // Steps are kept once masks walk the automaton: the machine remembers its own.
  void keep(State state, std::size_t column, State next) {
    constexpr State kMostStates = 4096;
    if (!is_walked_ || state >= kMostStates) return;
    if (column_of_.empty()) {
      column_of_.assign(dfa_->byte_classes().begin(), dfa_->byte_classes().end());
    }
    if ((state + 1) * columns() > next_.size()) next_.resize((state + 1) * columns(), kUnknown);
    next_[state * columns() + column] = next;
  }

  // kDead for states from which nothing is accepted, so that the machine never enters a dead end.
  // Liveness is a search of the automaton, made once for each state. A covered lexeme must end by
  // its structure (node::Lexeme), so for it a look at the expression is enough.
  State if_live(State state) {
    if (state >= lives_.size()) lives_.resize(state + 1, Life::unknown);
    if (lives_[state] == Life::unknown) {
      const Expected<bool> is_live =
          is_covered_ ? dfa_->language(state) != regex::ExprSet::kNothing : dfa_->is_live(state);
      if (const Status status = exprs_->status(); !status) {
        machine_.fail(status.error());
        return kDead;
      }
      if (!is_live) {  // this is not a verdict
        machine_.fail(is_live.error());
        return kDead;
      }
      lives_[state] = *is_live ? Life::live : Life::dead;
    }
    return lives_[state] == Life::live ? state : kDead;
  }

  Machine& machine_;
  std::shared_ptr<regex::ExprSet> exprs_;
  regex::Expr language_;
  bool is_covered_;
  std::optional<regex::Dfa> dfa_;
  std::vector<Life> lives_;  // by state
  mutable bool is_walked_ = false;
  std::vector<State> next_;               // [state * columns() + column]
  std::vector<std::uint16_t> column_of_;  // by byte
  std::unique_ptr<RegexScanner> text_;    // of as_all_but()
};

}  // namespace

std::shared_ptr<Scanner> make_regex_scanner(Machine& machine, std::shared_ptr<regex::ExprSet> exprs,
                                            regex::Expr language, bool is_covered) {
  return std::make_shared<RegexScanner>(machine, std::move(exprs), language, is_covered);
}

}  // namespace tenon::grammar
