#include <map>
#include <string_view>
#include <vector>

#include "tenon/jinja/ast.h"
#include "tenon/jinja/builtins.h"

/// Decides which variable a name means before anything runs, by the rules of jinja2's
/// idtracking.py. A scope that assigns a name owns that name from the scope's beginning on. Its
/// slot is filled from outside when the scope is entered, if the name is read before it is
/// assigned, or if it is assigned in only one arm of an `if`. Each scope is read twice: first to
/// learn its names (analyze), then to write their slots into the nodes and to go into the scopes
/// inside (place). The bindings that are visible at one point form a stack; `top_` has the
/// innermost binding of each name, and each binding remembers the one that it hides.
namespace tenon::jinja {
namespace {

constexpr std::uint32_t kNone = ~0U;

class Resolver {
 public:
  explicit Resolver(Program& program)
      : p_(program),
        top_(program.constants.size(), kNone),
        root_slots_(program.constants.size(), kNone),
        global_of_(program.constants.size(), kNone) {}

  // Two passes over each scope: `analyze` finds the names that it stores, `place` gives every name
  // its slot. One pass is not enough, because a name that is stored anywhere in a scope belongs to
  // the scope from its beginning.
  void run() {
    slot_counts_.push_back(0);
    open_scope();
    analyze(p_.body);
    place(p_.body);
    for (const Binding& binding : bindings_) root_slots_[binding.name] = binding.slot;
    p_.root_loads = close_scope();
    p_.slot_count = slot_counts_.back();
    for (const std::uint32_t block : p_.template_blocks) place_template_block(p_.blocks[block]);
  }

 private:
  // What a name means inside a scope. Names are numbers of constants (Program::constants).
  struct Binding {
    std::uint32_t name;
    std::uint32_t outer;     // the binding that this one hides
    std::uint32_t scope;     // how many scopes were open, to tell the scope's own bindings
    std::uint32_t function;  // how many functions are around it: frames to walk out
    std::uint32_t slot;      // kNone: only read, directly from the context
    // How the slot gets its first value: from what declares it (a loop's target, a macro's
    // parameter), from the context, from the slot of `outer`, or not at all.
    enum class Fill : std::uint8_t { parameter, global, outer, unset } fill;
    bool is_stored;  // the name is in stored_
  };

  [[noreturn]] static void fail(const Node& node, std::string message) {
    throw Fault{Errc::invalid, std::move(message), node.position};
  }

  // --- scopes and bindings

