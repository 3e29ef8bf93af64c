#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <tenon.h>

/// What all bindings share. Each wraps functions of tenon.h and nothing else of Tenon: what Python
/// can do, C can.
namespace tenon::python {

namespace nb = nanobind;

/// A str or bytes as it is, without a copy. Good as long as the argument that it came from.
struct Text {
  tenon_text text{};
};

/// A JSON text: a str or bytes that is one already, or what json.dumps() makes of anything else.
struct Json {
  nb::object owner;
  tenon_text text{};
};

/// JSON of any value, a str too: it becomes a JSON string.
[[nodiscard]] Json json_of(nb::handle value);

/// Throws the exception of tenon._errors that `error` is, if it is one.
void check(tenon_error* error);

inline std::string_view view(tenon_text text) {
  return {text.data, text.size};
}
[[nodiscard]] nb::str str_of(tenon_text text);  ///< What is not UTF-8 becomes U+FFFD.
[[nodiscard]] nb::bytes bytes_of(tenon_text text);
[[nodiscard]] nb::object loads(tenon_text json);

struct Free {
  void operator()(tenon_string* p) const { tenon_string_free(p); }
  void operator()(tenon_vocab* p) const { tenon_vocab_free(p); }
  void operator()(tenon_schema* p) const { tenon_schema_free(p); }
  void operator()(tenon_grammar* p) const { tenon_grammar_free(p); }
  void operator()(tenon_matcher* p) const { tenon_matcher_free(p); }
  void operator()(tenon_format* p) const { tenon_format_free(p); }
  void operator()(tenon_template* p) const { tenon_template_free(p); }
  void operator()(tenon_prompt* p) const { tenon_prompt_free(p); }
  void operator()(tenon_parser* p) const { tenon_parser_free(p); }
  void operator()(tenon_mender* p) const { tenon_mender_free(p); }
};
template <typename T>
using Handle = std::unique_ptr<T, Free>;

/// Calls a function whose last argument is where a handle goes, without the GIL, and gives the
/// handle.
template <typename T, typename Function>
[[nodiscard]] Handle<T> made(Function function) {
  T* result = nullptr;
  tenon_error* error = nullptr;
  {
    const nb::gil_scoped_release released;
    error = function(&result);
  }
  check(error);
  return Handle<T>(result);
}

/// The same, of a string.
template <typename Function>
[[nodiscard]] Handle<tenon_string> text_from(Function function) {
  return made<tenon_string>(function);
}
template <typename Function>
[[nodiscard]] nb::object json_from(Function function) {
  return loads(tenon_string_text(text_from(function).get()));
}
template <typename Function>
[[nodiscard]] nb::str str_from(Function function) {
  return str_of(tenon_string_text(text_from(function).get()));
}

/// What serves one thread at a time. The GIL does not see to that where a call lets go of it, so a
/// second thread is refused.
class Turn {
 public:
  class Taken {
   public:
    explicit Taken(Turn& turn) : turn_(turn) {
      if (turn_.taken_.exchange(true, std::memory_order_acquire)) refuse();
    }
    /// Waits for it, without the GIL.
    Taken(Turn& turn, const nb::gil_scoped_release& /*released*/) : turn_(turn) {
      while (turn_.taken_.exchange(true, std::memory_order_acquire)) {
        turn_.taken_.wait(true, std::memory_order_relaxed);
      }
    }
    ~Taken() {
      turn_.taken_.store(false, std::memory_order_release);
      turn_.taken_.notify_one();
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    [[noreturn]] static void refuse();
    Turn& turn_;
  };
  [[nodiscard]] Taken take() { return Taken(*this); }

 private:
  std::atomic<bool> taken_ = false;
};

struct Vocab {
  Handle<tenon_vocab> handle;
};
struct Schema {
  Handle<tenon_schema> handle;
};
struct Grammar {
  Handle<tenon_grammar> handle;
  nb::object vocab;  // The Vocab.
};
struct Matcher {
  Handle<tenon_matcher> handle;   // null: one that is only lent, see `lent`
  nb::object grammar;             // The Grammar; None where an answer lends the matcher.
  tenon_matcher* lent = nullptr;  // changes in its turn
  std::size_t words = 0;
  Turn turn;
  /// In its turn, with the GIL. Throws where it was lent for an answer that has ended.
  [[nodiscard]] tenon_matcher* get() const;
};
struct Format {
  Handle<tenon_format> handle;
};
struct ChatTemplate {
  Handle<tenon_template> handle;
};

/// The events as objects: ContentDelta, ReasoningDelta, CallBegin, CallArguments, CallEnd,
/// Diagnostic, Finish.
[[nodiscard]] nb::list events_of(const tenon_event* events, std::size_t count);
/// None for one of a type that this version does not know.
[[nodiscard]] nb::object event_of(const tenon_event& event);

/// Ids out of any sequence of int.
[[nodiscard]] std::vector<std::int32_t> ids_of(nb::handle sequence);
[[nodiscard]] nb::list list_of(const std::int32_t* ids, std::size_t count);

void bind_vocab(nb::module_& m);
void bind_grammar(nb::module_& m);
void bind_format(nb::module_& m);
void bind_template(nb::module_& m);
void bind_service(nb::module_& m);
void bind_conversation(nb::module_& m);

}  // namespace tenon::python

namespace nanobind::detail {

template <>
struct type_caster<tenon::python::Text> {
  NB_TYPE_CASTER(tenon::python::Text, const_name("str | bytes"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    if (PyUnicode_Check(source.ptr())) {
      Py_ssize_t size = 0;
      value.text.data = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
      value.text.size = static_cast<std::size_t>(size);
      if (value.text.data == nullptr) PyErr_Clear();
      return value.text.data != nullptr;
    }
    if (!PyBytes_Check(source.ptr())) return false;
    value.text = {PyBytes_AS_STRING(source.ptr()),
                  static_cast<std::size_t>(PyBytes_GET_SIZE(source.ptr()))};
    return true;
  }
};

template <>
struct type_caster<tenon::python::Json> {
  NB_TYPE_CASTER(tenon::python::Json,
                 const_name("collections.abc.Mapping[str, typing.Any] | "
                            "collections.abc.Sequence[typing.Any] | bool | None"))
  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) {
    if (source.is_none()) return true;
    type_caster<tenon::python::Text> text;
    if (text.from_python(source, flags, cleanup)) {
      value.owner = borrow(source);
      value.text = text.value.text;
      return true;
    }
    value = tenon::python::json_of(source);
    return true;
  }
};

}  // namespace nanobind::detail
