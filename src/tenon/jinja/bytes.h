#pragma once

#include <string>
#include <string_view>

#include "tenon/jinja/args.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/runtime.h"

/// Python's bytes.
namespace tenon::jinja {

[[nodiscard]] Value make_bytes(TextBuffer& out, std::string_view bytes, bool is_data);
[[nodiscard]] Value call_bytes_method(Runtime& rt, const Value& self, MethodId id,
                                      const Args& args);

/// The encoding that str.encode() and bytes.decode() are asked for: "utf8" for "UTF-8", "utf_8" and
/// for a missing argument. `method` is for the error of an argument that is no string.
[[nodiscard]] std::string encoding_name(Runtime& rt, const Value& argument,
                                        std::string_view method);
/// Ends the rendering because Tenon has no such encoding.
[[noreturn]] void fail_encoding(Runtime& rt);

}  // namespace tenon::jinja
