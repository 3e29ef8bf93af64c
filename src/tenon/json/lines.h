#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::json {

/// One request's answer, or why there is none.
using AnswerRequest = std::function<Expected<Object>(const Object& request)>;

/// A command's `--batch`: requests as JSON, one per line of `in`, answers as JSON, one per line of
/// `out`. Same order, and each answer is flushed before the next line is read. The request's `id`,
/// where it has one, comes first in the answer. A line that fails answers `{"id"?, "error":
/// {"code", "message"}}`, the code an enumerator of Errc, and ends nothing: one that is not a JSON
/// object, is over 256 MiB, or for which memory runs out among them. Empty lines have no answer.
///
///     json::answer_lines(std::cin, std::cout, [](const json::Object& request) {
///       return validate_request(request);
///     });
void answer_lines(std::istream& in, std::ostream& out, const AnswerRequest& answer);

/// Fails with `invalid` at the first member of a request that is neither one of `known` nor `id`,
/// naming it and them: what a request says is honoured or refused.
[[nodiscard]] Status check_members(const Object& request,
                                   std::initializer_list<std::string_view> known);

}  // namespace tenon::json
