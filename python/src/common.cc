#include "common.h"

#include <cstdarg>
#include <string>
#include <utility>

// What all bindings read arguments and raise errors with
//
// Python's values become what the C functions take (texts, JSON, ids, paths), and their results and
// errors become Python's. Texts are not copied: an argument keeps the object that has the bytes.
// Messages name the argument, and ask for what would be right.

namespace tenon::python {
namespace {

// The attribute is kept as long as the interpreter, as modules are.
PyObject* attribute_of(const char* module, const char* name) {
  nb::object value = nb::module_::import_(module).attr(name);
  return value.release().ptr();
}

nb::object call(PyObject* function, nb::handle argument) {
  PyObject* const result = PyObject_CallOneArg(function, argument.ptr());
  if (result == nullptr) nb::raise_python_error();
  return nb::steal(result);
}

// In the order of tenon_code.
constexpr const char* kErrors[] = {"Error",
                                   "InvalidError",
                                   "UnsupportedError",
                                   "LimitExceededError",
                                   "UnsatisfiableError",
                                   "UnavailableError",
                                   "InternalError"};

// Raises for a str that is not valid Unicode, if that is why the last call failed; otherwise raises
// what it failed with. A str from a file name may have half of a surrogate pair (PEP 383).
[[noreturn]] void raise_no_unicode(const char* what) {
  PyObject *type = nullptr, *error = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  Py_ssize_t at = 0;
  if (PyErr_GivenExceptionMatches(type, PyExc_UnicodeEncodeError) == 0 ||
      PyUnicodeEncodeError_GetStart(error, &at) != 0) {
    PyErr_Restore(type, error, trace);
    nb::raise_python_error();
  }
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(trace);
  raise_error(
      error_class(TENON_INVALID),
      "%s has half of a surrogate pair as character %zd, which is no Unicode: take it out, or "
      "give bytes, text.encode(errors=\"surrogateescape\") of one that came from a file's bytes",
      what, at);
}

// The bytes of a str, which keeps them.
tenon_text utf8_of(PyObject* text, const char* what) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) raise_no_unicode(what);
  return {data, static_cast<std::size_t>(size)};
}

// An int, as Python and NumPy have them. `is_large` becomes -1 or 1 for those beyond 64 bits.
long long int_in(nb::handle value, const char* what, int& is_large) {
  if (!PyIndex_Check(value.ptr())) {
    raise_error(PyExc_TypeError, "%s must be an int, not %s", what, Py_TYPE(value.ptr())->tp_name);
  }
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) nb::raise_python_error();
  return PyLong_AsLongLongAndOverflow(number.ptr(), &is_large);
}

}  // namespace

void raise_error(PyObject* type, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
  nb::raise_python_error();
}

void raise_type(const char* wanted, nb::handle value) {
  raise_error(PyExc_TypeError, "%s is wanted, not %s", wanted,
              value.is_none() ? "None" : Py_TYPE(value.ptr())->tp_name);
}

// An error of a newer library, whose code is unknown, is a plain Error.
PyObject* error_class(tenon_code code) {
  const bool is_known = code >= TENON_INVALID && code <= TENON_INTERNAL;
  // Kept by its module.
  return nb::object(nb::module_::import_("tenon._errors").attr(kErrors[is_known ? code : 0])).ptr();
}

tenon_text text_in(nb::handle value, const char* what) {
  if (PyUnicode_Check(value.ptr())) return utf8_of(value.ptr(), what);
  if (!PyBytes_Check(value.ptr())) {
    raise_error(PyExc_TypeError, "%s must be a str or bytes, not %s", what,
                value.is_none() ? "None" : Py_TYPE(value.ptr())->tp_name);
  }
  return {PyBytes_AS_STRING(value.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(value.ptr()))};
}

std::int32_t token_in(nb::handle value, const char* what) {
  int is_large = 0;
  const long long id = int_in(value, what, is_large);
  if (is_large == 0 && std::in_range<std::int32_t>(id)) return static_cast<std::int32_t>(id);
  const nb::str text(value);
  raise_error(error_class(TENON_INVALID), "%s is %.40U, and ids are from 0 to 2147483647", what,
              text.ptr());
}

