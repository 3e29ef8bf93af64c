#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "tenon/base/utf8.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/vm.h"

/// jinja2's filters.
///
/// Filter is one use of a filter: `run` is a switch over its number, which was found when the
/// template was compiled, and each `do_` function binds its arguments with Python's errors and
/// charges steps in proportion to its work. Filters that are generators in jinja2 (map, select,
/// unique, batch, slice) are generators here too: an Iterator in the arena with its own state,
/// whose `advance` makes one item. So they cost nothing until something walks over them, and an
/// error in the third item comes after two items were used, as in jinja2.
///
/// Sorting is a merge sort on an array of keys beside the items, because a comparison may fail,
/// counts steps, and need not be an order. Text filters keep the origin of each byte. The layout
/// filters (wordwrap, pprint, urlize, truncate, striptags) follow Python's textwrap, pprint and
/// markupsafe, character by character.
namespace tenon::jinja {
namespace {

using F = FilterId;

Value or_default(const Value& value, const Value& otherwise) {
  return value.is(Tag::missing) ? otherwise : value;
}

/// map, select and similar filters are generators: they evaluate an item when something asks for
/// it.
struct MapIterator : Iterator {
  Iterator* source;
  Value path, fallback;  // attribute=...
  std::uint32_t filter;
  Args args;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<MapIterator&>(self);
    Value next;
    if (!vm.next(*me.source, next)) return false;
    item = me.filter == kNoBuiltin ? vm.follow(me.path, next, me.fallback)
                                   : vm.call_filter(me.filter, next, me.args);
    return true;
  }
};

struct SelectIterator : Iterator {
  Iterator* source;
  Value path;          // missing: the item itself
  std::uint32_t test;  // kNoBuiltin: the item's truth
  bool wanted;
  Args args;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<SelectIterator&>(self);
    while (vm.next(*me.source, item)) {
      const Value tested = me.path.is(Tag::missing) ? item : vm.follow(me.path, item, {});
      const bool holds =
          me.test == kNoBuiltin ? vm.truth(tested) : vm.call_test(me.test, tested, me.args);
      if (holds == me.wanted) return true;
    }
    return false;
  }
};

/// A generator whose first step fails, as Python's generators do if their arguments are wrong.
struct FailingIterator : Iterator {
  std::string_view kind, message;

  static bool advance(Vm& vm, Iterator& self, Value&) {
    const auto& me = static_cast<FailingIterator&>(self);
    vm.fail(me.kind, std::string(me.message));
  }
};

struct UniqueIterator : Iterator {
  Iterator* source;
  Value path, seen;
  bool case_sensitive;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<UniqueIterator&>(self);
    while (vm.next(*me.source, item)) {
      Value key = me.path.is(Tag::missing) ? item : vm.follow(me.path, item, {});
      if (!me.case_sensitive) key = vm.ignore_case(key);
      if (vm.find(*me.seen.dict, key) != nullptr) continue;
      vm.set(me.seen, key, make_bool(true));
      return true;
    }
    return false;
  }
};

struct BatchIterator : Iterator {
  Iterator* source;
  std::int64_t count;
  Value fill, pending;
  bool has_pending;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<BatchIterator&>(self);
    Value batch = vm.make_list(4);
    if (me.has_pending) vm.append(batch, me.pending);
    me.has_pending = false;
    Value next;
    while (vm.next(*me.source, next)) {
      if (batch.list->size == me.count) {
        me.pending = next;
        me.has_pending = true;
        item = batch;
        return true;
      }
      vm.append(batch, next);
    }
    if (batch.list->size == 0) return false;
    if (!me.fill.is(Tag::none)) {
      vm.arena().foresee(static_cast<std::size_t>(std::max<std::int64_t>(0, me.count)) *
                         sizeof(Value));
      while (batch.list->size < me.count) {
        vm.step();
        vm.append(batch, me.fill);
      }
    }
    item = batch;
    return true;
  }
};

struct SliceIterator : Iterator {
  Value list, fill;
  std::int64_t slices, at, offset;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<SliceIterator&>(self);
    if (me.slices == 0) vm.fail("ZeroDivisionError", "integer division or modulo by zero");
    if (me.at >= me.slices) return false;
    const std::int64_t size = me.list.list->size;
    const std::int64_t each = size / me.slices;
    const std::int64_t with_extra = size % me.slices;
    const std::int64_t start = me.offset + me.at * each;
    if (me.at < with_extra) ++me.offset;
    const std::int64_t end = me.offset + (me.at + 1) * each;
    Value slice = vm.make_list(static_cast<std::uint32_t>(end - start + 1));
    for (std::int64_t i = start; i < end; ++i) vm.append(slice, me.list.list->items[i]);
    if (!me.fill.is(Tag::none) && me.at >= with_extra) vm.append(slice, me.fill);
    ++me.at;
    item = slice;
    return true;
  }
};

/// One use of a filter.
class Filter {
 public:
  Filter(Vm& vm, F id, const Value& value, const Args& args)
      : vm_(vm), id_(id), value_(value), args_(args) {}

  Value run() {
    switch (id_) {
      case F::abs:
        return do_abs();
      case F::attr:
        return do_attr();
      case F::batch:
        return do_batch();
      case F::capitalize:
        return none("capitalize"), vm_.capitalized(text());
      case F::center:
        return do_center();
      case F::count:
      case F::length:
        return none("length"), make_int(vm_.length_or_fail(value_));
      case F::d:
      case F::default_:
        return do_default();
      case F::dictsort:
        return do_dictsort();
      case F::e:
      case F::escape:
        return none("escape"), do_escape(false);
      case F::forceescape:
        return none("forceescape"), do_escape(true);
      case F::filesizeformat:
        return do_filesizeformat();
      case F::first:
        return none("first"), do_first();
      case F::last:
        return none("last"), do_last();
      case F::float_:
        return do_float();
      case F::int_:
        return do_int();
      case F::format:
        return do_format();
      case F::groupby:
        return do_groupby();
      case F::indent:
        return do_indent();
      case F::items:
        return none("items"), do_items();
      case F::join:
        return do_join();
      case F::list:
        return none("list"), vm_.collect(value_);
      case F::lower:
        return none("lower"), vm_.mapped_case(text(), unicode::Case::lower);
      case F::upper:
        return none("upper"), vm_.mapped_case(text(), unicode::Case::upper);
      case F::map:
        return do_map();
      case F::max:
        return do_extreme(true);
      case F::min:
        return do_extreme(false);
      case F::pprint:
        return do_pprint();
      case F::random:
        return none("random"), do_random();
      case F::select:
        return do_select(true, false);
      case F::reject:
        return do_select(false, false);
      case F::selectattr:
        return do_select(true, true);
      case F::rejectattr:
        return do_select(false, true);
      case F::replace:
        return do_replace();
      case F::reverse:
        return none("reverse"), do_reverse();
      case F::round:
        return do_round();
      case F::safe:
        return none("safe"), markup(vm_.to_string(value_));
      case F::slice:
        return do_slice();
      case F::sort:
        return do_sort();
      case F::string:
        return none("string"), vm_.to_string(value_);
      case F::striptags:
        return none("striptags"), do_striptags();
      case F::sum:
        return do_sum();
      case F::title:
        return none("title"), vm_.title_words(text());
      case F::tojson:
        return vm_.dumps(value_, args_);
      case F::trim:
        return do_trim();
      case F::truncate:
        return do_truncate();
      case F::unique:
        return do_unique();
      case F::urlencode:
        return none("urlencode"), do_urlencode();
      case F::wordcount:
        return none("wordcount"), do_wordcount();
      case F::wordwrap:
        return do_wordwrap();
      case F::xmlattr:
        return do_xmlattr();
      case F::urlize:
        return do_urlize();
      case F::from_json:
      case F::fromjson:
        return none("from_json"), vm_.from_json(value_);
    }
    return {};
  }

