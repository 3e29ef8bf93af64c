#include "tenon/grammar/machine/frames.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/vocab/token_trie.h"

namespace tenon::grammar {

namespace {

// A frame keeps nothing of a text in itself: all that it must remember is in the `local` of its
// cells. The machine asks readable() before it calls read(), so read() need not look at the byte.
class ByteFrame final : public Frame {
 public:
  explicit ByteFrame(const regex::ByteSet& bytes) : bytes_(bytes) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, 0, parent);
  }
  [[nodiscard]] regex::ByteSet readable(const Cell&) const override { return bytes_; }
  void read(Machine& machine, const Cell& cell, std::uint8_t) override {
    machine.resume(cell.parent);
  }

 private:
  regex::ByteSet bytes_;
};

// Local: how many bytes have been read.
class LiteralFrame final : public Frame {
 public:
  explicit LiteralFrame(std::string bytes) : bytes_(std::move(bytes)) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    if (bytes_.empty()) {
      machine.resume(parent);
    } else {
      machine.wait(self, 0, parent);
    }
  }
  // An empty literal has no cells, so there is a byte at `local`.
  [[nodiscard]] regex::ByteSet readable(const Cell& cell) const override {
    return regex::ByteSet::of(static_cast<std::uint8_t>(bytes_[cell.local]));
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t) override {
    if (cell.local + 1 == bytes_.size()) {
      machine.resume(cell.parent);
    } else {
      machine.wait(cell.frame, cell.local + 1, cell.parent);
    }
  }
  [[nodiscard]] std::uint32_t least(Machine&) override {
    return static_cast<std::uint32_t>(bytes_.size());
  }
  [[nodiscard]] std::uint32_t left(Machine&, const Cell& cell) override {
    return static_cast<std::uint32_t>(bytes_.size() - cell.local);
  }

 private:
  std::string bytes_;
};

// A frame that reads items one after the other. Local: how many have been read, as far as it
// matters. `Items` says what comes after so many (enter_item), and how few bytes are then needed
// (least_from).
template <class Items>
class ItemsFrame : public Frame {
 public:
  void enter(Machine& machine, FrameId self, CellId parent) override {
    items().enter_item(machine, self, 0, parent);
  }
  void resume(Machine& machine, const Cell& cell) override {
    items().enter_item(machine, cell.frame, cell.local, cell.parent);
  }
  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    return items().least_from(machine, 0);
  }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    return items().least_from(machine, cell.local);
  }

 private:
  Items& items() { return static_cast<Items&>(*this); }
};

// The last item is entered in place of the sequence itself, so that a list written as `item rest`
// needs no stack.
class SequenceFrame final : public ItemsFrame<SequenceFrame> {
 public:
  explicit SequenceFrame(std::vector<FrameId> items) : items_(std::move(items)) {}

 private:
  friend ItemsFrame;

  [[nodiscard]] std::uint32_t least_from(Machine& machine, std::uint64_t index) const {
    std::uint32_t sum = 0;
    for (; index < items_.size() && sum < Machine::kFar; ++index) {
      sum += machine.least(items_[index]);
    }
    return sum;
  }
  void enter_item(Machine& machine, FrameId self, std::uint64_t index, CellId parent) {
    if (index == items_.size()) {
      machine.resume(parent);
    } else if (index + 1 == items_.size()) {
      machine.enter(items_[index], parent);
    } else {
      machine.enter(items_[index], machine.push(self, index + 1, parent));
    }
  }

  std::vector<FrameId> items_;
};

// It has no cells of its own: each item is entered on the parent of the choice, so resume() and
// left() are never called.
class ChoiceFrame final : public Frame {
 public:
  explicit ChoiceFrame(std::vector<FrameId> items) : items_(std::move(items)) {}

  void enter(Machine& machine, FrameId, CellId parent) override {
    for (const FrameId item : items_) machine.enter(item, parent);
  }
  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    std::uint32_t fewest = Machine::kFar;
    for (const FrameId item : items_) fewest = std::min(fewest, machine.least(item));
    return fewest;
  }

 private:
  std::vector<FrameId> items_;
};

// Local: how many items have been begun. Without a maximum the count stops at `min`, so a list of
// any length has one cell and not one for each item.
class RepeatFrame final : public ItemsFrame<RepeatFrame> {
 public:
  RepeatFrame(FrameId item, std::uint64_t min, std::uint64_t max)
      : item_(item), min_(min), max_(max) {}

