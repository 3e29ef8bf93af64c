#pragma once

#include <string>
#include <string_view>

#include "tenon/format/string_decoder.h"
#include "tenon/json/lexer.h"

namespace tenon::api {

/// The input of a custom tool's call, out of the call's arguments as they are generated, cut
/// anywhere:
///
///     InputReader reader;
///     reader.feed(R"({"input": "a\)", input);    // input is "a"
///     reader.feed(R"(nb"})", input);            // and then "a\nb"
///     reader.finish(input);
///
/// Arguments that a grammar holds are an object with one member, a string. Of others that have such
/// a member it is this one; any other JSON is the input itself, as it is written, and what is none
/// has no input.
class InputReader {
 public:
  /// Appends what `arguments`, the next ones, add to `input`.
  void feed(std::string_view arguments, std::string& input);
  /// The call is over.
  void finish(std::string& input);

 private:
  json::Lexer lexer_;
  format::StringDecoder decoder_;
  std::string key_;      // the last one of the outermost object, as it is written
  std::string written_;  // all arguments, until the input has begun
  bool has_input_ = false;
  bool is_done_ = false;  // nothing that follows matters
};

}  // namespace tenon::api
