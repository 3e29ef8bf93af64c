#include "tenon/jinja/methods.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tenon/jinja/bytes.h"
#include "tenon/jinja/functions.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/sorting.h"
#include "tenon/jinja/string_methods.h"

/// The methods of all values except strings and bytes. They are numbered when the template is
/// compiled, so a call is a switch over MethodId, first on the type of `self`, and no name is
/// looked up while rendering. Lists and dicts of the template can be changed only with
/// CompileOptions::superset, because the sandbox of transformers refuses that. Methods charge steps
/// in proportion to their work.
namespace tenon::jinja {
namespace {

using M = MethodId;

// The place of the first item in [begin, end) that equals `wanted`; -1: no item does.
std::int64_t find_item(Runtime& rt, const Value& self, const Value& wanted, std::int64_t begin,
                       std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    rt.step();
    const Value item = rt.item_at(self, i);
    if (identical(item, wanted) || rt.equal(item, wanted)) return i;
  }
  return -1;
}

// With the optional start and end of Python's index().
Value index_in_sequence(Runtime& rt, const Value& self, const Args& args) {
  positional_only(rt, args, "index", 1, 3);
  const std::int64_t size = *rt.length(self);
  const auto bound = [&](std::uint32_t i, std::int64_t otherwise) {
    if (args.size <= i) return otherwise;
    const std::int64_t at = index_of(rt, args.items[i]);
    return at < 0 ? std::max<std::int64_t>(0, at + size) : std::min(at, size);
  };
  const std::int64_t at = find_item(rt, self, args.items[0], bound(1, 0), bound(2, size));
  if (at >= 0) return make_int(at);
  rt.value_error(rt.described(args.items[0]) + " is not in " + std::string(type_name(self)));
}

// `is` before `==`, as Python compares items.
Value count_in_sequence(Runtime& rt, const Value& self, const Args& args) {
  positional_only(rt, args, "count", 1, 1);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < *rt.length(self); ++i) {
    rt.step();
    const Value item = rt.item_at(self, i);
    count += identical(item, args.items[0]) || rt.equal(item, args.items[0]);
  }
  return make_int(count);
}

// The methods by which GGUF templates change the lists that they make themselves.
Value change_list(Runtime& rt, Value self, M id, const Args& args) {
  List& list = *self.list;
  // A negative index counts from the end.
  const auto place = [&](const Value& index) {
    const std::int64_t at = index_of(rt, index);
    return at < 0 ? at + list.size : at;
  };
  switch (id) {
    case M::append:
      positional_only(rt, args, "append", 1, 1);
      rt.append(self, args.items[0]);
      return none_value();
    case M::extend: {
      positional_only(rt, args, "extend", 1, 1);
      const Value more = rt.collect(args.items[0]);
      for (std::uint32_t i = 0; i < more.list->size; ++i) rt.append(self, more.list->items[i]);
      return none_value();
    }
    case M::insert: {
      positional_only(rt, args, "insert", 2, 2);
      const auto at =
          static_cast<std::uint32_t>(std::clamp<std::int64_t>(place(args.items[0]), 0, list.size));
      // Appended, and then moved to its place by turning what is behind the place.
      rt.append(self, args.items[1]);
      rt.charge(list.size);
      std::rotate(list.items + at, list.items + list.size - 1, list.items + list.size);
      return none_value();
    }
    case M::pop: {
      positional_only(rt, args, "pop", 0, 1);
      const std::int64_t at = args.size == 0 ? std::int64_t{list.size} - 1 : place(args.items[0]);
      if (list.size == 0) rt.fail("IndexError", "pop from empty list");
      if (at < 0 || at >= list.size) rt.fail("IndexError", "pop index out of range");
      const Value item = list.items[at];
      rt.charge(list.size);
      std::copy(list.items + at + 1, list.items + list.size, list.items + at);
      --list.size;
      return item;
    }
    case M::remove: {
      positional_only(rt, args, "remove", 1, 1);
      const std::int64_t at = find_item(rt, self, args.items[0], 0, list.size);
      if (at < 0) rt.value_error("list.remove(x): x not in list");
      std::copy(list.items + at + 1, list.items + list.size, list.items + at);
      --list.size;
      return none_value();
    }
    case M::clear:
      positional_only(rt, args, "clear", 0, 0);
      list.size = 0;
      return none_value();
    case M::reverse:
      positional_only(rt, args, "reverse", 0, 0);
      rt.charge(list.size);
      std::reverse(list.items, list.items + list.size);
      return none_value();
    default: {
      Value bound[2];
      bind_arguments(rt, args, "sort", {"key", "reverse"}, 0, bound);
      if (!bound[0].is(Tag::missing) && !bound[0].is(Tag::none))
        rt.type_error("sort() takes no key here");
      sort_values(rt, list.items, list.items, list.size,
                  !bound[1].is(Tag::missing) && rt.truth(bound[1]));
      return none_value();
    }
  }
}

