#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tenon/jinja/numbers.h"
#include "tenon/jinja/vm.h"

/// Calls of macros and global functions, and the methods of all values except strings.
///
/// Vm::call switches on the kind of the callee. A macro gets a frame of its own, whose outer frame
/// is the one in which the macro was defined; its parameters are bound as Python does (bind()),
/// with Python's errors. Methods are numbered when the template is compiled, so a call is a switch
/// over MethodId, first on the type of `self`, and no name is looked up while rendering. Global
/// functions (range, dict, namespace, cycler, joiner and those of transformers) are
/// numbered the same way. Lists and dicts of the template can be changed only with
/// CompileOptions::superset, because the sandbox of
/// transformers refuses that. Functions charge steps in proportion to their work.
namespace tenon::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // MAX_RANGE of jinja2's sandbox

}  // namespace

void Vm::positional_only(const Args& args, std::string_view function, std::size_t least,
                         std::size_t most) const {
  if (args.keyword_count != 0) type_error(std::string(function) + "() takes no keyword arguments");
  if (args.size < least || args.size > most) {
    type_error(std::string(function) + " expected " +
               (least == most       ? ""
                : args.size < least ? "at least "
                                    : "at most ") +
               std::to_string(args.size < least ? least : most) + " arguments, got " +
               std::to_string(args.size));
  }
}

void Vm::bind(const Args& args, std::string_view function,
              std::initializer_list<std::string_view> names, std::size_t required,
              Value* out) const {
  if (args.size > names.size()) {
    type_error(std::string(function) + "() takes at most " + std::to_string(names.size()) +
               " arguments (" + std::to_string(args.size) + " given)");
  }
  for (std::size_t i = 0; i < names.size(); ++i) out[i] = i < args.size ? args.items[i] : Value{};
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    const Value& key = args.keywords[i].key;
    std::size_t at = 0;
    for (const std::string_view name : names) {
      if (key.is(Tag::string) && key.bytes() == name) break;
      ++at;
    }
    if (at == names.size()) {
      type_error(std::string(function) + "() got an unexpected keyword argument '" +
                 std::string(key.is(Tag::string) ? key.bytes() : "") + "'");
    }
    if (!out[at].is(Tag::missing)) {
      type_error(std::string(function) + "() got multiple values for argument '" +
                 std::string(key.bytes()) + "'");
    }
    out[at] = args.keywords[i].value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (out[i].is(Tag::missing)) {
      type_error(std::string(function) + "() missing 1 required positional argument: '" +
                 std::string(names.begin()[i]) + "'");
    }
  }
}

