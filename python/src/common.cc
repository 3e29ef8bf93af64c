#include "common.h"

namespace tenon::python {
namespace {

// Kept for as long as the interpreter, as modules are.
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

}  // namespace

Json json_of(nb::handle value) {
  static PyObject* const dumps = attribute_of("tenon._json", "dumps");
  Json result;
  result.owner = call(dumps, value);
  Py_ssize_t size = 0;
  result.text.data = PyUnicode_AsUTF8AndSize(result.owner.ptr(), &size);
  if (result.text.data == nullptr) nb::raise_python_error();
  result.text.size = static_cast<std::size_t>(size);
  return result;
}

nb::object loads(tenon_text json) {
  static PyObject* const loads = attribute_of("json", "loads");
  return call(loads, str_of(json));
}

void check(tenon_error* error) {
  if (error == nullptr) return;
  const int code = tenon_error_code(error);
  const nb::object message = str_of(tenon_error_message(error));
  tenon_error_free(error);
  const nb::object type =
      nb::module_::import_("tenon._errors").attr(kErrors[code >= 1 && code <= 6 ? code : 0]);
  PyErr_SetObject(type.ptr(), message.ptr());
  nb::raise_python_error();
}

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

std::vector<std::int32_t> ids_of(nb::handle sequence) {
  const nb::object fast =
      nb::steal(PySequence_Fast(sequence.ptr(), "token ids are a sequence of int"));
  if (!fast.is_valid()) nb::raise_python_error();
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.ptr());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const long id = PyLong_AsLong(PySequence_Fast_GET_ITEM(fast.ptr(), i));
    if (id == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
    if (id < INT32_MIN || id > INT32_MAX) {
      PyErr_Format(PyExc_OverflowError, "%ld is no token id", id);
      nb::raise_python_error();
    }
    ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id);
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
