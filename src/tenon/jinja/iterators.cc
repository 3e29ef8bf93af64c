#include <algorithm>

#include "tenon/jinja/vm.h"

/// Python's iteration, and the `loop` of for statements.
namespace tenon::jinja {
namespace {

/// Items by number: of lists, tuples, ranges and the context's arrays.
struct IndexIterator : Iterator {
  Value sequence;
  std::int64_t at;
  std::int64_t step;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<IndexIterator&>(self);
    if (me.at < 0 || me.at >= *vm.length(me.sequence)) return false;
    item = vm.item_at(me.sequence, me.at);
    me.at += me.step;
    return true;
  }
};

struct TextIterator : Iterator {
  Text text;
  std::size_t at;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<TextIterator&>(self);
    if (me.at >= me.text.bytes.size()) return false;
    const std::size_t begin = me.at;
    static_cast<void>(unicode::next(me.text.bytes, me.at));
    item = vm.substring(me.text, begin, me.at);
    return true;
  }
};

struct BytesIterator : Iterator {
  std::string_view bytes;

  static bool advance(Vm&, Iterator& self, Value& item) {
    auto& me = static_cast<BytesIterator&>(self);
    if (me.bytes.empty()) return false;
    item = make_int(static_cast<unsigned char>(me.bytes[0]));
    me.bytes.remove_prefix(1);
    return true;
  }
};

struct DictIterator : Iterator {
  Value dict;
  View::Kind kind;
  std::int64_t at;
  std::int64_t step;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<DictIterator&>(self);
    if (me.at < 0 || static_cast<std::size_t>(me.at) >= vm.entry_count(me.dict)) return false;
    Value key;
    Value value;
    vm.entry_at(me.dict, static_cast<std::size_t>(me.at), key, value);
    me.at += me.step;
    item = me.kind == View::Kind::keys     ? key
           : me.kind == View::Kind::values ? value
                                           : vm.pair(key, value, me.dict.is_data());
    return true;
  }
};

struct LoopIterator : Iterator {
  Loop* loop;

  static bool advance(Vm& vm, Iterator& self, Value& item) {
    auto& me = static_cast<LoopIterator&>(self);
    Value value;
    if (!vm.loop_next(*me.loop, value)) return false;
    Value loop;
    loop.tag = Tag::loop;
    loop.loop = me.loop;
    item = vm.pair(value, loop, false);
    return true;
  }
};

struct EmptyIterator : Iterator {
  static bool advance(Vm&, Iterator&, Value&) { return false; }
};

}  // namespace

Value Vm::of_iterator(Iterator* iterator, bool is_data) {
  Value value;
  value.tag = Tag::iterator;
  value.flags = is_data ? kData : 0;
  value.iterator = iterator;
  return value;
}

Iterator* Vm::iterate(const Value& value) {
  switch (value.tag) {
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range: {
      auto* walk = arena_.make<IndexIterator>();
      *walk = {{IndexIterator::advance, "list_iterator"}, value, 0, 1};
      return walk;
    }
    case Tag::string:
    case Tag::rope: {
      auto* walk = arena_.make<TextIterator>();
      *walk = {{TextIterator::advance, "str_iterator"}, text_of(value), 0};
      return walk;
    }
    case Tag::bytes: {
      auto* walk = arena_.make<BytesIterator>();
      *walk = {{BytesIterator::advance, "bytes_iterator"}, value.bytes()};
      return walk;
    }
    case Tag::dict:
    case Tag::json_dict:
    case Tag::view: {
      auto* walk = arena_.make<DictIterator>();
      const bool is_view = value.is(Tag::view);
      *walk = {{DictIterator::advance, "dict_keyiterator"},
               is_view ? value.view->dict : value,
               is_view ? value.view->kind : View::Kind::keys,
               0,
               1};
      return walk;
    }
    case Tag::iterator:
      return value.iterator;
    case Tag::loop: {
      auto* walk = arena_.make<LoopIterator>();
      *walk = {{LoopIterator::advance, "LoopContext"}, value.loop};
      return walk;
    }
    case Tag::undefined: {
      auto* walk = arena_.make<EmptyIterator>();
      *walk = {{EmptyIterator::advance, "generator"}};
      return walk;
    }
    default:
      type_error("'" + std::string(type_name(value)) + "' object is not iterable");
  }
}

Iterator* Vm::reversed(const Value& value) {
  switch (value.tag) {
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range: {
      auto* walk = arena_.make<IndexIterator>();
      *walk = {{IndexIterator::advance, value.is(Tag::tuple)   ? "reversed"
                                        : value.is(Tag::range) ? "range_iterator"
                                                               : "list_reverseiterator"},
               value,
               *length(value) - 1,
               -1};
      return walk;
    }
    case Tag::string:
    case Tag::rope: {
      const Value characters = collect(value);
      Iterator* walk = reversed(characters);
      walk->type_name = "reversed";
      return walk;
    }
    case Tag::dict:
    case Tag::json_dict:
    case Tag::view: {
      auto* walk = arena_.make<DictIterator>();
      const bool is_view = value.is(Tag::view);
      const Value& dict = is_view ? value.view->dict : value;
      *walk = {{DictIterator::advance, "dict_reversekeyiterator"},
               dict,
               is_view ? value.view->kind : View::Kind::keys,
               static_cast<std::int64_t>(entry_count(dict)) - 1,
               -1};
      return walk;
    }
    default:
      return nullptr;
  }
}

Value Vm::collect(const Value& iterable) {
  const std::optional<std::int64_t> size =
      iterable.is_string() || iterable.is(Tag::loop) ? std::nullopt : length(iterable);
  Value list = make_list(static_cast<std::uint32_t>(size.value_or(4)), iterable.is_data());
  Iterator* source = iterate(iterable);
  Value item;
  while (next(*source, item)) append(list, item);
  return list;
}

// --- the loop variable

bool Vm::loop_next(Loop& loop, Value& item) {
  if (!loop.after.is(Tag::missing)) {
    item = loop.after;
    loop.after = Value{};
  } else if (!next(*loop.source, item)) {
    return false;
  }
  ++loop.index0;
  loop.before = loop.current;
  loop.current = item;
  return true;
}

Value Vm::loop_attribute(Loop& loop, const Value& self, std::string_view name, MethodId id) {
  const auto peek = [&]() -> bool {
    if (!loop.after.is(Tag::missing)) return true;
    Value item;
    if (!next(*loop.source, item)) return false;
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
      return make_int(*length(self));
    case MethodId::revindex:
      return make_int(*length(self) - loop.index0);
    case MethodId::revindex0:
      return make_int(*length(self) - loop.index0 - 1);
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

}  // namespace tenon::jinja