Value Vm::call(const Value& callee, const Args& args) {
  switch (callee.tag) {
    case Tag::macro:
      return call_macro(*callee.macro, args);
    case Tag::method:
      return call_method(callee.method->self, static_cast<MethodId>(callee.method->id), args);
    case Tag::function:
      return call_function(static_cast<FunctionId>(callee.function), args);
    case Tag::loop:
      return call_loop(*callee.loop, args);
    case Tag::undefined:
      fail_undefined(callee);
    case Tag::joiner: {
      positional_only(args, "Joiner", 0, 0);
      if (callee.joiner->is_used) return callee.joiner->separator;
      callee.joiner->is_used = true;
      return make_string({});
    }
    case Tag::block: {
      positional_only(args, "block", 0, 0);
      const Mark mark = begin_text();
      run_template_block(program_.blocks[callee.function]);
      return end_text(mark);
    }
    default:
      type_error("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Vm::call_macro(const Macro& macro, const Args& args) {
  if (++call_depth_ > options_.max_call_depth) fail_depth();
  check_stack();
  const MacroNode& node = *macro.node;
  Frame* frame = make_frame(node.slot_count, macro.frame);
  const auto name = [&] {
    return node.name == kNoNode ? "None" : "'" + std::string(program_.text_of(node.name)) + "'";
  };
  const auto parameter = [&](std::uint32_t i) -> const Node& {
    return program_.nodes[program_.lists[node.parameters.begin + i]];
  };
  for (std::uint32_t i = 0; i < std::min(args.size, node.parameters.size); ++i) {
    frame->slots[parameter(i).a] = args.items[i];
  }
  Value rest = node.kwargs_slot != kNoNode ? make_dict() : Value{};
  bool has_caller = false;
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    const Keyword& keyword = args.keywords[i];
    const std::string_view key = text_of(keyword.key).bytes;
    std::uint32_t at = args.size;
    while (at < node.parameters.size && program_.text_of(parameter(at).b) != key) ++at;
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
  load(node.loads);
  const std::uint32_t first_default = node.parameters.size - node.defaults.size;
  for (std::uint32_t i = 0; i < node.parameters.size; ++i) {
    Value& slot = frame->slots[parameter(i).a];
    if (!slot.is(Tag::missing)) continue;
    if (i >= first_default) {
      slot = eval(program_.lists[node.defaults.begin + i - first_default]);
    } else {
      slot = undefined_name(program_.text_of(parameter(i).b));
    }
  }
  const Mark mark = begin_text();
  run(node.body);
  frame_ = caller_frame;
  --call_depth_;
  return end_text(mark);
}

namespace {

Value make_range(Vm& vm, const Args& args) {
  vm.positional_only(args, "range", 1, 3);
  const auto bound = [&](std::uint32_t i) { return vm.index_of(args.items[i], "range"); };
  Range range{0, 0, 1, 0};
  if (args.size == 1) {
    range.stop = bound(0);
  } else {
    range.start = bound(0);
    range.stop = bound(1);
    if (args.size == 3) range.step = bound(2);
  }
  if (range.step == 0) vm.value_error("range() arg 3 must not be zero");
  const bool is_up = range.step > 0;
  if (is_up ? range.stop > range.start : range.stop < range.start) {
    const std::uint64_t distance =
        is_up ? static_cast<std::uint64_t>(range.stop) - static_cast<std::uint64_t>(range.start)
              : static_cast<std::uint64_t>(range.start) - static_cast<std::uint64_t>(range.stop);
    const std::uint64_t stride = is_up ? static_cast<std::uint64_t>(range.step)
                                       : ~static_cast<std::uint64_t>(range.step) + 1;
    const std::uint64_t size = (distance - 1) / stride + 1;
    if (size > static_cast<std::uint64_t>(kMaxRange)) {
      vm.fail("OverflowError",
              "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    range.size = static_cast<std::int64_t>(size);
  }
  Value value;
  value.tag = Tag::range;
  value.range = vm.arena().make<Range>(range);
  return value;
}

// dict(mapping or pairs, **more); a namespace is made of the same arguments.
Value make_mapping(Vm& vm, const Args& args) {
  if (args.size > 1) {
    vm.type_error("dict expected at most 1 argument, got " + std::to_string(args.size));
  }
  Value dict = vm.make_dict();
  if (args.size == 1) {
    const Value& source = args.items[0];
    if (source.is_mapping()) {
      for (std::size_t i = 0; i < vm.entry_count(source); ++i) {
        Value key;
        Value value;
        vm.entry_at(source, i, key, value);
        vm.set(dict, key, value);
      }
    } else {
      Iterator* walk = vm.iterate(source);
      Value item;
      while (vm.next(*walk, item)) {
        const Value both = vm.collect(item);
        if (both.list->size != 2) {
          vm.value_error("dictionary update sequence element has length " +
                         std::to_string(both.list->size) + "; 2 is required");
        }
        vm.set(dict, both.list->items[0], both.list->items[1]);
      }
    }
  }
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    vm.set(dict, args.keywords[i].key, args.keywords[i].value);
  }
  return dict;
}

Value make_namespace(Vm& vm, const Args& args) {
  Value space = make_mapping(vm, args);
  for (std::uint32_t i = 0; i < space.dict->size; ++i) {
    const Value& key = space.dict->entries[i].key;
    if (key.is_string() && key.size != 0 && vm.text_of(key).bytes[0] == '_') {
      vm.fail(
          "SecurityError",
          "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
              std::string(vm.text_of(key).bytes) + "'. Please rename the attribute.");
    }
  }
  space.tag = Tag::name_space;
  return space;
}

}  // namespace

Value Vm::call_function(FunctionId id, const Args& args) {
  switch (id) {
    case FunctionId::range:
      return make_range(*this, args);
    case FunctionId::dict:
      return make_mapping(*this, args);
    case FunctionId::namespace_:
      return make_namespace(*this, args);
    case FunctionId::lipsum:
      fail("UnsupportedError", "lipsum() has no place in a prompt");
    case FunctionId::cycler: {
      if (args.keyword_count != 0) type_error("Cycler() takes no keyword arguments");
      if (args.size == 0) fail("RuntimeError", "at least one item has to be provided");
      Value value;
      value.tag = Tag::cycler;
      value.cycler = arena_.make<Cycler>(args.items, args.size, 0U);
      return value;
    }
    case FunctionId::joiner: {
      Value separator;
      bind(args, "joiner", {"sep"}, 0, &separator);
      Value value;
      value.tag = Tag::joiner;
      value.joiner =
          arena_.make<Joiner>(separator.is(Tag::missing) ? make_string(", ") : separator, false);
      return value;
    }
    case FunctionId::raise_exception: {
      Value message;
      bind(args, "raise_exception", {"message"}, 1, &message);
      const Value text = to_string(message);
      throw Fault{Errc::invalid, std::string(text_of(text).bytes), position_, {}, true};
    }
    case FunctionId::strftime_now: {
      Value format;
      bind(args, "strftime_now", {"format"}, 1, &format);
      return strftime(format);
    }
  }
  return {};
}

// --- methods

namespace {

using M = MethodId;

// Where a search for `item` begins and ends, by the arguments of index().
Value index_in_sequence(Vm& vm, const Value& self, const Args& args) {
  vm.positional_only(args, "index", 1, 3);
  const std::int64_t size = *vm.length(self);
  const auto bound = [&](std::uint32_t i, std::int64_t otherwise) {
    if (args.size <= i) return otherwise;
    const std::int64_t at = vm.index_of(args.items[i], "index");
    return at < 0 ? std::max<std::int64_t>(0, at + size) : std::min(at, size);
  };
  const std::int64_t end = bound(2, size);
  for (std::int64_t i = bound(1, 0); i < end; ++i) {
    vm.step();
    const Value item = vm.item_at(self, i);
    if (vm.identical(item, args.items[0]) || vm.equal(item, args.items[0])) return make_int(i);
  }
  vm.value_error(vm.described(args.items[0]) + " is not in " + std::string(vm.type_name(self)));
}

Value count_in_sequence(Vm& vm, const Value& self, const Args& args) {
  vm.positional_only(args, "count", 1, 1);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < *vm.length(self); ++i) {
    vm.step();
    const Value item = vm.item_at(self, i);
    count += vm.identical(item, args.items[0]) || vm.equal(item, args.items[0]);
  }
  return make_int(count);
}

// The methods by which GGUF templates change the lists that they make themselves.
Value change_list(Vm& vm, Value self, M id, const Args& args) {
  List& list = *self.list;
  const auto place = [&](const Value& index) {
    const std::int64_t at = vm.index_of(index, "index");
    return at < 0 ? at + list.size : at;
  };
  switch (id) {
    case M::append:
      vm.positional_only(args, "append", 1, 1);
      vm.append(self, args.items[0]);
      return none_value();
    case M::extend: {
      vm.positional_only(args, "extend", 1, 1);
      const Value more = vm.collect(args.items[0]);
      for (std::uint32_t i = 0; i < more.list->size; ++i) vm.append(self, more.list->items[i]);
      return none_value();
    }
    case M::insert: {
      vm.positional_only(args, "insert", 2, 2);
      const auto at =
          static_cast<std::uint32_t>(std::clamp<std::int64_t>(place(args.items[0]), 0, list.size));
      vm.append(self, args.items[1]);
      vm.charge(list.size);
      std::rotate(list.items + at, list.items + list.size - 1, list.items + list.size);
      return none_value();
    }
    case M::pop: {
      vm.positional_only(args, "pop", 0, 1);
      const std::int64_t at = args.size == 0 ? std::int64_t{list.size} - 1 : place(args.items[0]);
      if (list.size == 0) vm.fail("IndexError", "pop from empty list");
      if (at < 0 || at >= list.size) vm.fail("IndexError", "pop index out of range");
      const Value item = list.items[at];
      vm.charge(list.size);
      std::copy(list.items + at + 1, list.items + list.size, list.items + at);
      --list.size;
      return item;
    }
    case M::remove: {
      const Value at = index_in_sequence(vm, self, args);
      std::copy(list.items + at.integer + 1, list.items + list.size, list.items + at.integer);
      --list.size;
      return none_value();
    }
    case M::clear:
      vm.positional_only(args, "clear", 0, 0);
      list.size = 0;
      return none_value();
    case M::reverse:
      vm.positional_only(args, "reverse", 0, 0);
      vm.charge(list.size);
      std::reverse(list.items, list.items + list.size);
      return none_value();
    default: {
      Value bound[2];
      vm.bind(args, "sort", {"key", "reverse"}, 0, bound);
      if (!bound[0].is(Tag::missing) && !bound[0].is(Tag::none))
        vm.type_error("sort() takes no key here");
      vm.sort_values(list.items, list.items, list.size,
                     !bound[1].is(Tag::missing) && vm.truth(bound[1]));
      return none_value();
    }
  }
}

Value call_list_method(Vm& vm, const Value& self, M id, const Args& args) {
  switch (id) {
    case M::index:
      return index_in_sequence(vm, self, args);
    case M::count:
      return count_in_sequence(vm, self, args);
    case M::copy:
      vm.positional_only(args, "copy", 0, 0);
      return vm.collect(self);
    default:
      return change_list(vm, self, id, args);
  }
}

Value change_dict(Vm& vm, Value self, M id, const Args& args) {
  switch (id) {
    case M::update: {
      const Value more = make_mapping(vm, args);
      for (std::uint32_t i = 0; i < more.dict->size; ++i) {
        vm.set(self, more.dict->entries[i].key, more.dict->entries[i].value);
      }
      return none_value();
    }
    case M::setdefault: {
      vm.positional_only(args, "setdefault", 1, 2);
      const Value found = vm.get(self, args.items[0]);
      if (!found.is(Tag::missing)) return found;
      const Value value = args.size > 1 ? args.items[1] : none_value();
      vm.set(self, args.items[0], value);
      return value;
    }
    case M::pop: {
      vm.positional_only(args, "pop", 1, 2);
      Value value;
      if (vm.erase(*self.dict, args.items[0], value)) return value;
      if (args.size > 1) return args.items[1];
      vm.fail("KeyError", vm.described(args.items[0]));
    }
    case M::popitem: {
      vm.positional_only(args, "popitem", 0, 0);
      if (self.dict->size == 0) vm.fail("KeyError", "'popitem(): dictionary is empty'");
      const Value key = self.dict->entries[self.dict->size - 1].key;
      Value value;
      vm.erase(*self.dict, key, value);
      return vm.pair(key, value, false);
    }
    default: {
      vm.positional_only(args, "clear", 0, 0);
      const Value empty = vm.make_dict();
      *self.dict = *empty.dict;
      return none_value();
    }
  }
}

Value call_dict_method(Vm& vm, const Value& self, M id, const Args& args) {
  const auto view = [&](View::Kind kind) {
    vm.positional_only(args, "dict view", 0, 0);
    Value value;
    value.tag = Tag::view;
    value.flags = self.flags;
    value.view = vm.arena().make<View>(self, kind);
    return value;
  };
  switch (id) {
    case M::get: {
      vm.positional_only(args, "get", 1, 2);
      static_cast<void>(args.items[0].is(Tag::string) ? 0 : vm.hash(args.items[0]));
      const Value found = vm.get(self, args.items[0]);
      if (!found.is(Tag::missing)) return found;
      return args.size > 1 ? args.items[1] : none_value();
    }
    case M::keys:
      return view(View::Kind::keys);
    case M::values:
      return view(View::Kind::values);
    case M::items:
      return view(View::Kind::items);
    case M::copy: {
      vm.positional_only(args, "copy", 0, 0);
      Args copied;
      copied.items = &self;
      copied.size = 1;
      return make_mapping(vm, copied);
    }
    case M::fromkeys: {
      vm.positional_only(args, "fromkeys", 1, 2);
      Value dict = vm.make_dict();
      Iterator* walk = vm.iterate(args.items[0]);
      Value key;
      while (vm.next(*walk, key)) vm.set(dict, key, args.size > 1 ? args.items[1] : none_value());
      return dict;
    }
    default:
      return change_dict(vm, self, id, args);
  }
}

// int.to_bytes(length=1, byteorder='big', *, signed=False)
Value to_bytes(Vm& vm, const Value& self, const Args& args) {
  Value bound[3];
  vm.bind(args, "to_bytes", {"length", "byteorder", "signed"}, 0, bound);
  if (args.size > 2) vm.type_error("to_bytes() takes at most 2 positional arguments");
  const std::int64_t length = bound[0].is(Tag::missing) ? 1 : vm.index_of(bound[0], "length");
  if (length < 0) vm.value_error("length argument must be non-negative");
  std::string_view order = "big";
  if (!bound[1].is(Tag::missing)) {
    if (!bound[1].is_string()) {
      vm.type_error("to_bytes() argument 'byteorder' must be str, not " +
                    std::string(vm.type_name(bound[1])));
    }
    order = vm.text_of(bound[1]).bytes;
  }
  if (order != "big" && order != "little") {
    vm.value_error("byteorder must be either 'little' or 'big'");
  }
  const bool is_signed = !bound[2].is(Tag::missing) && vm.truth(bound[2]);
  const BigInt number = big_of(self);
  if (number.is_negative() && !is_signed) {
    vm.fail("OverflowError", "can't convert negative int to unsigned");
  }
  // A negative number n has the bits of ~(-n - 1).
  const BigInt magnitude = number.is_negative() ? -number - BigInt(1) : number;
  const std::size_t bits = magnitude.is_zero() ? 0 : magnitude.bits() + (is_signed ? 1 : 0);
  const auto size = static_cast<std::size_t>(length);
  if ((bits + 7) / 8 > size) {
    vm.fail("OverflowError", "int too big to convert");
  }
  vm.arena().foresee(size);
  vm.charge(size);
  std::string bytes(size, '\0');
  const auto& limbs = magnitude.limbs();
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t limb = i / 4 < limbs.size() ? limbs[i / 4] : 0;
    const auto byte = static_cast<unsigned char>(limb >> (8 * (i % 4)));
    const auto written = static_cast<unsigned char>(number.is_negative() ? ~byte : byte);
    bytes[order == "little" ? i : size - 1 - i] = static_cast<char>(written);
  }
  return vm.make_bytes(bytes, self.is_data());
}

Value call_number_method(Vm& vm, const Value& self, M id, const Args& args) {
  if (id == M::to_bytes) return to_bytes(vm, self, args);
  vm.positional_only(args, method_name(id), 0, 0);
  const bool is_data = self.is_data();
  switch (id) {
    case M::conjugate:
      return self.is(Tag::boolean) ? make_int(self.boolean, is_data) : self;
    case M::bit_length:
      return make_int(static_cast<std::int64_t>(big_of(self).bits()), is_data);
    case M::bit_count: {
      std::int64_t count = 0;
      const BigInt number = big_of(self);
      for (const std::uint32_t limb : number.limbs()) count += std::popcount(limb);
      return make_int(count, is_data);
    }
    case M::is_integer:
      return make_bool(std::isfinite(self.real) && std::trunc(self.real) == self.real);
    case M::as_integer_ratio:
      if (self.is_int()) return vm.pair(vm.negate(self, true), make_int(1), is_data);
      break;
    default:
      break;
  }
  vm.fail("UnsupportedError", std::string(vm.type_name(self)) + "." + std::string(method_name(id)) +
                                  " is not supported");
}

}  // namespace

Value Vm::call_method(const Value& self, MethodId id, const Args& args) {
  switch (self.tag) {
    case Tag::string:
    case Tag::rope:
      return call_string_method(self, id, args);
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range:
      return call_list_method(*this, self, id, args);
    case Tag::dict:
    case Tag::json_dict:
    case Tag::function:
      return call_dict_method(*this, self, id, args);
    case Tag::boolean:
    case Tag::integer:
    case Tag::big_integer:
    case Tag::real:
      return call_number_method(*this, self, id, args);
    case Tag::bytes:
      return call_bytes_method(self, id, args);
    case Tag::view: {
      positional_only(args, "isdisjoint", 1, 1);
      Iterator* walk = iterate(args.items[0]);
      Value item;
      while (next(*walk, item)) {
        if (contains(self, item)) return make_bool(false);
      }
      return make_bool(true);
    }
    case Tag::cycler: {
      positional_only(args, method_name(id), 0, 0);
      Cycler& cycler = *self.cycler;
      if (id == M::reset) {
        cycler.at = 0;
        return none_value();
      }
      const Value item = cycler.items[cycler.at];
      cycler.at = (cycler.at + 1) % cycler.size;
      return item;
    }
    case Tag::loop: {
      if (args.keyword_count != 0) type_error("takes no keyword arguments");
      Loop& loop = *self.loop;
      if (id == M::cycle) {
        if (args.size == 0) type_error("no items for cycling given");
        return args
            .items[static_cast<std::uint64_t>(std::max<std::int64_t>(0, loop.index0)) % args.size];
      }
      Value values = make_list(args.size, false, Tag::tuple);
      for (std::uint32_t i = 0; i < args.size; ++i) append(values, args.items[i]);
      if (!loop.changed.is(Tag::missing) && equal(loop.changed, values)) return make_bool(false);
      loop.changed = values;
      return make_bool(true);
    }
    default:
      type_error("'" + std::string(type_name(self)) + "' object is not callable");
  }
}

}  // namespace tenon::jinja
