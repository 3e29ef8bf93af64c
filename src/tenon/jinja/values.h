#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenon/jinja/text.h"

namespace tenon::jinja {

/// What Python's values do without running anything of the template: values of the context, bool,
/// ==, <, in, hash, len, lists, dicts, and walking over all of these.
class Values : public TextBuffer {
 public:
  using TextBuffer::TextBuffer;

  /// A value of the context. Arrays and objects are referred to, not copied.
  [[nodiscard]] Value import(const json::Value& value);

  // --- comparing (values.cc)
  [[nodiscard]] bool truth(const Value& value);
  [[nodiscard]] bool equal(const Value& a, const Value& b);
  [[nodiscard]] bool less(const Value& a, const Value& b, const char* sign = "<");
  [[nodiscard]] bool contains(const Value& container, const Value& item);
  [[nodiscard]] std::uint64_t hash(const Value& value);
  [[nodiscard]] std::optional<std::int64_t> length(const Value& value);  // nothing: it has no len()
  [[nodiscard]] std::int64_t length_or_fail(const Value& value);

  // --- lists and dicts (containers.cc)
  [[nodiscard]] Value make_list(std::uint32_t capacity, bool is_data = false, Tag tag = Tag::list);
  void append(Value& list, const Value& item);
  [[nodiscard]] Value pair(const Value& first, const Value& second, bool is_data);
  [[nodiscard]] Value item_at(const Value& sequence, std::int64_t index);  // 0 <= index < length

  [[nodiscard]] Value make_dict(bool is_data = false);
  void set(Value& dict, const Value& key, const Value& value);
  [[nodiscard]] Value* find(const Dict& dict, const Value& key);
  [[nodiscard]] Value* find(const Dict& dict, std::string_view key);
  bool erase(Dict& dict, const Value& key, Value& value);
  [[nodiscard]] Value get(const Value& mapping, const Value& key);  // missing if the key is absent
  [[nodiscard]] Value get(const Value& mapping, std::string_view key);
  /// Key and value number `index` of a mapping.
  void entry_at(const Value& mapping, std::size_t index, Value& key, Value& value);

  // --- walking (iterators.cc)
  [[nodiscard]] Iterator* iterate(const Value& value);
  [[nodiscard]] Iterator* reversed(const Value& value);  // null where Python has no __reversed__
  [[nodiscard]] Value collect(const Value& iterable);    // list(iterable)
  bool next(Iterator& iterator, Value& item) {
    step();
    return iterator.next(*this, iterator, item);
  }
  /// The next item of a loop, which also remembers the item before and looks ahead.
  bool loop_next(Loop& loop, Value& item);

 private:
  [[nodiscard]] Value import_quoted(std::string_view text);
  [[nodiscard]] int compare_numbers(const Value& a, const Value& b, bool& is_unordered);
};

}  // namespace tenon::jinja
