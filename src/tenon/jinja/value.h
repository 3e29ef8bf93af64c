#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// Values while a template runs. All of them live in one arena, which is dropped as a whole when
/// the rendering ends: values are not counted and have no destructors, so nothing recurses when a
/// deep value is dropped.
namespace tenon::jinja {

/// A failure of compiling or rendering inside this layer. It is thrown where it happens, and the
/// functions of Template turn it into an Error with line and column.
struct Fault {
  static constexpr std::uint32_t kNoPosition = ~0U;

  Errc code;
  std::string message;
  std::uint32_t position = kNoPosition;  // byte in the source
  std::string values = {};               // of the operands, described for a person
  bool is_raised = false;                // raised by the template itself, with its own message
  std::string_view kind = {};            // the error's name in Python, which lives forever
};

/// Bump allocation with a cap. Never runs destructors.
class Arena {
 public:
  explicit Arena(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    while (chunks_ != nullptr) {
      Chunk* next = chunks_->next;
      std::free(chunks_);
      chunks_ = next;
    }
  }

  /// Memory aligned to 8 bytes. Throws Fault(limit_exceeded) before the cap is passed.
  void* allocate(std::size_t bytes) {
    if (bytes <= static_cast<std::size_t>(end_ - at_)) {
      char* result = at_;
      at_ += (bytes + 7) & ~std::size_t{7};
      if (at_ > end_) at_ = end_;
      return result;
    }
    return allocate_slow(bytes);
  }
  template <class T, class... A>
  T* make(A&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T{std::forward<A>(arguments)...};
  }
  template <class T>
  T* array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count > max_bytes_ / sizeof(T)) spent();
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* bytes = static_cast<char*>(allocate(text.size()));
    std::memcpy(bytes, text.data(), text.size());
    return {bytes, text.size()};
  }
  /// Fails at once if `bytes` more would exceed the cap.
  void foresee(std::size_t bytes) const {
    if (bytes > max_bytes_ - used_) spent();
  }
  /// The same for `times` as many bytes; the product may be larger than 64 bits.
  void foresee_times(std::size_t bytes, std::uint64_t times) const {
    if (bytes != 0 && times > (max_bytes_ - used_) / bytes) spent();
  }

 private:
  struct Chunk {
    Chunk* next;
  };
  [[noreturn]] void spent() const;
  void* allocate_slow(std::size_t bytes);

  std::size_t max_bytes_;
  std::size_t used_ = 0;  // in whole chunks
  std::size_t next_chunk_ = 4096;
  Chunk* chunks_ = nullptr;
  alignas(8) char first_[4096];
  char* at_ = first_;
  char* end_ = first_ + sizeof(first_);
};

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

}  // namespace tenon::jinja
