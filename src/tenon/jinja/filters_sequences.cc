#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/jinja/builtins.h"
#include "tenon/jinja/filters.h"
#include "tenon/jinja/indexing.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/sorting.h"
#include "tenon/jinja/tests.h"
#include "tenon/jinja/unicode.h"

/// Filters of lists, dicts and whatever can be walked over.
///
/// Filters that are generators in jinja2 (map, select, unique, batch, slice) are generators here
/// too: an Iterator in the arena with its own state, whose `advance` makes one item. So they cost
/// nothing until something walks over them, and an error in the third item comes after two items
/// were used, as in jinja2. Sorting is a merge sort on an array of keys beside the items, because a
/// comparison may fail, counts steps, and need not be an order (sorting.h).
namespace tenon::jinja {
namespace {

// The path of an optional attribute; missing: the item itself.
Value path_of(Runtime& rt, const Value& attribute) {
  return is_absent(attribute) ? Value{} : make_path(rt, attribute);
}
// The part of an item that a filter looks at; undefined if the item has no such part.
Value part_of(Runtime& rt, const Value& path, const Value& item) {
  return path.is(Tag::missing) ? item : follow(rt, path, item, {});
}

// `map("upper")` calls a filter on each item, `map(attribute="a.b")` takes a part of each. `filter`
// says which: it is kNoBuiltin for a part.
struct MapIterator : Iterator {
  Runtime* rt;
  Iterator* source;
  Value path, fallback;  // attribute=...
  std::uint32_t filter;
  Args args;

  static bool advance(Values&, Iterator& self, Value& item) {
    auto& me = static_cast<MapIterator&>(self);
    Runtime& rt = *me.rt;
    Value next;
    if (!rt.next(*me.source, next)) return false;
    item = me.filter == kNoBuiltin ? follow(rt, me.path, next, me.fallback)
                                   : call_filter(rt, me.filter, next, me.args);
    return true;
  }
};

// select, reject and the two with attributes: items for which a test answers `wanted`.
struct SelectIterator : Iterator {
  Runtime* rt;
  Iterator* source;
  Value path;          // missing: the item itself
  std::uint32_t test;  // kNoBuiltin: the item's truth
  bool wanted;
  Args args;

  static bool advance(Values&, Iterator& self, Value& item) {
    auto& me = static_cast<SelectIterator&>(self);
    Runtime& rt = *me.rt;
    while (rt.next(*me.source, item)) {
      const Value tested = part_of(rt, me.path, item);
      const bool holds =
          me.test == kNoBuiltin ? rt.truth(tested) : call_test(rt, me.test, tested, me.args);
      if (holds == me.wanted) return true;
    }
    return false;
  }
};

/// A generator whose first step fails, as Python's generators do if their arguments are wrong.
struct FailingIterator : Iterator {
  std::string_view kind, message;

  static bool advance(Values& values, Iterator& self, Value&) {
    const auto& me = static_cast<FailingIterator&>(self);
    values.fail(me.kind, std::string(me.message));
  }
};

// The first item of each key. Keys are kept in a dict, so they must be hashable, as in Python.
struct UniqueIterator : Iterator {
  Runtime* rt;
  Iterator* source;
  Value path, seen;  // seen: a dict whose keys are the set
  bool case_sensitive;

  static bool advance(Values&, Iterator& self, Value& item) {
    auto& me = static_cast<UniqueIterator&>(self);
    Runtime& rt = *me.rt;
    while (rt.next(*me.source, item)) {
      Value key = part_of(rt, me.path, item);
      if (!me.case_sensitive) key = ignore_case(rt, key);
      if (rt.find(*me.seen.dict, key) != nullptr) continue;
      rt.set(me.seen, key, make_bool(true));
      return true;
    }
    return false;
  }
};

// Lists of `count` items, the last one filled up. A list is handed out when the item behind it
// arrives, which then waits in `pending`: jinja2 reads ahead by one item, too.
struct BatchIterator : Iterator {
  Iterator* source;
  std::int64_t count;
  Value fill, pending;
  bool has_pending;

