#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::format {

/// Holds the beginning of an object's member back until its value begins, in valid JSON text that
/// comes in pieces. If no value comes, the member was never passed on.
///
///     MemberHold hold;
///     hold.pass(R"({"a": 1, "b")");   // `{"a": 1`
///     hold.pass(": 2}");              // `, "b": 2}`
class MemberHold {
 public:
  /// A longer name is passed on at once.
  static constexpr std::size_t kMaxHeld = 4096;

  /// What may be passed on now, of the held text and of `json`.
  [[nodiscard]] std::string pass(std::string_view json);
  /// Whether a member's name, or its beginning, is held, and nothing of it was passed on.
  [[nodiscard]] bool has_name() const {
    return !is_passed_ && held_.find('"') != std::string::npos;
  }
  [[nodiscard]] const std::string& held() const { return held_; }
  /// Passes on what is held.
  [[nodiscard]] std::string release() { return std::exchange(held_, {}); }
  /// Leaves the held member out. `rest` would have ended the text with a value for it; only its
  /// closing brackets are returned.
  [[nodiscard]] std::string end_without(std::string_view rest);

 private:
  void put(char byte, std::string& out) { (is_member_ ? held_ : out) += byte; }
  std::size_t pass_text(std::string_view json, std::string& out);
  void begin_value(std::string& out);

  std::string held_;
  std::vector<bool> is_object_;  // the open levels
  bool is_member_ = false;       // a member has begun, and its value has not
  bool is_named_ = false;        // the member's name is complete
  bool is_string_ = false;
  bool is_escaped_ = false;
  bool is_passed_ = false;  // the beginning of the member's name was too long to hold
};

}  // namespace tenon::format
