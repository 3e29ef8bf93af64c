#include <array>
#include <string>

#include "common.h"
#include <structmember.h>

// The events of answers as Python classes, written with Python's own C interface and not with
// nanobind. All kinds share one layout, three pointers; kKinds says how many of them a kind has,
// what they are called and of which type they are. Adding a kind is a row there and a case in
// object_of(), which names the kinds by their index in the table.

namespace tenon::python {
namespace {

/// What happens while a model answers, of any kind. Made at the rate of a model's tokens, for many
/// answers at a time: the members are Python's own objects, which Python reads where they lie.
/// (As classes of nanobind, which notes each object and reads members by a call, a piece of an
/// answer took 317 ns in place of 254: bench/python_figures.py.)
struct Event {
  PyObject_HEAD std::array<PyObject*, 3> members;  // owned; null: it has fewer
};

struct Member {
  const char* name = nullptr;  // null: there are no more
  PyTypeObject* type = nullptr;
};

struct Kind {
  const char* name;
  const char* full_name;  // with the module, as pickle needs it
  std::array<Member, 3> members;
  PyObject* (*last)() = nullptr;  // makes the last member if it is not given

  [[nodiscard]] std::size_t count() const {
    std::size_t count = 0;
    while (count < members.size() && members[count].name != nullptr) ++count;
    return count;
  }
};

const Kind kKinds[] = {
    {"ContentDelta", "tenon._tenon.ContentDelta", {{{"text", &PyUnicode_Type}}}},
    {"ReasoningDelta", "tenon._tenon.ReasoningDelta", {{{"text", &PyUnicode_Type}}}},
    {"CallBegin",
     "tenon._tenon.CallBegin",
     {{{"index", &PyLong_Type}, {"id", &PyUnicode_Type}, {"name", &PyUnicode_Type}}}},
    {"CallArguments",
     "tenon._tenon.CallArguments",
     {{{"index", &PyLong_Type}, {"text", &PyUnicode_Type}}}},
    {"CallEnd",
     "tenon._tenon.CallEnd",
     {{{"index", &PyLong_Type}, {"is_incomplete", &PyBool_Type}}},
     [] { return Py_NewRef(Py_False); }},
    {"Diagnostic",
     "tenon._tenon.Diagnostic",
     {{{"code", &PyUnicode_Type}, {"message", &PyUnicode_Type}}}},
    {"Finish", "tenon._tenon.Finish", {{{"reason", &PyUnicode_Type}, {"details", &PyDict_Type}}}},
};
constexpr std::size_t kKindCount = std::size(kKinds);

// The types of kKinds, by index. The module keeps them, and is never released.
std::array<PyTypeObject*, kKindCount> types;

// A search over seven pointers. Events are made by event_with(), which knows the index; only repr,
// pickling and calls from Python come here.
const Kind& kind_of(PyTypeObject* type) {
  std::size_t at = 0;
  while (at + 1 < kKindCount && types[at] != type) ++at;
  return kKinds[at];
}

Event& event(PyObject* self) {
  return *reinterpret_cast<Event*>(self);
}

PyObject* members_of(PyObject* self) {
  const std::size_t count = kind_of(Py_TYPE(self)).count();
  PyObject* const all = PyTuple_New(static_cast<Py_ssize_t>(count));
  if (all == nullptr) return nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(i), Py_NewRef(event(self).members[i]));
  }
  return all;
}

// Makes an event without its members.
PyObject* made(PyTypeObject* type) {
  Event* const self = PyObject_New(Event, type);
  if (self == nullptr) return nullptr;
  self->members = {};
  return reinterpret_cast<PyObject*>(self);
}

// A type made by PyType_FromSpec is held by its objects, each of which releases it here.
void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  for (PyObject* const member : event(self).members) Py_XDECREF(member);
  PyObject_Free(self);
  Py_DECREF(type);
}

