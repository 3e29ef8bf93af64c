#include "tenon/jinja/functions.h"

#include <string>

#include "tenon/jinja/dates.h"
#include "tenon/jinja/operators.h"

/// Global functions (range, dict, namespace, cycler, joiner and those of transformers) are numbered
/// when the template is compiled. They charge steps in proportion to their work.
namespace tenon::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // MAX_RANGE of jinja2's sandbox

// The number of items is fixed here: (distance - 1) / stride + 1.
Value make_range(Runtime& rt, const Args& args) {
  positional_only(rt, args, "range", 1, 3);
  const auto bound = [&](std::uint32_t i) { return index_of(rt, args.items[i]); };
  Range range{0, 0, 1, 0};
  if (args.size == 1) {
    range.stop = bound(0);
  } else {
    range.start = bound(0);
    range.stop = bound(1);
    if (args.size == 3) range.step = bound(2);
  }
  if (range.step == 0) rt.value_error("range() arg 3 must not be zero");
  const bool is_up = range.step > 0;
  // The bounds may be far apart, so the distance is computed without a sign.
  if (is_up ? range.stop > range.start : range.stop < range.start) {
    const std::uint64_t distance =
        is_up ? static_cast<std::uint64_t>(range.stop) - static_cast<std::uint64_t>(range.start)
              : static_cast<std::uint64_t>(range.start) - static_cast<std::uint64_t>(range.stop);
    const std::uint64_t stride = is_up ? static_cast<std::uint64_t>(range.step)
                                       : ~static_cast<std::uint64_t>(range.step) + 1;
    const std::uint64_t size = (distance - 1) / stride + 1;
    if (size > static_cast<std::uint64_t>(kMaxRange)) {
      rt.fail("OverflowError",
              "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    range.size = static_cast<std::int64_t>(size);
  }
  Value value;
  value.tag = Tag::range;
  value.range = rt.arena().make<Range>(range);
  return value;
}

}  // namespace

// dict(mapping), dict(pairs) and dict(a=1); keywords come last and replace entries.
Value make_mapping(Runtime& rt, const Args& args) {
  if (args.size > 1) {
    rt.type_error("dict expected at most 1 argument, got " + std::to_string(args.size));
  }
  Value dict = rt.make_dict();
  if (args.size == 1) {
    const Value& source = args.items[0];
    if (source.is_mapping()) {
      for (std::size_t i = 0; i < entry_count(source); ++i) {
        Value key;
        Value value;
        rt.entry_at(source, i, key, value);
        rt.set(dict, key, value);
      }
    } else {
      // dict([(key, value), ...])
      Iterator* walk = rt.iterate(source);
      Value item;
      while (rt.next(*walk, item)) {
        const Value both = rt.collect(item);
        if (both.list->size != 2) {
          rt.value_error("dictionary update sequence element has length " +
                         std::to_string(both.list->size) + "; 2 is required");
        }
        rt.set(dict, both.list->items[0], both.list->items[1]);
      }
    }
  }
  for (std::uint32_t i = 0; i < args.keyword_count; ++i) {
    rt.set(dict, args.keywords[i].key, args.keywords[i].value);
  }
  return dict;
}

namespace {

// Attributes that begin with "_" are refused here, and by the Vm where one is assigned.
Value make_namespace(Runtime& rt, const Args& args) {
  Value space = make_mapping(rt, args);
  for (std::uint32_t i = 0; i < space.dict->size; ++i) {
    const Value& key = space.dict->entries[i].key;
    if (key.is_string() && key.size != 0 && rt.text_of(key).bytes[0] == '_') {
      rt.fail(
          "SecurityError",
          "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" +
              std::string(rt.text_of(key).bytes) + "'. Please rename the attribute.");
    }
  }
  // A namespace is a dict under another tag.
  space.tag = Tag::name_space;
  return space;
}

}  // namespace

Value call_function(Runtime& rt, FunctionId id, const Args& args) {
  switch (id) {
    case FunctionId::range:
      return make_range(rt, args);
    case FunctionId::dict:
      return make_mapping(rt, args);
    case FunctionId::namespace_:
      return make_namespace(rt, args);
    case FunctionId::lipsum:
      rt.fail("UnsupportedError", "lipsum() has no place in a prompt");
    case FunctionId::cycler: {
      if (args.keyword_count != 0) rt.type_error("Cycler() takes no keyword arguments");
      if (args.size == 0) rt.fail("RuntimeError", "at least one item has to be provided");
      Value value;
      value.tag = Tag::cycler;
      value.cycler = rt.arena().make<Cycler>(args.items, args.size, 0U);
      return value;
    }
    case FunctionId::joiner: {
      Value separator;
      bind_arguments(rt, args, "joiner", {"sep"}, 0, &separator);
      Value value;
      value.tag = Tag::joiner;
      // Its first call gives nothing, each later one the separator (calls.cc).
      value.joiner = rt.arena().make<Joiner>(
          separator.is(Tag::missing) ? make_string(", ") : separator, false);
      return value;
    }
    case FunctionId::raise_exception: {
      Value message;
      bind_arguments(rt, args, "raise_exception", {"message"}, 1, &message);
      const Value text = rt.to_string(message);
      // is_raised: the message is the template's, so no expression or values are added to it.
      throw Fault{Errc::invalid, std::string(rt.text_of(text).bytes), rt.position(), {}, true};
    }
    case FunctionId::strftime_now: {
      Value format;
      bind_arguments(rt, args, "strftime_now", {"format"}, 1, &format);
      return formatted_now(rt, format);
    }
  }
  return {};
}

}  // namespace tenon::jinja
