#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/matcher.h"

/// `tenon mask` for people: what is typed is held against a grammar, line by line.
namespace tenon::app {

/// Follows one text and explains its masks in plain lines.
///
///     MaskSession session(grammar);
///     session.feed("{\"city\"", out);     // how many tokens may come next, and which
///     session.feed(":why 5", out);        // why 5 may not
class MaskSession {
 public:
  explicit MaskSession(std::shared_ptr<grammar::Grammar> grammar)
      : grammar_(std::move(grammar)), matcher_(grammar_) {}

  /// A line: text that goes on with what there is, or a command (see kHelp). Returns whether the
  /// grammar allows it. Fails where a mask cannot be made.
  [[nodiscard]] Expected<bool> feed(std::string_view line, std::ostream& out);
  /// What may come next.
  [[nodiscard]] Status show(std::size_t max_tokens, std::ostream& out);

  static constexpr std::string_view kHelp =
      "A line is text that goes on with what there is. A line of its own may also be\n"
      "  :why TEXT   why a token, or any text, may not come next\n"
      "  :all        every token that may come next\n"
      "  :back       take the last line back      :clear   begin again\n"
      "  :text       what has been read           :help    this\n";

 private:
  bool read(std::string_view text, std::ostream& out);
  void explain(std::string_view text, std::size_t accepted, std::ostream& out);
  [[nodiscard]] std::string next_bytes();

  std::shared_ptr<grammar::Grammar> grammar_;
  grammar::Matcher matcher_;
  std::string text_;
  std::vector<std::size_t> lines_;  // how long text_ was before each
};

}  // namespace tenon::app
