#pragma once

#include <string>

#include "tenon/jinja/ast.h"
#include "tenon/jinja/dates.h"
#include "tenon/jinja/values.h"

namespace tenon::jinja {

/// What operators, methods, filters and tests work with: values, their text, and what they ask of
/// the template (names of macros and blocks, its settings) and of the clock. The functions of
/// operators.h, indexing.h, methods.h, filters.h and the like take it; none of them runs a
/// statement, which only the Vm can.
class Runtime : public Values {
 public:
  Runtime(const Program& program, const RenderOptions& options)
      : Values(options), program_(program), clock_(options.now_unix_s) {}

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] Clock& clock() { return clock_; }

  void print(const Value& value);  // appends str(value) to the text
  void repr(const Value& value);
  [[nodiscard]] Value to_string(const Value& value);
  [[nodiscard]] Value to_repr(const Value& value);
  [[nodiscard]] std::string described(const Value& value);  // repr for messages, cut short

 private:
  void repr_string(const Text& text);
  void repr_bytes(const Value& value);

  const Program& program_;
  Clock clock_;
};

}  // namespace tenon::jinja