  static bool advance(Values& values, Iterator& self, Value& item) {
    auto& me = static_cast<BatchIterator&>(self);
    Value batch = values.make_list(4);
    if (me.has_pending) values.append(batch, me.pending);
    me.has_pending = false;
    Value next;
    while (values.next(*me.source, next)) {
      if (batch.list->size == me.count) {
        me.pending = next;
        me.has_pending = true;
        item = batch;
        return true;
      }
      values.append(batch, next);
    }
    if (batch.list->size == 0) return false;
    if (!me.fill.is(Tag::none)) {
      values.arena().foresee(static_cast<std::size_t>(std::max<std::int64_t>(0, me.count)) *
                             sizeof(Value));
      while (batch.list->size < me.count) {
        values.step();
        values.append(batch, me.fill);
      }
    }
    item = batch;
    return true;
  }
};

// As many lists as `slices`, of sizes that differ by one at most: 7 items in 3 are 3, 2 and 2. The
// longer ones come first; each shorter one gets one `fill`.
struct SliceIterator : Iterator {
  Value list, fill;
  std::int64_t slices, at, offset;

  static bool advance(Values& values, Iterator& self, Value& item) {
    auto& me = static_cast<SliceIterator&>(self);
    if (me.slices == 0) values.fail("ZeroDivisionError", "integer division or modulo by zero");
    if (me.at >= me.slices) return false;
    const std::int64_t size = me.list.list->size;
    const std::int64_t each = size / me.slices;
    const std::int64_t with_extra = size % me.slices;
    const std::int64_t start = me.offset + me.at * each;
    if (me.at < with_extra) ++me.offset;
    const std::int64_t end = me.offset + (me.at + 1) * each;
    Value slice = values.make_list(static_cast<std::uint32_t>(end - start + 1));
    for (std::int64_t i = start; i < end; ++i) values.append(slice, me.list.list->items[i]);
    if (!me.fill.is(Tag::none) && me.at >= with_extra) values.append(slice, me.fill);
    ++me.at;
    item = slice;
    return true;
  }
};

// The walk of a generator over the value. As in Python, the value is looked at when the walk
// begins: if it cannot be walked over, the walk fails then.
Iterator* later(Values& values, const Value& value) {
  try {
    return values.iterate(value);
  } catch (const Fault& fault) {
    constexpr std::string_view kKind = "TypeError";
    if (fault.kind != kKind) throw;
    auto* walk = values.arena().make<FailingIterator>();
    *walk = {{FailingIterator::advance, "generator"}, kKind, values.arena().copy(fault.message)};
    return walk;
  }
}

// A generator that fails at its first step. The filter itself succeeds, so `[1] | map` is no
// error while nothing walks over it. `message` must outlive the rendering.
Value failing(Runtime& rt, const FilterInput& in, std::string_view kind, std::string_view message) {
  auto* walk = rt.arena().make<FailingIterator>();
  *walk = {{FailingIterator::advance, "generator"}, kind, message};
  return of_iterator(walk, in.value.is_data());
}

// jinja2's generators begin with `if value:`. An empty or undefined value gives no items, and the
// arguments are not even looked at.
Value empty(Runtime& rt) {
  return of_iterator(rt.iterate(undefined_name({})));
}

// The number of the filter or test with that name; kNoBuiltin if it is no string or not known.
std::uint32_t named(Runtime& rt, const Value& name, bool is_filter) {
  if (!name.is_string()) return kNoBuiltin;
  const std::string_view text = rt.text_of(name).bytes;
  return is_filter ? filter_of_name(text, rt.program().superset) : test_of_name(text);
}

Value unknown(Runtime& rt, const FilterInput& in, const Value& name, const char* what) {
  const std::string message = std::string("No ") + what + " named " + rt.described(name) + ".";
  return failing(rt, in, "TemplateRuntimeError", rt.arena().copy(message));
}

// The least or greatest item; among equal ones the first, which is why the comparison is strict.
Value extreme(Runtime& rt, const FilterInput& in, bool is_max) {
  const Value path = path_of(rt, in[1]);
  const bool case_sensitive = flag(rt, in[0]);
  Iterator* walk = rt.iterate(in.value);
  Value item;
  Value best;
  Value best_key;
  while (rt.next(*walk, item)) {
    Value key = part_of(rt, path, item);
    if (!case_sensitive) key = ignore_case(rt, key);
    if (best.is(Tag::missing) || rt.less(key, best_key, is_max ? ">" : "<")) {
      best = item;
      best_key = key;
    }
  }
  return best.is(Tag::missing) ? undefined_hint("No aggregated item, sequence was empty.") : best;
}

// What select, reject, selectattr and rejectattr share. The first argument of the two with
// attributes is the attribute; then comes the name of a test, and its arguments.
Value selected(Runtime& rt, const FilterInput& in, bool wanted, bool by_attribute) {
  if (!rt.truth(in.value)) return empty(rt);
  auto* walk = rt.arena().make<SelectIterator>();
  *walk = {{SelectIterator::advance, "generator"}, &rt, nullptr, {}, kNoBuiltin, wanted, {}};
  Args rest = in.args;
  if (by_attribute) {
    if (rest.size == 0)
      return failing(rt, in, "FilterArgumentError", "Missing parameter for attribute name");
    walk->path = make_path(rt, rest.items[0]);
    ++rest.items;
    --rest.size;
  }
  if (rest.size != 0) {
    walk->test = named(rt, rest.items[0], false);
    if (walk->test == kNoBuiltin) return unknown(rt, in, rest.items[0], "test");
    walk->args = {rest.items + 1, rest.size - 1, rest.keywords, rest.keyword_count};
  }
  walk->source = later(rt, in.value);
  return of_iterator(walk, in.value.is_data());
}

}  // namespace

namespace filters {

Value batch(Runtime& rt, const FilterInput& in) {
  auto* walk = rt.arena().make<BatchIterator>();
  *walk = {{BatchIterator::advance, "generator"},
           later(rt, in.value),
           index_of(rt, in[0]),
           or_default(in[1], none_value()),
           Value{},
           false};
  return of_iterator(walk, in.value.is_data());
}

Value dictsort(Runtime& rt, const FilterInput& in) {
  bool by_value = false;
  if (!in[1].is(Tag::missing)) {
    const std::string_view by = in[1].is_string() ? rt.text_of(in[1]).bytes : "";
    if (by != "key" && by != "value") {
      rt.fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
    }
    by_value = by == "value";
  }
  if (in.value.is(Tag::undefined)) rt.fail_undefined(in.value);
  if (!in.value.is_mapping()) {
    lacks(rt, in.value, "items");
  }
  const auto size = static_cast<std::uint32_t>(entry_count(in.value));
  Value list = rt.make_list(size);
  Value keys = rt.make_list(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    Value key;
    Value value;
    rt.entry_at(in.value, i, key, value);
    rt.append(list, rt.pair(key, value, in.value.is_data()));
    const Value& sorted = by_value ? value : key;
    rt.append(keys, flag(rt, in[0]) ? sorted : ignore_case(rt, sorted));
  }
  sort_values(rt, list.list->items, keys.list->items, size, flag(rt, in[2]));
  return list;
}

Value first(Runtime& rt, const FilterInput& in) {
  Iterator* walk = rt.iterate(in.value);
  Value item;
  return rt.next(*walk, item) ? item : undefined_hint("No first item, sequence was empty.");
}

Value groupby(Runtime& rt, const FilterInput& in) {
  const Value path = make_path(rt, in[0]);
  // Without a default, an absent attribute is undefined; `default=none` is the same as no default.
  const Value fallback = or_default(in[1], none_value());
  const bool case_sensitive = flag(rt, in[2]);
  const Value list = rt.collect(in.value);
  const std::uint32_t size = list.list->size;
  Value keys = rt.make_list(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    const Value key =
        follow(rt, path, list.list->items[i], fallback.is(Tag::none) ? Value{} : fallback);
    rt.append(keys, case_sensitive ? key : ignore_case(rt, key));
  }
  // Numbers of items are sorted by the keys beside them: the keys are needed again below, in the
  // order of the items.
  Value order = rt.make_list(size);
  for (std::uint32_t i = 0; i < size; ++i) rt.append(order, make_int(i));
  sort_values(rt, order.list->items, keys.list->items, size, false);
  Value groups = rt.make_list(4);
  Value current;
  Value current_key;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::int64_t at = order.list->items[i].integer;
    const Value& item = list.list->items[at];
    const Value& key = keys.list->items[at];
    if (current.is(Tag::missing) || !rt.equal(current_key, key)) {
      current = rt.make_list(4);
      current_key = key;
      // Keys that differ only in case are one group, which shows the key of its first item as it is
      // written there.
      const Value shown = case_sensitive
                              ? key
                              : follow(rt, path, item, fallback.is(Tag::none) ? Value{} : fallback);
      Value group = rt.pair(shown, current, in.value.is_data());
      group.list->is_group = true;
      rt.append(groups, group);
    }
    rt.append(current, item);
  }
  return groups;
}

Value items(Runtime& rt, const FilterInput& in) {
  // jinja2's filter returns at once for an undefined value: no items.
  if (in.value.is(Tag::undefined)) return of_iterator(rt.iterate(in.value));
  if (!in.value.is_mapping()) {
    return failing(rt, in, "TypeError", "Can only get item pairs from a mapping.");
  }
  Value view;
  view.tag = Tag::view;
  view.flags = in.value.flags;
  view.view = rt.arena().make<View>(in.value, View::Kind::items);
  Iterator* walk = rt.iterate(view);
  // In jinja2 it is a generator, whose name its repr shows.
  walk->type_name = "generator";
  return of_iterator(walk, in.value.is_data());
}

Value join(Runtime& rt, const FilterInput& in) {
  // Items are written to the text one after the other; a safe item (Markup) does not make the
  // others escaped, since autoescape is off in chat templates.
  const Value path = path_of(rt, in[1]);
  const Value separator = in[0].is(Tag::missing) ? make_string({}) : rt.to_string(in[0]);
  Iterator* walk = rt.iterate(in.value);
  const TextBuffer::Mark mark = rt.begin_text();
  Value item;
  for (bool is_first = true; rt.next(*walk, item); is_first = false) {
    if (!is_first && separator.size != 0) rt.put_string(separator);
    rt.print(part_of(rt, path, item));
  }
  return rt.end_text(mark);
}

Value last(Runtime& rt, const FilterInput& in) {
  if (in.value.is(Tag::undefined)) {
    return undefined_hint("No last item, sequence was empty.");
  }
  // A string is read from its end instead of being walked over.
  if (in.value.is_string()) {
    const Text text = rt.text_of(in.value);
    if (text.bytes.empty()) return undefined_hint("No last item, sequence was empty.");
    std::size_t at = text.bytes.size();
    static_cast<void>(unicode::previous(text.bytes, at));
    return rt.substring(text, at, text.bytes.size());
  }
  Iterator* walk = rt.reversed(in.value);
  if (walk == nullptr) {
    rt.type_error("'" + std::string(type_name(in.value)) + "' object is not reversible");
  }
  Value item;
  return rt.next(*walk, item) ? item : undefined_hint("No last item, sequence was empty.");
}

Value list(Runtime& rt, const FilterInput& in) {
  return rt.collect(in.value);
}

Value map(Runtime& rt, const FilterInput& in) {
  if (!rt.truth(in.value)) return empty(rt);
  auto* walk = rt.arena().make<MapIterator>();
  *walk = {{MapIterator::advance, "generator"}, &rt, nullptr, {}, {}, kNoBuiltin, {}};
  if (in.args.size == 0) {
    // Without positional arguments only these two keywords are known; with a filter's name, all
    // keywords belong to that filter.
    for (std::uint32_t i = 0; i < in.args.keyword_count; ++i) {
      const std::string_view key = rt.text_of(in.args.keywords[i].key).bytes;
      if (key == "attribute") {
        walk->path = make_path(rt, in.args.keywords[i].value);
      } else if (key == "default") {
        walk->fallback =
            in.args.keywords[i].value.is(Tag::none) ? Value{} : in.args.keywords[i].value;
      } else {
        return failing(rt, in, "FilterArgumentError", "Unexpected keyword argument");
      }
    }
    if (walk->path.is(Tag::missing)) {
      return failing(rt, in, "FilterArgumentError", "map requires a filter argument");
    }
  } else {
    walk->filter = named(rt, in.args.items[0], true);
    if (walk->filter == kNoBuiltin) return unknown(rt, in, in.args.items[0], "filter");
    walk->args = {in.args.items + 1, in.args.size - 1, in.args.keywords, in.args.keyword_count};
  }
  walk->source = later(rt, in.value);
  return of_iterator(walk, in.value.is_data());
}

Value max(Runtime& rt, const FilterInput& in) {
  return extreme(rt, in, true);
}

Value min(Runtime& rt, const FilterInput& in) {
  return extreme(rt, in, false);
}

// It takes the first item, so that a prompt depends only on its inputs.
Value random(Runtime& rt, const FilterInput& in) {
  const std::int64_t size = rt.length_or_fail(in.value);
  if (size == 0) return undefined_hint("No random item, sequence was empty.");
  if (in.value.is_mapping() || in.value.is(Tag::view)) rt.type_error("the value is not a sequence");
  return item(rt, in.value, make_int(0));
}

Value reject(Runtime& rt, const FilterInput& in) {
  return selected(rt, in, false, false);
}

Value rejectattr(Runtime& rt, const FilterInput& in) {
  return selected(rt, in, false, true);
}

Value reverse(Runtime& rt, const FilterInput& in) {
  // Python reverses what has __reversed__. Generators and undefined values have not, so they are
  // read to the end first.
  if (in.value.is_string()) {
    return slice(rt, in.value, {none_value(), none_value(), make_int(-1)});
  }
  if (Iterator* walk = rt.reversed(in.value)) return of_iterator(walk, in.value.is_data());
  if (!in.value.is(Tag::undefined) && !in.value.is(Tag::iterator) && !in.value.is(Tag::loop)) {
    rt.fail("FilterArgumentError", "argument must be iterable");
  }
  Value list = rt.collect(in.value);
  std::reverse(list.list->items, list.list->items + list.list->size);
  return list;
}

Value select(Runtime& rt, const FilterInput& in) {
  return selected(rt, in, true, false);
}

Value selectattr(Runtime& rt, const FilterInput& in) {
  return selected(rt, in, true, true);
}

Value slice(Runtime& rt, const FilterInput& in) {
  auto* walk = rt.arena().make<SliceIterator>();
  *walk = {{SliceIterator::advance, "generator"},
           rt.collect(in.value),
           or_default(in[1], none_value()),
           index_of(rt, in[0]),
           0,
           0};
  return of_iterator(walk, in.value.is_data());
}

Value sort(Runtime& rt, const FilterInput& in) {
  Value list = rt.collect(in.value);
  const bool case_sensitive = flag(rt, in[1]);
  // A key is a list, even with one attribute or none, because then items that are equal, such as
  // two undefined ones, need no order.
  std::vector<Value> paths;
  if (in[2].is_string()) {
    const std::string_view names = rt.text_of(in[2]).bytes;
    for (std::size_t begin = 0; begin <= names.size();) {
      const std::size_t end = std::min(names.find(',', begin), names.size());
      paths.push_back(make_path(rt, make_string(names.substr(begin, end - begin))));
      begin = end + 1;
      rt.step();
    }
  } else if (!in[2].is(Tag::missing) && !in[2].is(Tag::none)) {
    paths.push_back(make_path(rt, in[2]));
  } else {
    paths.push_back(rt.make_list(0));
  }
  Value keys = rt.make_list(list.list->size);
  for (std::uint32_t i = 0; i < list.list->size; ++i) {
    const Value& item = list.list->items[i];
    Value key = rt.make_list(static_cast<std::uint32_t>(paths.size()));
    for (const Value& path : paths) {
      const Value part = follow(rt, path, item, {});
      rt.append(key, case_sensitive ? part : ignore_case(rt, part));
    }
    rt.append(keys, key);
  }
  sort_values(rt, list.list->items, keys.list->items, list.list->size, flag(rt, in[0]));
  return list;
}

Value sum(Runtime& rt, const FilterInput& in) {
  const Value path = path_of(rt, in[0]);
  Value total = or_default(in[1], make_int(0));
  if (total.is_string()) rt.type_error("sum() can't sum strings [use ''.join(seq) instead]");
  Iterator* walk = rt.iterate(in.value);
  Value item;
  // The addition of the template, so that `sum(start=[])` joins lists and a string fails as in
  // Python.
  while (rt.next(*walk, item)) {
    total = binary(rt, Op::add, total, part_of(rt, path, item));
  }
  return total;
}

Value unique(Runtime& rt, const FilterInput& in) {
  auto* walk = rt.arena().make<UniqueIterator>();
  *walk = {{UniqueIterator::advance, "generator"},
           &rt,
           later(rt, in.value),
           path_of(rt, in[1]),
           rt.make_dict(),
           flag(rt, in[0])};
  return of_iterator(walk, in.value.is_data());
}

}  // namespace filters

}  // namespace tenon::jinja