  void open_scope() {
    scope_starts_.push_back(static_cast<std::uint32_t>(bindings_.size()));
    ++scope_;
  }
  // What the scope must load when it is entered: names that it stores and whose value before that
  // comes from outside. Then the outer meaning of its names is restored.
  LoadRef close_scope() {
    const std::uint32_t start = scope_starts_.back();
    LoadRef ref{static_cast<std::uint32_t>(p_.loads.size()), 0};
    for (std::size_t i = start; i < bindings_.size(); ++i) {
      const Binding& binding = bindings_[i];
      if (binding.slot != kNone && binding.fill != Binding::Fill::parameter) {
        p_.loads.push_back(load_of(binding));
      }
    }
    ref.size = static_cast<std::uint32_t>(p_.loads.size()) - ref.begin;
    while (bindings_.size() > start) {
      top_[bindings_.back().name] = bindings_.back().outer;
      bindings_.pop_back();
    }
    scope_starts_.pop_back();
    --scope_;
    return ref;
  }
  // How the slot of a binding is filled when its scope is entered. `hops` is 0 if the value is in
  // the same frame: scopes of one function share its slots.
  Load load_of(const Binding& binding) {
    if (binding.fill == Binding::Fill::global) {
      return {Load::Kind::global, 0, binding.slot, global(binding.name)};
    }
    if (binding.fill == Binding::Fill::unset) return {Load::Kind::unset, 0, binding.slot, 0};
    const Binding& outer = bindings_[binding.outer];
    if (outer.slot == kNone) return {Load::Kind::global, 0, binding.slot, global(binding.name)};
    return {Load::Kind::local, static_cast<std::uint16_t>(binding.function - outer.function),
            binding.slot, outer.slot};
  }
  [[nodiscard]] std::uint32_t function() const {
    return static_cast<std::uint32_t>(slot_counts_.size() - 1);
  }
  std::uint32_t new_slot() { return slot_counts_.back()++; }
  std::uint32_t global(std::uint32_t name) {
    if (global_of_[name] == kNone) {
      global_of_[name] = static_cast<std::uint32_t>(p_.globals.size());
      p_.globals.push_back(name);
    }
    return global_of_[name];
  }
  // Names are interned, but a name that occurs only in the resolver may be a constant of its own.
  // What was found of a name is kept: each statement asks, and looks at all constants otherwise.
  std::uint32_t name_constant(std::string_view text) {
    const auto [known, is_new] = known_names_.emplace(text, kNone);
    for (std::uint32_t i = 0; is_new && i < p_.constants.size(); ++i) {
      if (!p_.constants[i].is(Tag::string) || p_.text_of(i) != text || !is_interned(i)) continue;
      known->second = i;
      break;
    }
    return known->second;
  }
  [[nodiscard]] bool is_interned(std::uint32_t constant) {
    if (interned_.empty()) {
      interned_.resize(p_.constants.size());
      for (const Node& node : p_.nodes) {
        if (node.op == Op::name || node.op == Op::ns_ref) interned_[node.b] = true;
      }
    }
    return interned_[constant];
  }
  // Makes the innermost meaning of a name, without a slot. Bindings are a stack, so a reference to
  // one is valid until the next call.
  Binding& bind(std::uint32_t name, Binding::Fill fill) {
    bindings_.push_back({name, top_[name], scope_, function(), kNone, fill, false});
    top_[name] = static_cast<std::uint32_t>(bindings_.size() - 1);
    return bindings_.back();
  }
  // The binding of a name in this scope itself; null if only outer scopes have one.
  [[nodiscard]] Binding* own(std::uint32_t name) {
    const std::uint32_t top = top_[name];
    return top != kNone && bindings_[top].scope == scope_ ? &bindings_[top] : nullptr;
  }
  // A name that is read and bound nowhere is the context's. If the scope stores it later, the slot
  // is filled from the context first, so that both uses see one variable.
  void load_name(std::uint32_t name) {
    if (top_[name] == kNone) bind(name, Binding::Fill::global);
  }
  // A name of an outer scope gets a slot of its own here: a template's scopes cannot change outer
  // names.
  void store_name(std::uint32_t name) {
    Binding* binding = own(name);
    if (binding == nullptr) {
      // Unset, since the first thing that happens to the name in this scope is the assignment.
      binding = &bind(name, top_[name] == kNone ? Binding::Fill::unset : Binding::Fill::outer);
    }
    if (binding->slot == kNone) binding->slot = new_slot();
    if (!binding->is_stored) {
      binding->is_stored = true;
      stored_.push_back(name);
    }
  }
  // Binds a name that gets its value from the statement that opens the scope.
  std::uint32_t declare(std::uint32_t name) {
    Binding* binding = own(name);
    if (binding == nullptr) binding = &bind(name, Binding::Fill::parameter);
    binding->fill = Binding::Fill::parameter;
    if (binding->slot == kNone) binding->slot = new_slot();
    binding->is_stored = true;
    return binding->slot;
  }
  // For `loop`, `caller` and the like. If the template never says the name, it needs a slot only.
  std::uint32_t declare(std::string_view text) {
    const std::uint32_t name = name_constant(text);
    return name == kNone ? new_slot() : declare(name);
  }

  // --- first reading: the names of a scope

  void analyze(ListRef body) {
    for (std::uint32_t i = 0; i < body.size; ++i) analyze_statement(p_.lists[body.begin + i]);
  }

  // Only what is stored in this scope itself: bodies of loops, macros and blocks are scopes of
  // their own.
  void analyze_statement(NodeId id) {
    const Node& node = p_.nodes[id];
    switch (node.op) {
      case Op::print:
      case Op::unloadable:
        analyze_expression(node.a);
        break;
      case Op::loop:
        analyze_expression(p_.loops[node.a].iterable);
        break;
      case Op::branch:
        analyze_branch(node);
        break;
      case Op::set:
        analyze_expression(node.b);
        analyze_target(node.a);
        break;
      case Op::set_block:
        analyze_target(p_.blocks[node.a].target);
        break;
      case Op::filter_block:
        analyze_expression(p_.blocks[node.a].filter);
        break;
      case Op::macro:
        store_name(p_.macros[node.a].name);
        break;
      case Op::call_block:
        analyze_expression(node.b);
        break;
      case Op::with: {
        const ListRef values = p_.blocks[node.a].values;
        for (std::uint32_t i = 0; i < values.size; ++i)
          analyze_expression(p_.lists[values.begin + i]);
        break;
      }
      default:
        break;
    }
  }

