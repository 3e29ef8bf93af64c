#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"

/// JSON values as tool calls need them: members keep their order, and numbers keep their text.
///
///     Expected<json::Value> body = json::parse(text);
///     if (!body) return Unexpected(body.error());  // "line 1, column 9: expected ':' ..."
///     const json::Value* model = body->find("model");
///     if (model != nullptr && model->if_string()) use(*model->if_string());
///     json::Value reply = json::Object{{"id", id}, {"usage", json::Object{{"total_tokens", 7}}}};
///     std::string wire = json::to_string(reply);
///
/// Values of any depth are parsed, copied, compared, written and destroyed in bounded stack space.
namespace tenon::json {

class Value;
struct Member;

/// A number as it was written. `1`, `1.0`, `1e0` and integers of thirty digits keep their text;
/// to_int64() and to_double() convert it.
struct Number {
  std::string text = "0";  ///< RFC 8259 number syntax; the functions below rely on it.

  /// The value if it is an integer that fits, however it is written (`1`, `1.0`, `10e-1`).
  [[nodiscard]] std::optional<std::int64_t> to_int64() const;
  /// The nearest double; infinite if the number is outside a double's range.
  [[nodiscard]] double to_double() const;
  /// True if the value is mathematically an integer (`1.0` and `1e3` are, `1.5` is not).
  [[nodiscard]] bool is_integer() const;
  /// True if the values are equal (`1`, `1.0` and `10e-1` are; `1e400` and `1e401` are not). The
  /// comparison is exact and needs no arithmetic in the number's size. Only exponents of more than
  /// 18 digits are compared by their text.
  [[nodiscard]] bool equals(const Number& other) const;

  bool operator==(const Number&) const = default;  ///< Equal text, not equal value.
};

using Array = std::vector<Value>;

/// Members in the order in which they were written. A key that comes again replaces the value and
/// keeps its first place, as in Python's json. Look-up is linear below 16 members and hashed from
/// there on.
class Object {
 public:
  // Member holds a Value and Value holds an Object, so functions that touch members_ are defined
  // after Member.
  Object() noexcept;
  Object(std::initializer_list<Member> members);
  explicit Object(std::vector<Member> members);
  Object(const Object& other);
  Object(Object&& other) noexcept;
  Object& operator=(const Object& other);
  Object& operator=(Object&& other) noexcept;
  ~Object();

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const;
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  [[nodiscard]] std::vector<Member>::const_iterator begin() const;
  [[nodiscard]] std::vector<Member>::const_iterator end() const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// The value of `key`. If there is no such key, it is appended with the value null.
  Value& operator[](std::string_view key);
  /// Sets `key` to `value`; true if the key is new.
  bool set(std::string key, Value value);
  bool erase(std::string_view key);

  void reserve(std::size_t members);
  void clear();

  bool operator==(const Object& other) const;  ///< Same members in any order.

 private:
  friend class Value;

  [[nodiscard]] std::size_t index_of(std::string_view key) const;
  void append(std::string&& key, Value&& value);
  [[nodiscard]] bool has_doubles() const;
  void index_last();
  void rebuild_slots(std::size_t slot_count);

  // A power of two of slots, at most half of them used: 1 + index in members_, or 0. Empty below 16
  // members.
  using Slots = std::vector<std::uint32_t>;

