#include "tenon/grammar/machine/end_search.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "tenon/grammar/machine/scanner.h"
#include "tenon/grammar/machine/token_set.h"

namespace tenon::grammar {
namespace {

// Closing bytes come first, then filling ones: of several equally short ways the first is taken.
std::array<std::uint8_t, 256> order_of_bytes() {
  std::array<std::uint8_t, 256> order{};
  std::size_t count = 0;
  std::array<bool, 256> is_there{};
  const auto add = [&](unsigned byte) {
    if (std::exchange(is_there[byte], true)) return;
    order[count++] = static_cast<std::uint8_t>(byte);
  };
  for (const char closer : std::string_view("\"}])'>")) add(static_cast<std::uint8_t>(closer));
  for (unsigned byte = 'a'; byte <= 'z'; ++byte) add(byte);
  for (unsigned byte = '0'; byte <= '9'; ++byte) add(byte);
  for (unsigned byte = ' '; byte < 0x7F; ++byte) add(byte);
  for (unsigned byte = 0; byte < 256; ++byte) add(byte);
  return order;
}

// Bytes as their values, and tokens as numbers from kFirstToken on.
using Symbols = std::vector<std::int32_t>;
constexpr std::int32_t kFirstToken = 256;

EndParts parts_of(const Symbols& symbols) {
  EndParts parts;
  for (const std::int32_t symbol : symbols) {
    if (symbol >= kFirstToken) {
      parts.push_back({.token = symbol - kFirstToken});
      continue;
    }
    if (parts.empty() || parts.back().token) parts.emplace_back();
    parts.back().bytes += static_cast<char>(symbol);
  }
  return parts;
}

class Search {
 public:
  // Takes its steps from `steps_left`, which other searches share.
  Search(Machine& machine, std::string_view text, std::size_t& steps_left)
      : machine_(machine), text_(text), text_size_(text.size()), steps_left_(steps_left) {}

