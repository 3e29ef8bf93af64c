#include "tenon/jinja/indexing.h"

#include <algorithm>
#include <vector>

#include "tenon/jinja/bytes.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/unicode.h"

/// Attributes follow jinja2's sandbox: `a.b` looks for an attribute first and for an item second,
/// `a["b"]` the other way round. The attributes are the ones that Python's types have (has_method);
/// those that the sandbox forbids, such as names with two underscores, give an undefined value that
/// fails once it is used. Names of methods were looked up when the template was compiled, so
/// attribute() gets their numbers and compares no names of its own.
namespace tenon::jinja {

// `object[index]`: the item first, then an attribute of that name, then undefined, as jinja2's
// Environment.getitem does.
Value item(Runtime& rt, const Value& object, const Value& index) {
  switch (object.tag) {
    case Tag::undefined:
      rt.fail_undefined(object);
    case Tag::dict:
    case Tag::json_dict:
      if (index.is_string()) {
        const Value found = rt.get(object, index);
        if (!found.is(Tag::missing)) return found;
      } else if (!index.is_list() && !index.is_mapping() && !index.is(Tag::slice)) {
        // What cannot be hashed is no key; jinja2 catches Python's TypeError and goes on.
        if (index.is(Tag::undefined)) break;
        const Value found = rt.get(object, index);
        if (!found.is(Tag::missing)) return found;
      }
      break;
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range:
    case Tag::string:
    case Tag::rope:
    case Tag::bytes:
      if (index.is(Tag::integer) || index.is(Tag::boolean)) {
        std::int64_t at = index.is(Tag::integer) ? index.integer : index.boolean;
        // The characters of a string are counted only as far as needed.
        if (object.is_string() && at >= 0) {
          if (static_cast<std::uint64_t>(at) >= object.size) break;  // bytes are at least as many
          const Text text = rt.text_of(object);
          rt.charge(static_cast<std::size_t>(at) * 2);
          const std::size_t begin = unicode::offset(text.bytes, static_cast<std::size_t>(at));
          if (begin >= text.bytes.size()) break;
          return rt.substring(text, begin, unicode::offset(text.bytes, 1, begin));
        }
        const std::int64_t size = *rt.length(object);
        if (at < 0) at += size;
        if (at >= 0 && at < size) return rt.item_at(object, at);
      }
      break;
    default:
      break;
  }
  // Environment.getitem: `x["name"]` may also be an attribute.
  if (index.is_string()) {
    const std::string_view name = rt.text_of(index).bytes;
    return attribute(rt, object, name, method_of_name(name), false);
  }
  // For the message: "list object has no element 5".
  Value lack = undefined_attribute(object, {});
  lack.lack = static_cast<std::uint8_t>(Lack::element);
  const std::string text = rt.described(index);
  const std::string_view kept = rt.arena().copy(text);
  lack.text = kept.data();
  lack.size = static_cast<std::uint32_t>(kept.size());
  return lack;
}

namespace {

bool is_one_of(MethodId id, std::initializer_list<MethodId> ids) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

using M = MethodId;

// The attributes that every Python object has. Undefined values have hardly any others.
bool is_object_attribute(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "__class__",        "__delattr__",   "__dir__",  "__doc__",
      "__eq__",           "__format__",    "__ge__",   "__getattribute__",
      "__gt__",           "__hash__",      "__init__", "__le__",
      "__lt__",           "__module__",    "__ne__",   "__new__",
      "__reduce__",       "__reduce_ex__", "__repr__", "__setattr__",
      "__sizeof__",       "__slots__",     "__str__",  "__init_subclass__",
      "__subclasshook__", "__add__",       "__call__", "__getitem__",
      "__iter__",         "__len__",       "__bool__", "__getattr__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// str's methods of Python 3.11.
bool is_string_method(M id) {
  return is_one_of(id,
                   {M::capitalize,   M::casefold,     M::center,    M::count,     M::encode,
                    M::endswith,     M::expandtabs,   M::find,      M::format,    M::format_map,
                    M::index,        M::isalnum,      M::isalpha,   M::isascii,   M::isdecimal,
                    M::isdigit,      M::isidentifier, M::islower,   M::isnumeric, M::isprintable,
                    M::isspace,      M::istitle,      M::isupper,   M::join,      M::ljust,
                    M::lower,        M::lstrip,       M::maketrans, M::partition, M::removeprefix,
                    M::removesuffix, M::replace,      M::rfind,     M::rindex,    M::rjust,
                    M::rpartition,   M::rsplit,       M::rstrip,    M::split,     M::splitlines,
                    M::startswith,   M::strip,        M::swapcase,  M::title,     M::translate,
                    M::upper,        M::zfill});
}

// The attributes of `loop`.
Value loop_attribute(Values& values, Loop& loop, const Value& self, std::string_view name,
                     MethodId id) {
  // `last` and `nextitem` need the item behind this one. It is fetched once and kept for the loop.
  const auto peek = [&]() -> bool {
    if (!loop.after.is(Tag::missing)) return true;
    Value item;
    if (!values.next(*loop.source, item)) return false;
    loop.after = item;
    return true;
  };
  switch (id) {
    case MethodId::index:
      return make_int(loop.index0 + 1);
    case MethodId::index0:
      return make_int(loop.index0);
    case MethodId::first:
      return make_bool(loop.index0 == 0);
    case MethodId::last:
      return make_bool(!peek());
    case MethodId::length:
      return make_int(*values.length(self));
    case MethodId::revindex:
      return make_int(*values.length(self) - loop.index0);
    case MethodId::revindex0:
      return make_int(*values.length(self) - loop.index0 - 1);
    case MethodId::depth:
      return make_int(loop.depth0 + 1);
    case MethodId::depth0:
      return make_int(loop.depth0);
    case MethodId::previtem:
      return loop.index0 == 0 ? undefined_hint("there is no previous item") : loop.before;
    case MethodId::nextitem:
      return peek() ? loop.after : undefined_hint("there is no next item");
    default:
      return undefined_attribute(self, name);
  }
}

}  // namespace

// The methods that Python's type has. `is_unsafe`: jinja2's sandbox refuses it because it changes
// the object; in the superset (transformers' environment) it is allowed for values that the
// template has made itself.
bool has_method(const Runtime& rt, const Value& object, MethodId id, bool& is_unsafe) {
  is_unsafe = false;
  switch (object.tag) {
    case Tag::string:
    case Tag::rope:
      return is_string_method(id) ||
             // markupsafe's class adds these two.
             (object.is_markup() && (id == M::striptags || id == M::unescape));
    case Tag::list:
    case Tag::json_list:
      if (is_one_of(id, {M::append, M::clear, M::extend, M::insert, M::pop, M::remove, M::reverse,
                         M::sort})) {
        is_unsafe = !rt.program().superset || object.is(Tag::json_list);
        return true;
      }
      return is_one_of(id, {M::copy, M::count, M::index});
    case Tag::dict:
    case Tag::json_dict:
      if (is_one_of(id, {M::clear, M::pop, M::popitem, M::setdefault, M::update})) {
        is_unsafe = !rt.program().superset || object.is(Tag::json_dict);
        return true;
      }
      return is_one_of(id, {M::copy, M::fromkeys, M::get, M::items, M::keys, M::values});
    case Tag::tuple:
      return is_one_of(id, {M::count, M::index});
    case Tag::boolean:
    case Tag::integer:
    case Tag::big_integer:
      return is_one_of(
          id, {M::as_integer_ratio, M::bit_count, M::bit_length, M::conjugate, M::to_bytes});
    case Tag::real:
      return is_one_of(id, {M::as_integer_ratio, M::conjugate, M::hex, M::is_integer});
    case Tag::range:
      return is_one_of(id, {M::count, M::index});
    case Tag::view:
      return id == M::isdisjoint && object.view->kind != View::Kind::values;
    case Tag::bytes:
      return id == M::decode || id == M::hex ||
             (is_string_method(id) &&
              !is_one_of(
                  id, {M::casefold, M::encode, M::format, M::format_map, M::isdecimal,
                       M::isidentifier, M::isnumeric, M::isprintable, M::maketrans, M::translate}));
    case Tag::cycler:
      return is_one_of(id, {M::next, M::reset});
    case Tag::loop:
      return is_one_of(id, {M::cycle, M::changed});
    case Tag::function:
      // `dict.fromkeys(...)`, on the class.
      return object.function == static_cast<std::uint32_t>(FunctionId::dict) && id == M::fromkeys;
    default:
      return false;
  }
}

// The sandbox's getattr, which looks for attributes first and for items second. For object["name"]
// (`falls_back` is false) the caller has looked for items already.
Value attribute(Runtime& rt, const Value& object, std::string_view name, std::uint32_t method,
                bool falls_back) {
  // A namespace has no attributes but its own, so any name may be stored in it.
  if (object.is(Tag::name_space)) {
    const Value* found = rt.find(*object.dict, name);
    return found != nullptr ? *found : undefined_attribute(object, name);
  }
  const bool is_dunder =
      name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
  // jinja2's Undefined fails for any attribute that Python's object has not.
  if (object.is(Tag::undefined) && !is_object_attribute(name)) rt.fail_undefined(object);
  // The sandbox forbids these names, but a dict of the context may have such a key.
  if (is_dunder) {
    if (object.is_mapping()) {
      const Value found = rt.get(object, name);
      if (!found.is(Tag::missing)) return found;
    }
    return unsafe_attribute(object, name);
  }
  if (method != kNoBuiltin) {
    const auto id = static_cast<MethodId>(method);
    bool is_unsafe = false;
    if (has_method(rt, object, id, is_unsafe)) {
      if (is_unsafe) return unsafe_attribute(object, name);
      Value bound;
      bound.tag = Tag::method;
      // The object is kept by value; a list or dict in it is the same list or dict.
      bound.method = rt.arena().make<Method>(object, static_cast<std::uint16_t>(method));
      return bound;
    }
    switch (object.tag) {
      case Tag::loop:
        return loop_attribute(rt, *object.loop, object, name, id);
      case Tag::boolean:
      case Tag::integer:
      case Tag::big_integer:
        // `True.real` is 1, which the plus sign makes.
        if (id == M::real || id == M::numerator) return negate(rt, object, true);
        if (id == M::imag) return make_int(0);
        if (id == M::denominator) return make_int(1);
        break;
      case Tag::real:
        if (id == M::real) return object;
        if (id == M::imag) return make_real(0);
        break;
      case Tag::range:
        if (id == M::start) return make_int(object.range->start);
        if (id == M::stop) return make_int(object.range->stop);
        if (id == M::step) return make_int(object.range->step);
        break;
      case Tag::slice:
        if (id == M::start) return object.slice->start;
        if (id == M::stop) return object.slice->stop;
        if (id == M::step) return object.slice->step;
        break;
      case Tag::cycler:
        if (id == M::current) return object.cycler->items[object.cycler->at];
        if (id == M::items) {
          Value items = rt.make_list(object.cycler->size, false, Tag::tuple);
          for (std::uint32_t i = 0; i < object.cycler->size; ++i)
            rt.append(items, object.cycler->items[i]);
          return items;
        }
        break;
      case Tag::tuple:
        if (object.list->is_group && id == M::grouper) return object.list->items[0];
        if (object.list->is_group && id == M::list) return object.list->items[1];
        break;
      case Tag::macro:
        if (id == M::name) {
          return object.macro->node->name == kNoNode
                     ? none_value()
                     : rt.program().constants[object.macro->node->name];
        }
        if (id == M::arguments) {
          const ListRef parameters = object.macro->node->parameters;
          Value names = rt.make_list(parameters.size, false, Tag::tuple);
          for (std::uint32_t i = 0; i < parameters.size; ++i) {
            rt.append(
                names,
                rt.program()
                    .constants[rt.program().nodes[rt.program().lists[parameters.begin + i]].b]);
          }
          return names;
        }
        if (id == M::catch_kwargs) return make_bool(object.macro->node->kwargs_slot != kNoNode);
        if (id == M::catch_varargs) return make_bool(object.macro->node->varargs_slot != kNoNode);
        if (id == M::caller) return make_bool(object.macro->node->caller_slot != kNoNode);
        break;
      default:
        break;
    }
  }
  // `self.name` is a block of the template, which can be called.
  if (object.is(Tag::self)) {
    for (const std::uint32_t block : rt.program().template_blocks) {
      if (rt.program().text_of(rt.program().blocks[block].name) != name) continue;
      Value value;
      value.tag = Tag::block;
      value.function = block;
      return value;
    }
  }
  if (falls_back && object.is_mapping()) {
    const Value found = rt.get(object, name);
    if (!found.is(Tag::missing)) return found;
  }
  return undefined_attribute(object, name);
}

// --- slicing

// Python's slices, bounds beyond the ends and negative steps included. A slice of a range is a
// range again, without its items; a slice of a string with step 1 is a part of it, without a copy.
Value slice(Runtime& rt, const Value& object, const Slice& bounds) {
  if (object.is(Tag::undefined)) rt.fail_undefined(object);
  const bool is_sequence = object.is_list() || object.is(Tag::tuple) || object.is_string() ||
                           object.is(Tag::range) || object.is(Tag::bytes);
  if (object.is_mapping()) rt.type_error("unhashable type: 'slice'");
  if (!is_sequence) {
    rt.type_error("'" + std::string(type_name(object)) + "' object is not subscriptable");
  }
  const auto bound = [&rt](const Value& value) -> std::int64_t {
    if (!value.is_int()) {
      rt.type_error("slice indices must be integers or None or have an __index__ method");
    }
    return index_of(rt, value);
  };
  // Beyond any size, and small enough to be added to an index without overflow.
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const std::int64_t step =
      bounds.step.is(Tag::none) ? 1 : std::clamp(bound(bounds.step), -kFar, kFar);
  if (step == 0) rt.value_error("slice step cannot be zero");
  const std::int64_t size = *rt.length(object);
  // A bound counted from the end becomes one from the beginning; bounds outside are moved to the
  // end where the walk begins or stops: -1 is the place before the first item, for negative steps.
  const auto place = [&](const Value& value, std::int64_t otherwise) {
    if (value.is(Tag::none)) return otherwise;
    std::int64_t at = bound(value);
    if (at < 0) at = at + size < 0 ? (step < 0 ? -1 : 0) : at + size;
    if (at >= size) at = step < 0 ? size - 1 : size;
    return at;
  };
  const std::int64_t start = place(bounds.start, step < 0 ? size - 1 : 0);
  const std::int64_t stop = place(bounds.stop, step < 0 ? -1 : size);
  std::int64_t count = 0;
  if (step > 0 && stop > start) count = (stop - start - 1) / step + 1;
  if (step < 0 && stop < start) count = (start - stop - 1) / -step + 1;
  rt.charge(static_cast<std::size_t>(count));
  if (object.is(Tag::range)) {
    const Range& range = *object.range;
    Value result = object;
    const auto at =
        [&range](std::int64_t index) {  // the end may overflow and wrap, which cannot be observed
          return static_cast<std::int64_t>(static_cast<std::uint64_t>(range.start) +
                                           static_cast<std::uint64_t>(index) *
                                               static_cast<std::uint64_t>(range.step));
        };
    // With fewer than two items the step is only printed, and the product may overflow.
    std::int64_t both = range.step;
    if (__builtin_mul_overflow(range.step, step, &both)) both = range.step;
    result.range = rt.arena().make<Range>(at(start), at(stop), both, count);
    return result;
  }
  if (object.is_string()) {
    const Text text = rt.text_of(object);
    rt.charge(text.bytes.size() * 2);
    if (step == 1) {
      if (count == 0) return make_string({}, object.is_data());
      const std::size_t begin = unicode::offset(text.bytes, static_cast<std::size_t>(start));
      const std::size_t end = unicode::offset(text.bytes, static_cast<std::size_t>(count), begin);
      Value part = rt.substring(text, begin, end);
      part.flags |= object.flags & kMarkup;
      return part;
    }
    // Characters have different sizes, so a walk in steps needs the places of all.
    std::vector<std::uint32_t> offsets;
    rt.arena().foresee(static_cast<std::size_t>(size) * sizeof(std::uint32_t));
    offsets.reserve(static_cast<std::size_t>(size) + 1);
    for (std::size_t at = 0; at < text.bytes.size();) {
      offsets.push_back(static_cast<std::uint32_t>(at));
      static_cast<void>(unicode::next(text.bytes, at));
    }
    offsets.push_back(static_cast<std::uint32_t>(text.bytes.size()));
    const TextBuffer::Mark mark = rt.begin_text();
    for (std::int64_t i = 0, at = start; i < count; ++i, at += step) {
      rt.put_text(text, offsets[static_cast<std::size_t>(at)],
                  offsets[static_cast<std::size_t>(at) + 1]);
    }
    return rt.end_text(mark);
  }
  if (object.is(Tag::bytes)) {
    std::string part;
    for (std::int64_t i = 0, at = start; i < count; ++i, at += step) {
      part += object.bytes()[static_cast<std::size_t>(at)];
    }
    return make_bytes(rt, part, object.is_data());
  }
  Value list = rt.make_list(static_cast<std::uint32_t>(count), object.is_data(),
                            object.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0, at = start; i < count; ++i, at += step)
    rt.append(list, rt.item_at(object, at));
  return list;
}

}  // namespace tenon::jinja