  std::vector<Member> members_;
  // Behind a pointer because few objects are large; so a Value has 40 bytes.
  std::unique_ptr<Slots> slots_;
};

enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

/// One JSON value: a plain value type. Reading a value from several threads is safe.
class Value {
 public:
  Value() : kind_(Kind::null) {}
  Value(std::nullptr_t) : Value() {}  // NOLINT(google-explicit-constructor): literals
  template <std::same_as<bool> T>     // a template, so that no pointer turns into a bool
  Value(T value) : boolean_(value), kind_(Kind::boolean) {}  // NOLINT(google-explicit-constructor)
  template <std::signed_integral T>
    requires(!std::same_as<T, char>)
  // NOLINTNEXTLINE(google-explicit-constructor)
  Value(T value) : Value(number_from(std::int64_t{value})) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool> && !std::same_as<T, char>)
  // NOLINTNEXTLINE(google-explicit-constructor)
  Value(T value) : Value(number_from(std::uint64_t{value})) {}
  Value(char) = delete;
  /// The shortest text that reads back as `value`, in Python's notation (`1.0`, `1e+16`). JSON has
  /// no infinities and no NaN: they become null, as in JavaScript.
  Value(double value);           // NOLINT(google-explicit-constructor)
  Value(Number value);           // NOLINT(google-explicit-constructor)
  Value(const char* text);       // NOLINT(google-explicit-constructor)
  Value(std::string_view text);  // NOLINT(google-explicit-constructor)
  Value(std::string text);       // NOLINT(google-explicit-constructor)
  Value(Array items);            // NOLINT(google-explicit-constructor)
  Value(Object members);         // NOLINT(google-explicit-constructor)

  Value(const Value& other);
  Value(Value&& other) noexcept;  ///< Leaves null behind.
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_null() const { return kind_ == Kind::null; }

  /// Null if the value is of another kind.
  [[nodiscard]] const bool* if_bool() const { return kind_ == Kind::boolean ? &boolean_ : nullptr; }
  [[nodiscard]] const Number* if_number() const {
    return kind_ == Kind::number ? &number_ : nullptr;
  }
  [[nodiscard]] const std::string* if_string() const {
    return kind_ == Kind::string ? &string_ : nullptr;
  }
  [[nodiscard]] const Array* if_array() const { return kind_ == Kind::array ? &array_ : nullptr; }
  [[nodiscard]] const Object* if_object() const {
    return kind_ == Kind::object ? &object_ : nullptr;
  }
  [[nodiscard]] bool* if_bool() { return kind_ == Kind::boolean ? &boolean_ : nullptr; }
  [[nodiscard]] Number* if_number() { return kind_ == Kind::number ? &number_ : nullptr; }
  [[nodiscard]] std::string* if_string() { return kind_ == Kind::string ? &string_ : nullptr; }
  [[nodiscard]] Array* if_array() { return kind_ == Kind::array ? &array_ : nullptr; }
  [[nodiscard]] Object* if_object() { return kind_ == Kind::object ? &object_ : nullptr; }

  /// Makes this an empty string and returns it for the caller to fill.
  std::string& make_string();

  /// The member `key` of an object; null for another kind of value or a missing key.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] Value* find(std::string_view key);

  /// Numbers are equal if their values are (`1` and `1.0`), objects if their members are, in any
  /// order.
  bool operator==(const Value& other) const;

 private:
  [[nodiscard]] static Number number_from(std::int64_t value);
  [[nodiscard]] static Number number_from(std::uint64_t value);
  void take(Value& other) noexcept;
  void destroy() noexcept;
  void destroy_children(int levels) noexcept;
  void unlink_children() noexcept;
  [[nodiscard]] std::size_t child_count() const;
  [[nodiscard]] Value& child(std::size_t index);
  [[nodiscard]] const Value& child(std::size_t index) const;
  void pop_child();

  union {  // a union by hand: the moves of std::variant took a third of parse's time
    bool boolean_;
    Number number_;
    std::string string_;
    Array array_;
    Object object_;
  };
  Kind kind_;
};

struct Member {
  std::string key;
  Value value;

  bool operator==(const Member&) const = default;
};

inline Object::Object() noexcept = default;
inline Object::Object(Object&& other) noexcept = default;
inline Object& Object::operator=(Object&& other) noexcept = default;
inline Object::~Object() = default;
inline std::size_t Object::size() const {
  return members_.size();
}
inline bool Object::empty() const {
  return members_.empty();
}
inline void Object::reserve(std::size_t members) {
  members_.reserve(members);
}

