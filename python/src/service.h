#pragma once

#include <memory>

#include "common.h"

namespace tenon::python {

/// The process in which an object was made. A child of fork() has none of the library's threads, so
/// objects that need them are neither used nor freed there, since that may wait for them.
class Origin {
 public:
  Origin();
  [[nodiscard]] bool is_here() const;
  void check() const;  ///< Throws in another process.

 private:
  unsigned forks_;
};

/// An object that has threads of its own, or waits for the library's.
template <typename T>
class Local {
 public:
  template <typename... Args>
  explicit Local(Args... args) : it_(new T(std::move(args)...)) {}
  ~Local() {
    if (origin_.is_here()) delete it_;
  }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;

  [[nodiscard]] T* operator->() const {
    origin_.check();
    return it_;
  }
  /// Null if it was made in another process.
  [[nodiscard]] T* if_here() const { return origin_.is_here() ? it_ : nullptr; }

 private:
  Origin origin_;
  T* it_;
};

/// A handle that is freed once it was closed and is not used any more. It is freed without the GIL,
/// because what it ends may be waiting for the GIL. All methods are called with the GIL.
template <typename T, void (*FreeIt)(T*)>
class Owned {
 public:
  explicit Owned(T* handle)
      : handle_(handle, [origin = Origin()](T* unused) {
          if (!origin.is_here()) return;
          const nb::gil_scoped_release released;
          FreeIt(unused);
        }) {}

  /// Keep the result while you use the handle without the GIL. Throws if it has been closed.
  [[nodiscard]] std::shared_ptr<T> get() const {
    if (handle_ == nullptr) {
      PyErr_SetString(PyExc_ValueError, "it has been closed");
      nb::raise_python_error();
    }
    origin_.check();
    return handle_;
  }
  /// Returns the handle; null if it was closed already, or belongs to another process.
  std::shared_ptr<T> close() {
    std::shared_ptr<T> closed = std::exchange(handle_, nullptr);
    return origin_.is_here() ? closed : nullptr;
  }

 private:
  Origin origin_;
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

/// Held by a thread of the library while it calls Python. It has the GIL, unless the interpreter is
/// about to end: then Python must not be called any more. See end_callbacks().
class Callback {
 public:
  Callback();
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  [[nodiscard]] bool may_call() const { return may_call_; }

 private:
  Origin origin_;
  bool may_call_;
  PyGILState_STATE state_{};
};

/// After it no callback may call Python. Waits for those that do, for so many seconds at most: once
/// the interpreter ends, a thread that comes back from the library aborts the process.
void end_callbacks(double patience_s);

/// What is needed to call an engine that is written in Python; see engine.cc.
struct EngineOfPython {
  PyObject* start;         // Owned, by Service.
  std::size_t mask_words;  // In a mask of its vocabulary.
};

struct Service {
  std::vector<std::unique_ptr<EngineOfPython>> engines;  // They outlive `handle`.
  Owned<tenon_service, tenon_service_free> handle;
  explicit Service(tenon_service* service) : handle(service) {}
  ~Service() { close(); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Ends all answers, also those that other threads wait for.
  void end() {
    const auto ended = handle.close();
    if (ended == nullptr) return;
    const nb::gil_scoped_release released;
    tenon_service_shut_down(ended.get());
  }
  /// After it engines are called only for conversations, which keep this object.
  void close() {
    handle.close();
    for (const auto& engine : std::exchange(engines, {})) Py_DECREF(engine->start);
  }
};

void bind_engine(nb::module_& m, nb::class_<Service>& service);

}  // namespace tenon::python
