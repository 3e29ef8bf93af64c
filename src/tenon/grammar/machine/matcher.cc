#include "tenon/grammar/machine/matcher.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "tenon/grammar/machine/end_search.h"

// A matcher is a list of points: after each token, the state of the grammar's machine and the
// length of the text. So rollback() cuts the list, and a copy is a fork. States belong to a machine
// that all matchers of a grammar share; when the machine has no room left it is made again, and
// catch_up() reads the text again to get states of the new one (use).
//
// A mask is the state's, from the grammar's cache or made by the mask builder. forced_bytes() goes
// on as long as one byte alone is allowed; tokens_to_end() searches the shortest text that ends the
// grammar (end_search.h) and spells it in tokens.

namespace tenon::grammar {

using vocab::Token;
using vocab::TokenId;
using vocab::TokenTrie;

Matcher::Matcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), points_{{0, kBytes, 0}} {}

// Runs `use` under the grammar's lock, on current states. If the grammar has no room left, or `use`
// reaches a limit, the grammar's machine is made again and `use` is tried again, unless the machine
// was new or that would not help.
template <class Use>
auto Matcher::use(Use use) -> decltype(use()) {
  const std::lock_guard lock(grammar_->mutex_);
  // A grammar that could be made once can be made again; if that fails, the old machine is kept.
  const bool is_full = grammar_->is_full();
  const bool is_new = (is_full || grammar_->has_failed()) && grammar_->begin();
  catch_up();
  if (is_full && is_new) grammar_->make_room();
  // What `use` may change, to be undone before it is tried again.
  const std::size_t points = points_.size();
  const bool finished = finished_;
  // A call counts as one more byte, and each byte raises the limit of steps (has_steps).
  ++bytes_;
  const bool was_fresh = std::exchange(grammar_->is_fresh_, false);
  // After catch_up(): a text does not pay for being read again because others filled the machine.
  const std::uint64_t before = machine().work();
  is_new_machine_ = was_fresh || !grammar_->build_;
  auto result = use();
  steps_ += machine().work() - before;
  // On a machine that no matcher has used, or at a limit of a single call, the same would happen
  // again.
  const bool may_help = !was_fresh && !machine().is_limit_of_one_call();
  if (grammar_->has_failed() && may_help && grammar_->begin()) {
    points_.resize(points);
    text_.resize(points_.back().text_size);
    finished_ = finished;
    catch_up();
    grammar_->is_fresh_ = false;
    is_new_machine_ = true;
    result = use();
    // All of its work: it began at 0 with this attempt.
    steps_ += machine().work();
  }
  error_ = machine().error();
  return result;
}

std::optional<Error> Matcher::refusal() const {
  if (text_.size() > Grammar::kLongestRefused) return std::nullopt;
  const std::lock_guard lock(grammar_->mutex_);
  if (grammar_->refusals_.empty()) return std::nullopt;
  const Error* const error = grammar_->refusal_after(all_read());
  return error == nullptr ? std::nullopt : std::optional(*error);
}

// The text, with the tokens that were read as wholes at their places.
std::string Matcher::all_read() const {
  std::string read = text_;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    if (points_[i].text_size != points_[i - 1].text_size) continue;
    for (const std::size_t number :
         {points_[i].text_size, static_cast<std::size_t>(points_[i].token)}) {
      read += '\0' + std::to_string(number);
    }
  }
  return read;
}

// Each byte may take its time, but there is a limit for all together. A fork has what is left of
// it.
bool Matcher::has_steps() {
  const MachineLimits& limits = grammar_->limits_.machine;
  const std::uint64_t most = limits.max_text_steps + bytes_ * limits.steps_per_byte;
  if (steps_ <= most) return true;
  error_ =
      Error{Errc::limit_exceeded, "grammar: more than " + std::to_string(most) +
                                      " steps for one text: there are too many ways to read it"};
  return false;
}

// Reads the text again if the states are those of an earlier machine.
void Matcher::catch_up() {
  if (epoch_ == grammar_->epoch_) return;
  epoch_ = grammar_->epoch_;
  points_[0].state = grammar_->run_->start;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const Point& before = points_[i - 1];
    const bool is_end = finished_ && i + 1 == points_.size();
    points_[i].state =
        is_end ? before.state
               : next(before.state, points_[i].token,
                      std::string_view(text_).substr(0, points_[i].text_size), before.text_size);
  }
}

