#include <algorithm>
#include <string>

#include "tenon/jinja/functions.h"
#include "tenon/jinja/methods.h"
#include "tenon/jinja/vm.h"

/// Calls of whatever can be called. A macro gets a frame of its own, whose outer frame is the one
/// in which the macro was defined; its parameters are bound as Python does, with Python's errors.
namespace tenon::jinja {

Value Vm::call(const Value& callee, const Args& args) {
  switch (callee.tag) {
    case Tag::macro:
      return call_macro(*callee.macro, args);
    case Tag::method:
      return call_method(*this, callee.method->self, static_cast<MethodId>(callee.method->id),
                         args);
    case Tag::function:
      return call_function(*this, static_cast<FunctionId>(callee.function), args);
    case Tag::loop:
      return call_loop(*callee.loop, args);
    case Tag::undefined:
      fail_undefined(callee);
    case Tag::joiner: {
      positional_only(*this, args, "Joiner", 0, 0);
      if (callee.joiner->is_used) return callee.joiner->separator;
      callee.joiner->is_used = true;
      return make_string({});
    }
    case Tag::block: {
      positional_only(*this, args, "block", 0, 0);
      const Mark mark = begin_text();
      run_template_block(program().blocks[callee.function]);
      return end_text(mark);
    }
    default:
      type_error("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

// The order is jinja2's: arguments by position, by name, the special names, then the defaults,
// which are evaluated in the macro's own frame.
Value Vm::call_macro(const Macro& macro, const Args& args) {
  enter_call();
  check_stack();
  const MacroNode& node = *macro.node;
  Frame* frame = make_frame(node.slot_count, macro.frame);
  const auto name = [&] {
    return node.name == kNoNode ? "None" : "'" + std::string(program().text_of(node.name)) + "'";
  };
  const auto parameter = [&](std::uint32_t i) -> const Node& {
    return program().nodes[program().lists[node.parameters.begin + i]];
  };
  // Slots of a new frame are missing, which marks the parameters that were not given.
  for (std::uint32_t i = 0; i < std::min(args.size, node.parameters.size); ++i) {
    frame->slots[parameter(i).a] = args.items[i];
  }
  Value rest = node.kwargs_slot != kNoNode ? make_dict() : Value{};
  bool has_caller = false;
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    const Keyword& keyword = args.keywords[i];
    const std::string_view key = text_of(keyword.key).bytes;
    // Parameters that have a positional argument cannot be meant.
    std::uint32_t at = args.size;
    while (at < node.parameters.size && program().text_of(parameter(at).b) != key) ++at;
    charge(std::size_t{at} * 4);  // each of the names was compared
    if (at < node.parameters.size) {
      frame->slots[parameter(at).a] = keyword.value;
    } else if (node.caller_slot != kNoNode && key == "caller" && !has_caller) {
      frame->slots[node.caller_slot] = keyword.value;
      has_caller = true;
    } else if (node.kwargs_slot != kNoNode) {
      set(rest, keyword.key, keyword.value);
    } else if (key == "caller") {
      type_error("macro " + name() +
                 " was invoked with two values for the special caller argument. "
                 "This is most likely a bug.");
    } else {
      type_error("macro " + name() + " takes no keyword argument '" + std::string(key) + "'");
    }
  }
  if (node.caller_slot != kNoNode && !has_caller) {
    frame->slots[node.caller_slot] = undefined_hint("No caller defined");
  }
  if (node.kwargs_slot != kNoNode) frame->slots[node.kwargs_slot] = rest;
  if (node.varargs_slot != kNoNode) {
    Value more = make_list(0, false, Tag::tuple);
    for (std::uint32_t i = node.parameters.size; i < args.size; ++i) append(more, args.items[i]);
    frame->slots[node.varargs_slot] = more;
  } else if (args.size > node.parameters.size) {
    type_error("macro " + name() + " takes not more than " + std::to_string(node.parameters.size) +
               " argument(s)");
  }
  Frame* const caller_frame = frame_;
  frame_ = frame;
  // Before the defaults, which may read names from outside, and earlier parameters.
  load(node.loads);
  const std::uint32_t first_default = node.parameters.size - node.defaults.size;
  for (std::uint32_t i = 0; i < node.parameters.size; ++i) {
    Value& slot = frame->slots[parameter(i).a];
    if (!slot.is(Tag::missing)) continue;
    if (i >= first_default) {
      slot = eval(program().lists[node.defaults.begin + i - first_default]);
    } else {
      // As in jinja2, a parameter without argument and default is undefined, and no error.
      slot = undefined_name(program().text_of(parameter(i).b));
    }
  }
  // The text of the body is the value of the call.
  const Mark mark = begin_text();
  run(node.body);
  frame_ = caller_frame;
  leave_call();
  return end_text(mark);
}

}  // namespace tenon::jinja
