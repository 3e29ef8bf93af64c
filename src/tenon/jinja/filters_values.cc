#include <cstdint>
#include <string_view>
#include <utility>

#include "tenon/jinja/builtins.h"
#include "tenon/jinja/dumps.h"
#include "tenon/jinja/filters.h"
#include "tenon/jinja/indexing.h"
#include "tenon/jinja/sorting.h"

/// Filters of any value.
namespace tenon::jinja {
namespace {

// If Python cannot compare two keys, pprint sorts them by the names of their types: NoneType,
// then those of numbers, str, tuple.
void sort_keys(Runtime& rt, Value* order, const Value* keys, std::uint32_t size) {
  Value kinds = rt.make_list(size);
  const auto kind = [](const Value& key) {
    return key.is(Tag::none) ? 0 : key.is_number() ? 1 : key.is_string() ? 2 : 3;
  };
  // How many keys there are of each kind: where its group begins in the sorted order.
  std::uint32_t counts[4] = {};
  for (std::uint32_t i = 0; i < size; ++i) {
    ++counts[kind(keys[i])];
    rt.append(kinds, make_int(kind(keys[i])));
  }
  sort_values(rt, order, kinds.list->items, size, false);
  const std::uint32_t text = counts[0] + counts[1];
  // Numbers and strings are sorted among themselves; the rest keeps its order.
  for (const auto& [begin, count] : {std::pair(counts[0], counts[1]), {text, counts[2]}}) {
    Value group = rt.make_list(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      rt.append(group, keys[static_cast<std::size_t>(order[begin + i].integer)]);
    }
    sort_values(rt, order + begin, group.list->items, count, false);
  }
}

// A copy in which each dict has its keys in order, at every depth.
Value sorted_keys(Runtime& rt, const Value& value) {
  const Budget::Deeper deeper(rt);
  if (value.is_mapping()) {
    const auto size = static_cast<std::uint32_t>(entry_count(value));
    Value keys = rt.make_list(size);
    Value order = rt.make_list(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      Value key;
      Value item;
      rt.entry_at(value, i, key, item);
      rt.append(keys, key);
      rt.append(order, make_int(i));
    }
    sort_keys(rt, order.list->items, keys.list->items, size);
    Value dict = rt.make_dict(value.is_data());
    for (std::uint32_t i = 0; i < size; ++i) {
      Value key;
      Value item;
      rt.entry_at(value, static_cast<std::size_t>(order.list->items[i].integer), key, item);
      rt.set(dict, key, sorted_keys(rt, item));
    }
    return dict;
  }
  if (!value.is_list() && !value.is(Tag::tuple)) return value;
  Value list = rt.make_list(4, value.is_data(), value.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0; i < *rt.length(value); ++i) {
    rt.append(list, sorted_keys(rt, rt.item_at(value, i)));
  }
  return list;
}

// `indent` columns stand before the value, and `allowance` closing characters come after it.
void pretty(Runtime& rt, const Value& value, std::int64_t indent, std::int64_t allowance) {
  const Budget::Deeper deeper(rt);
  const Value line = rt.to_repr(value);
  const bool is_dict = value.is_mapping();
  const bool is_sequence = value.is_list() || value.is(Tag::tuple);
  const std::int64_t size = is_dict || is_sequence ? *rt.length(value) : 0;
  // Strings and numbers have no items to break between.
  if (static_cast<std::int64_t>(rt.length_of_text(line)) <= 80 - indent - allowance || size == 0) {
    return rt.put_string(line);
  }
  const bool is_data = value.is_data();
  const bool is_tuple = value.is(Tag::tuple);
  rt.put(is_dict ? "{" : is_tuple ? "(" : "[", is_data);
  for (std::int64_t i = 0; i < size; ++i) {
    if (i != 0) {
      rt.put(",\n", is_data);
      rt.put_repeated(" ", indent + 1, is_data);
    }
    // Behind each item comes a comma, behind the last one all closing brackets.
    const std::int64_t behind = i + 1 < size ? 1 : allowance + 1 + (is_tuple && size == 1 ? 1 : 0);
    if (is_dict) {
      Value key;
      Value item;
      rt.entry_at(value, static_cast<std::size_t>(i), key, item);
      const Value shown = rt.to_repr(key);
      rt.put_string(shown);
      rt.put(": ", is_data);
      pretty(rt, item, indent + static_cast<std::int64_t>(rt.length_of_text(shown)) + 3, behind);
    } else {
      pretty(rt, rt.item_at(value, i), indent + 1, behind);
    }
  }
  rt.put(is_dict ? "}" : is_tuple ? (size == 1 ? ",)" : ")") : "]", is_data);
}

}  // namespace

namespace filters {

Value attr(Runtime& rt, const FilterInput& in) {
  const Value& name = in[0];
  if (!name.is_string()) {
    rt.type_error("attribute name must be string, not '" + std::string(type_name(name)) + "'");
  }
  const std::string_view bytes = rt.text_of(name).bytes;
  // `x|attr("y")` is an attribute only, never an item.
  return attribute(rt, in.value, bytes, method_of_name(bytes), false);
}

Value default_(Runtime& rt, const FilterInput& in) {
  // With `true` as second argument, a false value has the default, too.
  if (in.value.is(Tag::undefined) || (flag(rt, in[1]) && !rt.truth(in.value))) {
    return or_default(in[0], make_string({}));
  }
  return in.value;
}

Value from_json(Runtime& rt, const FilterInput& in) {
  return from_json(rt, in.value);
}

Value length(Runtime& rt, const FilterInput& in) {
  return make_int(rt.length_or_fail(in.value));
}

// pprint.pformat: one line if 80 columns hold it, else one item per line. Keys are sorted.
Value pprint(Runtime& rt, const FilterInput& in) {
  const TextBuffer::Mark mark = rt.begin_text();
  pretty(rt, sorted_keys(rt, in.value), 0, 0);
  return rt.end_text(mark);
}

Value tojson(Runtime& rt, const FilterInput& in) {
  return dumps(rt, in.value, in.bound);
}

}  // namespace filters

}  // namespace tenon::jinja