 private:
  void none(std::string_view name) const { vm_.bind(args_, name, {}, 0, nullptr); }
  Value text() { return vm_.to_string(value_); }
  // The value as a str. Fails as Python does for a value that has no such attribute or operation.
  Value need_text(bool is_added_to = false) {
    if (value_.is(Tag::undefined)) vm_.fail_undefined(value_);
    if (value_.is_string()) return value_;
    if (is_added_to && !value_.is_list()) {
      vm_.type_error("unsupported operand type(s) for +=: '" + std::string(vm_.type_name(value_)) +
                     "' and 'str'");
    }
    lacks("splitlines");
  }
  [[noreturn]] void lacks(std::string_view attribute) {
    vm_.fail("AttributeError", "'" + std::string(vm_.type_name(value_)) +
                                   "' object has no attribute '" + std::string(attribute) + "'");
  }
  static Value markup(Value value) {
    value.flags |= kMarkup;
    return value;
  }
  bool flag(const Value& value, bool otherwise = false) {
    return value.is(Tag::missing) ? otherwise : vm_.truth(value);
  }
  Value generator(Iterator* iterator) { return vm_.of_iterator(iterator, value_.is_data()); }
  // The walk of a generator over the value. As in Python, the value is looked at when the walk
  // begins: if it cannot be walked over, the walk fails then.
  Iterator* later() {
    try {
      return vm_.iterate(value_);
    } catch (const Fault& fault) {
      constexpr std::string_view kKind = "TypeError";
      if (fault.kind != kKind) throw;
      auto* walk = vm_.arena().make<FailingIterator>();
      *walk = {{FailingIterator::advance, "generator"}, kKind, vm_.arena().copy(fault.message)};
      return walk;
    }
  }

  Value do_abs() {
    none("abs");
    if (!value_.is_number()) {
      vm_.type_error("bad operand type for abs(): '" + std::string(vm_.type_name(value_)) + "'");
    }
    if (value_.is(Tag::real)) return make_real(std::fabs(value_.real), value_.is_data());
    return vm_.negate(value_, !big_of(value_).is_negative());
  }

  Value do_attr() {
    Value name;
    vm_.bind(args_, "attr", {"name"}, 1, &name);
    if (!name.is_string()) {
      vm_.type_error("attribute name must be string, not '" + std::string(vm_.type_name(name)) +
                     "'");
    }
    const std::string_view bytes = vm_.text_of(name).bytes;
    return vm_.attribute(value_, bytes, method_of_name(bytes), false);
  }

  Value do_batch() {
    Value bound[2];
    vm_.bind(args_, "batch", {"linecount", "fill_with"}, 1, bound);
    auto* walk = vm_.arena().make<BatchIterator>();
    *walk = {{BatchIterator::advance, "generator"}, later(), vm_.index_of(bound[0], "linecount"),
             or_default(bound[1], none_value()),    Value{}, false};
    return generator(walk);
  }

  Value do_slice() {
    Value bound[2];
    vm_.bind(args_, "slice", {"slices", "fill_with"}, 1, bound);
    auto* walk = vm_.arena().make<SliceIterator>();
    *walk = {{SliceIterator::advance, "generator"},
             vm_.collect(value_),
             or_default(bound[1], none_value()),
             vm_.index_of(bound[0], "slices"),
             0,
             0};
    return generator(walk);
  }

  Value do_center() {
    Value width;
    vm_.bind(args_, "center", {"width"}, 0, &width);
    const Value items[1] = {or_default(width, make_int(80))};
    return vm_.call_string_method(text(), MethodId::center, {items, 1, nullptr, 0});
  }

  Value do_default() {
    Value bound[2];
    vm_.bind(args_, "default", {"default_value", "boolean"}, 0, bound);
    if (value_.is(Tag::undefined) || (flag(bound[1]) && !vm_.truth(value_))) {
      return or_default(bound[0], make_string({}));
    }
    return value_;
  }

  // --- sorting

  Value keys_for(const Value& list, const Value& path, bool case_sensitive) {
    Value keys = vm_.make_list(list.list->size);
    for (std::uint32_t i = 0; i < list.list->size; ++i) {
      Value key = list.list->items[i];
      if (!path.is(Tag::missing)) key = vm_.follow(path, key, {});
      vm_.append(keys, case_sensitive ? key : vm_.ignore_case(key));
    }
    return keys;
  }

  Value do_sort() {
    Value bound[3];
    vm_.bind(args_, "sort", {"reverse", "case_sensitive", "attribute"}, 0, bound);
    Value list = vm_.collect(value_);
    const bool case_sensitive = flag(bound[1]);
    // A key is a list, even with one attribute or none, because then items that are equal, such as
    // two undefined ones, need no order.
    std::vector<Value> paths;
    if (bound[2].is_string()) {
      const std::string_view names = vm_.text_of(bound[2]).bytes;
      for (std::size_t begin = 0; begin <= names.size();) {
        const std::size_t end = std::min(names.find(',', begin), names.size());
        paths.push_back(vm_.make_path(make_string(names.substr(begin, end - begin))));
        begin = end + 1;
        vm_.step();
      }
    } else if (!bound[2].is(Tag::missing) && !bound[2].is(Tag::none)) {
      paths.push_back(vm_.make_path(bound[2]));
    } else {
      paths.push_back(vm_.make_list(0));
    }
    Value keys = vm_.make_list(list.list->size);
    for (std::uint32_t i = 0; i < list.list->size; ++i) {
      const Value& item = list.list->items[i];
      Value key = vm_.make_list(static_cast<std::uint32_t>(paths.size()));
      for (const Value& path : paths) {
        const Value part = vm_.follow(path, item, {});
        vm_.append(key, case_sensitive ? part : vm_.ignore_case(part));
      }
      vm_.append(keys, key);
    }
    vm_.sort_values(list.list->items, keys.list->items, list.list->size, flag(bound[0]));
    return list;
  }