// The state after a token, or after bytes alone. `text` is everything up to there, including the
// `before` bytes that came before.
StateId Matcher::next(StateId from, TokenId token, std::string_view text, std::size_t before) {
  Machine& to = machine();
  const vocab::Vocab& vocab = grammar_->index_->vocab();
  // A text token may be wanted as a whole by one cell and byte by byte by another; both ways go on.
  const StateId beside = token == kBytes ? 0 : to.step_token(from, token);
  StateId state = 0;
  if (token == kBytes || vocab.kind(token) == Token::Kind::text) {
    state = from;
    for (std::size_t i = before; i < text.size() && state != 0; ++i) {
      state = to.step(state, static_cast<std::uint8_t>(text[i]));
      if (to.has_questions(state)) state = to.answer(state, text.substr(0, i + 1));
    }
  }
  return beside == 0 ? state : to.united(state, to.answer(beside, text));
}

// Adds a point, or leaves all as it was if `token` with these bytes cannot come. The bytes count in
// either case, because their steps do (has_steps).
bool Matcher::advance(TokenId token, std::string_view bytes) {
  const std::size_t before = text_.size();
  bytes_ += bytes.size();
  text_ += bytes;
  const StateId state = next(points_.back().state, token, text_, before);
  if (state == 0) {
    text_.resize(before);
    return false;
  }
  points_.push_back({state, token, text_.size()});
  return true;
}

bool Matcher::accept(TokenId token) {
  const vocab::Vocab& vocab = grammar_->index_->vocab();
  if (finished_ || token < 0 || static_cast<std::size_t>(token) >= vocab.size()) return false;
  if (!has_steps()) return false;
  return use([&] {
    // A control token has a name and no text: the bytes "<|im_end|>" are what a user may write. The
    // grammar is asked first, so an end token for which it waits does not end the text.
    const bool is_text = vocab.kind(token) == Token::Kind::text;
    if (advance(token, is_text ? vocab.bytes(token) : "")) return true;
    const bool is_end = std::ranges::find(vocab.ends(), token) != vocab.ends().end();
    if (!is_end || !machine().is_accepting(points_.back().state)) return false;
    // The state stays that before the end token, which catch_up() relies on.
    points_.push_back({points_.back().state, token, text_.size()});
    finished_ = true;
    return true;
  });
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (finished_ || !has_steps()) return false;
  return use([&] { return advance(kBytes, bytes); });
}

std::size_t Matcher::validate_draft(std::span<const TokenId> tokens) {
  const std::size_t before = accepted_count();
  std::size_t valid = 0;
  while (valid < tokens.size() && accept(tokens[valid])) ++valid;
  rollback(accepted_count() - before);
  return valid;
}

void Matcher::rollback(std::size_t count) {
  assert(count <= accepted_count());
  if (count == 0) return;
  points_.resize(points_.size() - std::min(count, accepted_count()));
  text_.resize(points_.back().text_size);
  finished_ = false;  // an end token is always the last one accepted
}

Status Matcher::fill_mask(std::span<std::uint32_t> mask) {
  assert(mask.size() == mask_words(grammar_->index_->vocab().size()));
  if (finished_) {
    std::ranges::fill(mask, 0U);
    return {};
  }
  if (!has_steps()) return Unexpected(*error_);
  if (const auto refused = refusal()) {
    error_ = refused;
    return Unexpected(*refused);
  }
  return use([&]() -> Status {
    machine().begin_mask(grammar_->mask_fraction());
    grammar_->run_->masks.fill(points_.back().state, text_, mask);
    machine().end_mask();
    if (machine().error()) {
      // Otherwise the limit was reached by what other texts left in the machine, and says nothing
      // about this one.
      const bool is_certain = is_new_machine_ || machine().is_limit_of_one_call();
      if (is_certain) grammar_->refuse(all_read(), *machine().error());
      return Unexpected(*machine().error());
    }
    grammar_->count_filled_mask();
    if (std::ranges::all_of(mask, [](std::uint32_t word) { return word == 0; })) {
      return Unexpected(Error{Errc::unsatisfiable,
                              "nothing can follow after byte " + std::to_string(text_.size()) +
                                  ": the values so far leave none that would fit the schema"});
    }
    return {};
  });
}

