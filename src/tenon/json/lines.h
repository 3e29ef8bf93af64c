#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::json {

/// The answer to one request, or the error that takes its place.
using AnswerRequest = std::function<Expected<Object>(const Object& request)>;

/// Runs a command's `--batch`: reads requests as JSON, one per line of `in`, and writes answers as
/// JSON, one per line of `out`, in the same order. Each answer is flushed before the next line is
/// read. If the request has an `id`, it comes first in the answer. A line that fails is answered
/// with `{"id"?, "error": {"code", "message"}}`, where the code is an enumerator of Errc, and the
/// next line is read. A line fails if it is not a JSON object, is over 256 MiB, or memory runs out.
/// Empty lines have no answer.
///
///     json::answer_lines(std::cin, std::cout, [](const json::Object& request) {
///       return validate_request(request);
///     });
void answer_lines(std::istream& in, std::ostream& out, const AnswerRequest& answer);

/// Fails with `invalid` at the first member of a request that is neither one of `known` nor `id`;
/// the error names it and them. So every member of a request is obeyed or refused.
[[nodiscard]] Status check_members(const Object& request,
                                   std::initializer_list<std::string_view> known);

}  // namespace tenon::json