// The argument for a member, by position or by name; null if it is not given.
PyObject* given(const Kind& kind, std::size_t i, PyObject* arguments, PyObject* keywords) {
  const auto place = static_cast<Py_ssize_t>(i);
  if (place < PyTuple_GET_SIZE(arguments)) return PyTuple_GET_ITEM(arguments, place);
  return keywords == nullptr ? nullptr : PyDict_GetItemString(keywords, kind.members[i].name);
}

// `ContentDelta("Hi")` or `ContentDelta(text="Hi")`, for tests and for programs that make events.
// Each member must be of its type.
PyObject* construct(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  const Kind& kind = kind_of(type);
  PyObject* const self = made(type);
  if (self == nullptr) return nullptr;
  Py_ssize_t taken = 0;
  for (std::size_t i = 0; i < kind.count(); ++i) {
    const Member& member = kind.members[i];
    PyObject* value = given(kind, i, arguments, keywords);
    if (value != nullptr) {
      ++taken;
      Py_INCREF(value);
    } else if (kind.last != nullptr && i + 1 == kind.count()) {
      value = kind.last();
    }
    event(self).members[i] = value;
    if (value != nullptr && PyObject_TypeCheck(value, member.type)) continue;
    PyErr_Format(PyExc_TypeError, "%s(): %s must be %s, not %s", kind.name, member.name,
                 member.type->tp_name, value == nullptr ? "missing" : Py_TYPE(value)->tp_name);
    Py_DECREF(self);
    return nullptr;
  }
  // What was given and not taken is one too many, or has an unknown name.
  const Py_ssize_t all =
      PyTuple_GET_SIZE(arguments) + (keywords == nullptr ? 0 : PyDict_GET_SIZE(keywords));
  if (taken == all) return self;
  PyErr_Format(PyExc_TypeError, "%s() has %zu members, and got others", kind.name, kind.count());
  Py_DECREF(self);
  return nullptr;
}

PyObject* compare(PyObject* self, PyObject* other, int how) {
  if (Py_TYPE(self) != Py_TYPE(other) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  for (std::size_t i = 0; i < event(self).members.size(); ++i) {
    PyObject* const member = event(self).members[i];
    if (member == nullptr) break;
    const int same = PyObject_RichCompareBool(member, event(other).members[i], Py_EQ);
    if (same < 0) return nullptr;
    if (same == 0) return Py_NewRef(how == Py_EQ ? Py_False : Py_True);
  }
  return Py_NewRef(how == Py_EQ ? Py_True : Py_False);
}

Py_hash_t hash(PyObject* self) {
  PyObject* const all = members_of(self);
  if (all == nullptr) return -1;
  const Py_hash_t result = PyObject_Hash(all);
  Py_DECREF(all);
  return result;
}

PyObject* represent(PyObject* self) try {
  const Kind& kind = kind_of(Py_TYPE(self));
  nb::list members;
  for (std::size_t i = 0; i < kind.count(); ++i) {
    members.append(
        nb::str("{}={!r}").format(kind.members[i].name, nb::handle(event(self).members[i])));
  }
  return nb::str("{}({})").format(kind.name, nb::str(", ").attr("join")(members)).release().ptr();
} catch (nb::python_error& error) {
  error.restore();
  return nullptr;
}

// For pickle and copy: the type, and the arguments to make it again.
PyObject* reduce(PyObject* self, PyObject* /*none*/) {
  return Py_BuildValue("(ON)", Py_TYPE(self), members_of(self));
}

PyMethodDef methods[] = {{"__reduce__", &reduce, METH_NOARGS, nullptr}, {}};

void add_type(nb::module_& m, std::size_t at) {
  const Kind& kind = kKinds[at];
  // Python reads it as the type is used, so it lives as long as the process.
  static std::array<std::array<PyMemberDef, 4>, kKindCount> members{};
  nb::list names;
  for (std::size_t i = 0; i < kind.count(); ++i) {
    members[at][i] = {kind.members[i].name, T_OBJECT_EX,
                      static_cast<Py_ssize_t>(offsetof(Event, members) + i * sizeof(PyObject*)),
                      READONLY, nullptr};
    names.append(kind.members[i].name);
  }
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
                         {Py_tp_hash, reinterpret_cast<void*>(hash)},
                         {Py_tp_repr, reinterpret_cast<void*>(represent)},
                         {Py_tp_members, members[at].data()},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  PyType_Spec spec{kind.full_name, sizeof(Event), 0, Py_TPFLAGS_DEFAULT, slots};
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) nb::raise_python_error();
  type.attr("__match_args__") = nb::tuple(names);
  m.attr(kind.name) = type;
  types[at] = reinterpret_cast<PyTypeObject*>(nb::object(type).release().ptr());
}

