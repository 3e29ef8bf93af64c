#pragma once

#include "common.h"

namespace tenon::python {

/// A handle that is freed without the GIL, since what it ends may be waiting for that.
template <typename T, void (*FreeIt)(T*)>
class Owned {
 public:
  explicit Owned(T* handle = nullptr) : handle_(handle) {}
  ~Owned() { close(); }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;

  /// Throws where it has been closed.
  [[nodiscard]] T* get() const {
    if (handle_ == nullptr) {
      PyErr_SetString(PyExc_ValueError, "it has been closed");
      nb::raise_python_error();
    }
    return handle_;
  }
  void close() {
    T* const handle = std::exchange(handle_, nullptr);
    if (handle == nullptr) return;
    const nb::gil_scoped_release released;
    FreeIt(handle);
  }

 private:
  T* handle_;
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

  /// No engine is called any more but for conversations, which hold this.
  void close() {
    handle.close();
    for (const auto& engine : std::exchange(engines, {})) Py_DECREF(engine->start);
  }
};

void bind_engine(nb::module_& m, nb::class_<Service>& service);

}  // namespace tenon::python
