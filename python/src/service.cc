#include "service.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "mailbox.h"
#include <pthread.h>

// Services and their calls
//
// A call has two forms: TakenCall, whose pieces a thread waits for (50 ms at a time, so that Ctrl-C
// is seen), and WatchedCall, whose pieces come from a thread of the library into a Mailbox, which
// an event loop watches. Both may be closed or cancelled by any thread while another waits; in_use_
// keeps the handle alive until that one is out of the library. The GIL is never held while in_use_
// is waited for.

namespace tenon::python {
namespace {

/// A request that is being answered.
class Call {
 public:
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// After it no thread waits for the call any more, and no pieces come.
  void close() {
    cancel();
    std::unique_lock lock(in_use_, std::defer_lock);
    {
      const nb::gil_scoped_release released;
      lock.lock();
    }
    // Freed without the GIL, because tenon_call_free() joins a thread that may need it.
    std::shared_ptr<tenon_call> call = std::exchange(call_, nullptr);
    const nb::gil_scoped_release released;
    call.reset();
  }
  // A copy of the pointer, so that close() in another thread does not free the call meanwhile.
  void cancel() {
    std::shared_ptr<tenon_call> call = call_;
    const nb::gil_scoped_release released;
    tenon_call_cancel(call.get());
    call.reset();
  }
  [[nodiscard]] int status() const { return status_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool was_cut() const { return was_cut_.load(std::memory_order_relaxed); }

 protected:
  explicit Call(nb::object service) : service_(std::move(service)) {}
  ~Call() = default;

  // The first pieces may come before this returns, so on_piece uses nothing that is set here.
  void begin(Text method, Text path, Text body, tenon_piece_fn on_piece) {
    const auto handle = nb::cast<Service&>(service_).handle.get();
    call_.reset(opened<tenon_call>([&](tenon_call** call) {
                  return tenon_service_call(handle.get(), method.text, path.text, body.text,
                                            on_piece, this, call);
                }),
                tenon_call_free);
  }
  void note(int status, int end) {
    status_.store(status, std::memory_order_relaxed);
    was_cut_.store(end == 2, std::memory_order_relaxed);
  }
  /// Runs what may wait for the call, without the GIL. The call is not freed meanwhile; null if it
  /// has been.
  template <typename Function>
  void use(Function function) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(in_use_);
    function(call_.get());
  }

 private:
  nb::object service_;
  std::mutex in_use_;                 // taken without the GIL
  std::shared_ptr<tenon_call> call_;  // changes under both, and is read under either
  std::atomic<int> status_ = 0;
  std::atomic<bool> was_cut_ = false;
};

/// A call whose pieces a thread of Python's waits for.
class TakenCall : public Call {
 public:
  TakenCall(nb::object service, Text method, Text path, Text body) : Call(std::move(service)) {
    begin(method, path, body, nullptr);
  }
  ~TakenCall() { close(); }

  /// None at the end. Ctrl-C interrupts it.
  [[nodiscard]] nb::object next() {
    constexpr std::uint32_t kMoment_ms = 50;
    for (;;) {
      int status = 0;
      int end = 2;
      tenon_string* taken = nullptr;
      use([&](tenon_call* call) { end = tenon_call_next(call, kMoment_ms, &status, &taken); });
      const Handle<tenon_string> piece(taken);
      note(status, end);
      if (piece) return bytes_of(tenon_string_text(piece.get()));
      if (end != 0) return nb::none();
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    }
  }
};

/// A call whose pieces an event loop watches for. They come from the library's threads.
class WatchedCall : public Call {
 public:
  WatchedCall(nb::object service, Text method, Text path, Text body) : Call(std::move(service)) {
    begin(method, path, body, &on_piece);
  }
  // Here and not in ~Call(): pieces_ is destroyed before it, and pieces may still come.
  ~WatchedCall() { close(); }

  [[nodiscard]] nb::tuple take() {
    auto [pieces, is_ended] = pieces_.take();
    nb::list list;
    for (const std::string& piece : pieces) list.append(nb::bytes(piece.data(), piece.size()));
    return nb::make_tuple(list, is_ended);
  }
  [[nodiscard]] int fd() const { return pieces_.fd(); }

 private:
  static void on_piece(void* user, int status, tenon_text piece, int is_end) {
    auto& self = static_cast<WatchedCall&>(*static_cast<Call*>(user));
    self.note(status, is_end);
    if (piece.size > 0) self.pieces_.put(std::string(view(piece)));
    if (is_end != 0) self.pieces_.end();
  }

