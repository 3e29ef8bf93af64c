#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/jinja/ast.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/template.h"
#include "tenon/jinja/unicode.h"
#include "tenon/jinja/value.h"

/// One rendering: walks the nodes of a Program over a context with Python's semantics, and counts
/// the work. Internal to the layer. It fails by throwing Fault.
namespace tenon::jinja {

class Vm;

/// A walk over something iterable. Each kind of walk derives from it and lives in the arena.
struct Iterator {
  bool (*next)(Vm& vm, Iterator& self, Value& item);
  const char* type_name;  // "generator", ...
};

/// The bytes of a string and where they came from.
struct Text {
  std::string_view bytes;
  const Run* runs = nullptr;  // null: one origin
  std::uint32_t run_count = 0;
  bool is_data = false;

  /// The origin of byte `at`, which must exist.
  [[nodiscard]] bool is_data_at(std::size_t at) const {
    if (runs == nullptr) return is_data;
    return std::upper_bound(runs, runs + run_count, at,
                            [](std::size_t a, const Run& run) { return a < run.end; })
        ->is_data;
  }
};

struct Keyword {
  Value key, value;
};

/// The arguments of a call.
struct Args {
  const Value* items = nullptr;
  std::uint32_t size = 0;
  const Keyword* keywords = nullptr;
  std::uint32_t keyword_count = 0;
};

/// The slots of a function that is running, and the frame of the function around its definition.
struct Frame {
  Frame* outer;
  Value* slots;
};

struct Macro {
  const MacroNode* node;
  Frame* frame;  // the frame in which it was defined
};

struct Loop {
  Iterator* source;
  Value iterable;
  const ForNode* node;
  Frame* frame;  // the frame around a recursive loop
  std::int64_t index0 = -1;
  std::int64_t length = -1;  // -1: not known yet
  std::int64_t depth0 = 0;
  Value after, current, before, changed;
};

enum class Flow : std::uint8_t { normal, breaks, continues };

class Vm {
 public:
  Vm(const Program& program, const json::Object& context, const RenderOptions& options);
  Vm(const Vm&) = delete;
  Vm& operator=(const Vm&) = delete;

  Rendered render();
  [[nodiscard]] std::uint32_t position() const { return position_; }

  // --- failing and budgets (vm.cc)
  [[noreturn]] void fail(std::string_view kind, std::string message) const;
  [[noreturn]] void type_error(std::string message) const { fail("TypeError", std::move(message)); }
  [[noreturn]] void value_error(std::string message) const {
    fail("ValueError", std::move(message));
  }
  [[noreturn]] void fail_limit(std::string message) const;
  [[noreturn]] void fail_undefined(const Value& value) const;
  void step() {
    if (++steps_ > options_.max_steps) fail_steps();
  }
  /// Counts work in proportion to `size`.
  void charge(std::size_t size) {
    steps_ += size / 16;
    step();
  }
  /// Counts the work of writing an integer of `limbs` times 32 bits in decimal, or of reading one.
  void charge_decimals(std::size_t limbs) { charge(limbs * limbs * 4); }
  Arena& arena() { return arena_; }

  // --- text being made (text.cc): one buffer, in which inner texts stand behind outer ones
  struct Mark {
    std::size_t size, runs, floor;
  };
  void put(std::string_view bytes, bool is_data);
  void put(char c, bool is_data) { put(std::string_view(&c, 1), is_data); }
  void put_text(const Text& text) { put_text(text, 0, text.bytes.size()); }
  void put_text(const Text& text, std::size_t begin, std::size_t end);
  void put_string(const Value& string);
  void put_repeated(std::string_view bytes, std::int64_t times, bool is_data);
  Mark begin_text();
  Value end_text(const Mark& mark);
  void drop_text(const Mark& mark);

  [[nodiscard]] Text text_of(const Value& string);
  [[nodiscard]] Value substring(const Text& text, std::size_t begin, std::size_t end);
  [[nodiscard]] Value concat(const Value& left, const Value& right);
  [[nodiscard]] Value string_copy(std::string_view bytes, bool is_data);
  [[nodiscard]] std::size_t length_of_text(const Value& string);  // code points
  void flatten(Rope& rope, std::uint32_t size);