  // The symbols of the way from `state` to an end.
  std::optional<Symbols> run(StateId state) {
    if (machine_.is_accepting(state)) return Symbols{};
    add(state, kNone, 0);
    while (!open_.empty() && !end_) {
      const auto index = std::get<2>(open_.top());
      open_.pop();
      expand(index);
      if (machine_.error() || steps_left_ == 0) return std::nullopt;
    }
    if (!end_) return std::nullopt;
    Symbols symbols;
    for (std::uint32_t index = *end_; nodes_[index].before != kNone; index = nodes_[index].before) {
      symbols.push_back(nodes_[index].symbol);
    }
    std::ranges::reverse(symbols);
    return symbols;
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;

  // A state that the search has met, with the way that led to it.
  struct Node {
    StateId state = 0;
    std::uint32_t before = kNone;
    std::int32_t symbol = 0;
    std::uint32_t length = 0;
    std::uint32_t left = 0;
    std::uint32_t next_byte = 0;  // in the order; earlier ones have been tried
  };

  // False: the state has been met before, or it is the end.
  bool add(StateId state, std::uint32_t before, std::int32_t symbol) {
    // Another way to a known state is left out, so the result is short, but not always the
    // shortest.
    if (state == 0 || !met_.insert(state).second) return false;
    const std::uint32_t length = before == kNone ? 0 : nodes_[before].length + 1;
    // Four hexadecimal digits lead to 65,536 states, usually where a character by itself leads too.
    constexpr std::uint32_t kDigits = 1000;
    const bool begins_digits = before != kNone && symbol == 'u' && nodes_[before].symbol == '\\';
    nodes_.push_back({.state = state,
                      .before = before,
                      .symbol = symbol,
                      .length = length,
                      .left = machine_.left(state) + (begins_digits ? kDigits : 0)});
    const auto index = static_cast<std::uint32_t>(nodes_.size() - 1);
    if (machine_.is_accepting(state)) {
      end_ = index;
      return false;
    }
    push(index);
    return true;
  }
  void push(std::uint32_t index) { open_.emplace(nodes_[index].left, nodes_[index].length, index); }

  // Tries the bytes of a node until one leads nearer to the end. Then the node is left, and comes
  // back later for the bytes that have not been tried.
  void expand(std::uint32_t index) {
    if (nodes_[index].next_byte == 0) add_tokens(index);
    static const std::array<std::uint8_t, 256> kOrder = order_of_bytes();
    const regex::ByteSet readable = machine_.readable(nodes_[index].state);
    const std::optional<Frame::Lexeme> lexeme = only_lexeme(nodes_[index].state);
    std::bitset<Scanner::kMostKinds> tried;
    // Inside a lexeme from the first byte again: the kinds of the bytes that were tried before are
    // skipped too.
    for (std::uint32_t i = lexeme ? 0 : nodes_[index].next_byte; i < 256 && !end_; ++i) {
      const std::uint8_t byte = kOrder[i];
      if (!readable.contains(byte)) continue;
      if (lexeme) {
        const std::uint16_t kind = lexeme->scanner->kind(lexeme->state, byte);
        if (tried[kind]) continue;
        tried.set(kind);
        if (i < nodes_[index].next_byte) continue;
      }
      if (steps_left_ == 0) return;
      --steps_left_;
      const StateId after = machine_.step(nodes_[index].state, byte);
      if (!add(answered(after, index, byte), index, byte)) continue;
      if (nodes_.back().left >= nodes_[index].left) continue;
      nodes_[index].next_byte = i + 1;
      return push(index);
    }
  }

  // If there is only one way of reading and it is inside a lexeme, bytes of one class are
  // equivalent.
  [[nodiscard]] std::optional<Frame::Lexeme> only_lexeme(StateId state) const {
    const std::span<const CellId> cells = machine_.cells_of(state);
    return cells.size() == 1 && cells[0] != 0 ? machine_.lexeme(cells[0]) : std::nullopt;
  }

  // All tokens of one set lead to the same state, so one of each set is enough.
  void add_tokens(std::uint32_t index) {
    const auto span = machine_.cells_of(nodes_[index].state);
    const std::vector<CellId> cells(span.begin(), span.end());
    for (const CellId cell : cells) {
      const TokenSet* const set = machine_.tokens(cell);
      const auto token = set == nullptr ? std::nullopt : set->first();
      if (!token || end_) continue;
      const std::int32_t symbol = kFirstToken + *token;
      const StateId after = machine_.step_token(nodes_[index].state, *token);
      add(answered(after, index, symbol), index, symbol);
    }
  }

  // The state after its questions are answered. Only then is the text needed, so it is put together
  // from the nodes here, backwards, and not kept for each node. Tokens read as wholes have no text.
  StateId answered(StateId state, std::uint32_t before, std::int32_t symbol) {
    if (state == 0 || !machine_.has_questions(state)) return state;
    text_.resize(text_size_);  // removes what the last node had read, keeps the answer so far
    if (symbol < kFirstToken) text_ += static_cast<char>(symbol);
    for (std::uint32_t at = before; at != kNone; at = nodes_[at].before) {
      const bool is_byte = nodes_[at].before != kNone && nodes_[at].symbol < kFirstToken;
      if (is_byte) text_ += static_cast<char>(nodes_[at].symbol);
    }
    std::reverse(text_.begin() + static_cast<std::ptrdiff_t>(text_size_), text_.end());
    return machine_.answer(state, text_);
  }

  using Entry = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // left, length, node

  Machine& machine_;
  std::string text_;  // the text that led to the first state, and the text read from there
  const std::size_t text_size_;
  std::size_t& steps_left_;
  std::vector<Node> nodes_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::unordered_set<StateId> met_;
  std::optional<std::uint32_t> end_;
};

// Other ways are searched only where at most so many bytes may come: at names, not inside strings.
constexpr std::size_t kMaxChoices = 64;
constexpr std::size_t kMaxWays = 64;

// A way that was found, from which others branch off behind its chosen part.
struct Way {
  Symbols symbols;
  std::size_t chosen = 0;  // the first so many symbols are fixed
};

StateId answer(Machine& machine, StateId state, std::string_view read) {
  return state != 0 && machine.has_questions(state) ? machine.answer(state, read) : state;
}

struct Choice {
  std::uint8_t byte = 0;
  StateId state = 0;
};

// The choices at `state`, to which `read` led; nothing if there are too many to try, or if there
// are no steps left.
std::vector<Choice> choices_at(Machine& machine, StateId state, const std::string& read,
                               std::size_t& steps_left) {
  std::vector<Choice> choices;
  const regex::ByteSet readable = machine.readable(state);
  for (unsigned i = 0; i < 256; ++i) {
    const auto byte = static_cast<std::uint8_t>(i);
    if (!readable.contains(byte)) continue;
    if (steps_left == 0) return {};
    --steps_left;
    const StateId after =
        answer(machine, machine.step(state, byte), read + static_cast<char>(byte));
    if (after == 0) continue;
    if (choices.size() == kMaxChoices) return {};
    choices.push_back({byte, after});
  }
  return choices;
}

}  // namespace

std::optional<EndParts> find_end(Machine& machine, StateId state, std::string_view text,
                                 std::size_t max_steps,
                                 const std::function<bool(const EndParts&)>& fits) {
  std::size_t steps_left = max_steps;
  auto first = Search(machine, text, steps_left).run(state);
  if (!first) return std::nullopt;
  // What follows the first way is for ends that are few bytes and many tokens, such as a tool's
  // name.
  EndParts parts = parts_of(*first);
  if (fits(parts)) return parts;
  const std::string begun(text);
  // Tries one choice after the other, those of the first way first. The part that a new way shares
  // with the first way is not searched again.
  std::vector<Way> ways;
  ways.push_back({.symbols = *std::move(first), .chosen = 0});
  for (std::size_t next = 0; next < ways.size() && ways.size() < kMaxWays; ++next) {
    // A copy: ways grows below.
    const Way way = ways[next];
    StateId at = state;
    std::string read = begun;
    for (std::size_t i = 0; i < way.symbols.size() && at != 0; ++i) {
      const std::int32_t symbol = way.symbols[i];
      const auto choices =
          i < way.chosen ? std::vector<Choice>{} : choices_at(machine, at, read, steps_left);
      for (const Choice& choice : choices) {
        if (choice.byte == symbol) continue;
        if (ways.size() == kMaxWays) return std::nullopt;
        const auto rest =
            Search(machine, read + static_cast<char>(choice.byte), steps_left).run(choice.state);
        if (machine.error() || steps_left == 0) return std::nullopt;
        Symbols symbols(way.symbols.begin(), way.symbols.begin() + static_cast<std::ptrdiff_t>(i));
        symbols.push_back(choice.byte);
        if (rest) symbols.insert(symbols.end(), rest->begin(), rest->end());
        ways.push_back({.symbols = std::move(symbols), .chosen = i + 1});
        parts = parts_of(ways.back().symbols);
        if (rest && fits(parts)) return parts;
      }
      if (symbol < kFirstToken) read += static_cast<char>(symbol);
      at = symbol < kFirstToken ? machine.step(at, static_cast<std::uint8_t>(symbol))
                                : machine.step_token(at, symbol - kFirstToken);
      at = answer(machine, at, read);
    }
  }
  return std::nullopt;
}

}  // namespace tenon::grammar