 private:
  friend ItemsFrame;

  [[nodiscard]] std::uint32_t least_from(Machine& machine, std::uint64_t count) const {
    if (count >= min_) return 0;
    const std::uint64_t items = std::min<std::uint64_t>(min_ - count, Machine::kFar);
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(items * machine.least(item_), Machine::kFar));
  }
  void enter_item(Machine& machine, FrameId self, std::uint64_t count, CellId parent) {
    // An item that can be empty comes back here with the same count; Machine::is_first() ends that.
    if (count >= min_) machine.resume(parent);
    if (count == max_) return;
    const std::uint64_t next = max_ == kNoMaximum ? std::min(count + 1, min_) : count + 1;
    machine.enter(item_, machine.push(self, next, parent));
  }

  FrameId item_;
  std::uint64_t min_;
  std::uint64_t max_;
};

// It reads no byte at all: a control token has no text, and a text token is taken as a whole.
class TokenFrame final : public Frame {
 public:
  explicit TokenFrame(TokenSet tokens) : tokens_(std::move(tokens)) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.wait(self, 0, parent);
  }
  [[nodiscard]] regex::ByteSet readable(const Cell&) const override { return {}; }
  [[nodiscard]] const TokenSet* tokens(const Cell&) const override { return &tokens_; }
  void read_token(Machine& machine, const Cell& cell, vocab::TokenId) override {
    machine.resume(cell.parent);
  }

 private:
  TokenSet tokens_;
};

// Local: the scanner's state, and how many tokens are left in the upper half.
class TokensFrame final : public Frame {
 public:
  TokensFrame(std::shared_ptr<Scanner> scanner, const vocab::Vocab& vocab, std::uint32_t max)
      : scanner_(std::move(scanner)), vocab_(vocab), max_(max) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    const Scanner::State state = scanner_->start();
    if (state != Scanner::kDead && max_ > 0) machine.wait(self, local(state, max_), parent);
  }
  [[nodiscard]] regex::ByteSet readable(const Cell&) const override { return {}; }
  [[nodiscard]] const TokenSet* tokens(const Cell& cell) const override {
    const Scanner::State state = state_of(cell);
    const auto known = tokens_.find(state);
    return known != tokens_.end() ? &known->second
                                  : &tokens_.emplace(state, tokens_from(state)).first->second;
  }
  void read_token(Machine& machine, const Cell& cell, vocab::TokenId token) override {
    Scanner::State state = state_of(cell);
    for (const char byte : vocab_.bytes(token)) {
      if (state != Scanner::kDead) state = scanner_->step(state, static_cast<std::uint8_t>(byte));
    }
    if (state == Scanner::kDead) return;
    // A text that cannot end yet goes on with 0 tokens left, until it can; it would be a dead end
    // otherwise. Without a maximum nothing is counted, so that states stay few.
    const std::uint64_t before = cell.local >> 32U;
    const bool is_counted = max_ != kAnyTokens;
    const std::uint64_t left = is_counted && before > 0 ? before - 1 : before;
    const bool may_end = scanner_->is_accepting(state);
    if (may_end) machine.resume(cell.parent);
    if (scanner_->is_final(state) || (may_end && left == 0)) return;
    machine.wait(cell.frame, local(state, left), cell.parent);
  }
  [[nodiscard]] std::size_t memory_bytes() const override {
    std::size_t bytes = scanner_->memory_bytes();
    for (const auto& [state, set] : tokens_) bytes += sizeof(set) + set.memory_bytes();
    return bytes;
  }

 private:
  static std::uint64_t local(Scanner::State state, std::uint64_t left) {
    return left << 32U | state;
  }
  static Scanner::State state_of(const Cell& cell) {
    return static_cast<Scanner::State>(cell.local & 0xFFFFFFFFU);
  }
  // The tokens that the scanner reads completely.
  [[nodiscard]] TokenSet tokens_from(Scanner::State start) const {
    const vocab::TokenTrie& trie = vocab_.trie();
    // By depth, as nodes are in preorder. After a final state no byte may follow: a token that goes
    // on behind it is not read completely.
    std::vector<Scanner::State> path(trie.max_depth() + 1U, Scanner::kDead);
    path[0] = start;
    std::vector<vocab::TokenId> found;
    for (std::uint32_t node = 1; node < trie.node_count();) {
      const std::uint16_t depth = trie.depth(node);
      const Scanner::State from = path[depth - 1U];
      path[depth] =
          scanner_->is_final(from) ? Scanner::kDead : scanner_->step(from, trie.symbol(node));
      if (path[depth] == Scanner::kDead) {
        node = trie.end_of(node);
        continue;
      }
      const auto here = trie.tokens_at(node);
      found.insert(found.end(), here.begin(), here.end());
      ++node;
    }
    return {found, mask_words(vocab_.size())};
  }

  std::shared_ptr<Scanner> scanner_;
  const vocab::Vocab& vocab_;
  std::uint32_t max_;
  // By state. Used while masks are made, under the lock of their owner. tokens() returns addresses
  // of its sets, which an unordered_map does not move when it grows.
  mutable std::unordered_map<Scanner::State, TokenSet> tokens_;
};

