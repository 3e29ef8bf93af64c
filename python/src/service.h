#pragma once

#include <memory>

#include "common.h"

namespace tenon::python {

/// A handle that is freed when it has been closed and nobody uses it any more: without the GIL,
/// since what it ends may be waiting for that. All of this is called with the GIL.
template <typename T, void (*FreeIt)(T*)>
class Owned {
 public:
  explicit Owned(T* handle)
      : handle_(handle, [](T* unused) {
          const nb::gil_scoped_release released;
          FreeIt(unused);
        }) {}

  /// Whoever calls it without the GIL holds this meanwhile. Throws where it has been closed.
  [[nodiscard]] std::shared_ptr<T> get() const {
    if (handle_ == nullptr) {
      PyErr_SetString(PyExc_ValueError, "it has been closed");
      nb::raise_python_error();
    }
    return handle_;
  }
  /// Gives what it was: null where it has been closed.
  std::shared_ptr<T> close() { return std::exchange(handle_, nullptr); }

 private:
  std::shared_ptr<T> handle_;
};

template <typename T, typename Function>
[[nodiscard]] T* opened(Function function) {
  T* result = nullptr;
  tenon_error* error = nullptr;
  {
    const nb::gil_scoped_release released;
    error = function(&result);
  }
  check(error);
  return result;
}

/// What an engine that is written in Python is called with; see engine.cc.
struct EngineOfPython {
  PyObject* start;         // Owned, by Service.
  std::size_t mask_words;  // Of its vocabulary.
};

struct Service {
  std::vector<std::unique_ptr<EngineOfPython>> engines;  // They outlive `handle`.
  Owned<tenon_service, tenon_service_free> handle;
  explicit Service(tenon_service* service) : handle(service) {}
  ~Service() { close(); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// What is under way ends, in other threads too.
  void end() {
    const auto ended = handle.close();
    if (ended == nullptr) return;
    const nb::gil_scoped_release released;
    tenon_service_shut_down(ended.get());
  }
  /// No engine is called any more but for conversations, which hold this.
  void close() {
    handle.close();
    for (const auto& engine : std::exchange(engines, {})) Py_DECREF(engine->start);
  }
};

void bind_engine(nb::module_& m, nb::class_<Service>& service);

}  // namespace tenon::python
