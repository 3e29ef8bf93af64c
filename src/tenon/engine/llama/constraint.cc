#include "tenon/engine/llama/constraint.h"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/grammar/machine/token_set.h"

// The matcher reads each token that was chosen (accept) or forced (take_forced), and masks_ holds
// the mask of the next token, with those behind a draft after it. For ends_whole, in_time() looks
// at the answer as it would be with the chosen token and asks the matcher for a way to an end; end_
// is the way that was found last, and its tokens come if nothing else fits.
//
// For closes_repetitions, out_of_repetition() looks at the chosen token before that. `left`, the
// bytes to the nearest end of the answer (Matcher::bytes_to_end()), says in which part of the
// grammar a text is: in `{"a": ["x` it is 3, for `"]}`; behind that string 2, behind the array 1.
// The least of a round of the repetition is its floor. A text is out of the repetition's part once
// `left` is below it and the repetition cannot go on, or goes on nearer to the end: in another
// part.

namespace tenon::engine {
namespace {

// Forced text is taken in stretches of at most this many bytes.
constexpr std::size_t kForcedBytes = 1024;
// No search for an end is needed while the tokens left exceed kFarFactor times the matcher's
// estimate of the bytes to an end, plus kFarTokens. An end takes at most a token for each byte, and
// the estimate misses only what strings and numbers demand of their content.
constexpr std::size_t kFarFactor = 4;
constexpr std::size_t kFarTokens = 64;
// While the tokens left exceed kSpareFactor times the length of the end that was found last, plus
// kFarTokens, an end is looked for only after every kLooksEvery-th token, unless the estimate has
// grown because something was opened. A search takes some 0.1 to 2 ms (tokens_to_end over
// tenon-tiny's vocabulary and three nested tools, 2 cores of an AMD EPYC, 2026-11).
constexpr std::size_t kSpareFactor = 2;
constexpr std::size_t kLooksEvery = 8;
// A repetition of so many tokens and rounds is closed, however many tokens are left.
constexpr std::size_t kLongRepetitionTokens = 1000;
constexpr std::size_t kLongRepetitionRounds = 30;
// So many values are closed one by one. After them the model is taken to be unable to go on; to
// close what is left would invent members that it never wrote.
constexpr std::uint32_t kValuesClosed = 3;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

}  // namespace

Constraint::Constraint(std::shared_ptr<grammar::Grammar> grammar, const vocab::Tokenizer& tokenizer,
                       Options options)
    : request_(log::about()),
      matcher_(std::move(grammar)),
      tokenizer_(tokenizer),
      mask_words_(grammar::mask_words(tokenizer.size())),
      masks_(mask_words_),
      ends_whole_(options.ends_whole),
      closes_repetitions_(options.closes_repetitions) {}

void Constraint::accept(TokenId token) {
  go_past(token);
  // The way to an end stays one as long as its own tokens come.
  if (end_ && !end_->empty() && end_->front() == token) {
    end_->erase(end_->begin());
  } else {
    end_.reset();
  }
  if (is_free_ || matcher_.accept(token)) return;
  give_up(matcher_.error().value_or(
      Error{Errc::unsupported, "token " + std::to_string(token) + " cannot come here"}));
}

bool Constraint::is_far_from_end(std::size_t most) {
  const std::size_t bytes = matcher_.bytes_to_end();
  if (most > kFarFactor * bytes + kFarTokens) return true;
  return found_.tokens > 0 && bytes <= found_.bytes && most + kLooksEvery > found_.most &&
         most > kSpareFactor * found_.tokens + kFarTokens;
}

// An end from the matcher's present state, of at most `most` tokens. With `tries_others`, other
// ways than the one that is shortest in bytes are tried, too; each costs a search.
std::optional<Constraint::Tokens> Constraint::end_within(std::size_t most, bool tries_others) {
  auto end = tries_others ? matcher_.tokens_to_end(most) : matcher_.tokens_to_end();
  if (!end || end->size() > most) return std::nullopt;
  found_ = {.tokens = end->size(), .bytes = matcher_.bytes_to_end(), .most = most};
  return *std::move(end);
}

// Makes sure that end_ is an end of at most `most` tokens. If there is no such end, the answer
// cannot be brought to its end any more, and ends_whole_ becomes false.
bool Constraint::keep_end(std::size_t most) {
  if (!end_ || end_->size() > most) end_ = end_within(most, /*tries_others=*/true);
  ends_whole_ = end_.has_value() && end_->size() <= most;
  return ends_whole_;
}

std::optional<TokenId> Constraint::next(TokenId chosen, std::size_t most) {
  return in_time(out_of_repetition(chosen, most), most);
}

// `chosen`, or the token that leads out of the repetition that `chosen` would go on with.
TokenId Constraint::out_of_repetition(TokenId chosen, std::size_t most) {
  if (!closes_repetitions_ || is_free_) return chosen;
  const bool begins = !leaving_;
  if (begins) {
    if (!must_leave(chosen, most)) return chosen;
    // With ends_whole, which invents by request, the fourth repetition ends the answer.
    leaving_ = {.floor = exit_->floor,
                .below = closed_repetitions_ < kValuesClosed ? exit_->floor : 1,
                .round = repetitions_.round()};
    repetitions_.clear();
    exit_.reset();
  }
  if (way_out_.empty() && goes_on()) {
    way_out_ = matcher_.tokens_towards_end(leaving_->below).value_or(Tokens());
    if (begins && !way_out_.empty()) ++closed_repetitions_;
    // A search that failed is a costly one, and the next would fail as well.
    if (way_out_.empty()) closes_repetitions_ = false;
  }
  if (!way_out_.empty()) return way_out_.front();
  leaving_.reset();
  if (closed_repetitions_ >= kValuesClosed && !ends_whole_) closes_repetitions_ = false;
  return chosen;
}

// Goes on with leaving the repetition: whether there is more to leave. leaving_->below then says
// how far to go: a way out such as `</end>` comes nearer to the end with its first byte, while the
// text may still return into the repetition.
bool Constraint::goes_on() {
  const std::size_t left = matcher_.bytes_to_end();
  if (left >= leaving_->below) return true;
  if (left == 0 || !could_repeat()) return false;
  leaving_->below = left;
  return true;
}

// Whether the repetition that is being left could go on from here in the part of the grammar that
// it is in. Behind an array within another one the same rounds may be items of the outer one: they
// stay nearer to the end than those of the repetition, and do not lead away from it round by round.
bool Constraint::could_repeat() const {
  grammar::Matcher matcher = matcher_;
  std::size_t before = kNowhere;
  std::size_t floor = kNowhere;
  for (std::size_t read = 0; read < RepetitionDetector::kLeastTokens;
       read += leaving_->round.size()) {
    before = std::exchange(floor, kNowhere);
    for (const TokenId token : leaving_->round) {
      const auto least = read_again(matcher, token);
      if (!least) return false;
      floor = std::min(floor, *least);
    }
  }
  return floor >= leaving_->floor || floor > before;
}

// Whether the repetition is so long that the answer would probably be cut within it: very long, or
// half of what the answer might have had when the repetition began.
bool Constraint::endangers(std::size_t most) const {
  const std::size_t tokens = repetitions_.tokens();
  return tokens >= most || (tokens >= kLongRepetitionTokens &&
                            tokens >= kLongRepetitionRounds * repetitions_.period());
}

// Whether the answer goes on with a repetition and has come to the place where it is left.
bool Constraint::must_leave(TokenId chosen, std::size_t most) {
  if (!repetitions_.goes_on_with(chosen)) {
    exit_.reset();
    return false;
  }
  if (!endangers(most)) return false;
  if (!exit_) exit_ = find_exit();
  if (!exit_) {
    repetitions_.clear();
    return false;
  }
  return matcher_.accepted_count() >= exit_->at;
}

// Reads the last two rounds of the repetition again, byte by byte, because a token may cross the
// floor:
// `"},` ends an item, while a place before it and one behind it are within an item. nullopt: the
// repetition is not one to be left, since its rounds come nearer to the end, or the answer may end
// within them.
std::optional<Constraint::Exit> Constraint::find_exit() const {
  const Tokens round = repetitions_.round();
  grammar::Matcher matcher = matcher_;
  matcher.rollback(2 * round.size());
  std::vector<std::size_t> before(round.size());  // each token of the round
  std::vector<std::size_t> within(round.size());
  std::array<std::size_t, 2> floors{};
  for (std::size_t& floor : floors) {
    for (std::size_t i = 0; i < round.size(); ++i) {
      before[i] = matcher.bytes_to_end();
      const auto least = read_again(matcher, round[i]);
      if (!least) return std::nullopt;
      within[i] = *least;
    }
    floor = std::ranges::min(within);
  }
  const std::size_t floor = floors[1];
  if (floor == 0 || floor < floors[0]) return std::nullopt;
  // Between two tokens if there is such a place; else before the token that crosses the floor.
  auto at = std::ranges::find(before, floor) - before.begin();
  if (at == std::ssize(before)) at = std::ranges::find(within, floor) - within.begin();
  return Exit{.floor = floor, .at = matcher_.accepted_count() + static_cast<std::size_t>(at)};
}

// Accepts a token of the answer once more. The bytes to the end where it is nearest, behind the
// token or behind one of its bytes.
std::optional<std::size_t> Constraint::read_again(grammar::Matcher& matcher, TokenId token) const {
  std::size_t least = kNowhere;
  std::size_t read = 0;
  for (const char& byte : tokenizer_.is_control(token) ? "" : tokenizer_.bytes(token)) {
    if (!matcher.accept_bytes({&byte, 1})) break;
    least = std::min(least, matcher.bytes_to_end());
    ++read;
  }
  matcher.rollback(read);
  if (!matcher.accept(token)) return std::nullopt;
  return std::min(least, matcher.bytes_to_end());
}

std::optional<TokenId> Constraint::in_time(TokenId chosen, std::size_t most) {
  if (!ends_whole_ || is_free_) return chosen;
  if (end_ && !end_->empty() && end_->front() == chosen && end_->size() <= most) {
    is_steered_ = is_steered_ || end_->size() == most;
    return chosen;
  }
  const bool might_end = matcher_.is_accepting();
  if (!matcher_.accept(chosen)) return chosen;  // accept() will report why
  std::optional<Tokens> after;
  const bool is_far = is_far_from_end(most - 1);
  if (!is_far) after = end_within(most - 1);
  // The look ahead is taken back: the token is accepted for good only by accept().
  matcher_.rollback(1);
  if (is_far) return chosen;
  if (after) {
    end_ = std::move(after);
    is_steered_ = is_steered_ || (end_->size() == most - 1 && !(might_end && end_->empty()));
    end_->insert(end_->begin(), chosen);  // accept() removes it
    return chosen;
  }
  if (!keep_end(most)) return chosen;
  // The answer may end right here, which is the only way that fits.
  if (end_->empty()) return std::nullopt;
  is_steered_ = true;
  return end_->front();
}

bool Constraint::is_closed() {
  return is_steered_ && !is_free_ && matcher_.is_accepting();
}

void Constraint::take_forced(std::vector<TokenId>& tokens, std::size_t most) {
  find_forced(tokens, most);
  fit_forced(tokens, most);
  for (const TokenId token : tokens) go_past(token);
}

// Forced text may be written in more tokens than there is room for. Then none of them is taken, and
// each comes in the order of the end that fits.
void Constraint::fit_forced(Tokens& tokens, std::size_t most) {
  if (!ends_whole_ || is_free_ || tokens.empty()) return;
  const std::size_t left = most - tokens.size();
  const bool is_far = is_far_from_end(left);
  std::optional<Tokens> after;
  if (!is_far) after = end_within(left);
  if (is_far || after) {
    end_ = std::move(after);
    is_steered_ = is_steered_ || (end_ && end_->size() == left);
    return;
  }
  matcher_.rollback(tokens.size());
  if (!keep_end(most)) return find_forced(tokens, most);
  tokens.clear();
}

// Puts the forced tokens into `tokens`; the matcher has accepted them.
void Constraint::find_forced(Tokens& tokens, std::size_t most) {
  tokens.clear();
  while (!is_free_ && tokens.size() < most) {
    const auto forced = matcher_.forced_tokens(tokenizer_, kForcedBytes);
    if (!forced) return give_up(forced.error());
    if (forced->empty()) return;
    for (const TokenId token : *forced) {
      // A token that does not spell exactly the forced bytes is left to the mask.
      if (tokens.size() == most || !matcher_.accept(token)) return;
      tokens.push_back(token);
    }
  }
}

bool Constraint::is_complete() {
  return !is_free_ && matcher_.is_complete();
}

void Constraint::expect(std::vector<TokenId>& draft) {
  draft.resize(is_free_ ? 0 : matcher_.validate_draft(draft));
  draft_ = draft;
  masks_made_ = place_ = 0;
}

// The masks that were made ahead are valid as long as the draft comes true.
void Constraint::go_past(TokenId token) {
  if (closes_repetitions_) repetitions_.add(token);
  // The way out of a repetition stays one as long as its own tokens come.
  if (!way_out_.empty() && way_out_.front() == token) {
    way_out_.erase(way_out_.begin());
  } else {
    way_out_.clear();
  }
  if (place_ < draft_.size() && token == draft_[place_]) {
    ++place_;
    return;
  }
  draft_.clear();
  masks_made_ = place_ = 0;
}

void Constraint::prepare_mask() {
  if (has_mask()) return;
  const auto begin = std::chrono::steady_clock::now();
  draft_.erase(draft_.begin(), draft_.begin() + static_cast<std::ptrdiff_t>(place_));
  masks_made_ = place_ = 0;
  std::size_t accepted = 0;
  try {
    masks_.resize((draft_.size() + 1) * mask_words_);
    while (true) {
      const std::span<std::uint32_t> mask(&masks_[masks_made_ * mask_words_], mask_words_);
      const Status filled = matcher_.fill_mask(mask);
      if (!filled && masks_made_ == 0) give_up(filled.error());
      if (!filled) break;  // after a guess: if the guess comes true, the error comes again
      ++masks_made_;
      if (accepted == draft_.size() || !matcher_.accept(draft_[accepted])) break;
      ++accepted;
    }
  } catch (const std::exception& error) {
    // Out of memory, on a thread where no other code would catch it; let_go() allocates nothing.
    // After a guess the error is dropped: it comes again if the guess comes true.
    if (masks_made_ == 0) let_go(error.what());
  }
  matcher_.rollback(accepted);
  mask_time_ += std::chrono::steady_clock::now() - begin;
}

std::span<const std::uint32_t> Constraint::mask() const {
  if (is_free_) return {};
  return std::span(masks_).subspan(place_ * mask_words_, mask_words_);
}

void Constraint::give_up(const Error& error) {
  let_go("an answer is not held to its grammar any more: " +
         std::string(log::content(error.message)));
}

void Constraint::let_go(std::string_view why) {
  is_free_ = true;
  const log::About about(request_);
  log::warn(why);
}

}  // namespace tenon::engine