// A list, tuple or range; the methods that change it exist only for lists of the template
// (has_method).
Value call_list_method(Runtime& rt, const Value& self, M id, const Args& args) {
  switch (id) {
    case M::index:
      return index_in_sequence(rt, self, args);
    case M::count:
      return count_in_sequence(rt, self, args);
    case M::copy:
      positional_only(rt, args, "copy", 0, 0);
      return rt.collect(self);
    default:
      return change_list(rt, self, id, args);
  }
}

// For dicts of the template only. The order of entries is kept, as Python keeps it.
Value change_dict(Runtime& rt, Value self, M id, const Args& args) {
  switch (id) {
    case M::update: {
      const Value more = make_mapping(rt, args);
      for (std::uint32_t i = 0; i < more.dict->size; ++i) {
        rt.set(self, more.dict->entries[i].key, more.dict->entries[i].value);
      }
      return none_value();
    }
    case M::setdefault: {
      positional_only(rt, args, "setdefault", 1, 2);
      const Value found = rt.get(self, args.items[0]);
      if (!found.is(Tag::missing)) return found;
      const Value value = args.size > 1 ? args.items[1] : none_value();
      rt.set(self, args.items[0], value);
      return value;
    }
    case M::pop: {
      positional_only(rt, args, "pop", 1, 2);
      Value value;
      if (rt.erase(*self.dict, args.items[0], value)) return value;
      if (args.size > 1) return args.items[1];
      rt.fail("KeyError", rt.described(args.items[0]));
    }
    case M::popitem: {
      positional_only(rt, args, "popitem", 0, 0);
      if (self.dict->size == 0) rt.fail("KeyError", "'popitem(): dictionary is empty'");
      const Value key = self.dict->entries[self.dict->size - 1].key;
      Value value;
      rt.erase(*self.dict, key, value);
      return rt.pair(key, value, false);
    }
    default: {
      positional_only(rt, args, "clear", 0, 0);
      const Value empty = rt.make_dict();
      // The table of slots is given up with the entries; the memory stays in the arena until the
      // end.
      *self.dict = *empty.dict;
      return none_value();
    }
  }
}

Value call_dict_method(Runtime& rt, const Value& self, M id, const Args& args) {
  // keys(), values() and items() are views: they show later changes of the dict, too.
  const auto view = [&](View::Kind kind) {
    positional_only(rt, args, "dict view", 0, 0);
    Value value;
    value.tag = Tag::view;
    value.flags = self.flags;
    value.view = rt.arena().make<View>(self, kind);
    return value;
  };
  switch (id) {
    case M::get: {
      positional_only(rt, args, "get", 1, 2);
      // An unhashable key fails, also in a dict of the context, which would not hash it.
      static_cast<void>(args.items[0].is(Tag::string) ? 0 : rt.hash(args.items[0]));
      const Value found = rt.get(self, args.items[0]);
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
      positional_only(rt, args, "copy", 0, 0);
      Args copied;
      copied.items = &self;
      copied.size = 1;
      return make_mapping(rt, copied);
    }
    // Reached from a dict or from the function `dict`; `self` has no part in it.
    case M::fromkeys: {
      positional_only(rt, args, "fromkeys", 1, 2);
      Value dict = rt.make_dict();
      Iterator* walk = rt.iterate(args.items[0]);
      Value key;
      while (rt.next(*walk, key)) rt.set(dict, key, args.size > 1 ? args.items[1] : none_value());
      return dict;
    }
    default:
      return change_dict(rt, self, id, args);
  }
}

