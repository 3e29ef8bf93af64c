#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/vocab/vocab.h"

/// `tenon mask` for people: each typed line is tested against a grammar.
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

  /// A line: text that continues what was typed before, or a command (see kHelp). Returns whether
  /// the grammar allows it. Fails if a limit of the grammar is reached or a mask cannot be made.
  [[nodiscard]] Expected<bool> feed(std::string_view line, std::ostream& out);
  /// What may come next.
  [[nodiscard]] Status show(std::size_t max_tokens, std::ostream& out);

  static constexpr std::string_view kHelp =
      "A line is text that goes on with what there is. A line of its own may also be\n"
      "  :put TEXT   text in which \\n, \\t and \\\\ are a line end, a tab and a backslash, and\n"
      "              the name of a control token, such as <|im_end|>, is that token\n"
      "  :why TEXT   why a token, or any text, may not come next; also :why :put TEXT\n"
      "  :all        every token that may come next\n"
      "  :back       take the last line back      :clear   begin again\n"
      "  :text       what has been read           :help    this\n";

 private:
  /// A unit that is accepted or taken back as a whole: a byte, or a control token.
  struct Piece {
    std::string bytes;
    std::optional<vocab::TokenId> token;
  };
  /// The state before a line.
  struct Point {
    std::size_t accepted;
    std::size_t text_size;
  };

  [[nodiscard]] std::vector<Piece> pieces_of(std::string_view line) const;
  /// Takes the first piece off `line`, in which names of control tokens and escapes are recognised.
  [[nodiscard]] Piece take_piece(std::string_view& line) const;
  [[nodiscard]] static std::string text_of(std::span<const Piece> pieces);
  [[nodiscard]] std::optional<vocab::TokenId> control_token_at(std::string_view text) const;
  [[nodiscard]] Expected<bool> read(const std::vector<Piece>& pieces, std::ostream& out);
  [[nodiscard]] Expected<bool> ask(const std::vector<Piece>& pieces, std::ostream& out);
  void take_back(const Point& point);
  void explain(const std::vector<Piece>& pieces, std::size_t accepted, std::ostream& out);
  [[nodiscard]] std::string next_bytes();

  std::shared_ptr<grammar::Grammar> grammar_;
  grammar::Matcher matcher_;
  std::string text_;
  std::vector<Point> lines_;  // before each
};

}  // namespace tenon::app
