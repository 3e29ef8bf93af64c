#include "tenon/grammar/end_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "tenon/grammar/token_set.h"

namespace tenon::grammar {
namespace {

// What closes first, then what fills: of several ways that are equally short the first is taken.
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

class Search {
 public:
  Search(Machine& machine, std::string_view text, std::size_t max_steps)
      : machine_(machine), text_(text), text_size_(text.size()), steps_left_(max_steps) {}

  std::optional<std::vector<EndPart>> run(StateId state) {
    if (machine_.is_accepting(state)) return std::vector<EndPart>{};
    add(state, kNone, 0);
    while (!open_.empty() && !end_) {
      const auto index = std::get<2>(open_.top());
      open_.pop();
      expand(index);
      if (machine_.error() || steps_left_ == 0) return std::nullopt;
    }
    if (!end_) return std::nullopt;
    return way_to(*end_);
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  static constexpr std::int32_t kFirstToken = 256;  // symbols: bytes, and tokens from here on

  struct Node {
    StateId state = 0;
    std::uint32_t before = kNone;
    std::int32_t symbol = 0;
    std::uint32_t length = 0;
    std::uint32_t left = 0;
    std::uint32_t next_byte = 0;  // in the order: those before have been tried
  };

  // False: it has been met before, or it is the end.
  bool add(StateId state, std::uint32_t before, std::int32_t symbol) {
    if (state == 0 || !met_.insert(state).second) return false;
    const std::uint32_t length = before == kNone ? 0 : nodes_[before].length + 1;
    nodes_.push_back({.state = state,
                      .before = before,
                      .symbol = symbol,
                      .length = length,
                      .left = machine_.left(state)});
    const auto index = static_cast<std::uint32_t>(nodes_.size() - 1);
    if (machine_.is_accepting(state)) {
      end_ = index;
      return false;
    }
    push(index);
    return true;
  }
  void push(std::uint32_t index) { open_.emplace(nodes_[index].left, nodes_[index].length, index); }

  // A node whose way gets shorter is left for that way, and comes back with the bytes that have not
  // been tried.
  void expand(std::uint32_t index) {
    if (nodes_[index].next_byte == 0) add_tokens(index);
    static const std::array<std::uint8_t, 256> kOrder = order_of_bytes();
    const regex::ByteSet readable = machine_.readable(nodes_[index].state);
    for (std::uint32_t i = nodes_[index].next_byte; i < 256 && !end_; ++i) {
      const std::uint8_t byte = kOrder[i];
      if (!readable.contains(byte)) continue;
      if (steps_left_ == 0) return;
      --steps_left_;
      const StateId after = machine_.step(nodes_[index].state, byte);
      if (!add(answered(after, index, byte), index, byte)) continue;
      if (nodes_.back().left >= nodes_[index].left) continue;
      nodes_[index].next_byte = i + 1;
      return push(index);
    }
  }

  // The tokens of one set lead to the same state: one of each is enough.
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

  StateId answered(StateId state, std::uint32_t before, std::int32_t symbol) {
    if (state == 0 || !machine_.has_questions(state)) return state;
    text_.resize(text_size_);  // what the last one had read goes, the answer so far stays
    if (symbol < kFirstToken) text_ += static_cast<char>(symbol);
    for (std::uint32_t at = before; at != kNone; at = nodes_[at].before) {
      const bool is_byte = nodes_[at].before != kNone && nodes_[at].symbol < kFirstToken;
      if (is_byte) text_ += static_cast<char>(nodes_[at].symbol);
    }
    std::reverse(text_.begin() + static_cast<std::ptrdiff_t>(text_size_), text_.end());
    return machine_.answer(state, text_);
  }

  [[nodiscard]] std::vector<EndPart> way_to(std::uint32_t index) const {
    std::vector<std::int32_t> symbols;
    for (; nodes_[index].before != kNone; index = nodes_[index].before) {
      symbols.push_back(nodes_[index].symbol);
    }
    std::ranges::reverse(symbols);
    std::vector<EndPart> parts;
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

  using Entry = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // left, length, node

  Machine& machine_;
  std::string text_;  // that led to the first state, and what was read from there
  const std::size_t text_size_;
  std::size_t steps_left_;
  std::vector<Node> nodes_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
  std::unordered_set<StateId> met_;
  std::optional<std::uint32_t> end_;
};

}  // namespace

std::optional<std::vector<EndPart>> find_end(Machine& machine, StateId state, std::string_view text,
                                             std::size_t max_steps) {
  return Search(machine, text, max_steps).run(state);
}

}  // namespace tenon::grammar
