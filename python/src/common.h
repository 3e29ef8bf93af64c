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

/// What all bindings share. They wrap the functions of tenon.h and nothing else of Tenon, so C can
/// do everything that Python can.
namespace tenon::python {

namespace nb = nanobind;

// ---- Arguments. Each says by itself what is wrong with it, None too: they are declared by arg().

/// The bytes of a str or bytes, without a copy. Valid as long as the argument that it came from.
struct Text {
  tenon_text text{};
  PyObject* str = nullptr;  // null: bytes
};

/// A JSON text: a str or bytes that is one already, or what json.dumps() makes of anything else.
struct Json {
  nb::object owner;
  tenon_text text{};
};
/// The same; None stands for an object without members.
struct Options : Json {};

/// The id of a token.
struct Token {
  std::int32_t id = 0;
};
/// A number of things.
struct Count {
  std::size_t count = 0;
};
/// A path: a str, bytes, or anything with __fspath__.
struct Path {
  nb::object owner;
  tenon_text text{};
};

/// An object of one of our classes; Maybe takes None for null.
template <typename T>
struct Of {
  T* it = nullptr;
  T& operator*() const { return *it; }
  T* operator->() const { return it; }
};
template <typename T>
struct Maybe : Of<T> {};

inline auto arg(const char* name) {
  return nb::arg(name).none();
}

/// Throws the exception that PyErr_Format() makes.
[[noreturn]] void raise_error(PyObject* type, const char* format, ...);
/// Throws TypeError: "WANTED is wanted, not int".
[[noreturn]] void raise_type(const char* wanted, nb::handle value);
/// The classes of tenon._errors.
[[nodiscard]] PyObject* error_class(tenon_code code);

/// The bytes of a str or bytes; `what` is what errors call it.
[[nodiscard]] tenon_text text_in(nb::handle value, const char* what = "a text");
[[nodiscard]] std::int32_t token_in(nb::handle value, const char* what = "a token id");
[[nodiscard]] std::size_t count_in(nb::handle value);
[[nodiscard]] Path path_in(nb::handle value);
/// JSON of any value, a str too: it becomes a JSON string.
[[nodiscard]] Json json_of(nb::handle value);
/// What a Json argument is.
[[nodiscard]] Json json_in(nb::handle value);

/// The C++ object. Throws TypeError if `value` is of another class.
template <typename T>
[[nodiscard]] T& the(nb::handle value) {
  if (!nb::isinstance<T>(value) || !nb::inst_ready(value)) raise_type(T::kKind, value);
  return *nb::inst_ptr<T>(value);
}

/// The exception of tenon._errors for `error`, which is freed and must not be null.
[[nodiscard]] nb::object exception_of(tenon_error* error);
/// Throws it, unless `error` is null.
void check(tenon_error* error);

inline std::string_view view(tenon_text text) {
  return {text.data, text.size};
}
[[nodiscard]] nb::str str_of(tenon_text text);  ///< Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] nb::bytes bytes_of(tenon_text text);
[[nodiscard]] nb::object loads(tenon_text json);

struct Free {
  void operator()(tenon_string* p) const { tenon_string_free(p); }
  void operator()(tenon_vocab* p) const { tenon_vocab_free(p); }
  void operator()(tenon_schema* p) const { tenon_schema_free(p); }
  void operator()(tenon_grammar* p) const { tenon_grammar_free(p); }
  void operator()(tenon_matcher* p) const { tenon_matcher_free(p); }
  void operator()(tenon_mask_pool* p) const { tenon_mask_pool_free(p); }
  void operator()(tenon_format* p) const { tenon_format_free(p); }
  void operator()(tenon_template* p) const { tenon_template_free(p); }
  void operator()(tenon_prompt* p) const { tenon_prompt_free(p); }
  void operator()(tenon_parser* p) const { tenon_parser_free(p); }
  void operator()(tenon_mender* p) const { tenon_mender_free(p); }
};
template <typename T>
using Handle = std::unique_ptr<T, Free>;

/// Calls `function`; if it may take long, without the GIL.
template <typename Function>
auto without_gil(bool is_long, Function function) {
  if (!is_long) return function();
  const nb::gil_scoped_release released;
  return function();
}

/// Calls a function whose last argument is the place for a handle, without the GIL, and returns the
/// handle.
template <typename T, typename Function>
[[nodiscard]] Handle<T> made(Function function) {
  T* result = nullptr;
  check(without_gil(true, [&] { return function(&result); }));
  return Handle<T>(result);
}

/// The same for a string.
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

/// For objects that serve one thread at a time. The GIL does not ensure that, since some calls
/// release it, so a second thread is refused.
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
  static constexpr const char* kKind = "a tenon.Vocab";
  Handle<tenon_vocab> handle;
};
struct Schema {
  Handle<tenon_schema> handle;
};
struct Grammar {
  static constexpr const char* kKind = "a tenon.Grammar";
  Handle<tenon_grammar> handle;
  nb::object vocab;  // The Vocab.
};
struct Matcher {
  Handle<tenon_matcher> handle;   // null: it is only lent, see `lent`
  nb::object grammar;             // The Grammar; None if an answer lends the matcher.
  tenon_matcher* lent = nullptr;  // changes in its turn
  std::size_t words = 0;
  Turn turn;
  /// Call it in its turn, with the GIL. Throws if it was lent for an answer that has ended.
  [[nodiscard]] tenon_matcher* get() const;
};
struct MaskPool {
  Handle<tenon_mask_pool> handle;
};
struct Format {
  Handle<tenon_format> handle;
};
/// A Format, or the name of one.
struct FormatArgument {
  nb::object owner;
  Handle<tenon_format> named;
  const tenon_format* format = nullptr;
};
[[nodiscard]] FormatArgument format_in(nb::handle value);

