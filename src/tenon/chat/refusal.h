#pragma once

#include <string>

#include "tenon/base/expected.h"

namespace tenon::chat {

/// A failure of a request that names the field it is about, so that `api` can fill `param`. `code`
/// is stable. The client can solve: context_length_exceeded, template_error, tools_not_supported,
/// invalid_value, unsupported_parameter (param names it). It cannot solve: engine_busy,
/// engine_error (with error.code `unavailable`, trying again may help).
struct Refusal {
  Error error;
  std::string param;  ///< "messages", "max_tokens", ...; "" if no field is to blame.
  std::string code;
  std::string detail{};  ///< For the operator, in the log; never sent to clients.
};

/// The refusal for an error of an engine or its tokenizer: it blames the request's field `param`,
/// unless the engine is not there.
[[nodiscard]] Refusal refusal_of(Error error, std::string param = {});
[[nodiscard]] Failure<Refusal> refuse(Errc code, std::string message, std::string param,
                                      std::string stable_code);

}  // namespace tenon::chat
