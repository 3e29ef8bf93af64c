#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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

/// What went wrong, and where. Programs read `code`, `path` and `line`. The message is for people:
/// code never looks for facts in it. Only reason() takes a part off, the place that at() has put in
/// front.
struct Error {
  Errc code;
  std::string message;  ///< One sentence for a person, without a final full stop.
  /// The place in the caller's input: a JSON pointer, or a field of a request. Empty: not known.
  std::string path = {};
  std::uint32_t line = 0;  ///< The line of the caller's text, from 1. 0: not known.

  /// An error at a place. The message is `path: reason`.
  [[nodiscard]] static Error at(Errc code, std::string path, std::string_view reason) {
    std::string message = path;
    message.append(": ").append(reason);
    return {code, std::move(message), std::move(path)};
  }
  /// The message of an error that at() made, without the place. Else the whole message.
  [[nodiscard]] std::string_view reason() const {
    const std::string_view whole = message;
    const bool is_at_path =
        !path.empty() && whole.starts_with(path) && whole.substr(path.size()).starts_with(": ");
    return is_at_path ? whole.substr(path.size() + 2) : whole;
  }

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