// A number beyond 64 bits does as the largest one, which is over every limit.
std::size_t count_in(nb::handle value) {
  int is_large = 0;
  const long long count = int_in(value, "a number of things", is_large);
  if (is_large > 0) return SIZE_MAX;
  if (is_large < 0 || count < 0) {
    const nb::str text(value);
    raise_error(error_class(TENON_INVALID), "%.40U is no number of things: give one from 0 on",
                text.ptr());
  }
  return static_cast<std::size_t>(count);
}

Path path_in(nb::handle value) {
  Path path;
  path.owner = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.owner.is_valid()) nb::raise_python_error();
  if (PyUnicode_Check(path.owner.ptr())) {
    // File names are bytes, and may be any bytes.
    path.owner = nb::steal(PyUnicode_EncodeFSDefault(path.owner.ptr()));
    if (!path.owner.is_valid()) raise_no_unicode("a path");
  }
  path.text = text_in(path.owner, "a path");
  return path;
}

// tenon._json.dumps is json's encoder without spaces and without NaN, which is no JSON.
Json json_of(nb::handle value) {
  static PyObject* const dumps = attribute_of("tenon._json", "dumps");
  Json result;
  result.owner = call(dumps, value);
  result.text = utf8_of(result.owner.ptr(), "a text of it");
  return result;
}

Json json_in(nb::handle value) {
  if (value.is_none()) {
    raise_error(PyExc_TypeError, "a dict, a list or the text of some JSON is wanted, not None");
  }
  if (!PyUnicode_Check(value.ptr()) && !PyBytes_Check(value.ptr())) return json_of(value);
  Json result;
  result.owner = nb::borrow(value);
  result.text = text_in(value);
  return result;
}

nb::object loads(tenon_text json) {
  static PyObject* const loads = attribute_of("json", "loads");
  return call(loads, str_of(json));
}

nb::object exception_of(tenon_error* error) {
  const std::unique_ptr<tenon_error, void (*)(tenon_error*)> owned(error, tenon_error_free);
  const nb::handle kind = error_class(tenon_error_code(error));
  nb::object exception = kind(str_of(tenon_error_message(error)));
  if (tenon_error_path(error).size > 0) exception.attr("path") = str_of(tenon_error_path(error));
  if (tenon_error_line(error) > 0) exception.attr("line") = tenon_error_line(error);
  return exception;
}

void check(tenon_error* error) {
  if (error == nullptr) return;
  const nb::object exception = exception_of(error);
  PyErr_SetObject(nb::handle(exception.type()).ptr(), exception.ptr());
  nb::raise_python_error();
}

// Bytes that are not UTF-8 become U+FFFD; a piece of text may be cut inside a character.
nb::str str_of(tenon_text text) {
  PyObject* const result =
      PyUnicode_DecodeUTF8(text.data, static_cast<Py_ssize_t>(text.size), "replace");
  if (result == nullptr) nb::raise_python_error();
  return nb::steal<nb::str>(result);
}

nb::bytes bytes_of(tenon_text text) {
  return nb::bytes(text.data, text.size);
}

void Turn::Taken::refuse() {
  PyErr_SetString(PyExc_RuntimeError,
                  "another thread is using this object, which serves one at a time");
  nb::raise_python_error();
}

std::vector<std::int32_t> ids_of(nb::handle sequence, const char* name) {
  const nb::object fast = nb::steal(PySequence_Fast(sequence.ptr(), ""));
  if (!fast.is_valid()) {
    PyErr_Clear();
    raise_error(PyExc_TypeError, "%s must be a sequence of int, not %s", name,
                sequence.is_none() ? "None" : Py_TYPE(sequence.ptr())->tp_name);
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.ptr());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
    int is_large = 0;
    // Ids that are right, without making a name for each.
    const long long id =
        PyLong_CheckExact(item) ? PyLong_AsLongLongAndOverflow(item, &is_large) : -1;
    ids[static_cast<std::size_t>(i)] =
        id >= 0 && std::in_range<std::int32_t>(id)
            ? static_cast<std::int32_t>(id)
            : token_in(item, (std::string(name) + "[" + std::to_string(i) + "]").c_str());
  }
  return ids;
}

nb::list list_of(const std::int32_t* ids, std::size_t count) {
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(count));
  if (list == nullptr) nb::raise_python_error();
  for (std::size_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyLong_FromLong(ids[i]));
  }
  return nb::steal<nb::list>(list);
}

}  // namespace tenon::python
