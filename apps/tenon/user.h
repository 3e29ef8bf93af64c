#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// What servers of tools ask of the user at the terminal, and how a user's lines are read.
namespace tenon::app {

/// The words of a line, which white space separates.
[[nodiscard]] std::vector<std::string> words_of(std::string_view line);

/// What stands behind `@` at the beginning of words: "notes:a.txt" in "What says (@notes:a.txt)?".
/// Brackets and quotes may stand before the `@`; punctuation at the end of a word is not part of
/// the address.
[[nodiscard]] std::vector<std::string> addresses_in(std::string_view line);

/// Reads a line after a prompt. False: there is no more input, or Ctrl-C came.
using ReadLine = std::function<bool(std::string_view prompt, std::string& line)>;

/// Asks `question` until the user writes one of `words` or its first letter; returns that word.
/// "": the input has ended.
[[nodiscard]] std::string ask_word(std::string_view question,
                                   std::initializer_list<std::string_view> words,
                                   const ReadLine& read);

/// Asks for the members of a form (elicitation/create), each on a line, until it fits its schema
/// and `format`. An empty line takes the default, or leaves the member out; where there is a
/// choice, its value or its title may be written. No value: the user declines, the input ends, or
/// the form as a whole does not fit three times. Texts of the server are shown without what a
/// terminal obeys.
[[nodiscard]] std::optional<json::Object> ask_user(const std::string& server,
                                                   const json::Value& params, const ReadLine& read);

/// The answer to a form, of members that were given beforehand: those that the form has, and its
/// defaults for the others. A title of a choice stands for its value. Fails with `invalid`, naming
/// the member, if they do not fit the form's schema and its formats.
[[nodiscard]] Expected<json::Object> answer_form(const json::Object& given,
                                                 const json::Value& params);

/// Shows the address of a login on stderr, and opens it: by the program that BROWSER names, or by
/// xdg-open on a desktop. With `opens` false it is only shown.
void show_login(const std::string& address, bool opens);

}  // namespace tenon::app
