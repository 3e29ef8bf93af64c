#include "tenon/jinja/vm.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "tenon/jinja/filters.h"
#include "tenon/jinja/functions.h"
#include "tenon/jinja/indexing.h"
#include "tenon/jinja/methods.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/tests.h"
#include "tenon/jinja/unicode.h"

// Renders a compiled template by walking its nodes: `run` for statements, `eval` for expressions.
// Names have slots already (resolver.cc), so a variable is an index into a frame, and a frame of a
// macro knows the frame around its definition. Output goes into one buffer; an inner text (a macro,
// a set block, a filter block) is written behind the outer one, and end_text() cuts it off again as
// a value.
//
// Break and continue are values (Flow) that statements hand up to the loop. Everything else that
// ends a rendering is thrown as Fault. Work is bounded three ways: step() counts nodes, items and
// bytes, the arena counts memory, and check_stack() measures the native stack, because a template
// can nest calls of macros, filters and tests in each other.
//
// This file has statements and expressions, calls.cc calls of macros. What works on values alone is
// not here: Vm is the last of the classes that budget.h names, and operators, methods, filters and
// tests are functions that take the Runtime below it.
namespace tenon::jinja {

Vm::Vm(const Program& program, const json::Object& context, const RenderOptions& options)
    : Runtime(program, options), context_(context) {
  // Tag::missing: not looked up yet, see global().
  globals_ = arena().array<Value>(program.globals.size());
  std::fill_n(globals_, program.globals.size(), Value{});
  reserve(std::min<std::size_t>(program.source.size() + 1024, 65536));
}

Rendered Vm::render() {
  root_ = frame_ = make_frame(program().slot_count, nullptr);
  load(program().root_loads);
  run(program().body);
  return take_rendered();
}

namespace {

constexpr std::size_t kFewCharacters = 40;

// The beginning of `text`, in one line and in quotes.
std::string quoted_glimpse(std::string_view text) {
  const std::string_view few = text.substr(0, unicode::offset(text, kFewCharacters));
  return json::quoted(few) + (few.size() < text.size() ? "..." : "");
}

}  // namespace

// Describes values for an error message, in bounded work. It is not their repr, which may be the
// whole conversation.
void Vm::say_values(Fault& fault, std::initializer_list<const Value*> values) const {
  // A limit has nothing to do with values, and raise_exception() has the template's own message.
  if (fault.code != Errc::invalid || fault.is_raised) return;
  for (const Value* value : values) {
    std::string said;
    switch (value->tag) {
      case Tag::undefined:
        said = "undefined";
        break;
      case Tag::none:
        said = "None";
        break;
      case Tag::boolean:
        said = value->boolean ? "True" : "False";
        break;
      case Tag::integer:
        said = std::to_string(value->integer);
        break;
      case Tag::string:
        said = quoted_glimpse(value->bytes());
        break;
      case Tag::list:
        said = "a list of " + std::to_string(value->list->size);
        break;
      case Tag::json_list:
        said = "a list of " + std::to_string(value->json_list->size());
        break;
      case Tag::json_dict: {
        std::size_t count = 0;
        said = "a dict of ";
        for (const json::Member& member : *value->json_dict) {
          if (count++ != 0) said += ", ";
          said += count > 5 ? "..." : quoted_glimpse(member.key);
          if (count > 5) break;
        }
        if (count == 0) said += "nothing";
        break;
      }
      case Tag::missing:
        continue;
      default:
        said = std::string(type_name(*value));
    }
    fault.values += (fault.values.empty() ? "" : " and ") + said;
  }
}

// --- frames

// Missing slots are names that have no value yet.
Frame* Vm::make_frame(std::uint32_t slots, Frame* outer) {
  auto* values = arena().array<Value>(slots);
  std::fill_n(values, slots, Value{});
  return arena().make<Frame>(outer, values);
}

// Gives the names of a scope the values that they have before anything is stored in it. The
// resolver has decided where each comes from.
void Vm::load(LoadRef loads) {
  for (std::uint32_t i = 0; i < loads.size; ++i) {
    const Load& load = program().loads[loads.begin + i];
    Value& slot = frame_->slots[load.slot];
    if (load.kind == Load::Kind::unset) {
      slot = Value{};
    } else if (load.kind == Load::Kind::global) {
      slot = global(load.source);
    } else {
      const Frame* from = frame_;
      for (std::uint16_t hop = 0; hop < load.hops; ++hop) from = from->outer;
      slot = from->slots[load.source];
    }
  }
}

// A name of the context is imported when it is first read, so that a large context of which a
// template reads little costs little.
const Value& Vm::global(std::uint32_t index) {
  Value& value = globals_[index];
  if (value.tag != Tag::missing) return value;
  const std::string_view name = program().text_of(program().globals[index]);
  if (const json::Value* found = context_.find(name)) {
    value = import(*found);
    // The model's own control tokens count as the template's text, although they are in the
    // context.
    if ((name == "bos_token" || name == "eos_token") && value.is(Tag::string)) value.flags = 0;
  } else if (const std::uint32_t function = function_of_name(name); function != kNoBuiltin) {
    value.tag = Tag::function;
    value.function = function;
  } else if (name == "self") {
    value.tag = Tag::self;
  } else {
    value = undefined_name(name);
  }
  return value;
}

// --- statements

// Text and prints are most of what a template does, so they are handled here and other statements
// behind a call.
Flow Vm::run(ListRef body) {
  for (std::uint32_t i = 0; i < body.size; ++i) {
    const Node& node = program().nodes[program().lists[body.begin + i]];
    step();
    // Where an error is reported. Evaluation of what is inside moves the position, so nodes set
    // theirs again before they do their own work.
    set_position(node.position);
    if (node.op == Op::text) {
      put(program().constants[node.a].bytes(), false);
    } else if (node.op == Op::print) {
      print(eval(node.a));
    } else {
      const Flow flow = run_statement(node);
      if (flow != Flow::normal) return flow;
    }
  }
  return Flow::normal;
}

Flow Vm::run_statement(const Node& node) {
  check_stack();
  switch (node.op) {
    case Op::loop:
      return run_loop(program().loops[node.a]);
    case Op::branch:
      return run_branch(node);
    case Op::set:
      // Before the value is computed, as in jinja2: `set a.b = f()` fails without calling f.
      if (node.d != 0) check_spaces({node.c, node.d});
      assign(node.a, eval(node.b));
      return Flow::normal;
    case Op::set_block:
    case Op::filter_block:
    case Op::with:
    case Op::scope:
      return run_block(node);
    case Op::macro: {
      const MacroNode& macro = program().macros[node.a];
      Value value;
      value.tag = Tag::macro;
      value.macro = arena().make<Macro>(&macro, frame_);
      assign(macro.target, value);
      return Flow::normal;
    }
    case Op::call_block:
      run_call_block(node);
      return Flow::normal;
    case Op::block:
      run_template_block(program().blocks[node.a]);
      return Flow::normal;
    case Op::unloadable:
      // The name of the template is computed first, since that may fail in its own way.
      static_cast<void>(eval(node.a));
      type_error("no loader for this environment specified");
    case Op::breaks:
      return Flow::breaks;
    case Op::continues:
      return Flow::continues;
    default:
      return Flow::normal;
  }
}

// The arms are pairs in `lists`: a test, and a node whose a and b are the body.
Flow Vm::run_branch(const Node& node) {
  const std::uint32_t* arms = &program().lists[node.a];
  for (std::uint32_t i = 0; i < node.b; i += 2) {
    if (!truth(eval(arms[i]))) continue;
    const Node& body = program().nodes[arms[i + 1]];
    return run({body.a, body.b});
  }
  if (node.c == kNoNode) return Flow::normal;
  const Node& body = program().nodes[node.c];
  return run({body.a, body.b});
}

namespace {

// Puts the frame back when the scope is left, however that happens.
class Restore {
 public:
  explicit Restore(Frame*& frame) : frame_(frame), saved_(frame) {}
  ~Restore() { frame_ = saved_; }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  Frame*& frame_;
  Frame* saved_;
};

}  // namespace

/// The `if` of a for statement as a generator: the condition is evaluated when the loop wants the
/// next item.
struct ConditionIterator : Iterator {
  Vm* vm;
  Iterator* source;
  const ForNode* node;
  Frame* frame;

