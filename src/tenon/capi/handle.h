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

/// What all functions of tenon.h are made of. Not for other layers: theirs is tenon.h.
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
};

namespace tenon::capi {

[[nodiscard]] inline std::string_view view(tenon_text text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}
/// Views `text`, which ends in a NUL that does not count, as std::string and literals do.
[[nodiscard]] inline tenon_text text_of(std::string_view text) {
  return text.empty() ? tenon_text{"", 0} : tenon_text{text.data(), text.size()};
}
[[nodiscard]] inline tenon_string* new_string(std::string text) {
  return new tenon_string{std::move(text)};
}

/// Sets what the pointers point to, where they do, to null or 0: for whatever fails after it.
template <class... T>
void clear(T*... results) {
  ((results == nullptr ? void() : void(*results = T())), ...);
}

/// Never null, and never out of memory: for want of it, the one that says so. A message that quotes
/// much is shortened.
[[nodiscard]] tenon_error* error_of(const Error& error) noexcept;
/// What is thrown here and now, called where it was caught.
[[nodiscard]] tenon_error* caught() noexcept;
/// A pointer that must not be null, and what the header calls it.
struct Given {
  const void* pointer;
  const char* name;
};
[[nodiscard]] tenon_error* missing(std::initializer_list<Given> given) noexcept;

/// Where control enters: runs `body` (Status()), unless something that it needs is null, and turns
/// into an error what it gives back or throws.
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

/// A path that the system would cut, since it has a NUL, or that is empty, is refused; where there
/// is nothing it fails with `unavailable`, whatever is loaded. `kinds`: what may be named.
[[nodiscard]] Status check_path(tenon_text path, std::string_view kinds);

/// Of an array that is NULL and yet has elements.
[[nodiscard]] Error null_array(std::string_view name);

/// Writes the first `capacity` of `all`, and their number.
[[nodiscard]] Status write_ids(std::span<const std::int32_t> all, std::int32_t* ids,
                               std::size_t capacity, std::size_t* count);

/// The same for functions that cannot fail: `otherwise`, where `body` throws.
template <class Result, class Body>
[[nodiscard]] Result guarded_or(Result otherwise, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return otherwise;
  }
}

/// The JSON object in a text, nothing being an empty one. Fails with `invalid` where it is none,
/// and at the first member that is not among `known`. `name` is what errors call the text.
[[nodiscard]] Expected<json::Object> object_in(tenon_text text, std::string_view name,
                                               std::initializer_list<std::string_view> known);
/// Any JSON; nothing is no JSON.
[[nodiscard]] Expected<json::Value> json_in(tenon_text text, std::string_view name);

/// A member that is a string; "" where there is none. Fails with `invalid` where it is another.
[[nodiscard]] Expected<std::string> string_member(const json::Object& object,
                                                  std::string_view member);

}  // namespace tenon::capi