Expected<std::size_t> Matcher::fill_draft_masks(const DraftTree& tree,
                                                std::span<std::uint32_t> masks,
                                                std::size_t row_words) {
  assert(masks.size() == tree.tokens.size() * row_words);
  std::ranges::fill(masks, 0U);
  const auto order = preorder(tree);
  if (!order) return Unexpected(order.error());
  const std::size_t before = accepted_count();
  auto reached = fill_nodes(tree, *order, masks, row_words);
  rollback(accepted_count() - before);
  if (!reached) std::ranges::fill(masks, 0U);
  return reached;
}

// Leaves the tokens of some nodes accepted.
Expected<std::size_t> Matcher::fill_nodes(const DraftTree& tree,
                                          std::span<const std::int32_t> order,
                                          std::span<std::uint32_t> masks, std::size_t row_words) {
  constexpr std::size_t kCannotCome = std::numeric_limits<std::size_t>::max();
  const std::size_t words = mask_words(grammar_->index_->vocab().size());
  const std::size_t before = accepted_count();
  // By node: the number of tokens on the way to it, if all of them can come. In preorder the
  // matcher only has to go back to the parent, and never reads a shared beginning twice.
  std::vector<std::size_t> depths(order.size(), kCannotCome);
  std::size_t reached = 0;
  for (const std::int32_t id : order) {
    const auto node = static_cast<std::size_t>(id);
    if (node == 0) {
      depths[node] = 0;
    } else {
      const std::size_t depth = depths[static_cast<std::size_t>(tree.parents[node])];
      if (depth == kCannotCome) continue;
      rollback(accepted_count() - before - depth);
      if (!accept(tree.tokens[node])) {
        if (error_) return Unexpected(*error_);
        continue;
      }
      depths[node] = depth + 1;
    }
    ++reached;
    const Status filled = fill_mask(masks.subspan(node * row_words, words));
    // A text that leaves nothing to come has an empty mask.
    if (!filled && filled.error().code != Errc::unsatisfiable) return Unexpected(filled.error());
  }
  return reached;
}

bool Matcher::is_accepting() {
  return !finished_ && use([&] { return machine().is_accepting(points_.back().state); });
}

bool Matcher::is_complete() {
  return !finished_ && use([&] { return machine().is_complete(points_.back().state); });
}

std::string Matcher::forced_bytes(std::size_t max_bytes) {
  if (finished_ || !has_steps()) return {};
  return use([&] {
    StateId state = points_.back().state;
    return find_forced(max_bytes, state);
  });
}

// From `state` on, which becomes the state after the forced bytes. The text grows meanwhile, and is
// restored.
std::string Matcher::find_forced(std::size_t max_bytes, StateId& state) {
  Machine& in = machine();
  const std::size_t before = text_.size();
  // Where the text may end, an end token is a choice too; where a whole token may come, the byte is
  // not the only way.
  while (text_.size() - before < max_bytes && !in.is_accepting(state) &&
         !in.waits_for_token(state)) {
    const std::uint32_t only = in.only_byte(state);
    if (only == Machine::kAsksForByte) {
      if (!find_forced_by_asking(state)) break;
      continue;
    }
    if (only == Machine::kNoByte) break;
    text_ += static_cast<char>(only);
    state = in.step(state, static_cast<std::uint8_t>(only));
  }
  std::string forced = text_.substr(before);
  text_.resize(before);
  return forced;
}

