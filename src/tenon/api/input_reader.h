#pragma once

#include <string>
#include <string_view>

#include "tenon/format/string_decoder.h"
#include "tenon/json/lexer.h"

namespace tenon::api {

/// Reads the input of a custom tool's call out of the call's arguments as they are generated, cut
/// anywhere:
///
///     InputReader reader;
///     reader.feed(R"({"input": "a\)", input);    // input is "a"
///     reader.feed(R"(nb"})", input);            // and then "a\nb"
///     reader.finish(input);
///
/// Arguments that a grammar constrains are an object with one member, a string, which is the input.
/// Unconstrained arguments that have such a member are read in the same way. Any other JSON is
/// itself the input, as it is written; text that is not JSON has no input.
class InputReader {
 public:
  /// Appends what `arguments`, the next piece, adds to `input`.
  void feed(std::string_view arguments, std::string& input);
  /// The call is over.
  void finish(std::string& input);

 private:
  json::Lexer lexer_;
  format::StringDecoder decoder_;
  std::string key_;      // the last key of the outermost object, as it is written
  std::string written_;  // all arguments, until the input has begun
  bool has_input_ = false;
  bool is_done_ = false;  // the input is complete
};

}  // namespace tenon::api
