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
  /// If error.message begins with `param`, what comes behind it, such as " needs an engine that
  /// ...". A dialect that calls the field otherwise makes its sentence from its own name and this.
  std::string behind_param{};
};

/// The refusal for an error of an engine or its tokenizer: it blames the request's field `param`,
/// unless the engine is not there.
[[nodiscard]] Refusal refusal_of(Error error, std::string param = {});
[[nodiscard]] Failure<Refusal> refuse(Errc code, std::string message, std::string param,
                                      std::string stable_code);
/// The same for a sentence that begins with the field's name; `rest` is what follows the name.
[[nodiscard]] Failure<Refusal> refuse_field(Errc code, std::string param, std::string rest,
                                            std::string stable_code);

}  // namespace tenon::chat