struct ChatTemplate {
  static constexpr const char* kKind = "a tenon.ChatTemplate";
  Handle<tenon_template> handle;
};

/// The events as objects: ContentDelta, ReasoningDelta, CallBegin, CallArguments, CallEnd,
/// Diagnostic, Finish. `piece`: what they were read from.
[[nodiscard]] nb::list events_of(const tenon_event* events, std::size_t count,
                                 const Text& piece = {});
/// None for an event of a type that this version does not know.
[[nodiscard]] nb::object event_of(const tenon_event& event);

/// Ids out of any sequence of int; `name` is what errors call it.
[[nodiscard]] std::vector<std::int32_t> ids_of(nb::handle sequence, const char* name);
[[nodiscard]] nb::list list_of(const std::int32_t* ids, std::size_t count);

void bind_vocab(nb::module_& m);
void bind_events(nb::module_& m);
void bind_grammar(nb::module_& m);
void bind_format(nb::module_& m);
void bind_template(nb::module_& m);
void bind_service(nb::module_& m);
void bind_conversation(nb::module_& m);

}  // namespace tenon::python

namespace nanobind::detail {

// They throw what they refuse themselves, so nanobind neither looks for another signature nor
// lists the signatures in its error.

template <>
struct type_caster<tenon::python::Text> {
  NB_TYPE_CASTER(tenon::python::Text, const_name("str | bytes"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value.text = tenon::python::text_in(source);
    value.str = PyUnicode_Check(source.ptr()) ? source.ptr() : nullptr;
    return true;
  }
};

template <>
struct type_caster<tenon::python::Json> {
  NB_TYPE_CASTER(tenon::python::Json, const_name("collections.abc.Mapping[str, typing.Any] | "
                                                 "collections.abc.Sequence[typing.Any] | bool"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value = tenon::python::json_in(source);
    return true;
  }
};

template <>
struct type_caster<tenon::python::Options> {
  NB_TYPE_CASTER(tenon::python::Options,
                 const_name("collections.abc.Mapping[str, typing.Any] | "
                            "collections.abc.Sequence[typing.Any] | bool | None"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    if (!source.is_none())
      static_cast<tenon::python::Json&>(value) = tenon::python::json_in(source);
    return true;
  }
};

template <>
struct type_caster<tenon::python::Token> {
  NB_TYPE_CASTER(tenon::python::Token, const_name("int"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value.id = tenon::python::token_in(source);
    return true;
  }
};

template <>
struct type_caster<tenon::python::Count> {
  NB_TYPE_CASTER(tenon::python::Count, const_name("int"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value.count = tenon::python::count_in(source);
    return true;
  }
};

template <>
struct type_caster<tenon::python::Path> {
  NB_TYPE_CASTER(tenon::python::Path, const_name("str | os.PathLike"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value = tenon::python::path_in(source);
    return true;
  }
};

template <>
struct type_caster<tenon::python::FormatArgument> {
  NB_TYPE_CASTER(tenon::python::FormatArgument, const_name("Format | str"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value = tenon::python::format_in(source);
    return true;
  }
};

template <typename T>
struct type_caster<tenon::python::Of<T>> {
  NB_TYPE_CASTER(tenon::python::Of<T>, make_caster<T>::Name)
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value.it = &tenon::python::the<T>(source);
    return true;
  }
};

template <typename T>
struct type_caster<tenon::python::Maybe<T>> {
  NB_TYPE_CASTER(tenon::python::Maybe<T>, make_caster<T>::Name + const_name(" | None"))
  bool from_python(handle source, std::uint8_t, cleanup_list*) {
    value.it = source.is_none() ? nullptr : &tenon::python::the<T>(source);
    return true;
  }
};

}  // namespace nanobind::detail
