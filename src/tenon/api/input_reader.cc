#include "tenon/api/input_reader.h"

#include "tenon/json/value.h"
#include "tenon/message/message.h"

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
      for (const char byte : text.substr(piece.begins ? 1 : 0)) decoder_.feed(byte, input);
      is_done_ = piece.ends;
    }
  }
}

void InputReader::finish(std::string& input) {
  if (!has_input_ && lexer_.is_complete()) input += written_;
}

}  // namespace tenon::api
