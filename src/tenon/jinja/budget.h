#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/jinja/template.h"
#include "tenon/jinja/value.h"

namespace tenon::jinja {

/// What one rendering may use, and how it fails: steps, memory, depth of calls and of values, and
/// the native stack. Every failure is a Fault at the place in the template that runs.
///
/// This is the lowest of the classes that a rendering is made of: Budget, TextBuffer (text.h),
/// Values (values.h), Runtime (runtime.h), Vm (vm.h). Each is a base of the next; a function takes
/// the lowest one that has what it needs.
class Budget {
 public:
  explicit Budget(const RenderOptions& options);
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  [[nodiscard]] const RenderOptions& options() const { return options_; }
  [[nodiscard]] Arena& arena() { return arena_; }

  /// The byte of the template that runs, for errors.
  [[nodiscard]] std::uint32_t position() const { return position_; }
  void set_position(std::uint32_t position) { position_ = position; }

  /// `kind` is the error's name in Python.
  [[noreturn]] void fail(std::string_view kind, std::string message) const;
  [[noreturn]] void type_error(std::string message) const { fail("TypeError", std::move(message)); }
  [[noreturn]] void value_error(std::string message) const {
    fail("ValueError", std::move(message));
  }
  [[noreturn]] void fail_limit(std::string message) const;
  /// Says why `value`, which is undefined, cannot be used.
  [[noreturn]] void fail_undefined(const Value& value) const;

  void step() {
    if (++steps_ > options_.max_steps) fail_steps();
  }
  /// Counts steps that the next step() checks.
  void count(std::size_t steps) { steps_ += steps; }
  /// Counts work in proportion to `size`.
  void charge(std::size_t size) {
    steps_ += size / 16;
    step();
  }
  /// Counts the work of writing an integer of `limbs` times 32 bits in decimal, or of reading one.
  void charge_decimals(std::size_t limbs) { charge(limbs * limbs * 4); }

  /// Calls of macros, blocks and recursive loops. A Fault ends the rendering, so only a call that
  /// returns is left.
  void enter_call() {
    if (++call_depth_ > options_.max_call_depth) fail_depth();
  }
  void leave_call() { --call_depth_; }
  /// Fails if the native stack is used up: a template can nest macros, filters and tests.
  void check_stack() const {
    if (static_cast<const char*>(__builtin_frame_address(0)) < stack_end_) fail_depth();
  }

  class Deeper;

 private:
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_depth() const;

  const RenderOptions& options_;
  Arena arena_;
  std::size_t steps_ = 0;
  std::size_t call_depth_ = 0;
  std::size_t value_depth_ = 0;
  const char* stack_end_;
  std::uint32_t position_ = Fault::kNoPosition;
};

/// Counts the depth of a walk over a value, since values can hold each other 100,000 deep.
class Budget::Deeper {
 public:
  explicit Deeper(Budget& budget) : budget_(budget) {
    if (++budget_.value_depth_ > kMax) {
      budget_.fail_limit("a value nests deeper than 300 levels");
    }
    budget_.check_stack();
    budget_.step();
  }
  ~Deeper() { --budget_.value_depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  static constexpr std::size_t kMax = 300;
  Budget& budget_;
};

}  // namespace tenon::jinja
