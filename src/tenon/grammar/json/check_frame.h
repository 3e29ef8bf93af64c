#pragma once

#include <cstdint>
#include <string_view>

#include "tenon/grammar/json/json_context.h"
#include "tenon/grammar/json/object_frame.h"
#include "tenon/grammar/machine/machine.h"

namespace tenon::grammar {

/// Compares a finished value with its term. Local: where the value begins, or the objects that are
/// left out, and the question.
class CheckFrame final : public Frame {
 public:
  /// `object`: the frame `value`, if it reads objects.
  CheckFrame(JsonContext& context, Term term, FrameId value, ObjectFrame* object = nullptr)
      : context_(context), term_(term), value_(value), object_(object) {}

  void enter(Machine& machine, FrameId self, CellId parent) override {
    machine.ask(self, kBegin, parent);
  }
  /// The same without these objects.
  void enter_without(Machine& machine, FrameId self, CellId parent,
                     JsonContext::ObjectsId objects) {
    if (!object_->has_any_without(objects)) return;
    machine.ask(self, std::uint64_t{objects} << 2U | kBegin, parent);
  }
  void resume(Machine& machine, const Cell& cell) override {
    machine.ask(cell.frame, cell.local | kEnd, cell.parent);
  }
  void answer(Machine& machine, const Cell& cell, std::string_view text) override {
    if ((cell.local & kBegin) != 0) {
      const CellId value = machine.push(cell.frame, std::uint64_t{text.size()} << 2U, cell.parent);
      if (cell.local == kBegin) return machine.enter(value_, value);
      const auto objects = static_cast<JsonContext::ObjectsId>(cell.local >> 2U);
      return object_->enter_without(machine, value_, value, objects);
    }
    const auto value = context_.parsed(text.substr(cell.local >> 2U));
    if (value && context_.shapes.work.fits(term_, *value)) machine.resume(cell.parent);
  }
  [[nodiscard]] std::uint32_t least(Machine& machine) override { return machine.least(value_); }
  [[nodiscard]] std::uint32_t left(Machine& machine, const Cell& cell) override {
    return (cell.local & kBegin) != 0 ? machine.least(value_) : 0;
  }

 private:
  static constexpr std::uint64_t kBegin = 1;
  static constexpr std::uint64_t kEnd = 2;

  JsonContext& context_;
  Term term_;
  FrameId value_;
  ObjectFrame* object_;
};

}  // namespace tenon::grammar