// Local: the scanner's state.
class LexemeFrame final : public Frame {
 public:
  explicit LexemeFrame(std::shared_ptr<Scanner> scanner,
                       std::optional<Scanner::State> start = std::nullopt)
      : scanner_(std::move(scanner)), start_(start) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    go_on(machine, self, start(), parent);
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t byte) override {
    go_on(machine, cell.frame, scanner_->step(static_cast<Scanner::State>(cell.local), byte),
          cell.parent);
  }
  [[nodiscard]] std::optional<Lexeme> lexeme(const Cell& cell) const override {
    return Lexeme{scanner_.get(), static_cast<Scanner::State>(cell.local)};
  }
  [[nodiscard]] std::uint32_t least(Machine&) override { return least_from(start()); }
  [[nodiscard]] std::uint32_t left(Machine&, const Cell& cell) override {
    return least_from(static_cast<Scanner::State>(cell.local));
  }
  [[nodiscard]] std::size_t memory_bytes() const override {
    return start_ ? 0 : scanner_->memory_bytes();
  }

 private:
  [[nodiscard]] Scanner::State start() { return start_ ? *start_ : scanner_->start(); }
  [[nodiscard]] std::uint32_t least_from(Scanner::State state) const {
    return state == Scanner::kDead ? Machine::kFar
                                   : std::min(scanner_->least(state), Machine::kFar);
  }
  void go_on(Machine& machine, FrameId self, Scanner::State state, CellId parent) {
    if (state == Scanner::kDead) return;
    if (scanner_->is_accepting(state)) machine.resume(parent);
    if (!scanner_->is_final(state)) machine.wait(self, state, parent);
  }

  std::shared_ptr<Scanner> scanner_;
  std::optional<Scanner::State> start_;  // nothing: the start of the scanner
};

}  // namespace

std::unique_ptr<Frame> make_byte(const regex::ByteSet& bytes) {
  return std::make_unique<ByteFrame>(bytes);
}
std::unique_ptr<Frame> make_literal(std::string bytes) {
  return std::make_unique<LiteralFrame>(std::move(bytes));
}
std::unique_ptr<Frame> make_sequence(std::vector<FrameId> items) {
  return std::make_unique<SequenceFrame>(std::move(items));
}
std::unique_ptr<Frame> make_choice(std::vector<FrameId> items) {
  return std::make_unique<ChoiceFrame>(std::move(items));
}
std::unique_ptr<Frame> make_repeat(FrameId item, std::uint64_t min, std::uint64_t max) {
  return std::make_unique<RepeatFrame>(item, min, max);
}
std::unique_ptr<Frame> make_token(TokenSet tokens) {
  return std::make_unique<TokenFrame>(std::move(tokens));
}
std::unique_ptr<Frame> make_tokens(std::shared_ptr<Scanner> scanner, const vocab::Vocab& vocab,
                                   std::uint32_t max) {
  return std::make_unique<TokensFrame>(std::move(scanner), vocab, max);
}
std::unique_ptr<Frame> make_lexeme(std::shared_ptr<Scanner> scanner) {
  return std::make_unique<LexemeFrame>(std::move(scanner));
}
std::unique_ptr<Frame> make_lexeme(std::shared_ptr<Scanner> scanner, Scanner::State start) {
  return std::make_unique<LexemeFrame>(std::move(scanner), start);
}

}  // namespace tenon::grammar