PyObject* text(tenon_text from) {
  return PyUnicode_DecodeUTF8(from.data, static_cast<Py_ssize_t>(from.size), "replace");
}

// Most pieces of an answer come out as they went in; then the same str is returned.
PyObject* text(tenon_text from, const Text& piece) {
  const bool is_same = piece.str != nullptr && view(from) == view(piece.text);
  return is_same ? Py_NewRef(piece.str) : text(from);
}

// An event of the kind at this index; takes over the references to its members.
template <typename... Members>
PyObject* event_with(std::size_t at, Members... members) {
  PyObject* const self = made(types[at]);
  if (self == nullptr) {
    (Py_XDECREF(members), ...);
    return nullptr;
  }
  event(self).members = {members...};
  if (((members != nullptr) && ...)) return self;
  Py_DECREF(self);
  return nullptr;
}

// A new reference: None for one of a kind that this version does not know; null: it has failed.
PyObject* object_of(const tenon_event& from, const Text& piece) {
  const auto index = [&from] { return PyLong_FromLong(from.call); };
  switch (from.type) {
    case TENON_EVENT_CONTENT:
      return event_with(0, text(from.text, piece));
    case TENON_EVENT_REASONING:
      return event_with(1, text(from.text, piece));
    case TENON_EVENT_CALL:
      return event_with(2, index(), text(from.id), text(from.name));
    case TENON_EVENT_ARGUMENTS:
      return event_with(3, index(), text(from.text, piece));
    case TENON_EVENT_CALL_END:
      return event_with(4, index(), PyBool_FromLong(from.is_incomplete != 0 ? 1 : 0));
    case TENON_EVENT_DIAGNOSTIC:
      return event_with(5, text(from.name), text(from.text));
    case TENON_EVENT_FINISH:
      return event_with(
          6, text(from.name),
          (from.text.size == 0 ? nb::object(nb::dict()) : loads(from.text)).release().ptr());
    default:
      return Py_NewRef(Py_None);
  }
}

}  // namespace

nb::object event_of(const tenon_event& event) {
  nb::object object = nb::steal(object_of(event, {}));
  if (!object.is_valid()) nb::raise_python_error();
  return object;
}

nb::list events_of(const tenon_event* events, std::size_t count, const Text& piece) {
  // Made with its final size: appending to an empty list would cost one more allocation.
  nb::list result = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!result.is_valid()) nb::raise_python_error();
  Py_ssize_t known = 0;
  const char* at = reinterpret_cast<const char*>(events);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& event = *reinterpret_cast<const tenon_event*>(at);
    at += event.size;  // may be larger than this version's structure
    PyObject* const object = object_of(event, piece);
    if (object == nullptr) nb::raise_python_error();
    if (object == Py_None) {
      Py_DECREF(object);
    } else {
      PyList_SET_ITEM(result.ptr(), known++, object);
    }
  }
  // Kinds that were skipped leave places empty at the end.
  if (known < PyList_GET_SIZE(result.ptr()) &&
      PyList_SetSlice(result.ptr(), known, PyList_GET_SIZE(result.ptr()), nullptr) != 0) {
    nb::raise_python_error();
  }
  return result;
}

void bind_events(nb::module_& m) {
  for (std::size_t at = 0; at < kKindCount; ++at) add_type(m, at);
}

}  // namespace tenon::python
