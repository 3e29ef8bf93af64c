#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <gtest/gtest.h>
#include <tenon.h>

/// What the tests of the C functions share: handles that are freed, and the content of texts.
namespace tenon::capi {

struct Free {
  void operator()(tenon_vocab* handle) const { tenon_vocab_free(handle); }
  void operator()(tenon_schema* handle) const { tenon_schema_free(handle); }
  void operator()(tenon_grammar* handle) const { tenon_grammar_free(handle); }
  void operator()(tenon_matcher* handle) const { tenon_matcher_free(handle); }
  void operator()(tenon_mask_pool* handle) const { tenon_mask_pool_free(handle); }
  void operator()(tenon_format* handle) const { tenon_format_free(handle); }
  void operator()(tenon_template* handle) const { tenon_template_free(handle); }
  void operator()(tenon_prompt* handle) const { tenon_prompt_free(handle); }
  void operator()(tenon_parser* handle) const { tenon_parser_free(handle); }
  void operator()(tenon_mender* handle) const { tenon_mender_free(handle); }
  void operator()(tenon_service* handle) const { tenon_service_free(handle); }
  void operator()(tenon_call* handle) const { tenon_call_free(handle); }
  void operator()(tenon_conversation* handle) const { tenon_conversation_free(handle); }
  void operator()(tenon_toolbox* handle) const { tenon_toolbox_free(handle); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Free>;

inline tenon_text text(std::string_view bytes) {
  return {bytes.data(), bytes.size()};
}
inline std::string read(tenon_text text) {
  EXPECT_NE(text.data, nullptr);
  if (text.data == nullptr) return {};
  EXPECT_EQ(text.data[text.size], '\0') << "what comes back ends in a NUL";
  return {text.data, text.size};
}
/// The text of `string`, which is freed.
inline std::string take(tenon_string* string) {
  std::string taken = read(tenon_string_text(string));
  tenon_string_free(string);
  return taken;
}

inline const char* name_of(tenon_code code) {
  constexpr const char* kNames[] = {
      "ok", "invalid", "unsupported", "limit_exceeded", "unsatisfiable", "unavailable", "internal"};
  return kNames[code];
}
/// "ok", or the code and the message of the error, which is freed.
inline std::string told(tenon_error* error) {
  if (error == nullptr) return "ok";
  std::string told = name_of(tenon_error_code(error));
  told += ": " + read(tenon_error_message(error));
  tenon_error_free(error);
  return told;
}

/// The type of a function's last parameter: the place for its result.
template <class... Parameters>
using LastOf = std::remove_pointer_t<
    std::tuple_element_t<sizeof...(Parameters) - 1, std::tuple<Parameters...>>>;

/// The handle that `make(arguments..., &handle)` makes.
template <class... Parameters, class... Arguments>
auto made(tenon_error* (*make)(Parameters...), const Arguments&... arguments) {
  LastOf<Parameters...> handle = nullptr;
  EXPECT_EQ(told(make(arguments..., &handle)), "ok");
  EXPECT_NE(handle, nullptr);
  return Owned<std::remove_pointer_t<LastOf<Parameters...>>>(handle);
}
/// The same for a string, which is freed.
template <class... Parameters, class... Arguments>
std::string string_of(tenon_error* (*get)(Parameters...), const Arguments&... arguments) {
  tenon_string* string = nullptr;
  EXPECT_EQ(told(get(arguments..., &string)), "ok");
  return take(string);
}

/// The model that comes with Tenon.
inline std::string model_path() {
  return std::filesystem::absolute(TENON_SOURCE_DIR "/models/tenon-tiny.gguf").string();
}
inline const tenon_vocab* bundled_vocab() {
  static const Owned<tenon_vocab> vocab = made(tenon_vocab_load, text(model_path()));
  return vocab.get();
}
inline Owned<tenon_format> format_named(std::string_view name) {
  return made(tenon_format_find, text(name));
}

}  // namespace tenon::capi
