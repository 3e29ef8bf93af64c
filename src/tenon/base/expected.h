#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace tenon {

/// What a caller can do about a failure; the message says what happened.
enum class Errc : std::uint8_t {
  invalid,         ///< The input breaks the rules of its language: reject it, do not try again.
  unsupported,     ///< The input is well formed, but Tenon does not implement what it asks for.
  limit_exceeded,  ///< A limit that the caller set was reached; a larger limit may help.
  unsatisfiable,   ///< The input describes an empty language: no text can ever match it.
  unavailable,     ///< A peer or the operating system failed: trying again may help.
};

/// The enumerator's name, for programs that read our output.
[[nodiscard]] constexpr std::string_view errc_name(Errc code) {
  switch (code) {
    case Errc::invalid:
      return "invalid";
    case Errc::unsupported:
      return "unsupported";
    case Errc::limit_exceeded:
      return "limit_exceeded";
    case Errc::unsatisfiable:
      return "unsatisfiable";
    case Errc::unavailable:
      return "unavailable";
  }
  return "invalid";
}

struct Error {
  Errc code;
  std::string message;  ///< One sentence for a person, without a final full stop.

  bool operator==(const Error&) const = default;
};

/// The return types of every function that can fail. tl::expected stands in for std::expected,
/// which g++ 12 lacks. Only this file names it, so replacing it changes only these lines.
template <class T>
using Expected = tl::expected<T, Error>;
using Unexpected = tl::unexpected<Error>;
using Status = Expected<void>;

/// For the few functions whose failure carries more than an Error (chat::Refusal, say):
///
///     Result<Answer, Refusal> start(const ChatRequest& request);
///     if (full) return Failure<Refusal>({.error = ..., .param = "messages"});
template <class T, class E>
using Result = tl::expected<T, E>;
template <class E>
using Failure = tl::unexpected<E>;

}  // namespace tenon
