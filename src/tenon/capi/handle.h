#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tenon.h>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// What all functions of tenon.h are written with. Other layers do not use it.
///
///     tenon_error* tenon_vocab_load(tenon_text path, tenon_vocab** vocab) {
///       capi::clear(vocab);
///       return capi::guarded({{vocab, "vocab"}}, [&]() -> Status {
///         auto tokenizer = vocab::load_tokenizer(capi::view(path));
///         if (!tokenizer) return Unexpected(tokenizer.error());
///         *vocab = new tenon_vocab{...};
///         return {};
///       });
///     }
struct tenon_string {
  std::string text;
};

struct tenon_error {
  tenon_code code;
  std::string message;
  std::string path = {};
  std::uint32_t line = 0;
};

namespace tenon::capi {

[[nodiscard]] inline std::string_view view(tenon_text text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}
/// A view of `text`, which must end in a NUL that is not counted, as std::string and literals do.
[[nodiscard]] inline tenon_text text_of(std::string_view text) {
  return text.empty() ? tenon_text{"", 0} : tenon_text{text.data(), text.size()};
}
[[nodiscard]] inline tenon_string* new_string(std::string text) {
  return new tenon_string{std::move(text)};
}

/// Sets what the pointers point to, if they are not null, to null or 0, for the case of a failure.
template <class... T>
void clear(T*... results) {
  ((results == nullptr ? void() : void(*results = T())), ...);
}

/// Never null; if memory runs out, it is the error that says so. Long quotations in the message and
/// the path are shortened.
[[nodiscard]] tenon_error* error_of(const Error& error) noexcept;
/// The exception that is being handled, as an error; call it in a catch block.
[[nodiscard]] tenon_error* caught() noexcept;
/// A pointer that must not be null, and the name of the parameter in the header.
struct Given {
  const void* pointer;
  const char* name;
};
[[nodiscard]] tenon_error* missing(std::initializer_list<Given> given) noexcept;

/// Every function enters here: runs `body` (Status()), unless one of `given` is null, and turns
/// what it returns or throws into an error.
template <class Body>
[[nodiscard]] tenon_error* guarded(std::initializer_list<Given> given, Body body) noexcept {
  for (const Given& one : given) {
    if (one.pointer == nullptr) return missing(given);
  }
  try {
    const Status done = body();
    return done ? nullptr : error_of(done.error());
  } catch (...) {
    return caught();
  }
}

/// Refuses a path that is empty or has a NUL, at which the system would cut it. Fails with
/// `unavailable` if there is nothing at the path. `kinds`: the kinds of files for the message.
[[nodiscard]] Status check_path(tenon_text path, std::string_view kinds);

/// The error for an array that is NULL although it should have elements.
[[nodiscard]] Error null_array(std::string_view name);

/// Writes the first `capacity` of `all`, and their number.
[[nodiscard]] Status write_ids(std::span<const std::int32_t> all, std::int32_t* ids,
                               std::size_t capacity, std::size_t* count);

/// For functions that cannot fail: returns `otherwise` if `body` throws.
template <class Result, class Body>
[[nodiscard]] Result guarded_or(Result otherwise, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return otherwise;
  }
}

/// The JSON object in a text; an empty text is an empty object. Fails with `invalid` if the text is
/// not an object, and at the first member that is not in `known`. Errors call the text `name`.
[[nodiscard]] Expected<json::Object> object_in(tenon_text text, std::string_view name,
                                               std::initializer_list<std::string_view> known);
/// Any JSON value; an empty text is an error.
[[nodiscard]] Expected<json::Value> json_in(tenon_text text, std::string_view name);

/// A member that is a string; "" if it is absent. Fails with `invalid` if it is of another kind.
[[nodiscard]] Expected<std::string> string_member(const json::Object& object,
                                                  std::string_view member);

}  // namespace tenon::capi
