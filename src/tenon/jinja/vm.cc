#include "tenon/jinja/vm.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>

// Renders a compiled template by walking its nodes: `run` for statements, `eval` for expressions.
// Names have slots already (resolver.cc), so a variable is an index into a frame, and a frame of a
// macro knows the frame around its definition. Output goes into one buffer; an inner text (a macro,
// a set block, a filter block) is written behind
/// the outer one, and end_text() cuts it off again as a value.
//
// Break and continue are values (Flow) that statements hand up to the loop. Everything else that
// ends a rendering is thrown as Fault. Work is bounded three ways: step() counts nodes, items and
// bytes, the arena counts memory, and check_stack() measures the native stack, because a template
// can nest calls of macros, filters and tests in each other.
//
// This file has statements and expressions; the other parts of Vm are in the files that vm.h names.
namespace tenon::jinja {
namespace {

// The native stack that a rendering may use. The sanitizers' frames are several times as large.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::ptrdiff_t kMaxStackBytes = 4 << 20;
#else
constexpr std::ptrdiff_t kMaxStackBytes = 1 << 20;
#endif

}  // namespace

void Arena::spent() const {
  throw Fault{Errc::limit_exceeded,
              "the template needs more than " + std::to_string(max_bytes_) + " bytes of memory"};
}

void* Arena::allocate_slow(std::size_t bytes) {
  foresee(bytes);
  std::size_t size = std::max(next_chunk_, bytes + 8);
  size = std::min(size, std::max(bytes + 8, max_bytes_ - used_));
  auto* chunk = static_cast<Chunk*>(std::malloc(sizeof(Chunk) + size));
  if (chunk == nullptr) throw Fault{Errc::unavailable, "out of memory"};
  used_ += size;
  next_chunk_ = std::min(next_chunk_ * 2, std::size_t{1} << 20);
  chunk->next = chunks_;
  chunks_ = chunk;
  char* begin = reinterpret_cast<char*>(chunk + 1);
  if (bytes >= size / 2 && end_ - at_ > 1024) return begin;  // keep the room that is left
  at_ = begin + ((bytes + 7) & ~std::size_t{7});
  end_ = begin + size;
  return begin;
}

Vm::Vm(const Program& program, const json::Object& context, const RenderOptions& options)
    : program_(program),
      context_(context),
      options_(options),
      arena_(options.max_allocated_bytes),
      stack_end_(static_cast<const char*>(__builtin_frame_address(0)) - kMaxStackBytes),
      now_(options.now_unix_s) {
  globals_ = arena_.array<Value>(program.globals.size());
  std::fill_n(globals_, program.globals.size(), Value{});
  out_.reserve(std::min<std::size_t>(program.source.size() + 1024, 65536));
}

Rendered Vm::render() {
  root_ = frame_ = make_frame(program_.slot_count, nullptr);
  load(program_.root_loads);
  run(program_.body);
  Rendered rendered;
  rendered.text = std::move(out_);
  rendered.spans.reserve(runs_.size());
  std::size_t begin = 0;
  for (const Run& run : runs_) {
    rendered.spans.push_back({begin, run.end, run.is_data});
    begin = run.end;
  }
  return rendered;
}

// --- failing

void Vm::fail(std::string_view kind, std::string message) const {
  throw Fault{
      .code = Errc::invalid, .message = std::move(message), .position = position_, .kind = kind};
}

void Vm::fail_limit(std::string message) const {
  throw Fault{Errc::limit_exceeded, std::move(message), position_};
}

void Vm::fail_steps() const {
  fail_limit("the template takes more than " + std::to_string(options_.max_steps) + " steps");
}

void Vm::fail_depth() const {
  fail_limit("the template calls itself more than " + std::to_string(options_.max_call_depth) +
             " deep, or its calls take more than " + std::to_string(kMaxStackBytes) +
             " bytes of stack");
}

void Vm::fail_undefined(const Value& value) const {
  const std::string name(value.text == nullptr ? "" : std::string_view(value.text, value.size));
  switch (static_cast<Lack>(value.lack)) {
    case Lack::name:
      fail("UndefinedError", "'" + name + "' is undefined");
    case Lack::attribute:
      fail("UndefinedError", "'" + object_name(value.of) + "' has no attribute '" + name + "'");
    case Lack::element:
      fail("UndefinedError", object_name(value.of) + " has no element " + name);
    case Lack::hint:
      fail("UndefinedError", name);
    case Lack::unsafe:
      fail("SecurityError",
           "access to attribute '" + name + "' of '" + object_name(value.of) + "' is unsafe");
  }
  fail("UndefinedError", name);
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

Value Vm::undefined_name(std::string_view name) const {
  Value value = make_string(name);
  value.tag = Tag::undefined;
  value.lack = static_cast<std::uint8_t>(Lack::name);
  return value;
}

Value Vm::undefined_hint(std::string_view hint) const {
  Value value = undefined_name(hint);
  value.lack = static_cast<std::uint8_t>(Lack::hint);
  return value;
}

Value Vm::undefined_attribute(const Value& object, std::string_view name) const {
  Value value = undefined_name(name);
  value.lack = static_cast<std::uint8_t>(Lack::attribute);
  value.of = object.tag;
  return value;
}

Value Vm::unsafe_attribute(const Value& object, std::string_view name) const {
  Value value = undefined_attribute(object, name);
  value.lack = static_cast<std::uint8_t>(Lack::unsafe);
  return value;
}

// --- frames

Frame* Vm::make_frame(std::uint32_t slots, Frame* outer) {
  auto* values = arena_.array<Value>(slots);
  std::fill_n(values, slots, Value{});
  return arena_.make<Frame>(outer, values);
}

void Vm::load(LoadRef loads) {
  for (std::uint32_t i = 0; i < loads.size; ++i) {
    const Load& load = program_.loads[loads.begin + i];
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

const Value& Vm::global(std::uint32_t index) {
  Value& value = globals_[index];
  if (value.tag != Tag::missing) return value;
  const std::string_view name = program_.text_of(program_.globals[index]);
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

Flow Vm::run(ListRef body) {
  for (std::uint32_t i = 0; i < body.size; ++i) {
    const Node& node = program_.nodes[program_.lists[body.begin + i]];
    step();
    position_ = node.position;
    if (node.op == Op::text) {
      put(program_.constants[node.a].bytes(), false);
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
      return run_loop(program_.loops[node.a]);
    case Op::branch:
      return run_branch(node);
    case Op::set:
      if (node.d != 0) check_spaces({node.c, node.d});
      assign(node.a, eval(node.b));
      return Flow::normal;
    case Op::set_block:
    case Op::filter_block:
    case Op::with:
    case Op::scope:
      return run_block(node);
    case Op::macro: {
      const MacroNode& macro = program_.macros[node.a];
      Value value;
      value.tag = Tag::macro;
      value.macro = arena_.make<Macro>(&macro, frame_);
      assign(macro.target, value);
      return Flow::normal;
    }
    case Op::call_block:
      run_call_block(node);
      return Flow::normal;
    case Op::block:
      run_template_block(program_.blocks[node.a]);
      return Flow::normal;
    case Op::unloadable:
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

Flow Vm::run_branch(const Node& node) {
  const std::uint32_t* arms = &program_.lists[node.a];
  for (std::uint32_t i = 0; i < node.b; i += 2) {
    if (!truth(eval(arms[i]))) continue;
    const Node& body = program_.nodes[arms[i + 1]];
    return run({body.a, body.b});
  }
  if (node.c == kNoNode) return Flow::normal;
  const Node& body = program_.nodes[node.c];
  return run({body.a, body.b});
}

namespace {

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
  Iterator* source;
  const ForNode* node;
  Frame* frame;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<ConditionIterator&>(self);
    const Restore restore(vm.frame_);
    vm.frame_ = me.frame;
    while (vm.next(*me.source, item)) {
      vm.assign(me.node->test_target, item);
      if (!vm.truth(vm.eval(me.node->test))) continue;
      // Python's generator yields its targets; several targets are a tuple.
      if (vm.program_.nodes[me.node->test_target].op == Op::tuple && !item.is(Tag::tuple)) {
        item = vm.collect(item);
        item.tag = Tag::tuple;
      }
      return true;
    }
    return false;
  }
};

Flow Vm::run_loop(const ForNode& node) {
  const Value iterable = eval(node.iterable);
  if (node.is_recursive) {
    Loop loop{};
    loop.node = &node;
    loop.frame = frame_;
    print(call_recursive(*this, loop, iterable));
    return Flow::normal;
  }
  Iterator* source = on({&iterable}, [&] { return iterate(iterable); });
  Value counted = iterable;
  if (node.test != kNoNode) {
    load(node.test_loads);
    auto* condition = arena_.make<ConditionIterator>();
    *condition = {{ConditionIterator::advance, "generator"}, source, &node, frame_};
    source = condition;
    counted = of_iterator(condition);
  }
  if (!node.has_loop) return run_loop_body(node, *source, nullptr);
  auto* loop = arena_.make<Loop>();
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

Value call_recursive(Vm& vm, Loop& parent, const Value& iterable) {
  if (++vm.call_depth_ > vm.options_.max_call_depth) vm.fail_depth();
  vm.check_stack();
  const ForNode& node = *parent.node;
  const Restore restore(vm.frame_);
  vm.frame_ = vm.make_frame(node.slot_count, parent.frame);
  auto* loop = vm.arena_.make<Loop>();
  loop->node = &node;
  loop->frame = parent.frame;
  loop->depth0 = parent.source == nullptr ? 0 : parent.depth0 + 1;
  loop->source = vm.iterate(iterable);
  loop->iterable = iterable;
  if (node.test != kNoNode) {
    vm.load(node.test_loads);
    auto* condition = vm.arena_.make<ConditionIterator>();
    *condition = {{ConditionIterator::advance, "generator"}, loop->source, &node, vm.frame_};
    loop->source = condition;
    loop->iterable = vm.of_iterator(condition);
  }
  const Vm::Mark mark = vm.begin_text();
  vm.run_loop_body(node, *loop->source, loop);
  --vm.call_depth_;
  return vm.end_text(mark);
}

Value Vm::call_loop(Loop& loop, const Args& args) {
  positional_only(args, "loop", 1, 1);
  if (!loop.node->is_recursive) {
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  return call_recursive(*this, loop, args.items[0]);
}

Flow Vm::run_block(const Node& node) {
  const BlockNode& block = program_.blocks[node.a];
  if (node.op == Op::with) {
    // The scope is entered before the values are computed, so they are not read from its slots.
    std::vector<Value> values;
    values.reserve(block.values.size);
    for (std::uint32_t i = 0; i < block.values.size; ++i) {
      values.push_back(eval(program_.lists[block.values.begin + i]));
    }
    load(block.loads);
    for (std::uint32_t i = 0; i < block.targets.size; ++i) {
      assign(program_.lists[block.targets.begin + i], values[i]);
    }
    return run(block.body);
  }
  load(block.loads);
  if (node.op == Op::scope) {
    Value* const slots = frame_->slots;
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
  if (block.filter != kNoNode) value = eval_filter(program_.nodes[block.filter], &value);
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
  caller.macro = arena_.make<Macro>(&program_.macros[node.a], frame_);
  print(eval_call(program_.nodes[node.b], &caller));
}

void Vm::run_template_block(const BlockNode& block) {
  if (block.is_required) {
    fail("TemplateRuntimeError",
         "Required block '" + std::string(program_.text_of(block.name)) + "' not found");
  }
  if (++call_depth_ > options_.max_call_depth) fail_depth();
  const Restore restore(frame_);
  frame_ = make_frame(block.slot_count, nullptr);
  load(block.loads);
  run(block.body);
  --call_depth_;
}

// --- assignment

void Vm::assign(NodeId target, const Value& value) {
  const Node& node = program_.nodes[target];
  if (node.op == Op::tuple) return unpack(node, value);
  if (node.op == Op::ns_ref) {
    const Value space = eval_name(node);
    const std::string_view name = program_.text_of(node.c);
    if (name[0] == '_') {
      fail("SecurityError",
           "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
               std::string(name) + "'. Please rename the attribute.");
    }
    Value attributes = space;
    set(attributes, program_.constants[node.c], value);
    return;
  }
  frame_->slots[node.a] = value;
}

void Vm::check_spaces(ListRef spaces) {
  for (std::uint32_t i = 0; i < spaces.size; ++i) {
    const Node& node = program_.nodes[program_.lists[spaces.begin + i]];
    if (!eval_name(node).is(Tag::name_space)) {
      fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    }
  }
}

void Vm::unpack(const Node& target, const Value& value) {
  if (!value.is(Tag::undefined) && !value.is_string() && !length(value) &&
      !value.is(Tag::iterator)) {
    type_error("cannot unpack non-iterable " + std::string(type_name(value)) + " object");
  }
  Iterator* source = iterate(value);
  Value item;
  std::uint32_t count = 0;
  for (; count < target.b && next(*source, item); ++count) {
    assign(program_.lists[target.a + count], item);
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
      for (std::uint32_t hop = 0; hop < node.d; ++hop) frame = frame->outer;
      const Value& value = frame->slots[node.a];
      if (!value.is(Tag::missing)) return value;
      return undefined_name(program_.text_of(node.b));
    }
    case Place::exported: {
      const Value& value = root_->slots[node.d];
      return value.is(Tag::missing) ? global(node.a) : value;
    }
    case Place::global:
      break;
  }
  return global(node.a);
}

Value Vm::eval(NodeId id) {
  const Node& node = program_.nodes[id];
  if (node.op == Op::constant) return program_.constants[node.a];
  if (node.op == Op::name) return eval_name(node);
  step();
  check_stack();
  switch (node.op) {
    case Op::get_attr: {
      const Value object = eval(node.a);
      position_ = node.position;
      return on({&object}, [&] { return attribute(object, program_.text_of(node.b), node.c); });
    }
    case Op::get_item: {
      const Value object = eval(node.a);
      const Value index = eval(node.b);
      position_ = node.position;
      return on({&object, &index}, [&] { return item(object, index); });
    }
    case Op::get_slice: {
      const Value object = eval(node.a);
      const Slice bounds = eval_slice(node);
      position_ = node.position;
      if (node.flags != 0 && !object.is_string() && !object.is_list() && !object.is(Tag::tuple)) {
        return undefined_attribute(object, {});
      }
      return slice(object, bounds);
    }
    case Op::slice: {
      Value value;
      value.tag = Tag::slice;
      value.slice = arena_.make<Slice>(eval_slice(node));
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
      position_ = node.position;
      return on({&operand}, [&] { return negate(operand, node.op == Op::positive); });
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
      position_ = node.position;
      return on({&left, &right}, [&] { return binary(node.op, left, right); });
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
      const Value key = eval(program_.lists[node.a + i]);
      const Value value = eval(program_.lists[node.a + i + 1]);
      position_ = node.position;
      set(dict, key, value);
    }
    return dict;
  }
  Value list = make_list(node.b, false, node.op == Op::tuple ? Tag::tuple : Tag::list);
  for (std::uint32_t i = 0; i < node.b; ++i) append(list, eval(program_.lists[node.a + i]));
  return list;
}

Value Vm::eval_concat(const Node& node) {
  Value sum = to_string(eval(program_.lists[node.a]));
  for (std::uint32_t i = 1; i < node.b; ++i) {
    const Value part = to_string(eval(program_.lists[node.a + i]));
    position_ = node.position;
    sum = concat(sum, part);
  }
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
  Value left = eval(program_.lists[node.a]);
  for (std::uint32_t i = 1; i < node.b; i += 2) {
    const auto op = static_cast<Compare>(program_.lists[node.a + i]);
    const Value right = eval(program_.lists[node.a + i + 1]);
    position_ = node.position;
    const bool holds = on({&left, &right}, [&] { return compare(op, left, right); });
    if (!holds || i + 2 >= node.b) return make_bool(holds);
    left = right;
  }
  return left;
}

Value Vm::eval_test(const Node& node) {
  const Value value = eval(node.a);
  // The two most common tests take no arguments.
  if (node.c == static_cast<std::uint32_t>(TestId::defined) &&
      program_.arguments[node.b].positional.size == 0) {
    return make_bool(!value.is(Tag::undefined));
  }
  const Args args = eval_args(node.b, nullptr);
  position_ = node.position;
  if (node.c == kNoBuiltin) {
    fail("TemplateRuntimeError",
         "No test named '" + std::string(program_.text_of(node.d)) + "' found.");
  }
  return make_bool(on({&value}, [&] { return call_test(node.c, value, args); }));
}

Value Vm::eval_filter(const Node& node, const Value* input) {
  const Value value = node.a == kNoNode ? *input : [&] {
    // The chain of filters of a filter block begins with the block's text.
    const Node& inner = program_.nodes[node.a];
    return input != nullptr && inner.op == Op::filter ? eval_filter(inner, input) : eval(node.a);
  }();
  const Args args = eval_args(node.b, nullptr);
  position_ = node.position;
  if (node.c == kNoBuiltin) {
    fail("TemplateRuntimeError",
         "No filter named '" + std::string(program_.text_of(node.d)) + "' found.");
  }
  return on({&value}, [&] { return call_filter(node.c, value, args); });
}

Value Vm::eval_call(const Node& node, const Value* caller) {
  const Node& callee = program_.nodes[node.a];
  if (callee.op == Op::get_attr && callee.c != kNoBuiltin) {
    const Value object = eval(callee.a);
    bool is_unsafe = false;
    if (has_method(object, static_cast<MethodId>(callee.c), is_unsafe) && !is_unsafe) {
      const Args args = eval_args(node.b, caller);
      position_ = callee.position;
      return on({&object},
                [&] { return call_method(object, static_cast<MethodId>(callee.c), args); });
    }
    position_ = callee.position;
    const Value function = attribute(object, program_.text_of(callee.b), callee.c);
    const Args args = eval_args(node.b, caller);
    position_ = node.position;
    return call(function, args);
  }
  const Value function = eval(node.a);
  const Args args = eval_args(node.b, caller);
  position_ = node.position;
  return call(function, args);
}

Args Vm::eval_args(std::uint32_t index, const Value* caller) {
  const Arguments& arguments = program_.arguments[index];
  Args args;
  if (arguments.star != kNoNode || arguments.double_star != kNoNode) {
    std::vector<Value> items;
    std::vector<Keyword> keywords;
    items.reserve(arguments.positional.size);
    for (std::uint32_t i = 0; i < arguments.positional.size; ++i) {
      items.push_back(eval(program_.lists[arguments.positional.begin + i]));
    }
    for (std::uint32_t i = 0; i < arguments.keywords.size; i += 2) {
      const std::uint32_t* keyword = &program_.lists[arguments.keywords.begin + i];
      keywords.push_back({program_.constants[keyword[0]], eval(keyword[1])});
    }
    if (caller != nullptr) keywords.push_back({make_string("caller"), *caller});
    spread(arguments.star, arguments.double_star, items, keywords);
    auto* copied = arena_.array<Value>(items.size());
    std::copy(items.begin(), items.end(), copied);
    auto* copied_keywords = arena_.array<Keyword>(keywords.size());
    std::copy(keywords.begin(), keywords.end(), copied_keywords);
    return {copied, static_cast<std::uint32_t>(items.size()), copied_keywords,
            static_cast<std::uint32_t>(keywords.size())};
  }
  args.size = arguments.positional.size;
  if (args.size != 0) {
    auto* items = arena_.array<Value>(args.size);
    for (std::uint32_t i = 0; i < args.size; ++i) {
      items[i] = eval(program_.lists[arguments.positional.begin + i]);
    }
    args.items = items;
  }
  args.keyword_count = arguments.keywords.size / 2 + (caller != nullptr ? 1 : 0);
  if (args.keyword_count != 0) {
    auto* keywords = arena_.array<Keyword>(args.keyword_count);
    for (std::uint32_t i = 0; i < arguments.keywords.size; i += 2) {
      const std::uint32_t* keyword = &program_.lists[arguments.keywords.begin + i];
      keywords[i / 2] = {program_.constants[keyword[0]], eval(keyword[1])};
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
      arena_.foresee((items.size() + 1) * sizeof(Value));
      items.push_back(item);
    }
  }
  if (double_star != kNoNode) {
    const Value more = eval(double_star);
    if (!more.is_mapping())
      type_error("argument after ** must be a mapping, not " + std::string(type_name(more)));
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
