#include "tenon/api/input_reader.h"

#include "tenon/json/value.h"
#include "tenon/message/message.h"

// The lexer says what each piece of the arguments is. Pieces of the string "input" in the outermost
// object are decoded at once, so they can be streamed. Until that string begins, everything is kept
// in written_, because the arguments may turn out to be other JSON, which is itself the input.

namespace tenon::api {

using json::Token;

void InputReader::feed(std::string_view arguments, std::string& input) {
  if (!has_input_) written_ += arguments;
  while (!is_done_) {
    const json::Lexer::Piece piece = lexer_.next(arguments);
    if (piece.size == 0 && !piece.ends) {
      is_done_ = piece.verdict != json::Verdict::more;
      return;
    }
    const std::string_view text = arguments.substr(0, piece.size);
    arguments.remove_prefix(piece.size);
    if (lexer_.depth() != 1) continue;
    if (piece.token == Token::key) {
      if (piece.begins) key_.clear();
      key_ += text;
    } else if (piece.token == Token::string && key_ == json::quoted(message::kInput)) {
      has_input_ = true;
      written_.clear();
      // Without the opening quote, which the first piece has; the decoder stops at the closing one.
      for (const char byte : text.substr(piece.begins ? 1 : 0)) decoder_.feed(byte, input);
      is_done_ = piece.ends;
    }
  }
}

void InputReader::finish(std::string& input) {
  if (!has_input_ && lexer_.is_complete()) input += written_;
}

}  // namespace tenon::api