inline Value::Value(Number value) : number_(std::move(value)), kind_(Kind::number) {}
inline Value::Value(const char* text) : string_(text), kind_(Kind::string) {}
inline Value::Value(std::string_view text) : string_(text), kind_(Kind::string) {}
inline Value::Value(std::string text) : string_(std::move(text)), kind_(Kind::string) {}
inline Value::Value(Array items) : array_(std::move(items)), kind_(Kind::array) {}
inline Value::Value(Object members) : object_(std::move(members)), kind_(Kind::object) {}
inline Value::Value(Value&& other) noexcept : kind_(Kind::null) {
  take(other);
}
inline Value::~Value() {
  if (kind_ >= Kind::number) destroy();
}

inline std::string& Value::make_string() {
  if (kind_ >= Kind::number) destroy();
  std::construct_at(&string_);
  kind_ = Kind::string;
  return string_;
}

// *this must be null.
inline void Value::take(Value& other) noexcept {
  switch (other.kind_) {
    case Kind::null:
      return;
    case Kind::boolean:
      boolean_ = other.boolean_;
      break;
    case Kind::number:
      std::construct_at(&number_, std::move(other.number_));
      std::destroy_at(&other.number_);
      break;
    case Kind::string:
      std::construct_at(&string_, std::move(other.string_));
      std::destroy_at(&other.string_);
      break;
    case Kind::array:
      std::construct_at(&array_, std::move(other.array_));
      std::destroy_at(&other.array_);
      break;
    case Kind::object:
      std::construct_at(&object_, std::move(other.object_));
      std::destroy_at(&other.object_);
      break;
  }
  kind_ = other.kind_;
  other.kind_ = Kind::null;
}

// A third value is needed because `other` may be a part of this one.
inline Value& Value::operator=(Value&& other) noexcept {
  if (this != &other) {
    const Value old(std::move(*this));
    take(other);
  }
  return *this;
}

/// "null", "boolean", "number", "string", "array", "object": JSON Schema's words.
[[nodiscard]] std::string_view kind_name(Kind kind);

struct ParseOptions {
  std::size_t max_depth = 256;                     ///< For nested arrays and objects.
  std::size_t max_bytes = std::size_t{256} << 20;  ///< The size of the text.
  std::size_t max_values = std::size_t{16} << 20;  ///< Values of any kind, keys not counted.
};

/// Reads one JSON text (RFC 8259, UTF-8 checked, lone surrogate escapes refused as invalid). Errors
/// name line, column (in characters, both from 1) and what was expected there.
[[nodiscard]] Expected<Value> parse(std::string_view text, const ParseOptions& options = {});

/// Appends `value` in the compact form: no spaces, and only what must be escaped is escaped.
void append(std::string& out, const Value& value);
[[nodiscard]] std::string to_string(const Value& value);

/// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_quoted(std::string& out, std::string_view text);
[[nodiscard]] std::string quoted(std::string_view text);
/// The same without the quotes, for strings that are written in pieces. A piece must end between
/// characters.
void append_escaped(std::string& out, std::string_view text);

/// The arguments of Python's json.dumps(json.loads(text)); the defaults are Python's own. As in
/// Python, a number with a fraction or an exponent is a double (`1e5` gives 100000.0, `1E400`
/// Infinity), any other number keeps its digits, and "-0" gives 0.
struct DumpsOptions {
  bool ensure_ascii = true;
  std::optional<int> indent;                  ///< Spaces per level; absent: one line.
  std::optional<std::string> item_separator;  ///< Absent: ", ", or "," with indent.
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool keep_numbers = false;  ///< Writes numbers as they stand in the text, unlike Python.
};
void append_dumps(std::string& out, const Value& value, const DumpsOptions& options = {});
[[nodiscard]] std::string dumps(const Value& value, const DumpsOptions& options = {});

/// The value at `pointer` (RFC 6901, "" is the root), or null.
[[nodiscard]] const Value* at_pointer(const Value& root, std::string_view pointer);

}  // namespace tenon::json