// One byte of find_forced(), for a state that needs the text to decide. False: there is a choice.
bool Matcher::find_forced_by_asking(StateId& state) {
  Machine& in = machine();
  const regex::ByteSet readable = in.readable(state);
  StateId only = 0;
  char byte_of_only = 0;
  bool has_choice = false;
  text_ += '\0';
  for (unsigned byte = 0; byte < 256 && !has_choice; ++byte) {
    if (!readable.contains(static_cast<std::uint8_t>(byte))) continue;
    text_.back() = static_cast<char>(byte);
    StateId after = in.step(state, static_cast<std::uint8_t>(byte));
    if (in.has_questions(after)) after = in.answer(after, text_);
    if (after == 0) continue;
    has_choice = only != 0;
    only = after;
    byte_of_only = text_.back();
  }
  if (only == 0 || has_choice) {
    text_.pop_back();
    return false;
  }
  text_.back() = byte_of_only;
  state = only;
  return true;
}

// Whether some token is `bytes` followed by something that `state` can read.
bool Matcher::may_extend(std::string_view bytes, StateId state) {
  const TokenTrie& trie = grammar_->index_->vocab().trie();
  std::uint32_t node = 0;
  for (const char byte : bytes) {
    std::uint32_t child = node + 1;
    while (child < trie.end_of(node) && trie.symbol(child) != static_cast<std::uint8_t>(byte)) {
      child = trie.end_of(child);
    }
    if (child >= trie.end_of(node)) return false;
    node = child;
  }
  std::vector<StateId> path(trie.max_depth() + 1, 0);
  // Nodes are numbered in preorder: node + 1 is the first child, and end_of() the next sibling.
  path[trie.depth(node)] = state;
  for (std::uint32_t below = node + 1; below < trie.end_of(node);) {
    const std::uint16_t depth = trie.depth(below);
    // An answer would need text that does not exist yet; at worst a forced token is left out.
    path[depth] = machine().step(path[depth - 1U], trie.symbol(below));
    if (path[depth] == 0) {
      below = trie.end_of(below);
    } else if (!trie.tokens_at(below).empty() || machine().has_questions(path[depth])) {
      return true;
    } else {
      ++below;
    }
  }
  return false;
}

Expected<std::vector<TokenId>> Matcher::forced_tokens(const vocab::Tokenizer& tokenizer,
                                                      std::size_t max_bytes) {
  if (finished_ || !has_steps()) return std::vector<TokenId>{};
  std::string forced;
  std::size_t certain = 0;  // the bytes of it that no token can cross
  std::vector<TokenId> ids;
  const bool found = use([&] {
    StateId state = points_.back().state;
    ids.clear();
    if (const auto whole = machine().only_token(state)) ids.push_back(*whole);
    forced = find_forced(max_bytes, state);
    // No token is longer, so one that begins earlier cannot reach the end of the forced bytes. From
    // there on each place is tried: `{"name": "` may go on as `Bob`, and a token `"B` may exist.
    const std::size_t longest = grammar_->index_->vocab().trie().max_depth();
    certain = forced.size() > longest ? forced.size() - longest : 0;
    while (certain < forced.size() &&
           !may_extend(std::string_view(forced).substr(certain), state)) {
      ++certain;
    }
    return !forced.empty();
  });
  if (!found) return ids;
  // Tokenizers write a text otherwise behind a space, a digit or a letter, so the last tokens
  // before the forced bytes are encoded with them and cut off again.
  constexpr std::size_t kTokensBefore = 4;
  const std::size_t from = points_.size() > kTokensBefore
                               ? points_[points_.size() - 1 - kTokensBefore].text_size
                               : std::size_t{0};
  const std::string before = text_.substr(from);
  const auto encode = [&](const std::string& text) {
    ids.clear();
    return tokenizer.encode(text, vocab::Controls::off, /*at_start=*/false, ids);
  };
  if (Status encoded = encode(before + forced); !encoded) return Unexpected(encoded.error());
  std::size_t first = 0;
  std::size_t size = 0;
  for (; first < ids.size() && size < before.size(); ++first) {
    size += tokenizer.bytes(ids[first]).size();
  }
  // The tokenizer would have written one token across the place where the forced bytes begin. That
  // place is fixed, so they are encoded by themselves.
  if (size != before.size()) {
    if (Status encoded = encode(forced); !encoded) return Unexpected(encoded.error());
    first = 0;
  }
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first));
  std::size_t count = 0;
  size = 0;
  while (count < ids.size()) {
    const std::string_view bytes = tokenizer.bytes(ids[count]);
    // A tokenizer leaves out what its vocabulary does not have.
    if (std::string_view(forced).substr(size, bytes.size()) != bytes) break;
    size += bytes.size();
    // This token ends where a longer one may be written instead.
    if (size > certain) break;
    ++count;
  }
  ids.resize(count);
  return ids;
}

