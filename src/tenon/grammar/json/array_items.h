#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/grammar/json/json_context.h"
#include "tenon/grammar/json/shape.h"
#include "tenon/grammar/json/term.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// What the arrays of one shape remember of their items, and which items may come next.
class ArrayItems {
 public:
  /// What has been read, as a number; equal memories have equal numbers. 0: arrays without memory.
  using MemoryId = std::uint32_t;
  /// One kind of item that may come next.
  struct Choice {
    Term term;
    std::vector<std::uint64_t> fitting;    ///< Items that fit each of `contained`, with it.
    std::vector<const json::Value*> like;  ///< The excluded arrays that begin so.
    JsonContext::ObjectsId but = JsonContext::kNoObjects;  ///< And the item is not one of these.
  };

  ArrayItems(JsonContext& context, const ArrayShape& shape);

  /// Items must differ.
  [[nodiscard]] bool are_unique() const { return shape_.unique; }
  /// The same number for all counts that are equivalent.
  [[nodiscard]] std::uint64_t counted(std::uint64_t count) const {
    return std::min(count, last_count_);
  }
  [[nodiscard]] bool may_end(std::uint64_t count, MemoryId id) const {
    return may_end(count, memories_[id]);
  }
  [[nodiscard]] bool may_go_on(std::uint64_t count, MemoryId id) {
    return !choices(count, id).empty();
  }
  /// The choices for an item after `count` items.
  [[nodiscard]] std::vector<Choice> choices(std::uint64_t count, MemoryId id) {
    const Memory memory = memories_[id];  // a copy, because memories_ may grow
    return choices(count, memory);
  }

  /// If items must differ: the memory of an array whose first item begins at this byte of the text.
  [[nodiscard]] MemoryId beginning(std::size_t at);
  /// The memory while an item of the choice is read.
  [[nodiscard]] MemoryId with_choice(MemoryId id, const Choice& choice);
  /// The memory after the comma at the end of `text`; nothing if the item cannot be read back.
  [[nodiscard]] std::optional<MemoryId> with_item(MemoryId id, std::string_view text);
  /// The numbers that must not come again.
  [[nodiscard]] JsonContext::Numbers numbers(MemoryId id) const { return memories_[id].numbers; }
  /// No choice has a value, except numbers, that has come before.
  [[nodiscard]] bool knows_all(MemoryId id) const { return takes_ && memories_[id].all_taken; }
  /// Whether the item at the end of `text` differs from all others.
  [[nodiscard]] bool is_new(MemoryId id, std::string_view text) {
    return is_new(memories_[id], text);
  }

  /// The least bytes for items up to `to`, after `from` items, or more if the shape requires more.
  /// With commas and the closing bracket.
  [[nodiscard]] std::uint32_t least_from(Machine& machine, std::uint64_t from,
                                         std::uint64_t to = 0) const;
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  struct Memory {
    // If items must differ: where the next item begins and where the one before it began, the
    // earlier ones, and the values that are taken: numbers, and others of a finite set. The last
    // item is kept only in the text, because a mask tries many items that never come.
    std::size_t before = 0;
    std::size_t begin = 0;
    std::uint32_t seen = 0;
    bool all_taken = true;  // all values except numbers are in `taken`
    JsonContext::Numbers numbers = JsonContext::kNoNumbers;
    const std::vector<Term>* taken = nullptr;  // in taken_
    std::vector<std::uint64_t> fitting;        // how many items fit each of shape_.contained
    // The arrays of shape_.excluded that begin with the items so far.
    std::vector<const json::Value*> like;
    auto operator<=>(const Memory&) const = default;
  };
  // A list of items, each of which refers to the one before it. `jump` refers to an earlier one, so
  // that any item is reached in a logarithmic number of steps (Myers, An applicative random-access
  // stack, 1983).
  struct Seen {
    std::uint32_t before = 0;
    std::uint32_t jump = 0;
    std::uint32_t depth = 0;
    json::Value value;
  };
  // A term, and objects of it that are left out.
  struct Rest {
    Term term;
    JsonContext::ObjectsId but = JsonContext::kNoObjects;
  };
  // The result of next_rest().
  struct Next {
    std::uint64_t count;
    JsonContext::Numbers numbers;
    const std::vector<Term>* taken;
    Rest rest;
  };

  MemoryId intern(const Memory& memory);
  [[nodiscard]] std::optional<json::Value> last_item(const Memory& memory, std::string_view text);
  [[nodiscard]] bool is_new(const Memory& memory, std::string_view text);
  void take(Memory& memory, const json::Value& value);
  [[nodiscard]] bool is_spare(const std::string& text);
  const std::vector<Term>* with_taken(std::vector<Term> taken, Term term);
  std::uint32_t with(std::uint32_t seen, const json::Value& value);
  [[nodiscard]] Term item_term(std::uint64_t index) const;
  [[nodiscard]] std::optional<Rest> next_rest(std::uint64_t count, const Memory& memory);
  [[nodiscard]] bool has_some(const Choice& choice, const Memory& memory);
  [[nodiscard]] std::vector<Choice> choices(std::uint64_t count, const Memory& memory,
                                            bool is_one_enough = false);
  [[nodiscard]] std::vector<Choice> by_excluded(const std::vector<Choice>& choices,
                                                std::uint64_t count, const Memory& memory);
  [[nodiscard]] bool can_differ(std::uint64_t count, const Memory& before, const Choice& choice);
  [[nodiscard]] bool may_end(std::uint64_t count, const Memory& memory) const;

  JsonContext& context_;
  ArrayShape shape_;
  std::uint64_t most_;
  // Items must differ, and a value in progress that is not a number could be left with nothing to
  // continue with. So taken values are removed from the next item's term, up to a limit. Taken
  // numbers are handled by the number scanner.
  bool takes_ = false;
  static constexpr std::size_t kMostTaken = 256;
  std::optional<Next> last_next_;  // once many are taken, the same next one is asked for repeatedly
  std::uint64_t last_count_ = 0xFFFFFFFFF;  // from here on all counts are equivalent
  std::vector<Memory> memories_;            // the first is that of arrays without memory
  std::map<Memory, std::uint32_t> memory_ids_;
  std::size_t bytes_of_memories_ = 0;
  std::size_t decisions_ = 0;          // of can_differ() under way
  std::set<std::vector<Term>> taken_;  // sorted; many memories share one
  std::vector<Seen> seen_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> seen_by_hash_;
};

}  // namespace tenon::grammar