  // The items of a loop that pass its `if`, one at a time and in the frame of the loop, since the
  // test may read any name.
  static bool advance(Values&, Iterator& self, Value& item) {
    auto& me = static_cast<ConditionIterator&>(self);
    Vm& vm = *me.vm;
    const Restore restore(vm.frame_);
    vm.frame_ = me.frame;
    while (vm.next(*me.source, item)) {
      vm.assign(me.node->test_target, item);
      if (!vm.truth(vm.eval(me.node->test))) continue;
      // Python's generator yields its targets; several targets are a tuple.
      if (vm.program().nodes[me.node->test_target].op == Op::tuple && !item.is(Tag::tuple)) {
        item = vm.collect(item);
        item.tag = Tag::tuple;
      }
      return true;
    }
    return false;
  }
};

// A loop whose body does not read `loop` needs no object for it, and no look-ahead for `loop.last`.
Flow Vm::run_loop(const ForNode& node) {
  const Value iterable = eval(node.iterable);
  if (node.is_recursive) {
    // This one has no source, by which call_recursive() knows the outermost level.
    Loop loop{};
    loop.node = &node;
    loop.frame = frame_;
    print(call_recursive(loop, iterable));
    return Flow::normal;
  }
  Iterator* source = on({&iterable}, [&] { return iterate(iterable); });
  Value counted = iterable;
  if (node.test != kNoNode) {
    load(node.test_loads);
    auto* condition = arena().make<ConditionIterator>();
    *condition = {{ConditionIterator::advance, "generator"}, this, source, &node, frame_};
    source = condition;
    // How many items pass is not known, so `loop.length` must walk over the generator.
    counted = of_iterator(condition);
  }
  if (!node.has_loop) return run_loop_body(node, *source, nullptr);
  auto* loop = arena().make<Loop>();
  loop->source = source;
  loop->iterable = counted;
  loop->node = &node;
  return run_loop_body(node, *source, loop);
}

Flow Vm::run_loop_body(const ForNode& node, Iterator& source, Loop* loop) {
  Value self;
  if (loop != nullptr) {
    self.tag = Tag::loop;
    self.loop = loop;
  }
  bool is_empty = true;
  Value item;
  while (loop != nullptr ? loop_next(*loop, item) : next(source, item)) {
    assign(node.target, item);
    if (loop != nullptr) frame_->slots[node.loop_slot] = self;
    load(node.body_loads);
    const Flow flow = run(node.body);
    if (flow == Flow::breaks) break;
    // As in jinja2, only a pass that reaches the end of the body prevents the else branch.
    if (flow == Flow::normal) is_empty = false;
  }
  if (!is_empty || !node.has_else) return Flow::normal;
  load(node.else_loads);
  return run(node.otherwise);  // a break here ends the enclosing loop
}

// `loop(items)`: the body runs in a frame of its own, and its output is the value of the call.
Value Vm::call_recursive(const Loop& parent, const Value& iterable) {
  // A call that fails ends the rendering, so leave_call() need not be called then.
  enter_call();
  check_stack();
  const ForNode& node = *parent.node;
  const Restore restore(frame_);
  frame_ = make_frame(node.slot_count, parent.frame);
  auto* loop = arena().make<Loop>();
  loop->node = &node;
  loop->frame = parent.frame;
  loop->depth0 = parent.source == nullptr ? 0 : parent.depth0 + 1;
  loop->source = iterate(iterable);
  loop->iterable = iterable;
  if (node.test != kNoNode) {
    load(node.test_loads);
    auto* condition = arena().make<ConditionIterator>();
    *condition = {{ConditionIterator::advance, "generator"}, this, loop->source, &node, frame_};
    loop->source = condition;
    loop->iterable = of_iterator(condition);
  }
  const Mark mark = begin_text();
  run_loop_body(node, *loop->source, loop);
  leave_call();
  return end_text(mark);
}

Value Vm::call_loop(const Loop& loop, const Args& args) {
  positional_only(*this, args, "loop", 1, 1);
  if (!loop.node->is_recursive) {
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  return call_recursive(loop, args.items[0]);
}

// What `with`, `set`, `filter` and `generation` share: a scope, and for `set` and `filter` its text
// as a value.
Flow Vm::run_block(const Node& node) {
  const BlockNode& block = program().blocks[node.a];
  if (node.op == Op::with) {
    // The scope is entered before the values are computed, so they are not read from its slots.
    // `with a = 1, b = a`: b is computed from the outer a.
    std::vector<Value> values;
    values.reserve(block.values.size);
    for (std::uint32_t i = 0; i < block.values.size; ++i) {
      values.push_back(eval(program().lists[block.values.begin + i]));
    }
    load(block.loads);
    for (std::uint32_t i = 0; i < block.targets.size; ++i) {
      assign(program().lists[block.targets.begin + i], values[i]);
    }
    return run(block.body);
  }
  load(block.loads);
  if (node.op == Op::scope) {
    Value* const slots = frame_->slots;
    // jinja2 compiles a generation block as a call block that has no caller and no arguments.
    if (block.caller_slot != kNoNode)
      slots[block.caller_slot] = undefined_hint("No caller defined");
    if (block.kwargs_slot != kNoNode) slots[block.kwargs_slot] = make_dict();
    if (block.varargs_slot != kNoNode) slots[block.varargs_slot] = make_list(0, false, Tag::tuple);
    return run(block.body);
  }
  const Mark mark = begin_text();
  const Flow flow = run(block.body);
  if (flow != Flow::normal) {  // a break out of the block drops its text
    drop_text(mark);
    return flow;
  }
  Value value = end_text(mark);
  if (block.filter != kNoNode) value = eval_filter(program().nodes[block.filter], &value);
  if (node.op == Op::filter_block) {
    if (!value.is_string()) {  // jinja2 joins the blocks' texts
      type_error("sequence item 0: expected str instance, " + std::string(type_name(value)) +
                 " found");
    }
    print(value);
  } else {
    assign(block.target, value);
  }
  return Flow::normal;
}

void Vm::run_call_block(const Node& node) {
  Value caller;
  caller.tag = Tag::macro;
  // The body is a macro without a name; the called macro gets it as its keyword `caller`.
  caller.macro = arena().make<Macro>(&program().macros[node.a], frame_);
  print(eval_call(program().nodes[node.b], &caller));
}

void Vm::run_template_block(const BlockNode& block) {
  if (block.is_required) {
    fail("TemplateRuntimeError",
         "Required block '" + std::string(program().text_of(block.name)) + "' not found");
  }
  enter_call();
  const Restore restore(frame_);
  // No outer frame: a block sees the context and exported names only (resolver.cc).
  frame_ = make_frame(block.slot_count, nullptr);
  load(block.loads);
  run(block.body);
  leave_call();
}

// --- assignment

// An attribute is only ever stored in a namespace, which check_spaces() has made sure of.
void Vm::assign(NodeId target, const Value& value) {
  const Node& node = program().nodes[target];
  if (node.op == Op::tuple) return unpack(node, value);
  if (node.op == Op::ns_ref) {
    const Value space = eval_name(node);
    const std::string_view name = program().text_of(node.c);
    if (name[0] == '_') {
      fail("SecurityError",
           "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
               std::string(name) + "'. Please rename the attribute.");
    }
    Value attributes = space;
    set(attributes, program().constants[node.c], value);
    return;
  }
  frame_->slots[node.a] = value;
}

void Vm::check_spaces(ListRef spaces) {
  for (std::uint32_t i = 0; i < spaces.size; ++i) {
    const Node& node = program().nodes[program().lists[spaces.begin + i]];
    // A name that is not bound is an undefined value and fails here, too.
    if (!eval_name(node).is(Tag::name_space)) {
      fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    }
  }
}

// One more item than there are targets is asked for, to find that there are too many; Python does
// the same, and it can be observed.
void Vm::unpack(const Node& target, const Value& value) {
  // Python's message for this differs from that of a loop over such a value.
  if (!value.is(Tag::undefined) && !value.is_string() && !length(value) &&
      !value.is(Tag::iterator)) {
    type_error("cannot unpack non-iterable " + std::string(type_name(value)) + " object");
  }
  Iterator* source = iterate(value);
  Value item;
  std::uint32_t count = 0;
  for (; count < target.b && next(*source, item); ++count) {
    assign(program().lists[target.a + count], item);
  }
  if (count < target.b) {
    value_error("not enough values to unpack (expected " + std::to_string(target.b) + ", got " +
                std::to_string(count) + ")");
  }
  if (next(*source, item)) {
    value_error("too many values to unpack (expected " + std::to_string(target.b) + ")");
  }
}

// --- expressions

Value Vm::eval_name(const Node& node) {
  switch (static_cast<Place>(node.flags)) {
    case Place::local: {
      const Frame* frame = frame_;
      // One hop for each function (macro, recursive loop) between the use and the definition.
      for (std::uint32_t hop = 0; hop < node.d; ++hop) frame = frame->outer;
      const Value& value = frame->slots[node.a];
      if (!value.is(Tag::missing)) return value;
      return undefined_name(program().text_of(node.b));
    }
    case Place::exported: {
      // Inside a block: a name that the template's top level has set by now, or the context's.
      const Value& value = root_->slots[node.d];
      return value.is(Tag::missing) ? global(node.a) : value;
    }
    case Place::global:
      break;
  }
  return global(node.a);
}

Value Vm::eval(NodeId id) {
  const Node& node = program().nodes[id];
  // The two leaves are most of all nodes; they count no step and cannot recurse.
  if (node.op == Op::constant) return program().constants[node.a];
  if (node.op == Op::name) return eval_name(node);
  step();
  check_stack();
  switch (node.op) {
    case Op::get_attr: {
      const Value object = eval(node.a);
      set_position(node.position);
      return on({&object},
                [&] { return attribute(*this, object, program().text_of(node.b), node.c); });
    }
    case Op::get_item: {
      const Value object = eval(node.a);
      const Value index = eval(node.b);
      set_position(node.position);
      return on({&object, &index}, [&] { return item(*this, object, index); });
    }
    case Op::get_slice: {
      const Value object = eval(node.a);
      const Slice bounds = eval_slice(node);
      set_position(node.position);
      // jinja2 computes a constant slice when it compiles, where a failure gives undefined.
      if (node.flags != 0 && !object.is_string() && !object.is_list() && !object.is(Tag::tuple)) {
        return undefined_attribute(object, {});
      }
      return slice(*this, object, bounds);
    }
    case Op::slice: {
      Value value;
      value.tag = Tag::slice;
      value.slice = arena().make<Slice>(eval_slice(node));
      return value;
    }
    case Op::call:
      return eval_call(node, nullptr);
    case Op::filter:
      return eval_filter(node, nullptr);
    case Op::test:
      return eval_test(node);
    case Op::logic_not:
      return make_bool(!truth(eval(node.a)));
    case Op::negative:
    case Op::positive: {
      const Value operand = eval(node.a);
      set_position(node.position);
      return on({&operand}, [&] { return negate(*this, operand, node.op == Op::positive); });
    }
    case Op::logic_and: {
      const Value left = eval(node.a);
      return truth(left) ? eval(node.b) : left;
    }
    case Op::logic_or: {
      const Value left = eval(node.a);
      return truth(left) ? left : eval(node.b);
    }
    case Op::add:
    case Op::subtract:
    case Op::multiply:
    case Op::divide:
    case Op::floor_divide:
    case Op::modulo:
    case Op::power: {
      const Value left = eval(node.a);
      const Value right = eval(node.b);
      set_position(node.position);
      return on({&left, &right}, [&] { return binary(*this, node.op, left, right); });
    }
    case Op::concat:
      return eval_concat(node);
    case Op::compare:
      return eval_compare(node);
    case Op::condition:
      if (truth(eval(node.a))) return eval(node.b);
      if (node.c != kNoNode) return eval(node.c);
      return undefined_hint(
          "the inline if-expression evaluated to false and no else section was defined.");
    default:
      return eval_display(node);
  }
}

Slice Vm::eval_slice(const Node& node) {
  // An absent bound is None, as in Python.
  const auto part = [this](NodeId id) { return id == kNoNode ? none_value() : eval(id); };
  Slice bounds;
  bounds.start = part(node.b);
  bounds.stop = part(node.c);
  bounds.step = part(node.d);
  return bounds;
}

// Evaluates the literals [], () and {}.
Value Vm::eval_display(const Node& node) {
  if (node.op == Op::dict) {
    Value dict = make_dict();
    for (std::uint32_t i = 0; i < node.b; i += 2) {
      const Value key = eval(program().lists[node.a + i]);
      const Value value = eval(program().lists[node.a + i + 1]);
      set_position(node.position);
      set(dict, key, value);
    }
    return dict;
  }
  Value list = make_list(node.b, false, node.op == Op::tuple ? Tag::tuple : Tag::list);
  for (std::uint32_t i = 0; i < node.b; ++i) append(list, eval(program().lists[node.a + i]));
  return list;
}

Value Vm::eval_concat(const Node& node) {
  Value sum = to_string(eval(program().lists[node.a]));
  for (std::uint32_t i = 1; i < node.b; ++i) {
    const Value part = to_string(eval(program().lists[node.a + i]));
    set_position(node.position);
    sum = concat(sum, part);
  }
  // jinja2's `~` joins with str.join, whose result is a plain string.
  sum.flags &= static_cast<std::uint8_t>(~kMarkup);
  return sum;
}

bool Vm::compare(Compare op, const Value& left, const Value& right) {
  switch (op) {
    case Compare::eq:
      return equal(left, right);
    case Compare::ne:
      return !equal(left, right);
    case Compare::lt:
      return less(left, right, "<");
    case Compare::le:
      return less(left, right, "<=");
    case Compare::gt:
      return less(left, right, ">");
    case Compare::ge:
      return less(left, right, ">=");
    case Compare::in:
      return contains(right, left);
    case Compare::not_in:
      return !contains(right, left);
  }
  return false;
}

Value Vm::eval_compare(const Node& node) {
  // `a < b < c`: each operand is computed once, and none behind the first comparison that fails.
  Value left = eval(program().lists[node.a]);
  for (std::uint32_t i = 1; i < node.b; i += 2) {
    const auto op = static_cast<Compare>(program().lists[node.a + i]);
    const Value right = eval(program().lists[node.a + i + 1]);
    set_position(node.position);
    const bool holds = on({&left, &right}, [&] { return compare(op, left, right); });
    if (!holds || i + 2 >= node.b) return make_bool(holds);
    left = right;
  }
  return left;
}

Value Vm::eval_test(const Node& node) {
  const Value value = eval(node.a);
  // The two most common tests take no arguments.
  if (node.c == kDefinedTest && program().arguments[node.b].positional.size == 0) {
    return make_bool(!value.is(Tag::undefined));
  }
  const Args args = eval_args(node.b, nullptr);
  set_position(node.position);
  if (node.c == kNoBuiltin) {
    fail("TemplateRuntimeError",
         "No test named '" + std::string(program().text_of(node.d)) + "' found.");
  }
  return make_bool(on({&value}, [&] { return call_test(*this, node.c, value, args); }));
}

Value Vm::eval_filter(const Node& node, const Value* input) {
  const Value value = node.a == kNoNode ? *input : [&] {
    // The chain of filters of a filter block begins with the block's text.
    const Node& inner = program().nodes[node.a];
    return input != nullptr && inner.op == Op::filter ? eval_filter(inner, input) : eval(node.a);
  }();
  const Args args = eval_args(node.b, nullptr);
  set_position(node.position);
  if (node.c == kNoBuiltin) {
    fail("TemplateRuntimeError",
         "No filter named '" + std::string(program().text_of(node.d)) + "' found.");
  }
  return on({&value}, [&] { return call_filter(*this, node.c, value, args); });
}

// A method that is called at once (`x.strip()`) needs no value for the bound method. The order in
// which object, attribute and arguments are computed is Python's, since each of them may fail.
Value Vm::eval_call(const Node& node, const Value* caller) {
  const Node& callee = program().nodes[node.a];
  if (callee.op == Op::get_attr && callee.c != kNoBuiltin) {
    const Value object = eval(callee.a);
    bool is_unsafe = false;
    if (has_method(*this, object, static_cast<MethodId>(callee.c), is_unsafe) && !is_unsafe) {
      const Args args = eval_args(node.b, caller);
      set_position(callee.position);
      return on({&object},
                [&] { return call_method(*this, object, static_cast<MethodId>(callee.c), args); });
    }
    set_position(callee.position);
    const Value function = attribute(*this, object, program().text_of(callee.b), callee.c);
    const Args args = eval_args(node.b, caller);
    set_position(node.position);
    return call(function, args);
  }
  const Value function = eval(node.a);
  const Args args = eval_args(node.b, caller);
  set_position(node.position);
  return call(function, args);
}

// Arguments with `*` or `**` are gathered in vectors first, because their number is not known.
Args Vm::eval_args(std::uint32_t index, const Value* caller) {
  const Arguments& arguments = program().arguments[index];
  Args args;
  if (arguments.star != kNoNode || arguments.double_star != kNoNode) {
    std::vector<Value> items;
    std::vector<Keyword> keywords;
    // Keywords are computed before `*` and `**`, and `caller` counts among them.
    items.reserve(arguments.positional.size);
    for (std::uint32_t i = 0; i < arguments.positional.size; ++i) {
      items.push_back(eval(program().lists[arguments.positional.begin + i]));
    }
    for (std::uint32_t i = 0; i < arguments.keywords.size; i += 2) {
      const std::uint32_t* keyword = &program().lists[arguments.keywords.begin + i];
      keywords.push_back({program().constants[keyword[0]], eval(keyword[1])});
    }
    if (caller != nullptr) keywords.push_back({make_string("caller"), *caller});
    spread(arguments.star, arguments.double_star, items, keywords);
    auto* copied = arena().array<Value>(items.size());
    std::copy(items.begin(), items.end(), copied);
    auto* copied_keywords = arena().array<Keyword>(keywords.size());
    std::copy(keywords.begin(), keywords.end(), copied_keywords);
    return {copied, static_cast<std::uint32_t>(items.size()), copied_keywords,
            static_cast<std::uint32_t>(keywords.size())};
  }
  args.size = arguments.positional.size;
  if (args.size != 0) {
    auto* items = arena().array<Value>(args.size);
    // The arena never moves what it holds, so the array is filled while evaluation allocates more.
    for (std::uint32_t i = 0; i < args.size; ++i) {
      items[i] = eval(program().lists[arguments.positional.begin + i]);
    }
    args.items = items;
  }
  args.keyword_count = arguments.keywords.size / 2 + (caller != nullptr ? 1 : 0);
  if (args.keyword_count != 0) {
    auto* keywords = arena().array<Keyword>(args.keyword_count);
    for (std::uint32_t i = 0; i < arguments.keywords.size; i += 2) {
      const std::uint32_t* keyword = &program().lists[arguments.keywords.begin + i];
      keywords[i / 2] = {program().constants[keyword[0]], eval(keyword[1])};
    }
    if (caller != nullptr) keywords[args.keyword_count - 1] = {make_string("caller"), *caller};
    args.keywords = keywords;
  }
  return args;
}

void Vm::spread(NodeId star, NodeId double_star, std::vector<Value>& items,
                std::vector<Keyword>& keywords) {
  if (star != kNoNode) {
    const Value more = eval(star);
    Iterator* source = iterate(more);
    Value item;
    while (next(*source, item)) {
      // The vector is outside the arena, so its limit is checked here, before the vector grows.
      arena().foresee((items.size() + 1) * sizeof(Value));
      items.push_back(item);
    }
  }
  if (double_star != kNoNode) {
    const Value more = eval(double_star);
    if (!more.is_mapping())
      type_error("argument after ** must be a mapping, not " + std::string(type_name(more)));
    // A set, since a dict of the context may have very many keys.
    std::unordered_set<std::string_view> known;
    for (const Keyword& other : keywords) known.insert(text_of(other.key).bytes);
    for (std::size_t i = 0; i < entry_count(more); ++i) {
      Keyword keyword;
      entry_at(more, i, keyword.key, keyword.value);
      if (!keyword.key.is_string()) type_error("keywords must be strings");
      const std::string_view name = text_of(keyword.key).bytes;
      charge(name.size());
      if (!known.insert(name).second) {
        type_error("got multiple values for keyword argument '" + std::string(name) + "'");
      }
      keywords.push_back(keyword);
    }
  }
}

}  // namespace tenon::jinja
