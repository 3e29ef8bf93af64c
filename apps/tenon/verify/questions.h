#pragma once

#include <string>
#include <string_view>

#include "verify/question.h"

/// Questions that several checks ask, so that one answer serves them all.
namespace tenon::app::verify {

[[nodiscard]] OfferedTool weather_tool();
/// A tool with one parameter, a text.
[[nodiscard]] OfferedTool text_tool(std::string name, std::string description,
                                    const std::string& parameter);

/// Answered with text.
[[nodiscard]] Question text_question();
/// Answered with text of many scripts.
[[nodiscard]] Question unicode_question();
/// Answered with a call of get_weather.
[[nodiscard]] Question call_question();
/// Answered with two calls of get_weather.
[[nodiscard]] Question two_calls_question();
/// Answered with a call of write_file whose arguments are long.
[[nodiscard]] Question long_call_question();

/// A conversation in which get_weather was called with Lisbon and has answered `result`; then the
/// user says `question`, if that is not empty.
[[nodiscard]] Question after_a_call(std::string result, std::string question);

}  // namespace tenon::app::verify