std::size_t Matcher::bytes_to_end() {
  if (finished_) return 0;
  return use([&]() -> std::size_t { return machine().left(points_.back().state); });
}

// False: no token is a prefix of the rest of `bytes`.
// Appends the tokens of `bytes`, each the longest prefix of what is left. No tokenizer is asked,
// since the grammar has only a vocabulary.
bool Matcher::spell(std::string_view bytes, std::vector<TokenId>& ids) const {
  const TokenTrie& trie = grammar_->index_->vocab().trie();
  while (!bytes.empty()) {
    std::optional<TokenId> longest;
    std::size_t size = 0;
    std::uint32_t node = trie.child_of_root(static_cast<std::uint8_t>(bytes[0]));
    for (std::size_t depth = 1; node != 0; ++depth) {
      if (!trie.tokens_at(node).empty()) {
        longest = trie.tokens_at(node).front();
        size = depth;
      }
      std::uint32_t child = depth < bytes.size() ? node + 1 : trie.end_of(node);
      while (child < trie.end_of(node) &&
             trie.symbol(child) != static_cast<std::uint8_t>(bytes[depth])) {
        child = trie.end_of(child);
      }
      node = child < trie.end_of(node) ? child : 0;
    }
    if (!longest) return false;
    ids.push_back(*longest);
    bytes.remove_prefix(size);
  }
  return true;
}

bool Matcher::spell(std::span<const EndPart> parts, std::vector<TokenId>& ids) const {
  return std::ranges::all_of(parts, [&](const EndPart& part) {
    if (part.token) ids.push_back(*part.token);
    return spell(part.bytes, ids);
  });
}

Error Matcher::no_end_in(std::size_t steps) const {
  return error_.value_or(Error{Errc::limit_exceeded, "grammar: no end of the text was found in " +
                                                         std::to_string(steps) + " steps"});
}

Expected<std::vector<TokenId>> Matcher::tokens_to_end(std::size_t most, std::size_t max_steps) {
  std::vector<TokenId> ids;
  if (finished_) return ids;
  const auto fits = [&](const EndParts& parts) {
    ids.clear();
    return spell(parts, ids) && ids.size() <= most;
  };
  const bool found = use([&] {
    return find_end(machine(), points_.back().state, text_, max_steps, fits).has_value();
  });
  if (found) return ids;
  return Unexpected(no_end_in(max_steps));
}

Expected<std::vector<TokenId>> Matcher::tokens_towards_end(std::size_t bytes,
                                                           std::size_t max_steps) {
  std::vector<TokenId> ids;
  if (finished_) return ids;
  const auto any = [](const EndParts&) { return true; };
  const bool found = use([&] {
    ids.clear();
    auto way = find_end(machine(), points_.back().state, text_, max_steps, any);
    if (way) cut_below(bytes, *way);
    return way && spell(*way, ids);
  });
  if (found) return ids;
  return Unexpected(no_end_in(max_steps));
}

// Cuts `way`, which leads on from the present state, behind the first byte or token from where the
// end is less than `bytes` away. The text grows meanwhile, and is restored.
void Matcher::cut_below(std::size_t bytes, std::vector<EndPart>& way) {
  Machine& in = machine();
  const std::size_t before = text_.size();
  StateId state = points_.back().state;
  std::size_t parts = 0;
  for (; parts < way.size() && in.left(state) >= bytes; ++parts) {
    EndPart& part = way[parts];
    if (part.token) state = in.answer(in.step_token(state, *part.token), text_);
    std::size_t read = 0;
    for (; read < part.bytes.size() && in.left(state) >= bytes; ++read) {
      text_ += part.bytes[read];
      state = in.step(state, static_cast<std::uint8_t>(part.bytes[read]));
      if (in.has_questions(state)) state = in.answer(state, text_);
    }
    part.bytes.resize(read);
  }
  way.resize(parts);
  text_.resize(before);
}

}  // namespace tenon::grammar