// int.to_bytes(length=1, byteorder='big', *, signed=False)
Value to_bytes(Runtime& rt, const Value& self, const Args& args) {
  Value bound[3];
  bind_arguments(rt, args, "to_bytes", {"length", "byteorder", "signed"}, 0, bound);
  if (args.size > 2) rt.type_error("to_bytes() takes at most 2 positional arguments");
  const std::int64_t length = bound[0].is(Tag::missing) ? 1 : index_of(rt, bound[0]);
  if (length < 0) rt.value_error("length argument must be non-negative");
  std::string_view order = "big";
  if (!bound[1].is(Tag::missing)) {
    if (!bound[1].is_string()) {
      rt.type_error("to_bytes() argument 'byteorder' must be str, not " +
                    std::string(type_name(bound[1])));
    }
    order = rt.text_of(bound[1]).bytes;
  }
  if (order != "big" && order != "little") {
    rt.value_error("byteorder must be either 'little' or 'big'");
  }
  const bool is_signed = !bound[2].is(Tag::missing) && rt.truth(bound[2]);
  const BigInt number = big_of(self);
  if (number.is_negative() && !is_signed) {
    rt.fail("OverflowError", "can't convert negative int to unsigned");
  }
  // A negative number n has the bits of ~(-n - 1).
  const BigInt magnitude = number.is_negative() ? -number - BigInt(1) : number;
  const std::size_t bits = magnitude.is_zero() ? 0 : magnitude.bits() + (is_signed ? 1 : 0);
  const auto size = static_cast<std::size_t>(length);
  // With a sign, one bit more than the magnitude has.
  if ((bits + 7) / 8 > size) {
    rt.fail("OverflowError", "int too big to convert");
  }
  rt.arena().foresee(size);
  rt.charge(size);
  std::string bytes(size, '\0');
  const auto& limbs = magnitude.limbs();
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t limb = i / 4 < limbs.size() ? limbs[i / 4] : 0;
    const auto byte = static_cast<unsigned char>(limb >> (8 * (i % 4)));
    const auto written = static_cast<unsigned char>(number.is_negative() ? ~byte : byte);
    bytes[order == "little" ? i : size - 1 - i] = static_cast<char>(written);
  }
  return make_bytes(rt, bytes, self.is_data());
}

Value call_number_method(Runtime& rt, const Value& self, M id, const Args& args) {
  if (id == M::to_bytes) return to_bytes(rt, self, args);
  positional_only(rt, args, method_name(id), 0, 0);
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
      // An int is itself over one. A float would need a power of two of any size.
      if (self.is_int()) return rt.pair(negate(rt, self, true), make_int(1), is_data);
      break;
    default:
      break;
  }
  rt.fail("UnsupportedError",
          std::string(type_name(self)) + "." + std::string(method_name(id)) + " is not supported");
}

}  // namespace

Value call_method(Runtime& rt, const Value& self, MethodId id, const Args& args) {
  switch (self.tag) {
    case Tag::string:
    case Tag::rope:
      return call_string_method(rt, self, id, args);
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range:
      return call_list_method(rt, self, id, args);
    case Tag::dict:
    case Tag::json_dict:
    case Tag::function:
      return call_dict_method(rt, self, id, args);
    case Tag::boolean:
    case Tag::integer:
    case Tag::big_integer:
    case Tag::real:
      return call_number_method(rt, self, id, args);
    case Tag::bytes:
      return call_bytes_method(rt, self, id, args);
    case Tag::view: {
      // The only method of views.
      positional_only(rt, args, "isdisjoint", 1, 1);
      Iterator* walk = rt.iterate(args.items[0]);
      Value item;
      while (rt.next(*walk, item)) {
        if (rt.contains(self, item)) return make_bool(false);
      }
      return make_bool(true);
    }
    case Tag::cycler: {
      positional_only(rt, args, method_name(id), 0, 0);
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
      if (args.keyword_count != 0) rt.type_error("takes no keyword arguments");
      Loop& loop = *self.loop;
      if (id == M::cycle) {
        if (args.size == 0) rt.type_error("no items for cycling given");
        // jinja2 counts from the loop's index.
        return args
            .items[static_cast<std::uint64_t>(std::max<std::int64_t>(0, loop.index0)) % args.size];
      }
      // `loop.changed(a, b)` compares all arguments with those of the call before.
      Value values = rt.make_list(args.size, false, Tag::tuple);
      for (std::uint32_t i = 0; i < args.size; ++i) rt.append(values, args.items[i]);
      if (!loop.changed.is(Tag::missing) && rt.equal(loop.changed, values)) return make_bool(false);
      loop.changed = values;
      return make_bool(true);
    }
    default:
      rt.type_error("'" + std::string(type_name(self)) + "' object is not callable");
  }
}

}  // namespace tenon::jinja