  Mailbox<std::string> pieces_;
};

template <typename T>
nb::class_<Local<T>> bind_call(nb::module_& m, const char* name) {
  return nb::class_<Local<T>>(m, name, nb::is_weak_referenceable())
      .def(nb::init<nb::object, Text, Text, Text>(), nb::arg("service"), arg("method"), arg("path"),
           arg("body"))
      .def("cancel",
           [](const Local<T>& self) {
             if (T* const here = self.if_here(); here != nullptr) here->cancel();
           })
      .def("close",
           [](const Local<T>& self) {
             if (T* const here = self.if_here(); here != nullptr) here->close();
           })
      .def_prop_ro("status", [](const Local<T>& self) { return self->status(); })
      .def_prop_ro("was_cut", [](const Local<T>& self) { return self->was_cut(); });
}

// Counts the fork() calls that this process is the child of.
std::atomic<unsigned> forks = 0;

// Threads of the library that are in a Callback, and whether more may come. A thread counts itself
// before it looks whether it may, so end_callbacks() misses none.
std::atomic<unsigned> callbacks = 0;
std::atomic<bool> are_callbacks_over = false;

// An engine may refer to objects that refer to the service.
int traverse_service(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const auto& engine : nb::inst_ptr<Service>(self)->engines) Py_VISIT(engine->start);
  return 0;
}

int clear_service(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Service>(self)->close();
  return 0;
}

PyType_Slot service_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_service)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_service)},
                               {0, nullptr}};

}  // namespace

Origin::Origin() : forks_(forks.load(std::memory_order_relaxed)) {}
bool Origin::is_here() const {
  return forks_ == forks.load(std::memory_order_relaxed);
}
void Origin::check() const {
  if (is_here()) return;
  PyErr_SetString(PyExc_RuntimeError,
                  "it was opened before fork(), whose child has no threads of it: open one in the "
                  "child, or start processes by \"spawn\"");
  nb::raise_python_error();
}

Callback::Callback() {
  ++callbacks;
  may_call_ = !are_callbacks_over;
  if (may_call_) state_ = PyGILState_Ensure();
}
// A thread that asks for the GIL again after the interpreter has ended is unwound by Python, and
// comes here without it.
Callback::~Callback() {
  if (may_call_ && PyGILState_Check() != 0) PyGILState_Release(state_);
  if (origin_.is_here()) --callbacks;  // after fork() the child counts anew
}

void end_callbacks(double patience_s) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kMoment = std::chrono::milliseconds(1);
  const nb::gil_scoped_release released;
  are_callbacks_over = true;
  const auto deadline = Clock::now() + std::chrono::duration<double>(patience_s);
  while (callbacks > 0 && Clock::now() < deadline) std::this_thread::sleep_for(kMoment);
}

// The classes with an underscore are wrapped in Python (tenon/_service.py and its like), which has
// the loops and the docstrings.
void bind_service(nb::module_& m) {
  pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, std::memory_order_relaxed);
    callbacks = 0;  // their threads are the parent's
  });
  m.def("_end_callbacks", &end_callbacks, nb::arg("patience_s"));
  nb::class_<Service> service(m, "Service", nb::type_slots(service_slots));
  service
      .def(
          "__init__",
          [](Service* self, Text config, Text folder) {
            new (self) Service(opened<tenon_service>([&](tenon_service** opened) {
              return tenon_service_open(config.text, folder.text, opened);
            }));
          },
          arg("config") = "", arg("folder") = ".")
      .def_static(
          "_load",
          [](const Path& path) {
            return new Service(opened<tenon_service>(
                [&](tenon_service** opened) { return tenon_service_load(path.text, opened); }));
          },
          arg("path"), nb::rv_policy::take_ownership)
      .def("close", &Service::end)
      .def(
          "listen",
          [](const Service& self, Text host, int port) {
            const auto handle = self.handle.get();
            return str_from([&](tenon_string** url) {
              return tenon_service_listen(handle.get(), host.text, port, url);
            });
          },
          arg("host") = "", nb::arg("port") = -1)
      .def(
          "stop_listening",
          [](const Service& self, double grace_s) {
            const auto handle = self.handle.get();
            check(without_gil(true, [&] {
              return tenon_service_stop_listening(handle.get(),
                                                  static_cast<std::uint32_t>(grace_s * 1000));
            }));
          },
          nb::arg("grace_s") = 5.0);
  bind_engine(m, service);

  bind_call<TakenCall>(m, "_Call").def("next", [](const Local<TakenCall>& self) {
    return self->next();
  });
  bind_call<WatchedCall>(m, "_WatchedCall")
      .def("take", [](const Local<WatchedCall>& self) { return self->take(); })
      .def("fileno", [](const Local<WatchedCall>& self) { return self->fd(); });
}

}  // namespace tenon::python