  // `if` opens no scope in jinja2: what an arm stores is there behind the `endif`.
  void analyze_branch(const Node& node) {
    const std::size_t stored = stored_.size();
    // What was stored before the branch stays as it is; the names behind `stored` are the arms'.
    for (std::uint32_t i = 0; i < node.b; i += 2) {
      analyze_expression(p_.lists[node.a + i]);
      analyze(body_of(p_.lists[node.a + i + 1]));
    }
    if (node.c != kNoNode) analyze(body_of(node.c));
    // A name that only some arms assign keeps its outer value in the others.
    for (std::size_t i = stored; i < stored_.size(); ++i) {
      Binding* binding = own(stored_[i]);
      if (binding == nullptr) continue;
      binding->fill = binding->outer == kNone ? Binding::Fill::global : Binding::Fill::outer;
    }
  }
  [[nodiscard]] ListRef body_of(NodeId id) const { return {p_.nodes[id].a, p_.nodes[id].b}; }

  void analyze_target(NodeId id) {
    const Node& node = p_.nodes[id];
    if (node.op == Op::tuple) {
      for (std::uint32_t i = 0; i < node.b; ++i) analyze_target(p_.lists[node.a + i]);
    } else if (node.op == Op::ns_ref) {
      load_name(node.b);  // `set ns.x = ...` reads ns
    } else {
      store_name(node.b);
    }
  }
  void declare_target(NodeId id) {
    const Node& node = p_.nodes[id];
    if (node.op == Op::tuple) {
      for (std::uint32_t i = 0; i < node.b; ++i) declare_target(p_.lists[node.a + i]);
    } else {
      declare(node.b);
    }
  }

  void analyze_expression(NodeId id) {
    const Node& node = p_.nodes[id];
    if (node.op == Op::name) return load_name(node.b);
    each_child(node, [this](NodeId child) { analyze_expression(child); });
  }

  // The operands of an expression, in the order of evaluation.
  template <class F>
  void each_child(const Node& node, F visit) {
    const auto visit_some = [&](NodeId child) {
      if (child != kNoNode) visit(child);
    };
    switch (node.op) {
      case Op::get_attr:
      case Op::logic_not:
      case Op::negative:
      case Op::positive:
        visit(node.a);
        break;
      case Op::get_item:
      case Op::logic_and:
      case Op::logic_or:
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide:
      case Op::floor_divide:
      case Op::modulo:
      case Op::power:
        visit(node.a);
        visit(node.b);
        break;
      case Op::get_slice:
      case Op::slice:
        visit_some(node.a);
        visit_some(node.b);
        visit_some(node.c);
        visit_some(node.d);
        break;
      case Op::condition:
        visit(node.a);
        visit(node.b);
        visit_some(node.c);
        break;
      case Op::call:
      case Op::filter:
      case Op::test: {
        visit_some(node.a);
        const Arguments arguments = p_.arguments[node.b];
        for (std::uint32_t i = 0; i < arguments.positional.size; ++i) {
          visit(p_.lists[arguments.positional.begin + i]);
        }
        for (std::uint32_t i = 1; i < arguments.keywords.size; i += 2) {
          visit(p_.lists[arguments.keywords.begin + i]);
        }
        visit_some(arguments.star);
        visit_some(arguments.double_star);
        break;
      }
      case Op::concat:
      case Op::list:
      case Op::tuple:
      case Op::dict:
        for (std::uint32_t i = 0; i < node.b; ++i) visit(p_.lists[node.a + i]);
        break;
      case Op::compare:
        visit(p_.lists[node.a]);
        // The entries between the operands are Compare values.
        for (std::uint32_t i = 2; i < node.b; i += 2) visit(p_.lists[node.a + i]);
        break;
      default:
        break;
    }
  }

  // --- second reading: places into nodes

  void place(ListRef body) {
    for (std::uint32_t i = 0; i < body.size; ++i) place_statement(p_.lists[body.begin + i]);
  }

  void place_statement(NodeId id) {
    const Node& node = p_.nodes[id];
    switch (node.op) {
      case Op::print:
      case Op::unloadable:
        place_expression(node.a);
        break;
      case Op::loop:
        place_loop(p_.loops[node.a]);
        break;
      case Op::branch:
        place_branch(node);
        break;
      case Op::set:
        place_expression(node.b);
        place_target(node.a);
        break;
      case Op::set_block:
      case Op::filter_block:
      case Op::with:
        place_block(p_.blocks[node.a], false);
        break;
      case Op::scope:
        place_block(p_.blocks[node.a], node.flags != 0);
        break;
      case Op::macro:
        place_macro(p_.macros[node.a]);
        place_target(p_.macros[node.a].target);
        break;
      // The body is a macro, and the call stands outside of it.
      case Op::call_block:
        place_macro(p_.macros[node.a]);
        place_expression(node.b);
        break;
      case Op::breaks:
      case Op::continues:
        if (loop_depth_ == 0) fail(node, "SyntaxError: 'break' or 'continue' outside loop");
        break;
      default:
        break;
    }
  }