  Value do_dictsort() {
    Value bound[3];
    vm_.bind(args_, "dictsort", {"case_sensitive", "by", "reverse"}, 0, bound);
    bool by_value = false;
    if (!bound[1].is(Tag::missing)) {
      const std::string_view by = bound[1].is_string() ? vm_.text_of(bound[1]).bytes : "";
      if (by != "key" && by != "value") {
        vm_.fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
      }
      by_value = by == "value";
    }
    if (value_.is(Tag::undefined)) vm_.fail_undefined(value_);
    if (!value_.is_mapping()) {
      vm_.fail("AttributeError",
               "'" + std::string(vm_.type_name(value_)) + "' object has no attribute 'items'");
    }
    const auto size = static_cast<std::uint32_t>(vm_.entry_count(value_));
    Value list = vm_.make_list(size);
    Value keys = vm_.make_list(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      Value key;
      Value value;
      vm_.entry_at(value_, i, key, value);
      vm_.append(list, vm_.pair(key, value, value_.is_data()));
      const Value& sorted = by_value ? value : key;
      vm_.append(keys, flag(bound[0]) ? sorted : vm_.ignore_case(sorted));
    }
    vm_.sort_values(list.list->items, keys.list->items, size, flag(bound[2]));
    return list;
  }

  Value do_groupby() {
    Value bound[3];
    vm_.bind(args_, "groupby", {"attribute", "default", "case_sensitive"}, 1, bound);
    const Value path = vm_.make_path(bound[0]);
    const Value fallback = or_default(bound[1], none_value());
    const bool case_sensitive = flag(bound[2]);
    const Value list = vm_.collect(value_);
    const std::uint32_t size = list.list->size;
    Value keys = vm_.make_list(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      const Value key =
          vm_.follow(path, list.list->items[i], fallback.is(Tag::none) ? Value{} : fallback);
      vm_.append(keys, case_sensitive ? key : vm_.ignore_case(key));
    }
    // Items and keys are sorted together.
    Value order = vm_.make_list(size);
    for (std::uint32_t i = 0; i < size; ++i) vm_.append(order, make_int(i));
    vm_.sort_values(order.list->items, keys.list->items, size, false);
    Value groups = vm_.make_list(4);
    Value current;
    Value current_key;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::int64_t at = order.list->items[i].integer;
      const Value& item = list.list->items[at];
      const Value& key = keys.list->items[at];
      if (current.is(Tag::missing) || !vm_.equal(current_key, key)) {
        current = vm_.make_list(4);
        current_key = key;
        const Value shown =
            case_sensitive ? key
                           : vm_.follow(path, item, fallback.is(Tag::none) ? Value{} : fallback);
        Value group = vm_.pair(shown, current, value_.is_data());
        group.list->is_group = true;
        vm_.append(groups, group);
      }
      vm_.append(current, item);
    }
    return groups;
  }

  Value do_unique() {
    Value bound[2];
    vm_.bind(args_, "unique", {"case_sensitive", "attribute"}, 0, bound);
    auto* walk = vm_.arena().make<UniqueIterator>();
    *walk = {
        {UniqueIterator::advance, "generator"},
        later(),
        bound[1].is(Tag::missing) || bound[1].is(Tag::none) ? Value{} : vm_.make_path(bound[1]),
        vm_.make_dict(),
        flag(bound[0])};
    return generator(walk);
  }

  Value do_extreme(bool is_max) {
    Value bound[2];
    vm_.bind(args_, is_max ? "max" : "min", {"case_sensitive", "attribute"}, 0, bound);
    const Value path =
        bound[1].is(Tag::missing) || bound[1].is(Tag::none) ? Value{} : vm_.make_path(bound[1]);
    const bool case_sensitive = flag(bound[0]);
    Iterator* walk = vm_.iterate(value_);
    Value item;
    Value best;
    Value best_key;
    while (vm_.next(*walk, item)) {
      Value key = path.is(Tag::missing) ? item : vm_.follow(path, item, {});
      if (!case_sensitive) key = vm_.ignore_case(key);
      if (best.is(Tag::missing) || vm_.less(key, best_key, is_max ? ">" : "<")) {
        best = item;
        best_key = key;
      }
    }
    return best.is(Tag::missing) ? vm_.undefined_hint("No aggregated item, sequence was empty.")
                                 : best;
  }

  // --- walking

  Value do_first() {
    Iterator* walk = vm_.iterate(value_);
    Value item;
    return vm_.next(*walk, item) ? item : vm_.undefined_hint("No first item, sequence was empty.");
  }
  Value do_last() {
    if (value_.is(Tag::undefined)) {
      return vm_.undefined_hint("No last item, sequence was empty.");
    }
    if (value_.is_string()) {
      const Text text = vm_.text_of(value_);
      if (text.bytes.empty()) return vm_.undefined_hint("No last item, sequence was empty.");
      std::size_t at = text.bytes.size();
      static_cast<void>(unicode::previous(text.bytes, at));
      return vm_.substring(text, at, text.bytes.size());
    }
    Iterator* walk = vm_.reversed(value_);
    if (walk == nullptr) {
      vm_.type_error("'" + std::string(vm_.type_name(value_)) + "' object is not reversible");
    }
    Value item;
    return vm_.next(*walk, item) ? item : vm_.undefined_hint("No last item, sequence was empty.");
  }
  // It takes the first item, so that a prompt depends only on its inputs.
  Value do_random() {
    const std::int64_t size = vm_.length_or_fail(value_);
    if (size == 0) return vm_.undefined_hint("No random item, sequence was empty.");
    if (value_.is_mapping() || value_.is(Tag::view)) vm_.type_error("the value is not a sequence");
    return vm_.item(value_, make_int(0));
  }
  Value do_items() {
    if (value_.is(Tag::undefined)) return vm_.of_iterator(vm_.iterate(value_));
    if (!value_.is_mapping()) {
      auto* walk = vm_.arena().make<FailingIterator>();
      *walk = {{FailingIterator::advance, "generator"},
               "TypeError",
               "Can only get item pairs from a mapping."};
      return generator(walk);
    }
    Value view;
    view.tag = Tag::view;
    view.flags = value_.flags;
    view.view = vm_.arena().make<View>(value_, View::Kind::items);
    Iterator* walk = vm_.iterate(view);
    walk->type_name = "generator";
    return generator(walk);
  }
  Value do_reverse() {
    if (value_.is_string()) {
      return vm_.slice(value_, {none_value(), none_value(), make_int(-1)});
    }
    if (Iterator* walk = vm_.reversed(value_)) return generator(walk);
    if (!value_.is(Tag::undefined) && !value_.is(Tag::iterator) && !value_.is(Tag::loop)) {
      vm_.fail("FilterArgumentError", "argument must be iterable");
    }
    Value list = vm_.collect(value_);
    std::reverse(list.list->items, list.list->items + list.list->size);
    return list;
  }

  Value failing(std::string_view kind, std::string_view message) {
    auto* walk = vm_.arena().make<FailingIterator>();
    *walk = {{FailingIterator::advance, "generator"}, kind, message};
    return generator(walk);
  }
  Value empty() { return vm_.of_iterator(vm_.iterate(vm_.undefined_name({}))); }

  Value do_map() {
    if (!vm_.truth(value_)) return empty();
    auto* walk = vm_.arena().make<MapIterator>();
    *walk = {{MapIterator::advance, "generator"}, nullptr, {}, {}, kNoBuiltin, {}};
    if (args_.size == 0) {
      for (std::uint32_t i = 0; i < args_.keyword_count; ++i) {
        const std::string_view key = vm_.text_of(args_.keywords[i].key).bytes;
        if (key == "attribute") {
          walk->path = vm_.make_path(args_.keywords[i].value);
        } else if (key == "default") {
          walk->fallback =
              args_.keywords[i].value.is(Tag::none) ? Value{} : args_.keywords[i].value;
        } else {
          return failing("FilterArgumentError", "Unexpected keyword argument");
        }
      }
      if (walk->path.is(Tag::missing)) {
        return failing("FilterArgumentError", "map requires a filter argument");
      }
    } else {
      walk->filter = named(args_.items[0], true);
      if (walk->filter == kNoBuiltin) return unknown(args_.items[0], "filter");
      walk->args = {args_.items + 1, args_.size - 1, args_.keywords, args_.keyword_count};
    }
    walk->source = later();
    return generator(walk);
  }
  std::uint32_t named(const Value& name, bool is_filter) {
    if (!name.is_string()) return kNoBuiltin;
    const std::string_view text = vm_.text_of(name).bytes;
    return is_filter ? filter_of_name(text, vm_.superset()) : test_of_name(text);
  }
  Value unknown(const Value& name, const char* what) {
    const std::string message = std::string("No ") + what + " named " + vm_.described(name) + ".";
    return failing("TemplateRuntimeError", vm_.arena().copy(message));
  }

  Value do_select(bool wanted, bool by_attribute) {
    if (!vm_.truth(value_)) return empty();
    auto* walk = vm_.arena().make<SelectIterator>();
    *walk = {{SelectIterator::advance, "generator"}, nullptr, {}, kNoBuiltin, wanted, {}};
    Args rest = args_;
    if (by_attribute) {
      if (rest.size == 0)
        return failing("FilterArgumentError", "Missing parameter for attribute name");
      walk->path = vm_.make_path(rest.items[0]);
      ++rest.items;
      --rest.size;
    }
    if (rest.size != 0) {
      walk->test = named(rest.items[0], false);
      if (walk->test == kNoBuiltin) return unknown(rest.items[0], "test");
      walk->args = {rest.items + 1, rest.size - 1, rest.keywords, rest.keyword_count};
    }
    walk->source = later();
    return generator(walk);
  }

  Value do_join() {
    Value bound[2];
    vm_.bind(args_, "join", {"d", "attribute"}, 0, bound);
    const Value path =
        bound[1].is(Tag::missing) || bound[1].is(Tag::none) ? Value{} : vm_.make_path(bound[1]);
    const Value separator = bound[0].is(Tag::missing) ? make_string({}) : vm_.to_string(bound[0]);
    Iterator* walk = vm_.iterate(value_);
    const Vm::Mark mark = vm_.begin_text();
    Value item;
    for (bool is_first = true; vm_.next(*walk, item); is_first = false) {
      if (!is_first && separator.size != 0) vm_.put_string(separator);
      vm_.print(path.is(Tag::missing) ? item : vm_.follow(path, item, {}));
    }
    return vm_.end_text(mark);
  }

  Value do_sum() {
    Value bound[2];
    vm_.bind(args_, "sum", {"attribute", "start"}, 0, bound);
    const Value path =
        bound[0].is(Tag::missing) || bound[0].is(Tag::none) ? Value{} : vm_.make_path(bound[0]);
    Value total = or_default(bound[1], make_int(0));
    if (total.is_string()) vm_.type_error("sum() can't sum strings [use ''.join(seq) instead]");
    Iterator* walk = vm_.iterate(value_);
    Value item;
    while (vm_.next(*walk, item)) {
      total = vm_.binary(Op::add, total, path.is(Tag::missing) ? item : vm_.follow(path, item, {}));
    }
    return total;
  }

  // --- numbers

  Value do_float() {
    Value otherwise;
    vm_.bind(args_, "float", {"default"}, 0, &otherwise);
    otherwise = or_default(otherwise, make_real(0));
    if (value_.is(Tag::undefined)) vm_.fail_undefined(value_);
    if (value_.is(Tag::real)) return value_;
    if (value_.is_int()) {
      const double value = big_of(value_).to_double();
      if (std::isinf(value)) vm_.fail("OverflowError", "int too large to convert to float");
      return make_real(value, value_.is_data());
    }
    if (!value_.is_string()) return otherwise;
    const std::optional<double> value = float_of_text(vm_.text_of(value_).bytes);
    return value ? make_real(*value, value_.is_data()) : otherwise;
  }

  Value do_int() {
    Value bound[2];
    vm_.bind(args_, "int", {"default", "base"}, 0, bound);
    const Value otherwise = or_default(bound[0], make_int(0));
    if (value_.is(Tag::undefined)) vm_.fail_undefined(value_);
    if (value_.is_int()) return vm_.negate(value_, true);
    double real = 0;
    if (value_.is_string()) {
      const std::int64_t base = bound[1].is(Tag::missing) ? 10 : vm_.index_of(bound[1], "base");
      if (base == 0 || (base >= 2 && base <= 36)) {
        const std::string_view text = vm_.text_of(value_).bytes;
        vm_.charge(text.size() * 4);
        vm_.charge_decimals(std::min(text.size(), kMaxIntegerDigits) / 9);
        if (const auto value = int_of_text(text, static_cast<unsigned>(base))) {
          return make_big(vm_.arena(), *value, value_.is_data());
        }
      }
      const std::optional<double> value = float_of_text(vm_.text_of(value_).bytes);
      if (!value) return otherwise;
      real = *value;
    } else if (value_.is(Tag::real)) {
      real = value_.real;
      if (std::isinf(real)) vm_.fail("OverflowError", "cannot convert float infinity to integer");
    } else {
      return otherwise;
    }
    if (!std::isfinite(real)) return otherwise;
    return make_big(vm_.arena(), BigInt::from_double(real), value_.is_data());
  }

  Value do_round() {
    Value bound[2];
    vm_.bind(args_, "round", {"precision", "method"}, 0, bound);
    std::string_view method = "common";
    if (!bound[1].is(Tag::missing))
      method = bound[1].is_string() ? vm_.text_of(bound[1]).bytes : "";
    if (method != "common" && method != "ceil" && method != "floor") {
      vm_.fail("FilterArgumentError", "method must be common, ceil or floor");
    }
    if (value_.is(Tag::undefined) && method != "common") vm_.fail_undefined(value_);
    if (!value_.is_number()) {
      vm_.type_error("type " + std::string(vm_.type_name(value_)) +
                     " doesn't define __round__ method");
    }
    const bool is_data = value_.is_data();
    if (method == "common" && bound[0].is(Tag::none)) return round_to_int();
    const std::int64_t precision =
        bound[0].is(Tag::missing) ? 0 : vm_.index_of(bound[0], "precision");
    if (method != "common") {
      const double value = real_of_number();
      const double scale = std::pow(10.0, static_cast<double>(precision));
      const double scaled = value * scale;
      if (!std::isfinite(scaled)) vm_.fail("OverflowError", "the number is out of range");
      const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
      // Python's whole part is an int, which has no minus zero.
      return make_real((whole + 0.0) / scale, is_data);
    }
    if (value_.is_int()) {
      if (precision >= 0) return vm_.negate(value_, true);
      return round_int(precision);
    }
    const double value = value_.real;
    if (!std::isfinite(value) || precision > 323) return value_;
    if (precision < -308) return make_real(std::copysign(0.0, value), is_data);
    if (precision >= 0) {
      return make_real(parse_double(format_double(value, 'f', static_cast<int>(precision), false)),
                       is_data);
    }
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    double whole = std::nearbyint(value / scale);
    return make_real(whole * scale, is_data);
  }
  double real_of_number() const {
    return value_.is(Tag::real) ? value_.real : big_of(value_).to_double();
  }
  Value round_to_int() {
    if (value_.is_int()) return vm_.negate(value_, true);
    if (!std::isfinite(value_.real))
      vm_.fail("OverflowError", "cannot convert float infinity to integer");
    return make_big(vm_.arena(), BigInt::from_double(std::nearbyint(value_.real)),
                    value_.is_data());
  }
  // Rounds to a multiple of a power of ten; ties go to the even multiple.
  Value round_int(std::int64_t precision) {
    const BigInt value = big_of(value_);
    const std::size_t most = value.bits() / 3 + 1;  // then 10 ** most is more than twice the value
    const std::size_t zeros =
        precision < -static_cast<std::int64_t>(most) ? most : static_cast<std::size_t>(-precision);
    vm_.charge_decimals(value.limbs().size() + zeros / 9);
    const BigInt unit = BigInt::from_digits("1" + std::string(zeros, '0'), 10);
    BigInt quotient;
    BigInt rest;
    BigInt::divide(value, unit, quotient, rest);
    const int order = BigInt::compare(rest + rest, unit);
    if (order > 0 || (order == 0 && quotient.is_odd())) quotient = quotient + BigInt(1);
    return make_big(vm_.arena(), quotient * unit, value_.is_data());
  }

  Value do_filesizeformat() {
    Value binary;
    vm_.bind(args_, "filesizeformat", {"binary"}, 0, &binary);
    double bytes = 0;
    if (value_.is(Tag::undefined)) vm_.fail_undefined(value_);
    if (value_.is_number()) {
      bytes = real_of_number();
    } else if (value_.is_string()) {
      const auto parsed = float_of_text(vm_.text_of(value_).bytes);
      if (!parsed) vm_.value_error("could not convert string to float: " + vm_.described(value_));
      bytes = *parsed;
    } else {
      vm_.type_error("float() argument must be a string or a real number, not '" +
                     std::string(vm_.type_name(value_)) + "'");
    }
    const bool is_binary = flag(binary);
    const double base = is_binary ? 1024 : 1000;
    std::string out;
    if (bytes == 1) {
      out = "1 Byte";
    } else if (bytes < base) {
      out = BigInt::from_double(bytes).to_string() + " Bytes";
    } else {
      static constexpr const char* kPrefixes = "kMGTPEZY";
      double unit = base * base;
      int i = 0;
      for (; i < 7 && bytes >= unit; ++i) unit *= base;
      out = format_double(base * bytes / unit, 'f', 1, false) + " ";
      out += is_binary && i == 0 ? 'K' : kPrefixes[i];
      out += is_binary ? "iB" : "B";
    }
    return vm_.string_copy(out, value_.is_data());
  }

  // --- text

  Value do_escape(bool force) {
    if (value_.is_string() && value_.is_markup() && !force) return value_;
    const Value string = text();
    const Text text = vm_.text_of(string);
    vm_.charge(text.bytes.size());
    const Vm::Mark mark = vm_.begin_text();
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.bytes.size(); ++at) {
      std::string_view escape;
      switch (text.bytes[at]) {
        case '&':
          escape = "&amp;";
          break;
        case '<':
          escape = "&lt;";
          break;
        case '>':
          escape = "&gt;";
          break;
        case '\'':
          escape = "&#39;";
          break;
        case '"':
          escape = "&#34;";
          break;
        default:
          continue;
      }
      vm_.put_text(text, begin, at);
      const Value character = vm_.substring(text, at, at + 1);
      vm_.put(escape, character.is_data());
      begin = at + 1;
    }
    vm_.put_text(text, begin, text.bytes.size());
    return markup(vm_.end_text(mark));
  }

  Value do_format() {
    if (args_.size != 0 && args_.keyword_count != 0) {
      vm_.fail("FilterArgumentError",
               "can't handle positional and keyword arguments at the same time");
    }
    Value arguments = vm_.make_list(args_.size, false, Tag::tuple);
    if (args_.keyword_count != 0) {
      arguments = vm_.make_dict();
      for (std::uint32_t i = 0; i < args_.keyword_count; ++i) {
        vm_.set(arguments, args_.keywords[i].key, args_.keywords[i].value);
      }
    } else {
      for (std::uint32_t i = 0; i < args_.size; ++i) vm_.append(arguments, args_.items[i]);
    }
    return vm_.percent(text(), arguments);
  }

  Value do_indent() {
    Value bound[3];
    vm_.bind(args_, "indent", {"width", "first", "blank"}, 0, bound);
    const Value string = need_text(true);
    Value indention;
    if (bound[0].is_string()) {
      indention = bound[0];
    } else {
      const std::int64_t width = bound[0].is(Tag::missing) ? 4 : vm_.index_of(bound[0], "width");
      const Vm::Mark spaces = vm_.begin_text();
      vm_.put_repeated(" ", width, false);
      indention = vm_.end_text(spaces);
    }
    const Value lines =
        vm_.call_string_method(vm_.concat(string, make_string("\n")), MethodId::splitlines, {});
    const bool blank = flag(bound[2]);
    const Vm::Mark mark = vm_.begin_text();
    if (flag(bound[1])) vm_.put_string(indention);
    for (std::uint32_t i = 0; i < lines.list->size; ++i) {
      const Value& line = lines.list->items[i];
      if (i != 0) {
        vm_.put("\n", string.is_data());
        if (blank || line.size != 0) vm_.put_string(indention);
      }
      vm_.put_string(line);
    }
    return vm_.end_text(mark);
  }

  Value do_replace() {
    Value bound[3];
    vm_.bind(args_, "replace", {"old", "new", "count"}, 2, bound);
    const Value items[3] = {
        vm_.to_string(bound[0]), vm_.to_string(bound[1]),
        bound[2].is(Tag::missing) || bound[2].is(Tag::none) ? make_int(-1) : bound[2]};
    return vm_.call_string_method(text(), MethodId::replace, {items, 3, nullptr, 0});
  }

  Value do_trim() {
    Value chars;
    vm_.bind(args_, "trim", {"chars"}, 0, &chars);
    const Value items[1] = {or_default(chars, none_value())};
    return vm_.call_string_method(text(), MethodId::strip, {items, 1, nullptr, 0});
  }

  Value do_truncate() {
    Value bound[4];
    vm_.bind(args_, "truncate", {"length", "killwords", "end", "leeway"}, 0, bound);
    const std::int64_t length = bound[0].is(Tag::missing) ? 255 : vm_.index_of(bound[0], "length");
    const Value end = or_default(bound[2], make_string("..."));
    const std::int64_t leeway =
        bound[3].is(Tag::missing) || bound[3].is(Tag::none) ? 5 : vm_.index_of(bound[3], "leeway");
    const std::int64_t end_size = vm_.length_or_fail(end);
    if (length < end_size || leeway < 0) {
      vm_.fail("AssertionError", "expected length >= " + std::to_string(end_size));
    }
    const std::int64_t size = vm_.length_or_fail(value_);
    if (size <= length + std::min<std::int64_t>(leeway, std::int64_t{1} << 40)) return value_;
    const Value kept = vm_.slice(value_, {none_value(), make_int(length - end_size), none_value()});
    if (flag(bound[1])) return vm_.binary(Op::add, kept, end);
    const Value items[2] = {make_string(" "), make_int(1)};
    const Value words = vm_.call_string_method(kept, MethodId::rsplit, {items, 2, nullptr, 0});
    return vm_.binary(Op::add, words.list->items[0], end);
  }

  // Removes runs of tags and comments; the text that is left is separated by single spaces.
  Value do_striptags() {
    const Value string = text();
    const Text all = vm_.text_of(string);
    vm_.charge(all.bytes.size());
    // markupsafe 3 removes comments first and tags second, each search from the left.
    const auto strip = [&](const Text& from, std::string_view open, std::string_view close) {
      const Vm::Mark mark = vm_.begin_text();
      std::size_t begin = 0;
      while (true) {
        const std::size_t start = from.bytes.find(open, begin);
        if (start == std::string_view::npos) break;
        const std::size_t end = from.bytes.find(close, start);
        if (end == std::string_view::npos) break;
        vm_.step();
        vm_.put_text(from, begin, start);
        begin = end + close.size();
      }
      vm_.put_text(from, begin, from.bytes.size());
      return vm_.end_text(mark);
    };
    const Value no_comments = strip(all, "<!--", "-->");
    const Value no_tags = strip(vm_.text_of(no_comments), "<", ">");
    const Value words = vm_.call_string_method(no_tags, MethodId::split, {});
    const Vm::Mark mark = vm_.begin_text();
    for (std::uint32_t i = 0; i < words.list->size; ++i) {
      if (i != 0) vm_.put(" ", false);
      vm_.put_string(words.list->items[i]);
    }
    return vm_.unescape_html(vm_.end_text(mark));
  }

  static void quote(std::string& out, std::string_view text, bool is_query) {
    for (const char c : text) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
                            c == '~' || (c == '/' && !is_query);
      if (is_plain) {
        out += c;
      } else if (c == ' ' && is_query) {
        out += '+';
      } else {
        char escape[4];
        std::snprintf(escape, sizeof(escape), "%%%02X", static_cast<unsigned char>(c));
        out += escape;
      }
    }
  }
  Value do_urlencode() {
    std::string out;
    const bool is_iterable = value_.is_mapping() || value_.is_list() || value_.is(Tag::tuple) ||
                             value_.is(Tag::view) || value_.is(Tag::iterator) ||
                             value_.is(Tag::undefined) || value_.is(Tag::range);
    if (!is_iterable) {
      const Value string = text();
      vm_.charge(std::size_t{string.size} * 4);
      quote(out, vm_.text_of(string).bytes, false);
      return vm_.string_copy(out, value_.is_data() || !string.is(Tag::string));
    }
    Value source = value_;
    if (value_.is_mapping()) {
      source.tag = Tag::view;
      source.view = vm_.arena().make<View>(value_, View::Kind::items);
    }
    Iterator* walk = vm_.iterate(source);
    Value item;
    for (bool is_first = true; vm_.next(*walk, item); is_first = false) {
      const Value both = vm_.collect(item);
      if (both.list->size != 2) vm_.value_error("not enough values to unpack (expected 2)");
      if (!is_first) out += '&';
      quote(out, vm_.text_of(vm_.to_string(both.list->items[0])).bytes, true);
      out += '=';
      quote(out, vm_.text_of(vm_.to_string(both.list->items[1])).bytes, true);
      vm_.charge(std::size_t{both.list->items[0].size} * 4);
      vm_.arena().foresee(out.size());
    }
    return vm_.string_copy(out, true);
  }

  Value do_wordcount() {
    const Value string = text();
    const std::string_view bytes = vm_.text_of(string).bytes;
    vm_.charge(bytes.size() * 4);
    std::int64_t count = 0;
    bool was_word = false;
    for (std::size_t at = 0; at < bytes.size();) {
      const char32_t point = unicode::next(bytes, at);
      const bool is_word =
          point == '_' || unicode::is(point, unicode::kAlpha | unicode::kDecimal | unicode::kDigit |
                                                 unicode::kNumeric);
      count += is_word && !was_word;
      was_word = is_word;
    }
    return make_int(count);
  }

  Value do_wordwrap() {
    Value bound[4];
    vm_.bind(args_, "wordwrap", {"width", "break_long_words", "wrapstring", "break_on_hyphens"}, 0,
             bound);
    const std::int64_t width = bound[0].is(Tag::missing) ? 79 : vm_.index_of(bound[0], "width");
    const bool breaks_words = flag(bound[1], true);
    const bool breaks_hyphens = flag(bound[3], true);
    const Value joint =
        bound[2].is(Tag::missing) || bound[2].is(Tag::none) ? make_string("\n") : bound[2];
    const Value lines = vm_.call_string_method(need_text(), MethodId::splitlines, {});
    const Vm::Mark mark = vm_.begin_text();
    for (std::uint32_t i = 0; i < lines.list->size; ++i) {
      if (i != 0) vm_.put_string(joint);
      wrap_line(lines.list->items[i], width, breaks_words, breaks_hyphens, joint);
    }
    return vm_.end_text(mark);
  }

  // The chunks of Python's textwrap: runs of space, and words, which are cut after hyphens between
  // letters.
  std::vector<std::pair<std::size_t, std::size_t>> chunks(std::string_view bytes,
                                                          bool breaks_hyphens) {
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    const auto is_gap = [&](std::size_t at) {
      return bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r');
    };
    const auto is_letter = [&](std::size_t at) {
      const char c = at < bytes.size() ? bytes[at] : '\0';
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
             static_cast<unsigned char>(c) >= 0x80;
    };
    for (std::size_t at = 0; at < bytes.size();) {
      vm_.step();
      const std::size_t begin = at;
      if (is_gap(at)) {
        while (at < bytes.size() && is_gap(at)) ++at;
      } else {
        while (at < bytes.size() && !is_gap(at)) {
          ++at;
          if (breaks_hyphens && bytes[at - 1] == '-' && at - begin >= 3 && is_letter(at - 2) &&
              is_letter(at - 3) && is_letter(at) && is_letter(at + 1)) {
            break;
          }
        }
      }
      parts.emplace_back(begin, at);
    }
    return parts;
  }

  void wrap_line(const Value& line, std::int64_t width, bool breaks_words, bool breaks_hyphens,
                 const Value& joint) {
    if (width <= 0) vm_.value_error("invalid width " + std::to_string(width) + " (must be > 0)");
    const Text text = vm_.text_of(line);
    auto parts = chunks(text.bytes, breaks_hyphens);
    const auto is_blank = [&](const std::pair<std::size_t, std::size_t>& part) {
      return text.bytes[part.first] == ' ' ||
             (text.bytes[part.first] >= '\t' && text.bytes[part.first] <= '\r');
    };
    // Counts the characters of a part, at most one more than a line holds, because a long word is
    // counted once for each of its lines.
    const auto size_of = [&](const std::pair<std::size_t, std::size_t>& part, std::int64_t most) {
      std::int64_t size = 0;
      for (std::size_t at = part.first; at < part.second && size <= most; ++at) {
        size += (static_cast<unsigned char>(text.bytes[at]) & 0xC0U) != 0x80 ? 1 : 0;
      }
      vm_.charge(static_cast<std::size_t>(size));
      return size;
    };
    bool is_first_line = true;
    std::size_t next = 0;
    while (next < parts.size()) {
      vm_.step();
      if (!is_first_line && is_blank(parts[next])) ++next;
      if (next == parts.size()) break;
      std::int64_t used = 0;
      std::size_t begin = parts[next].first;
      std::size_t end = begin;
      std::size_t last_blank = std::string_view::npos;
      const std::size_t first = next;
      while (next < parts.size()) {
        const std::int64_t size = size_of(parts[next], width);
        if (size > width - used) break;
        used += size;
        last_blank = is_blank(parts[next]) ? parts[next].first : std::string_view::npos;
        end = parts[next].second;
        ++next;
      }
      if (next < parts.size()) {
        if (size_of(parts[next], width) > width) {  // a word longer than a line
          if (breaks_words) {
            const std::size_t cut = unicode::offset(
                text.bytes, static_cast<std::size_t>(width - used), parts[next].first);
            // If the line is full, the empty piece still comes after the space before it.
            last_blank = std::string_view::npos;
            if (cut > parts[next].first) {
              if (is_blank(parts[next])) last_blank = parts[next].first;
              end = cut;
              parts[next].first = cut;
            }
          } else if (next == first) {
            if (is_blank(parts[next])) last_blank = parts[next].first;
            end = parts[next].second;
            ++next;
          }
        }
      }
      // Space at a line's end is dropped.
      if (last_blank != std::string_view::npos) end = last_blank;
      if (end > begin) {
        if (!is_first_line) vm_.put_string(joint);
        vm_.put_text(text, begin, end);
        is_first_line = false;
      } else if (next == first && parts[next].first == begin) {
        break;
      }
    }
  }

  // pprint.pformat: one line if 80 columns hold it, else one item per line. Keys are sorted.
  Value do_pprint() {
    none("pprint");
    const Vm::Mark mark = vm_.begin_text();
    pretty(sorted_keys(value_), 0, 0);
    return vm_.end_text(mark);
  }
  // If Python cannot compare two keys, pprint sorts them by the names of their types: NoneType,
  // then those of numbers, str, tuple.
  void sort_keys(Value* order, const Value* keys, std::uint32_t size) {
    Value kinds = vm_.make_list(size);
    const auto kind = [](const Value& key) {
      return key.is(Tag::none) ? 0 : key.is_number() ? 1 : key.is_string() ? 2 : 3;
    };
    std::uint32_t counts[4] = {};
    for (std::uint32_t i = 0; i < size; ++i) {
      ++counts[kind(keys[i])];
      vm_.append(kinds, make_int(kind(keys[i])));
    }
    vm_.sort_values(order, kinds.list->items, size, false);
    const std::uint32_t text = counts[0] + counts[1];
    for (const auto& [begin, count] : {std::pair(counts[0], counts[1]), {text, counts[2]}}) {
      Value group = vm_.make_list(count);
      for (std::uint32_t i = 0; i < count; ++i) {
        vm_.append(group, keys[static_cast<std::size_t>(order[begin + i].integer)]);
      }
      vm_.sort_values(order + begin, group.list->items, count, false);
    }
  }
  Value sorted_keys(const Value& value) {
    const Vm::Deeper deeper(vm_);
    if (value.is_mapping()) {
      const auto size = static_cast<std::uint32_t>(vm_.entry_count(value));
      Value keys = vm_.make_list(size);
      Value order = vm_.make_list(size);
      for (std::uint32_t i = 0; i < size; ++i) {
        Value key;
        Value item;
        vm_.entry_at(value, i, key, item);
        vm_.append(keys, key);
        vm_.append(order, make_int(i));
      }
      sort_keys(order.list->items, keys.list->items, size);
      Value dict = vm_.make_dict(value.is_data());
      for (std::uint32_t i = 0; i < size; ++i) {
        Value key;
        Value item;
        vm_.entry_at(value, static_cast<std::size_t>(order.list->items[i].integer), key, item);
        vm_.set(dict, key, sorted_keys(item));
      }
      return dict;
    }
    if (!value.is_list() && !value.is(Tag::tuple)) return value;
    Value list = vm_.make_list(4, value.is_data(), value.is(Tag::tuple) ? Tag::tuple : Tag::list);
    for (std::int64_t i = 0; i < *vm_.length(value); ++i) {
      vm_.append(list, sorted_keys(vm_.item_at(value, i)));
    }
    return list;
  }
  // `indent` columns stand before the value, and `allowance` closing characters come after it.
  void pretty(const Value& value, std::int64_t indent, std::int64_t allowance) {
    const Vm::Deeper deeper(vm_);
    const Vm::Mark mark = vm_.begin_text();
    vm_.repr(value);
    const Value line = vm_.end_text(mark);
    const bool is_dict = value.is_mapping();
    const bool is_sequence = value.is_list() || value.is(Tag::tuple);
    const std::int64_t size = is_dict || is_sequence ? *vm_.length(value) : 0;
    if (static_cast<std::int64_t>(vm_.length_of_text(line)) <= 80 - indent - allowance ||
        size == 0) {
      return vm_.put_string(line);
    }
    const bool is_data = value.is_data();
    const bool is_tuple = value.is(Tag::tuple);
    vm_.put(is_dict ? "{" : is_tuple ? "(" : "[", is_data);
    for (std::int64_t i = 0; i < size; ++i) {
      if (i != 0) {
        vm_.put(",\n", is_data);
        vm_.put_repeated(" ", indent + 1, is_data);
      }
      const std::int64_t behind =
          i + 1 < size ? 1 : allowance + 1 + (is_tuple && size == 1 ? 1 : 0);
      if (is_dict) {
        Value key;
        Value item;
        vm_.entry_at(value, static_cast<std::size_t>(i), key, item);
        const Vm::Mark before = vm_.begin_text();
        vm_.repr(key);
        const Value shown = vm_.end_text(before);
        vm_.put_string(shown);
        vm_.put(": ", is_data);
        pretty(item, indent + static_cast<std::int64_t>(vm_.length_of_text(shown)) + 3, behind);
      } else {
        pretty(vm_.item_at(value, i), indent + 1, behind);
      }
    }
    vm_.put(is_dict ? "}" : is_tuple ? (size == 1 ? ",)" : ")") : "]", is_data);
  }

  Value do_xmlattr() {
    Value autospace;
    vm_.bind(args_, "xmlattr", {"autospace"}, 0, &autospace);
    if (value_.is(Tag::undefined)) vm_.fail_undefined(value_);
    if (!value_.is_mapping()) lacks("items");
    const Vm::Mark mark = vm_.begin_text();
    bool is_first = true;
    for (std::size_t i = 0; i < vm_.entry_count(value_); ++i) {
      Value key;
      Value item;
      vm_.entry_at(value_, i, key, item);
      if (item.is(Tag::none) || item.is(Tag::undefined)) continue;
      if (!key.is_string()) vm_.type_error("expected string or bytes-like object");
      if (vm_.text_of(key).bytes.find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
        vm_.value_error("Invalid character in attribute name: " + vm_.described(key));
      }
      if (!is_first || flag(autospace, true)) vm_.put(" ", false);
      is_first = false;
      vm_.put_string(Filter(vm_, F::escape, key, {}).do_escape(false));
      vm_.put("=\"", false);
      vm_.put_string(Filter(vm_, F::escape, item, {}).do_escape(false));
      vm_.put("\"", false);
    }
    return vm_.end_text(mark);
  }

  // Makes HTML links of plain addresses: http(s)://, www., and mail addresses after mailto:.
  Value do_urlize() {
    Value bound[5];
    vm_.bind(args_, "urlize", {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"}, 0,
             bound);
    const Value escaped = do_escape(false);
    const Text text = vm_.text_of(escaped);
    vm_.charge(text.bytes.size());
    std::string rel = flag(bound[1]) ? "nofollow noopener" : "noopener";
    const Vm::Mark mark = vm_.begin_text();
    for (std::size_t at = 0; at < text.bytes.size();) {
      vm_.step();
      const std::size_t begin = at;
      std::size_t next = at;
      const bool is_gap = is_space_at(text.bytes, next);
      while (at < text.bytes.size()) {
        next = at;
        if (is_space_at(text.bytes, next) != is_gap) break;
        at = next;
      }
      std::size_t from = begin;
      std::size_t to = at;
      while (from < to && std::string_view("(<").find(text.bytes[from]) != std::string_view::npos)
        ++from;
      while (to > from &&
             std::string_view(".,)>\n").find(text.bytes[to - 1]) != std::string_view::npos)
        --to;
      const std::string_view word = text.bytes.substr(from, to - from);
      const bool is_full = word.starts_with("https://") || word.starts_with("http://");
      const bool is_host = word.starts_with("www.") && word.find('.', 4) != std::string_view::npos;
      if (is_gap || (!is_full && !is_host)) {
        vm_.put_text(text, begin, at);
        continue;
      }
      vm_.put_text(text, begin, from);
      vm_.put(is_full ? "<a href=\"" : "<a href=\"https://", false);
      vm_.put_text(text, from, to);
      vm_.put("\" rel=\"" + rel + "\">", false);
      vm_.put_text(text, from, to);
      vm_.put("</a>", false);
      vm_.put_text(text, to, at);
    }
    return vm_.end_text(mark);
  }
  static bool is_space_at(std::string_view text, std::size_t& at) {
    return unicode::is_space(unicode::next(text, at));
  }

  Vm& vm_;
  F id_;
  const Value& value_;
  const Args& args_;
};

}  // namespace

