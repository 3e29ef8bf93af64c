#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/jinja/budget.h"

namespace tenon::jinja {

/// The bytes of a string and where they came from.
struct Text {
  std::string_view bytes;
  const Run* runs = nullptr;  // null: one origin
  std::uint32_t run_count = 0;
  bool is_data = false;

  /// The origin of byte `at`, which must exist.
  [[nodiscard]] bool is_data_at(std::size_t at) const {
    if (runs == nullptr) return is_data;
    return std::upper_bound(runs, runs + run_count, at,
                            [](std::size_t a, const Run& run) { return a < run.end; })
        ->is_data;
  }
};

/// The text being made, and strings that know where their bytes came from. There is one buffer, in
/// which inner texts (of a macro, a set block) stand behind outer ones:
///
///     const TextBuffer::Mark mark = rt.begin_text();
///     rt.put("<b>", false);
///     rt.put_string(name);
///     const Value value = rt.end_text(mark);
class TextBuffer : public Budget {
 public:
  using Budget::Budget;

  /// Appends bytes that the template wrote, or that come from the context (`is_data`).
  void put(std::string_view bytes, bool is_data);
  void put(char c, bool is_data) { put(std::string_view(&c, 1), is_data); }
  void put_text(const Text& text) { put_text(text, 0, text.bytes.size()); }
  void put_text(const Text& text, std::size_t begin, std::size_t end);
  void put_string(const Value& string);
  void put_repeated(std::string_view bytes, std::int64_t times, bool is_data);

  struct Mark {
    std::size_t size, runs, floor;
  };
  [[nodiscard]] Mark begin_text();
  /// Cuts off what was put since the mark, as a string.
  [[nodiscard]] Value end_text(const Mark& mark);
  void drop_text(const Mark& mark);
  [[nodiscard]] std::string_view text_since(const Mark& mark) const {
    return std::string_view(out_).substr(mark.size);
  }
  /// The whole text, at the end of the rendering.
  [[nodiscard]] Rendered take_rendered();

  /// The bytes of a string; those of a rope are joined first.
  [[nodiscard]] Text text_of(const Value& string);
  [[nodiscard]] Value substring(const Text& text, std::size_t begin, std::size_t end);
  [[nodiscard]] Value concat(const Value& left, const Value& right);
  [[nodiscard]] Value string_copy(std::string_view bytes, bool is_data);
  [[nodiscard]] std::size_t length_of_text(const Value& string);  // code points

 protected:
  void reserve(std::size_t bytes) { out_.reserve(bytes); }

 private:
  void flatten(Rope& rope, std::uint32_t size);

  std::string out_;
  std::vector<Run> runs_;     // of out_, per text being made
  std::vector<Value> parts_;  // of the rope that put_string walks over, kept for its memory
  std::size_t floor_ = 0;     // runs_ from here on belong to the innermost text
};

}  // namespace tenon::jinja