  // jinja2 compiles an `if` with "soft" frames: unknown filters in it fail only when they are
  // reached.
  void place_branch(const Node& node) {
    const bool was_soft = is_soft_;
    is_soft_ = true;
    for (std::uint32_t i = 0; i < node.b; i += 2) {
      place_expression(p_.lists[node.a + i]);
      place(body_of(p_.lists[node.a + i + 1]));
    }
    if (node.c != kNoNode) place(body_of(node.c));
    is_soft_ = was_soft;
  }

  // Everything in a scope of its own is checked at compile time, not only when it is reached.
  class Hard {
   public:
    explicit Hard(bool& is_soft) : is_soft_(is_soft), was_soft_(is_soft) { is_soft_ = false; }
    ~Hard() { is_soft_ = was_soft_; }
    Hard(const Hard&) = delete;
    Hard& operator=(const Hard&) = delete;

   private:
    bool& is_soft_;
    bool was_soft_;
  };

  // Three scopes: the test, the body, and the `else`. A recursive loop is a function of its own,
  // with its own slots, since its body runs within itself.
  void place_loop(ForNode& loop) {
    place_expression(loop.iterable);
    // The iterable was placed before: it is computed in the frame around the loop.
    if (loop.is_recursive) slot_counts_.push_back(0);
    const Hard hard(is_soft_);
    const std::size_t loops = loop_depth_;
    const std::size_t stored = stored_.size();
    // A `break` cannot leave a function.
    if (loop.is_recursive) loop_depth_ = 0;
    ++for_depth_;
    if (loop.test != kNoNode) {
      open_scope();
      declare_target(loop.test_target);
      analyze_expression(loop.test);
      place_target(loop.test_target);
      place_expression(loop.test);
      loop.test_loads = close_scope();
    }
    open_scope();
    if (loop.has_loop) loop.loop_slot = declare("loop");
    declare_target(loop.target);
    analyze(loop.body);
    place_target(loop.target);
    ++loop_depth_;
    place(loop.body);
    --loop_depth_;
    loop.body_loads = close_scope();
    if (loop.has_else) {
      open_scope();
      analyze(loop.otherwise);
      place(loop.otherwise);
      loop.else_loads = close_scope();
    }
    --for_depth_;
    loop_depth_ = loops;
    // What the loop's scopes store does not count for an `if` around the loop.
    stored_.resize(stored);
    if (loop.is_recursive) {
      loop.slot_count = slot_counts_.back();
      slot_counts_.pop_back();
    }
  }

  void place_block(BlockNode& block, bool is_generation) {
    const std::size_t stored = stored_.size();
    const std::size_t loops = loop_depth_;
    for (std::uint32_t i = 0; i < block.values.size; ++i) {
      place_expression(p_.lists[block.values.begin + i]);
    }
    {
      const Hard hard(is_soft_);
      if (is_generation) loop_depth_ = 0;  // in jinja2 it is a function of its own
      open_scope();
      // The parser has set these to any other value if the body says the name.
      if (block.caller_slot != kNoNode) block.caller_slot = declare("caller");
      if (block.kwargs_slot != kNoNode) block.kwargs_slot = declare("kwargs");
      if (block.varargs_slot != kNoNode) block.varargs_slot = declare("varargs");
      for (std::uint32_t i = 0; i < block.targets.size; ++i) {
        declare_target(p_.lists[block.targets.begin + i]);
      }
      if (block.filter != kNoNode) analyze_expression(block.filter);
      analyze(block.body);
      for (std::uint32_t i = 0; i < block.targets.size; ++i) {
        place_target(p_.lists[block.targets.begin + i]);
      }
      if (block.filter != kNoNode) place_expression(block.filter);
      place(block.body);
      block.loads = close_scope();
      loop_depth_ = loops;
    }
    stored_.resize(stored);
    // The target of a set block belongs to the scope around it.
    if (block.target != kNoNode) place_target(block.target);
  }

