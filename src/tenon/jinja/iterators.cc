#include <algorithm>

#include "tenon/jinja/unicode.h"
#include "tenon/jinja/values.h"

/// Python's iteration, and the `loop` of for statements.
namespace tenon::jinja {
namespace {

/// Items by number: of lists, tuples, ranges and the context's arrays.
struct IndexIterator : Iterator {
  Value sequence;
  std::int64_t at;
  std::int64_t step;

  static bool advance(Values& values, Iterator& self, Value& item) {
    auto& me = static_cast<IndexIterator&>(self);
    // The length is asked at each step: the body of a loop may change the list, as in Python.
    if (me.at < 0 || me.at >= *values.length(me.sequence)) return false;
    item = values.item_at(me.sequence, me.at);
    me.at += me.step;
    return true;
  }
};

// Characters of a string, each with its own origin.
struct TextIterator : Iterator {
  Text text;
  std::size_t at;

  static bool advance(Values& values, Iterator& self, Value& item) {
    auto& me = static_cast<TextIterator&>(self);
    if (me.at >= me.text.bytes.size()) return false;
    const std::size_t begin = me.at;
    static_cast<void>(unicode::next(me.text.bytes, me.at));
    item = values.substring(me.text, begin, me.at);
    return true;
  }
};

// Bytes are integers when they are walked over.
struct BytesIterator : Iterator {
  std::string_view bytes;

  static bool advance(Values&, Iterator& self, Value& item) {
    auto& me = static_cast<BytesIterator&>(self);
    if (me.bytes.empty()) return false;
    item = make_int(static_cast<unsigned char>(me.bytes[0]));
    me.bytes.remove_prefix(1);
    return true;
  }
};

// Entries by number, of a dict or a view; `kind` says what an item is.
struct DictIterator : Iterator {
  Value dict;
  View::Kind kind;
  std::int64_t at;
  std::int64_t step;

  static bool advance(Values& values, Iterator& self, Value& item) {
    auto& me = static_cast<DictIterator&>(self);
    if (me.at < 0 || static_cast<std::size_t>(me.at) >= entry_count(me.dict)) return false;
    Value key;
    Value value;
    values.entry_at(me.dict, static_cast<std::size_t>(me.at), key, value);
    me.at += me.step;
    item = me.kind == View::Kind::keys     ? key
           : me.kind == View::Kind::values ? value
                                           : values.pair(key, value, me.dict.is_data());
    return true;
  }
};

// `for item, loop in loop`: jinja2's LoopContext is an iterator of such pairs, and it takes items
// from the loop itself.
struct LoopIterator : Iterator {
  Loop* loop;

  static bool advance(Values& values, Iterator& self, Value& item) {
    auto& me = static_cast<LoopIterator&>(self);
    Value value;
    if (!values.loop_next(*me.loop, value)) return false;
    Value loop;
    loop.tag = Tag::loop;
    loop.loop = me.loop;
    item = values.pair(value, loop, false);
    return true;
  }
};

struct EmptyIterator : Iterator {
  static bool advance(Values&, Iterator&, Value&) { return false; }
};

// A walk over what has items by number, from its first item on or from its last one back.
Iterator* walk_items(Values& values, const Value& sequence, bool is_reversed, const char* name) {
  auto* walk = values.arena().make<IndexIterator>();
  const std::int64_t begin = is_reversed ? *values.length(sequence) - 1 : 0;
  *walk = {{IndexIterator::advance, name}, sequence, begin, is_reversed ? -1 : 1};
  return walk;
}

// The same over a dict or a view of one.
Iterator* walk_dict(Values& values, const Value& value, bool is_reversed, const char* name) {
  auto* walk = values.arena().make<DictIterator>();
  const bool is_view = value.is(Tag::view);
  const Value& dict = is_view ? value.view->dict : value;
  const std::int64_t begin = is_reversed ? static_cast<std::int64_t>(entry_count(dict)) - 1 : 0;
  *walk = {{DictIterator::advance, name},
           dict,
           is_view ? value.view->kind : View::Kind::keys,
           begin,
           is_reversed ? -1 : 1};
  return walk;
}

}  // namespace

Iterator* Values::iterate(const Value& value) {
  switch (value.tag) {
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range:
      return walk_items(*this, value, false, "list_iterator");
    case Tag::string:
    case Tag::rope: {
      auto* walk = arena().make<TextIterator>();
      *walk = {{TextIterator::advance, "str_iterator"}, text_of(value), 0};
      return walk;
    }
    case Tag::bytes: {
      auto* walk = arena().make<BytesIterator>();
      *walk = {{BytesIterator::advance, "bytes_iterator"}, value.bytes()};
      return walk;
    }
    case Tag::dict:
    case Tag::json_dict:
    case Tag::view:
      return walk_dict(*this, value, false, "dict_keyiterator");
    // Not a copy: what is taken here is gone for other walks.
    case Tag::iterator:
      return value.iterator;
    case Tag::loop: {
      auto* walk = arena().make<LoopIterator>();
      *walk = {{LoopIterator::advance, "LoopContext"}, value.loop};
      return walk;
    }
    // An undefined value is empty to a loop.
    case Tag::undefined: {
      auto* walk = arena().make<EmptyIterator>();
      *walk = {{EmptyIterator::advance, "generator"}};
      return walk;
    }
    default:
      type_error("'" + std::string(type_name(value)) + "' object is not iterable");
  }
}

Iterator* Values::reversed(const Value& value) {
  switch (value.tag) {
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range:
      return walk_items(*this, value, true,
                        value.is(Tag::tuple)   ? "reversed"
                        : value.is(Tag::range) ? "range_iterator"
                                               : "list_reverseiterator");
    case Tag::string:
    case Tag::rope: {
      // Characters can only be found from the front, so all are collected first.
      const Value characters = collect(value);
      Iterator* walk = reversed(characters);
      walk->type_name = "reversed";
      return walk;
    }
    case Tag::dict:
    case Tag::json_dict:
    case Tag::view:
      return walk_dict(*this, value, true, "dict_reversekeyiterator");
    default:
      return nullptr;
  }
}

Value Values::collect(const Value& iterable) {
  const std::optional<std::int64_t> size =
      // Only to reserve memory: a string's length would cost a walk, and a loop's would use it up.
      iterable.is_string() || iterable.is(Tag::loop) ? std::nullopt : length(iterable);
  Value list = make_list(static_cast<std::uint32_t>(size.value_or(4)), iterable.is_data());
  Iterator* source = iterate(iterable);
  Value item;
  while (next(*source, item)) append(list, item);
  return list;
}

bool Values::loop_next(Loop& loop, Value& item) {
  // `loop.last` or `loop.nextitem` has fetched it already.
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

}  // namespace tenon::jinja
