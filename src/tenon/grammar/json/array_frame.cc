#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tenon/grammar/json/array_items.h"
#include "tenon/grammar/json/json_context.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/regex/byte_set.h"

// Reads the arrays of a shape: brackets, commas and white space. Which items may come, and what has
// to be remembered of them, is the work of ArrayItems.

namespace tenon::grammar {
namespace {

using regex::ByteSet;

class ArrayFrame final : public Frame {
 public:
  ArrayFrame(JsonContext& context, const ArrayShape& shape)
      : context_(context), items_(context, shape) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    if (items_.are_unique()) {
      machine.ask(self, pack({Phase::begin, 0, 0}), parent);
    } else {
      machine.wait(self, pack({Phase::open, 0, 0}), parent);
    }
  }

  void resume(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::first:
        if (may_end(at)) machine.wait(cell.frame, pack({Phase::close, 0, at.memory}), cell.parent);
        if (may_go_on(at)) item(machine, cell, at);
        break;
      case Phase::after:
        gap(machine, cell, context_.gap, {Phase::next, at.count, at.memory});
        break;
      case Phase::after_to_check:
        machine.ask(cell.frame, pack({Phase::check, at.count, at.memory}), cell.parent);
        break;
      case Phase::next:
        if (context_.line_of_item) {
          if (may_go_on(at)) machine.wait(cell.frame, cell.local, cell.parent);
          if (may_end(at)) gap(machine, cell, context_.line_of_end, {Phase::close, 0, at.memory});
        } else if (may_end(at) || may_go_on(at)) {
          machine.wait(cell.frame, cell.local, cell.parent);
        }
        break;
      case Phase::close:
        machine.wait(cell.frame, cell.local, cell.parent);
        break;
      case Phase::item:
        item(machine, cell, at);
        break;
      default:
        break;
    }
  }

  [[nodiscard]] ByteSet readable(const Cell& cell) const override {
    return unpack(cell.local).phase == Phase::open ? set_of("[") : set_of("],");
  }
  void read(Machine& machine, const Cell& cell, std::uint8_t byte) override {
    const Local at = unpack(cell.local);
    if (at.phase == Phase::open) {
      if (!context_.line_of_item) {
        return gap(machine, cell, context_.gap, {Phase::first, 0, at.memory});
      }
      if (may_end(at)) machine.wait(cell.frame, pack({Phase::close, 0, at.memory}), cell.parent);
      if (may_go_on(at)) gap(machine, cell, *context_.line_of_item, {Phase::item, 0, at.memory});
    } else if (byte == ']') {
      if (at.phase == Phase::close) return machine.resume(cell.parent);
      if (may_end(at) && !context_.line_of_item) machine.resume(cell.parent);
    } else if (at.phase != Phase::close && may_go_on(at)) {
      if (items_.are_unique()) {
        machine.ask(cell.frame, pack({Phase::comma, at.count, at.memory}), cell.parent);
      } else {
        gap(machine, cell, context_.after_comma, {Phase::item, at.count, at.memory});
      }
    }
  }

  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    const Local at = unpack(cell.local);
    if (at.phase == Phase::begin) {
      const ArrayItems::MemoryId memory = items_.beginning(text.size() + 1);
      machine.wait(cell.frame, pack({Phase::open, 0, memory}), cell.parent);
      return;
    }
    if (at.phase == Phase::check) {
      if (!items_.is_new(at.memory, text)) return;
      gap(machine, cell, context_.gap, {Phase::next, at.count, at.memory});
    } else if (const auto memory = items_.with_item(at.memory, text)) {
      const Local next{Phase::item, at.count, *memory};
      if (may_go_on(next)) gap(machine, cell, context_.after_comma, next);
    }
  }

  [[nodiscard]] std::uint32_t least(Machine& machine) override {
    return 1 + items_.least_from(machine, 0);
  }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    const Local at = unpack(cell.local);
    switch (at.phase) {
      case Phase::begin:
      case Phase::open:
        return 1 + items_.least_from(machine, 0);
      case Phase::item:
        return items_.least_from(machine, at.count, at.count + 1);
      case Phase::close:
        return 1;
      default:
        return items_.least_from(machine, at.count);
    }
  }

  [[nodiscard]] std::size_t memory_bytes() const override { return items_.memory_bytes(); }

 private:
  enum class Phase : std::uint8_t {
    begin,  // asks where it is
    open,   // waits for '['
    first,  // an item or the end
    close,  // waits for ']'
    item,   // an item
    after,  // an item has been read
    next,   // waits for ',' or ']'
    // If items must differ, and the item just read is not known to:
    after_to_check,
    check,  // asks whether the item differs
    comma,  // asks where the next item begins
  };
  struct Local {
    Phase phase = Phase::begin;
    std::uint64_t count = 0;  // of items, as far as it matters
    std::uint32_t memory = 0;
  };
  [[nodiscard]] std::uint64_t pack(const Local& at) const {
    return std::uint64_t{at.memory} << 40U | items_.counted(at.count) << 4U |
           static_cast<std::uint64_t>(at.phase);
  }
  static Local unpack(std::uint64_t local) {
    return {static_cast<Phase>(local & 15U), local >> 4U & 0xFFFFFFFFFU,
            static_cast<std::uint32_t>(local >> 40U)};
  }
  [[nodiscard]] bool may_end(const Local& at) const { return items_.may_end(at.count, at.memory); }
  [[nodiscard]] bool may_go_on(const Local& at) { return items_.may_go_on(at.count, at.memory); }

  void gap(Machine& machine, const Cell& cell, FrameId gap, const Local& then) const {
    machine.enter(gap, machine.push(cell.frame, pack(then), cell.parent));
  }
  // Enters the item in every way that it may count for `contains`. Items that must differ are
  // entered by type, because numbers, scalars and containers know in different ways whether they
  // have come before.
  void item(Machine& machine, const Cell& cell, const Local& at) {
    const auto enter = [&](Term term, Part part, Phase then, std::uint32_t memory) {
      machine.enter(context_.value(term, part),
                    machine.push(cell.frame, pack({then, at.count + 1, memory}), cell.parent));
    };
    for (const ArrayItems::Choice& choice : items_.choices(at.count, at.memory)) {
      const ArrayItems::MemoryId id = items_.with_choice(at.memory, choice);
      if (!items_.are_unique()) {
        enter(choice.term, Part::all, Phase::after, id);
        continue;
      }
      context_.enter_number(
          choice.term, items_.numbers(id),
          machine.push(cell.frame, pack({Phase::after, at.count + 1, id}), cell.parent));
      const Phase then = items_.knows_all(id) ? Phase::after : Phase::after_to_check;
      enter(choice.term, Part::scalars, then, id);
      if (choice.but == JsonContext::kNoObjects) {
        enter(choice.term, Part::containers, then, id);
      } else {
        context_.enter_container(
            choice.term, choice.but,
            machine.push(cell.frame, pack({then, at.count + 1, id}), cell.parent));
      }
    }
  }

  JsonContext& context_;
  ArrayItems items_;
};

}  // namespace

std::unique_ptr<Frame> make_array_frame(JsonContext& context, const ArrayShape& shape) {
  return std::make_unique<ArrayFrame>(context, shape);
}

}  // namespace tenon::grammar
