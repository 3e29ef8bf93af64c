#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/jinja/arena.h"
#include "tenon/json/value.h"

/// Values while a template runs. All of them live in one arena, which is dropped as a whole when
/// the rendering ends: values are not counted and have no destructors, so nothing recurses when a
/// deep value is dropped.
namespace tenon::jinja {

enum class Tag : std::uint8_t {
  missing,  // no value at all: an unset slot, an absent argument
  undefined,
  none,
  boolean,
  integer,
  big_integer,
  real,
  string,  // bytes with one origin
  rope,    // a string that is the sum of others, or has mixed origin
  list,
  tuple,
  dict,
  json_list,  // the context's own arrays and objects, by reference
  json_dict,
  range,
  name_space,
  macro,
  method,
  function,
  loop,
  iterator,  // generators and Python's iterators; walking over them consumes them
  view,      // dict.keys(), .values(), .items()
  cycler,
  joiner,
  slice,
  bytes,
  self,  // blocks of the template
  block,
};

struct Value;

/// The origin of bytes up to `end`. Neighbouring runs differ.
struct Run {
  std::uint32_t end;
  bool is_data;
};

struct Rope;
struct List;
struct Dict;
struct BigDigits;
struct Range;
struct Macro;
struct Method;
struct Loop;
struct Iterator;
struct View;
struct Cycler;
struct Joiner;
struct Slice;
struct Words;

// Flags of a value.
inline constexpr std::uint8_t kData = 1;    // from the context
inline constexpr std::uint8_t kMarkup = 2;  // a string marked safe
inline constexpr std::uint8_t kMixed = 4;   // a rope whose parts differ in origin

/// Why a value is undefined, for the message when it is used.
enum class Lack : std::uint8_t { name, attribute, element, hint, unsafe };

struct Value {
  Tag tag = Tag::missing;
  std::uint8_t flags = 0;
  std::uint8_t lack = 0;   // Lack of an undefined value
  Tag of = Tag::missing;   // the kind of value in which it was looked up
  std::uint32_t size = 0;  // bytes of a string, rope or undefined name
  union {
    bool boolean;
    std::int64_t integer;
    double real;
    const char* text;
    Rope* rope;
    List* list;
    Dict* dict;
    const BigDigits* big;
    const json::Array* json_list;
    const json::Object* json_dict;
    const Range* range;
    Macro* macro;
    Method* method;
    Loop* loop;
    Iterator* iterator;
    View* view;
    Cycler* cycler;
    Joiner* joiner;
    const Slice* slice;
    std::uint32_t function;
    const void* pointer = nullptr;
  };

  [[nodiscard]] bool is_data() const { return (flags & kData) != 0; }
  [[nodiscard]] bool is_markup() const { return (flags & kMarkup) != 0; }
  [[nodiscard]] bool is(Tag wanted) const { return tag == wanted; }
  [[nodiscard]] bool is_string() const { return tag == Tag::string || tag == Tag::rope; }
  [[nodiscard]] bool is_int() const {  // a Python int or bool
    return tag == Tag::integer || tag == Tag::boolean || tag == Tag::big_integer;
  }
  [[nodiscard]] bool is_number() const { return is_int() || tag == Tag::real; }
  [[nodiscard]] bool is_mapping() const { return tag == Tag::dict || tag == Tag::json_dict; }
  [[nodiscard]] bool is_list() const { return tag == Tag::list || tag == Tag::json_list; }
  /// Bytes of a Tag::string, not of a rope.
  [[nodiscard]] std::string_view bytes() const { return {text, size}; }
};
static_assert(sizeof(Value) == 16);

inline Value none_value() {
  Value v;
  v.tag = Tag::none;
  return v;
}
inline Value make_bool(bool b, bool is_data = false) {
  Value v;
  v.tag = Tag::boolean;
  v.flags = is_data ? kData : 0;
  v.boolean = b;
  return v;
}
inline Value make_int(std::int64_t i, bool is_data = false) {
  Value v;
  v.tag = Tag::integer;
  v.flags = is_data ? kData : 0;
  v.integer = i;
  return v;
}
inline Value make_real(double d, bool is_data = false) {
  Value v;
  v.tag = Tag::real;
  v.flags = is_data ? kData : 0;
  v.real = d;
  return v;
}
/// `bytes` must outlive the value.
inline Value make_string(std::string_view bytes, bool is_data = false) {
  Value v;
  v.tag = Tag::string;
  v.flags = is_data ? kData : 0;
  v.size = static_cast<std::uint32_t>(bytes.size());
  v.text = bytes.data();
  return v;
}

/// A string that is the sum of two others. When its bytes are needed it becomes flat, with the runs
/// of origin.
struct Rope {
  Value left, right;
  const char* text;  // null until flat
  const Run* runs;   // null if all bytes have one origin
  std::uint32_t run_count;
};

struct List {
  Value* items;
  std::uint32_t size;
  std::uint32_t capacity;
  bool is_group;  // a groupby tuple: its two items also go by the names grouper and list
};

/// Python's dict: insertion order, keys equal by value (1, 1.0 and True are one key).
struct Dict {
  struct Entry {
    Value key, value;
    std::uint64_t hash;
  };
  Entry* entries;
  std::uint32_t size;
  std::uint32_t capacity;
  std::uint32_t* slots;  // open addressing, entry number + 1; null below 9 entries
  std::uint32_t slot_count;
};

struct BigDigits {
  bool is_negative;
  std::uint32_t count;
  const std::uint32_t* limbs;
};

struct Range {
  std::int64_t start, stop, step, size;
};

struct Slice {
  Value start, stop, step;
};

struct Method {
  Value self;
  std::uint16_t id;
};

struct View {
  Value dict;
  enum class Kind : std::uint8_t { keys, values, items } kind;
};

struct Cycler {
  const Value* items;
  std::uint32_t size, at;
};

struct Joiner {
  Value separator;
  bool is_used;
};

class Values;

/// A walk over something iterable. Each kind of walk derives from it and lives in the arena. `next`
/// makes items with the Values that it gets; a walk that needs more keeps a pointer to it.
struct Iterator {
  bool (*next)(Values& values, Iterator& self, Value& item);
  const char* type_name;  // "generator", ...
};

struct Frame;
struct MacroNode;
struct ForNode;

struct Macro {
  const MacroNode* node;
  Frame* frame;  // the frame in which it was defined
};

/// The `loop` of a for statement.
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

/// The name of a value's type in Python: "str", "dict".
[[nodiscard]] std::string_view type_name(const Value& value);
/// What jinja2 calls an object of this type in messages: "dict object".
[[nodiscard]] std::string object_name(Tag tag);
/// Python's `is`.
[[nodiscard]] bool identical(const Value& a, const Value& b);
/// The entries of a dict of either kind.
[[nodiscard]] std::size_t entry_count(const Value& mapping);
[[nodiscard]] Value of_iterator(Iterator* iterator, bool is_data = false);

/// Undefined values, by the reason. `name` and `hint` must outlive the rendering.
[[nodiscard]] Value undefined_name(std::string_view name);
[[nodiscard]] Value undefined_hint(std::string_view hint);
[[nodiscard]] Value undefined_attribute(const Value& object, std::string_view name);
[[nodiscard]] Value unsafe_attribute(const Value& object, std::string_view name);

}  // namespace tenon::jinja
