#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::format {

/// Finds a fence of Markdown around calls in running text. If a fence holds nothing but calls, its
/// two lines are markers; in any other case they are text. So the first line is held until a call
/// or a word follows it, and behind the call until the second one or a word does. What is held
/// comes out unchanged: no byte is lost, and none is sent too early.
///
///     Fence fence;
///     fence.plain("Look:\n```xml\n");   // 6: what comes before the fence
///     fence.step('`');                  // more; and so on up to the line's end
///     fence.at_call(true);              // "": the line belongs to the call
///     fence.step('\n');                 // more; behind the call
///     fence.step('x');                  // text: release() gives "```xml\n\nx"
class Fence {
 public:
  enum class Reading : std::uint8_t {
    more,    ///< The byte is held.
    text,    ///< It is no fence: release() gives all that is held, this byte included.
    closed,  ///< The second line ended before this byte, which is not used; both lines are gone.
  };

  /// The bytes of `text` before the beginning of a fence, all of them if it has none. Only while
  /// nothing is held.
  [[nodiscard]] std::size_t plain(std::string_view text);
  [[nodiscard]] Reading step(char byte);
  /// A call begins here, which `may_be_inside` a fence. Returns text that comes before it.
  [[nodiscard]] std::string at_call(bool may_be_inside);
  /// What is held is text.
  [[nodiscard]] std::string release();
  /// The text has ended. Returns what is text of it.
  [[nodiscard]] std::string finish();
  /// A line that begins like a fence is held.
  [[nodiscard]] bool is_open() const { return !held_.empty() || is_around_calls(); }
  /// The fence holds calls so far.
  [[nodiscard]] bool is_around_calls() const { return !opener_.empty(); }

 private:
  enum class Place : std::uint8_t { ticks, word, body };

  [[nodiscard]] Reading step_behind_call(char byte);
  [[nodiscard]] bool fits_opener(char byte);
  void note_in_line(char byte);

  std::string opener_;      // the fence's first line, once a call has come in it
  std::string held_;        // bytes of a line that may be the first or, with opener_, the second
  std::size_t ticks_ = 0;   // in held_
  std::size_t opened_ = 0;  // in opener_
  char tick_ = '`';
  Place place_ = Place::ticks;
  bool is_line_begun_ = false;  // by bytes other than spaces and tabs
};

}  // namespace tenon::format
