#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::chat {

/// Finds the first stop string in a text that arrives in pieces, and passes no byte of it on.
///
///     StopMatcher matcher(request.stop);
///     std::string out;
///     if (matcher.feed(piece, out)) return end(out);  // the text before the stop string
///     pass(out);                                      // text that cannot be part of one
///
/// The stop string that is complete first wins; of several that are complete at the same byte, the
/// longest. Only text that may yet become a stop string is held back, and where the pieces are cut
/// never changes the result. Linear in the text for each stop string (Knuth, Morris and Pratt). One
/// matcher serves one text, from one thread; feed does not allocate beyond `out` and the longest
/// stop string.
class StopMatcher {
 public:
  /// Empty strings are left out: they would stop before the first byte.
  explicit StopMatcher(const std::vector<std::string>& stops);

  /// Appends the text that is certain to `out`. True: a stop string is complete, see matched();
  /// every later call returns true and appends nothing.
  bool feed(std::string_view piece, std::string& out);
  /// The text is over, or interrupted by something that is not text: appends what was held back.
  void flush(std::string& out);

  [[nodiscard]] bool is_active() const { return !stops_.empty(); }
  /// The stop string that was found; empty if no stop string was found.
  [[nodiscard]] const std::string& matched() const { return matched_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  // [i]: longest proper prefix of text[0, i] that is its suffix
    std::size_t length = 0;           // of the longest prefix that the text so far ends in
  };

  bool step(char byte);

  std::vector<Stop> stops_;
  std::string held_;  // the longest prefix of a stop string that the text so far ends in
  std::string matched_;
};

}  // namespace tenon::chat
