#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tenon/jinja/args.h"
#include "tenon/jinja/ast.h"
#include "tenon/jinja/runtime.h"

namespace tenon::jinja {

/// The slots of a function that is running, and the frame of the function around its definition.
struct Frame {
  Frame* outer;
  Value* slots;
};

enum class Flow : std::uint8_t { normal, breaks, continues };

/// One rendering: walks the nodes of a Program over a context with Python's semantics. Internal to
/// the layer. It fails by throwing Fault.
class Vm : public Runtime {
 public:
  Vm(const Program& program, const json::Object& context, const RenderOptions& options);

  Rendered render();

 private:
  // --- statements (vm.cc)
  Flow run(ListRef body);
  Flow run_statement(const Node& node);
  Flow run_loop(const ForNode& node);
  Flow run_loop_body(const ForNode& node, Iterator& source, Loop* loop);
  Flow run_branch(const Node& node);
  Flow run_block(const Node& node);
  void run_call_block(const Node& node);
  void run_template_block(const BlockNode& block);
  void assign(NodeId target, const Value& value);
  void unpack(const Node& target, const Value& value);
  void check_spaces(ListRef spaces);
  void load(LoadRef loads);
  [[nodiscard]] Frame* make_frame(std::uint32_t slots, Frame* outer);

  // --- expressions (vm.cc)
  [[nodiscard]] Value eval(NodeId id);
  [[nodiscard]] Value eval_name(const Node& node);
  [[nodiscard]] Value eval_call(const Node& node, const Value* caller);
  [[nodiscard]] Value eval_filter(const Node& node, const Value* input);
  [[nodiscard]] Value eval_test(const Node& node);
  [[nodiscard]] Value eval_compare(const Node& node);
  [[nodiscard]] bool compare(Compare op, const Value& left, const Value& right);
  [[nodiscard]] Value eval_concat(const Node& node);
  [[nodiscard]] Value eval_display(const Node& node);
  [[nodiscard]] Args eval_args(std::uint32_t arguments, const Value* caller);
  void spread(NodeId star, NodeId double_star, std::vector<Value>& items,
              std::vector<Keyword>& keywords);
  [[nodiscard]] const Value& global(std::uint32_t index);
  [[nodiscard]] Slice eval_slice(const Node& node);

  // --- calls (calls.cc)
  [[nodiscard]] Value call(const Value& callee, const Args& args);
  [[nodiscard]] Value call_macro(const Macro& macro, const Args& args);
  [[nodiscard]] Value call_loop(const Loop& loop, const Args& args);
  [[nodiscard]] Value call_recursive(const Loop& loop, const Value& iterable);

  /// Like run(), but a failure also describes `values`.
  template <class F>
  auto on(std::initializer_list<const Value*> values, F run) {
    try {
      return run();
    } catch (Fault& fault) {
      if (fault.values.empty()) say_values(fault, values);
      throw;
    }
  }
  void say_values(Fault& fault, std::initializer_list<const Value*> values) const;

  friend struct ConditionIterator;

  const json::Object& context_;
  Frame* frame_ = nullptr;
  Frame* root_ = nullptr;
  Value* globals_ = nullptr;  // by index; missing: not looked up yet
};

}  // namespace tenon::jinja
