#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::chat {

/// Holds the end of a text back while it may be the beginning of a marker of some format. If the
/// answer breaks off there, a client does not get half a marker as text.
///
///     MarkerHold hold(markers_of_all_formats());
///     hold.pass("Wait. <tool_c");   // "Wait. "
///     hold.pass("all");             // "<tool_call" is held
///     hold.pass("ed>");             // "<tool_called>"
class MarkerHold {
 public:
  /// `markers` must outlive this.
  explicit MarkerHold(const std::vector<std::string>& markers) : markers_(markers) {}

  /// What may be passed on now, of the held text and of `text`.
  [[nodiscard]] std::string pass(std::string text);
  /// Passes on what is held.
  [[nodiscard]] std::string release() { return std::exchange(held_, {}); }
  void drop() { held_.clear(); }

 private:
  [[nodiscard]] bool begins_marker(std::string_view text) const;

  const std::vector<std::string>& markers_;
  std::string held_;
};

/// The markers of all formats that no text has by chance, those with a name in angle or square
/// brackets.
[[nodiscard]] const std::vector<std::string>& markers_of_all_formats();

}  // namespace tenon::chat