  // --- values (values.cc)
  [[nodiscard]] std::string_view type_name(const Value& value) const;
  [[nodiscard]] std::string object_name(Tag tag) const;
  [[nodiscard]] Value import(const json::Value& value);
  [[nodiscard]] Value import_quoted(std::string_view text);
  [[nodiscard]] bool truth(const Value& value);
  [[nodiscard]] bool equal(const Value& a, const Value& b);
  [[nodiscard]] bool identical(const Value& a, const Value& b) const;
  [[nodiscard]] bool less(const Value& a, const Value& b, const char* sign = "<");
  [[nodiscard]] int compare_numbers(const Value& a, const Value& b, bool& is_unordered);
  [[nodiscard]] bool contains(const Value& container, const Value& item);
  [[nodiscard]] std::uint64_t hash(const Value& value);
  [[nodiscard]] std::optional<std::int64_t> length(const Value& value);  // nothing: it has no len()
  [[nodiscard]] std::int64_t length_or_fail(const Value& value);
  void print(const Value& value);  // appends str(value) to the output
  void repr(const Value& value);
  [[nodiscard]] Value to_string(const Value& value);
  [[nodiscard]] std::string described(const Value& value);  // repr for messages, cut short
  void repr_string(const Text& text);

  // --- containers (values.cc)
  [[nodiscard]] Value make_list(std::uint32_t capacity, bool is_data = false, Tag tag = Tag::list);
  void append(Value& list, const Value& item);
  [[nodiscard]] Value make_dict(bool is_data = false);
  void set(Value& dict, const Value& key, const Value& value);
  [[nodiscard]] Value* find(const Dict& dict, const Value& key);
  [[nodiscard]] Value* find(const Dict& dict, std::string_view key);
  bool erase(Dict& dict, const Value& key, Value& value);
  [[nodiscard]] Value get(const Value& mapping, const Value& key);  // missing if the key is absent
  [[nodiscard]] Value get(const Value& mapping, std::string_view key);
  [[nodiscard]] Value item_at(const Value& sequence, std::int64_t index);  // 0 <= index < length
  [[nodiscard]] Value pair(const Value& first, const Value& second, bool is_data);
  /// Key and value number `index` of a mapping.
  void entry_at(const Value& mapping, std::size_t index, Value& key, Value& value);
  [[nodiscard]] std::size_t entry_count(const Value& mapping) const;

  // --- walking (iterators.cc)
  [[nodiscard]] Iterator* iterate(const Value& value);
  [[nodiscard]] Iterator* reversed(const Value& value);  // null where Python has no __reversed__
  [[nodiscard]] Value collect(const Value& iterable);    // list(iterable)
  [[nodiscard]] Value of_iterator(Iterator* iterator, bool is_data = false);
  bool next(Iterator& iterator, Value& item) {
    step();
    return iterator.next(*this, iterator, item);
  }
  bool loop_next(Loop& loop, Value& item);
  [[nodiscard]] Value loop_attribute(Loop& loop, const Value& self, std::string_view name,
                                     MethodId id);

  // --- operators (operators.cc)
  [[nodiscard]] Value binary(Op op, const Value& a, const Value& b);
  [[nodiscard]] Value negate(const Value& a, bool is_positive);
  [[nodiscard]] Value slice(const Value& object, const Slice& bounds);
  [[nodiscard]] Value item(const Value& object, const Value& index);  // object[index]
  [[nodiscard]] Value attribute(const Value& object, std::string_view name, std::uint32_t method,
                                bool falls_back = true);  // object.name
  [[nodiscard]] std::int64_t index_of(const Value& value, std::string_view what);
  [[nodiscard]] bool has_method(const Value& object, MethodId id, bool& is_unsafe) const;

  // --- calls (calls.cc, methods.cc, filters.cc, tests.cc)
  [[nodiscard]] Value call(const Value& callee, const Args& args);
  [[nodiscard]] Value call_method(const Value& self, MethodId id, const Args& args);
  [[nodiscard]] Value call_string_method(const Value& self, MethodId id, const Args& args);
  [[nodiscard]] Value call_function(FunctionId id, const Args& args);
  [[nodiscard]] Value call_macro(const Macro& macro, const Args& args);
  [[nodiscard]] Value call_filter(std::uint32_t id, const Value& value, const Args& args);
  [[nodiscard]] bool call_test(std::uint32_t id, const Value& value, const Args& args);
  [[nodiscard]] Value call_loop(Loop& loop, const Args& args);

