#include "tenon/chat/refusal.h"

#include <utility>

namespace tenon::chat {

Refusal refusal_of(Error error, std::string param) {
  if (error.path.empty()) error.path = param;
  switch (error.code) {
    case Errc::unavailable:
      return {std::move(error), "", "engine_error"};
    case Errc::limit_exceeded:
      return {std::move(error), std::move(param), "context_length_exceeded"};
    default:
      return {std::move(error), std::move(param), "invalid_value"};
  }
}

Failure<Refusal> refuse(Errc code, std::string message, std::string param,
                        std::string stable_code) {
  return Failure<Refusal>({.error = {code, std::move(message), param},
                           .param = std::move(param),
                           .code = std::move(stable_code)});
}

Failure<Refusal> refuse_field(Errc code, std::string param, std::string rest,
                              std::string stable_code) {
  return Failure<Refusal>({.error = {code, param + rest, param},
                           .param = std::move(param),
                           .code = std::move(stable_code),
                           .behind_param = std::move(rest)});
}

}  // namespace tenon::chat