  // A macro has its own frame of slots. Defaults are computed inside, after the parameters have
  // been declared, so a default can use an earlier parameter.
  void place_macro(MacroNode& macro) {
    const Hard hard(is_soft_);
    const std::size_t loops = loop_depth_;
    const std::size_t stored = stored_.size();
    loop_depth_ = 0;
    slot_counts_.push_back(0);
    open_scope();
    const ListRef parameters = macro.parameters;
    for (std::uint32_t i = 0; i < parameters.size; ++i)
      declare_target(p_.lists[parameters.begin + i]);
    if (macro.caller_slot != kNoNode) macro.caller_slot = declare("caller");
    if (macro.kwargs_slot != kNoNode) macro.kwargs_slot = declare("kwargs");
    if (macro.varargs_slot != kNoNode) macro.varargs_slot = declare("varargs");
    for (std::uint32_t i = 0; i < macro.defaults.size; ++i) {
      analyze_expression(p_.lists[macro.defaults.begin + i]);
    }
    analyze(macro.body);
    for (std::uint32_t i = 0; i < parameters.size; ++i)
      place_target(p_.lists[parameters.begin + i]);
    for (std::uint32_t i = 0; i < macro.defaults.size; ++i) {
      place_expression(p_.lists[macro.defaults.begin + i]);
    }
    place(macro.body);
    macro.loads = close_scope();
    macro.slot_count = slot_counts_.back();
    slot_counts_.pop_back();
    loop_depth_ = loops;
    stored_.resize(stored);
  }

  // A block sees the context and the names that the template sets at its top level, but nothing
  // around it: no scope is open here, so no name is bound.
  void place_template_block(BlockNode& block) {
    const Hard hard(is_soft_);
    loop_depth_ = for_depth_ = 0;
    is_in_block_ = true;
    slot_counts_.assign(1, 0);
    open_scope();
    analyze(block.body);
    place(block.body);
    block.loads = close_scope();
    block.slot_count = slot_counts_.back();
    is_in_block_ = false;
  }

  void place_target(NodeId id) {
    Node& node = p_.nodes[id];
    if (node.op == Op::tuple) {
      for (std::uint32_t i = 0; i < node.b; ++i) place_target(p_.lists[node.a + i]);
      return;
    }
    if (node.op == Op::name && for_depth_ > 0 && p_.text_of(node.b) == "loop") {
      fail(node,
           "TemplateAssertionError: Can't assign to special loop variable in for-loop target");
    }
    place_name(node);
  }

  // A name is local (a slot, and how many functions out it is), or global. Within a `block` a name
  // may also be one that the top level has exported.
  void place_name(Node& node) {
    const std::uint32_t top = top_[node.b];
    if (top == kNone || bindings_[top].slot == kNone) {
      node.flags = static_cast<std::uint8_t>(Place::global);
      node.a = global(node.b);
      if (!is_in_block_ || root_slots_[node.b] == kNone) return;
      node.flags = static_cast<std::uint8_t>(Place::exported);
      node.d = root_slots_[node.b];
      return;
    }
    node.flags = static_cast<std::uint8_t>(Place::local);
    node.a = bindings_[top].slot;
    node.d = function() - bindings_[top].function;
  }

  // An unknown filter or test is an error at once, except inside an `if` expression, where jinja2
  // reports it only when it is reached.
  void place_expression(NodeId id) {
    Node& node = p_.nodes[id];
    if (node.op == Op::name) return place_name(node);
    if (!is_soft_ && node.op == Op::filter && node.c == kNoBuiltin) {
      fail(node,
           "TemplateAssertionError: No filter named '" + std::string(p_.text_of(node.d)) + "'");
    }
    if (!is_soft_ && node.op == Op::test && node.c == kNoBuiltin) {
      fail(node, "TemplateAssertionError: No test named '" + std::string(p_.text_of(node.d)) + "'");
    }
    const bool was_soft = is_soft_;
    is_soft_ |= node.op == Op::condition;
    each_child(node, [this](NodeId child) { place_expression(child); });
    is_soft_ = was_soft;
  }

  Program& p_;
  std::vector<std::uint32_t> top_;         // by name: its innermost binding
  std::vector<std::uint32_t> root_slots_;  // by name: its slot at the template's top level
  std::vector<std::uint32_t> global_of_;   // by name: index into Program::globals
  std::vector<Binding> bindings_;
  std::vector<std::uint32_t> scope_starts_;
  std::vector<std::uint32_t> slot_counts_;  // one for each enclosing function
  std::vector<std::uint32_t> stored_;       // names assigned in this scope, in order
  std::vector<bool> interned_;
  std::map<std::string_view, std::uint32_t> known_names_;
  std::uint32_t scope_ = 0;
  std::size_t loop_depth_ = 0;  // enclosing loops that a break could end
  std::size_t for_depth_ = 0;   // all enclosing for statements
  bool is_soft_ = false;        // inside an if: unknown filters fail only when they are reached
  bool is_in_block_ = false;
};

}  // namespace

void resolve(Program& program) {
  Resolver(program).run();
}

}  // namespace tenon::jinja
