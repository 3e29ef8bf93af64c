#include "service.h"

#include <atomic>
#include <mutex>
#include <string>

#include "mailbox.h"
#include <pthread.h>

namespace tenon::python {
namespace {

/// A request that is being answered. Pieces come from the library's threads.
class Call {
 public:
  Call(nb::object service, Text method, Text path, Text body) : service_(std::move(service)) {
    const auto handle = nb::cast<Service&>(service_).handle.get();
    call_ = opened<tenon_call>([&](tenon_call** call) {
      return tenon_service_call(handle.get(), method.text, path.text, body.text, &on_piece, this,
                                call);
    });
  }
  ~Call() { close(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Once it returns there are no pieces any more, whoever has closed it.
  void close() {
    std::unique_lock lock(closing_, std::defer_lock);
    {
      const nb::gil_scoped_release released;
      lock.lock();
    }
    tenon_call* const call = std::exchange(call_, nullptr);
    if (call == nullptr) return;
    const nb::gil_scoped_release released;
    tenon_call_free(call);
  }
  void cancel() {
    if (call_ != nullptr) tenon_call_cancel(call_);
  }
  [[nodiscard]] nb::object next() {
    std::optional<std::string> piece = pieces_.next();
    return piece ? nb::object(nb::bytes(piece->data(), piece->size())) : nb::none();
  }
  [[nodiscard]] nb::tuple take() {
    auto [pieces, is_ended] = pieces_.take();
    nb::list list;
    for (const std::string& piece : pieces) list.append(nb::bytes(piece.data(), piece.size()));
    return nb::make_tuple(list, is_ended);
  }
  [[nodiscard]] int fd() const { return pieces_.fd(); }
  [[nodiscard]] int status() const { return status_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool was_cut() const { return was_cut_.load(std::memory_order_relaxed); }

 private:
  static void on_piece(void* user, int status, tenon_text piece, int is_end) {
    auto& self = *static_cast<Call*>(user);
    self.status_.store(status, std::memory_order_relaxed);
    if (piece.size > 0) self.pieces_.put(std::string(view(piece)));
    self.was_cut_.store(is_end == 2, std::memory_order_relaxed);
    if (is_end != 0) self.pieces_.end();
  }

  nb::object service_;
  std::mutex closing_;          // taken without the GIL
  tenon_call* call_ = nullptr;  // guarded by the GIL
  Mailbox<std::string> pieces_;
  std::atomic<int> status_ = 0;
  std::atomic<bool> was_cut_ = false;
};

std::atomic<unsigned> forks = 0;

// An engine may refer to what refers to the service.
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

void bind_service(nb::module_& m) {
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
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

  nb::class_<Local<Call>>(m, "_Call", nb::is_weak_referenceable())
      .def(nb::init<nb::object, Text, Text, Text>(), nb::arg("service"), arg("method"), arg("path"),
           arg("body"))
      .def("next", [](const Local<Call>& self) { return self->next(); })
      .def("take", [](const Local<Call>& self) { return self->take(); })
      .def("fileno", [](const Local<Call>& self) { return self->fd(); })
      .def("cancel",
           [](const Local<Call>& self) {
             if (Call* const here = self.if_here(); here != nullptr) here->cancel();
           })
      .def("close",
           [](const Local<Call>& self) {
             if (Call* const here = self.if_here(); here != nullptr) here->close();
           })
      .def_prop_ro("status", [](const Local<Call>& self) { return self->status(); })
      .def_prop_ro("was_cut", [](const Local<Call>& self) { return self->was_cut(); });
}

}  // namespace tenon::python