  /// Puts arguments into `out` in the order of `names`; absent ones are missing. Fails as Python
  /// does if an argument is unknown, given twice or too much, or if one of the first `required` is
  /// absent.
  void bind(const Args& args, std::string_view function,
            std::initializer_list<std::string_view> names, std::size_t required, Value* out) const;
  void positional_only(const Args& args, std::string_view function, std::size_t least,
                       std::size_t most) const;

  // --- formatting (format.cc, dumps.cc, dates.cc)
  [[nodiscard]] Value percent(const Value& format, const Value& arguments);
  [[nodiscard]] Value format_string(const Value& format, const Args& args, const Value* mapping);
  void format_value(const Value& value, const Text& spec);
  [[nodiscard]] Value dumps(const Value& value, const Args& args);
  [[nodiscard]] Value strftime(const Value& format);
  [[nodiscard]] Value from_json(const Value& text);
  [[nodiscard]] Value unescape_html(const Value& string);  // markup.cc
  [[nodiscard]] Value ascii(const Value& value);
  [[nodiscard]] Value make_bytes(std::string_view bytes, bool is_data);  // bytes.cc
  [[nodiscard]] Value call_bytes_method(const Value& self, MethodId id, const Args& args);

  [[nodiscard]] Value undefined_name(std::string_view name) const;
  [[nodiscard]] Value undefined_hint(std::string_view hint) const;  // `hint` must outlive the
                                                                    // rendering
  [[nodiscard]] Value undefined_attribute(const Value& object, std::string_view name) const;
  [[nodiscard]] Value unsafe_attribute(const Value& object, std::string_view name) const;

  /// The attribute path of map, sort and similar filters: "a.b.0" or an integer.
  [[nodiscard]] Value make_path(const Value& attribute);
  [[nodiscard]] Value follow(const Value& path, Value item, const Value& fallback);
  [[nodiscard]] Value ignore_case(const Value& value);
  void sort_values(Value* items, const Value* keys, std::uint32_t size, bool is_reversed);
  [[nodiscard]] Value mapped_case(const Value& string, unicode::Case to);
  [[nodiscard]] Value title_words(const Value& string);
  [[nodiscard]] Value capitalized(const Value& string);

  class Deeper;
  [[nodiscard]] bool superset() const { return program_.superset; }

 private:
  friend class Deeper;

  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_depth() const;

  // --- running (vm.cc)
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
  void check_stack() const {
    if (static_cast<const char*>(__builtin_frame_address(0)) < stack_end_) fail_depth();
  }

  friend Value call_recursive(Vm& vm, Loop& loop, const Value& iterable);
  friend struct ConditionIterator;

  const Program& program_;
  const json::Object& context_;
  const RenderOptions& options_;
  Arena arena_;
  std::size_t steps_ = 0;
  std::size_t call_depth_ = 0;
  std::size_t value_depth_ = 0;
  const char* stack_end_;
  std::uint32_t position_ = Fault::kNoPosition;
  Frame* frame_ = nullptr;
  Frame* root_ = nullptr;
  Value* globals_ = nullptr;  // by index; missing: not looked up yet
  std::string out_;
  std::vector<Run> runs_;     // of out_, per text being made
  std::vector<Value> parts_;  // of the rope that put_string walks over, kept for its memory
  std::size_t floor_ = 0;     // runs_ from here on belong to the innermost text
  std::int64_t now_ = 0;
  bool is_local_ = false;  // now_ was read from the clock
};

/// Counts the depth of a walk over a value, since values can hold each other 100,000 deep.
class Vm::Deeper {
 public:
  explicit Deeper(Vm& vm) : vm_(vm) {
    if (++vm_.value_depth_ > kMax) vm_.fail_limit("a value nests deeper than 300 levels");
    vm_.check_stack();
    vm_.step();
  }
  ~Deeper() { --vm_.value_depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  static constexpr std::size_t kMax = 300;
  Vm& vm_;
};

}  // namespace tenon::jinja