Value Vm::call_filter(std::uint32_t id, const Value& value, const Args& args) {
  check_stack();
  step();
  return Filter(*this, static_cast<FilterId>(id), value, args).run();
}

// A path is a list of names and numbers: "a.b.0" -> ["a", "b", 0].
Value Vm::make_path(const Value& attribute) {
  Value path = make_list(1);
  if (!attribute.is_string()) {
    append(path, attribute);
    return path;
  }
  const std::string_view names = text_of(attribute).bytes;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const bool is_number =
        !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) charge_decimals(std::min(name.size(), kMaxIntegerDigits) / 9);
    append(path,
           is_number
               ? make_big(arena_, BigInt::from_decimal(name.substr(0, kMaxIntegerDigits)), false)
               : make_string(name));
    begin = end + 1;
    step();
  }
  return path;
}

Value Vm::follow(const Value& path, Value value, const Value& fallback) {
  for (std::uint32_t i = 0; i < path.list->size; ++i) {
    step();
    value = item(value, path.list->items[i]);
    if (value.is(Tag::undefined) && !fallback.is(Tag::missing)) value = fallback;
  }
  return value;
}

Value Vm::ignore_case(const Value& value) {
  return value.is_string() ? mapped_case(value, unicode::Case::lower) : value;
}

// A stable merge sort from the bottom up. Comparisons count steps and fail by throwing, and a
// comparison that is not an order (NaN) does no harm here, as it could in std::sort.
void Vm::sort_values(Value* items, const Value* keys, std::uint32_t size, bool is_reversed) {
  if (size < 2) return;
  auto* order = arena_.array<std::uint32_t>(size);
  auto* merged = arena_.array<std::uint32_t>(size);
  for (std::uint32_t i = 0; i < size; ++i) order[i] = i;
  for (std::uint64_t width = 1; width < size; width *= 2) {
    for (std::uint64_t begin = 0; begin < size; begin += 2 * width) {
      const auto middle = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + width, size));
      const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + 2 * width, size));
      auto left = static_cast<std::uint32_t>(begin);
      std::uint32_t right = middle;
      for (auto at = static_cast<std::uint32_t>(begin); at < end; ++at) {
        step();
        // Python reverses twice, so equal items keep their order in both directions.
        const bool takes_right =
            left >= middle ||
            (right < end && (is_reversed ? less(keys[order[left]], keys[order[right]])
                                         : less(keys[order[right]], keys[order[left]])));
        merged[at] = takes_right ? order[right++] : order[left++];
      }
    }
    std::swap(order, merged);
  }
  auto* sorted = arena_.array<Value>(size);
  for (std::uint32_t i = 0; i < size; ++i) sorted[i] = items[order[i]];
  std::copy_n(sorted, size, items);
}

}  // namespace tenon::jinja
