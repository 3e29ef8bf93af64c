#include <string>
#include <thread>

#include "mailbox.h"
#include "service.h"

// Conversations and toolboxes in Python
//
// A tool's run is a _ToolCall, which Python ends from any thread or task. A question is an _Asking:
// a thread of its own waits for the answer, and its events come through a Mailbox with a file
// descriptor, which an event loop watches. So Ctrl-C and asyncio work while a model answers, and an
// event needs no GIL until it is taken.
//
// Lifetimes: a toolbox owns references to Python functions, and an _Asking those to its
// conversation and toolbox. traverse and clear tell the garbage collector of them, because a
// function may refer to the toolbox that has it. After fork() the child has none of the threads;
// Origin and Local<> refuse objects of the parent there.

namespace tenon::python {
namespace {

// ---- Toolboxes ----------------------------------------------------------------------------------

/// One run of a tool; if it is destroyed without end(), the tool has failed.
class ToolCall {
 public:
  explicit ToolCall(tenon_tool_call* call) : call_(call) {}
  ~ToolCall() { end({"the tool has given no result", 28}, true); }
  ToolCall(const ToolCall&) = delete;
  ToolCall& operator=(const ToolCall&) = delete;

  void end(tenon_text result, bool is_error) {
    tenon_tool_call* const call = std::exchange(call_, nullptr);
    if (call == nullptr || !origin_.is_here()) return;
    const nb::gil_scoped_release released;
    tenon_tool_call_end(call, result, is_error ? 1 : 0);
  }
  [[nodiscard]] bool is_cancelled() const {
    return call_ == nullptr || !origin_.is_here() || tenon_tool_call_is_cancelled(call_) != 0;
  }

 private:
  Origin origin_;
  tenon_tool_call* call_;
};

struct Toolbox {
  std::vector<PyObject*> functions;  // Owned; they must outlive `handle`.
  Owned<tenon_toolbox, tenon_toolbox_free> handle;

  explicit Toolbox(tenon_toolbox* toolbox) : handle(toolbox) {}
  // The handle first: a tool that runs still needs its function.
  ~Toolbox() {
    handle.close();
    for (PyObject* function : functions) Py_DECREF(function);
  }
  Toolbox(const Toolbox&) = delete;
  Toolbox& operator=(const Toolbox&) = delete;
};

// A function may refer to objects that refer to the toolbox. No tool may be running when they are
// released.
int traverse_toolbox(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (PyObject* function : nb::inst_ptr<Toolbox>(self)->functions) Py_VISIT(function);
  return 0;
}

int clear_toolbox(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  auto& toolbox = *nb::inst_ptr<Toolbox>(self);
  toolbox.handle.close();
  for (PyObject* function : std::exchange(toolbox.functions, {})) Py_DECREF(function);
  return 0;
}

PyType_Slot toolbox_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_toolbox)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_toolbox)},
                               {0, nullptr}};

void run_tool(void* user, tenon_tool_call* call, tenon_text name, tenon_text arguments) {
  // Called by a thread of the library, for each run of a tool.
  const Callback callback;
  if (!callback.may_call()) {
    return tenon_tool_call_end(call, {"the program has ended", 21}, 1);
  }
  try {
    // The destructor of ToolCall ends the call if Python drops it, also after an exception below.
    const nb::object run = nb::cast(new ToolCall(call), nb::rv_policy::take_ownership);
    nb::borrow(static_cast<PyObject*>(user))(run, str_of(name), loads(arguments));
  } catch (nb::python_error& error) {
    // Exceptions of a tool are caught where it runs; this one was raised outside of it.
    error.discard_as_unraisable("a tool");
  } catch (const std::exception&) {
  }
}

// ---- Conversations ------------------------------------------------------------------------------

struct Conversation {
  nb::object service;
  Owned<tenon_conversation, tenon_conversation_free> handle;
};

int traverse_conversation(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Conversation>(self)->service.ptr());
  return 0;
}

int clear_conversation(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  auto& conversation = *nb::inst_ptr<Conversation>(self);
  conversation.handle.close();
  conversation.service.reset();
  return 0;
}

PyType_Slot conversation_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_conversation)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_conversation)},
    {0, nullptr}};

/// A copy of an event, which otherwise is valid only during the callback.
struct KeptEvent {
  explicit KeptEvent(const tenon_event& event)
      : type(event.type),
        call(event.call),
        is_incomplete(event.is_incomplete),
        text(view(event.text)),
        id(view(event.id)),
        name(view(event.name)) {}

  [[nodiscard]] nb::object object() const {
    tenon_event event{};
    event.size = sizeof(event);
    event.type = type;
    event.call = call;
    event.is_incomplete = is_incomplete;
    event.text = {text.data(), text.size()};
    event.id = {id.data(), id.size()};
    event.name = {name.data(), name.size()};
    return event_of(event);
  }

  std::uint32_t type, call, is_incomplete;
  std::string text, id, name;
};

/// A conversation that waits for an answer, in a thread of its own, so that the thread that asked
/// can be interrupted.
class Asking {
 public:
  Asking(nb::object conversation, bool is_submit, Text what, nb::object toolbox, Text limits)
      : conversation_(std::move(conversation)),
        toolbox_(std::move(toolbox)),
        is_submit_(is_submit),
        what_(view(what.text)),
        limits_(view(limits.text)),
        handle_(nb::cast<Conversation&>(conversation_).handle.get()),
        tools_(toolbox_.is_none() ? nullptr : nb::cast<Toolbox&>(toolbox_).handle.get()) {
    thread_ = std::thread([this] { ask(); });
  }
  ~Asking() { close(); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  void cancel() {
    is_cancelled_.store(true, std::memory_order_relaxed);
    if (!events_.has_ended()) tenon_conversation_cancel(handle_.get());
  }
  void close() {
    join([this] {
      // Repeatedly, since cancelling a question that has not begun has no effect: the thread may
      // not have come to ask() yet.
      do {
        cancel();
      } while (!events_.wait_for_end(std::chrono::milliseconds(20)));
    });
  }
  [[nodiscard]] nb::object next() {
    while (std::optional<KeptEvent> event = events_.next()) {
      nb::object object = event->object();
      // An event of a kind that this version does not know is None; it is skipped.
      if (!object.is_none()) return object;
    }
    return nb::none();
  }
  // All events so far, and whether there will be no more; for event loops, which must not wait.
  [[nodiscard]] nb::tuple take() {
    auto [events, is_ended] = events_.take();
    nb::list list;
    for (const KeptEvent& event : events) {
      nb::object object = event.object();
      if (!object.is_none()) list.append(std::move(object));
    }
    return nb::make_tuple(list, is_ended);
  }
  [[nodiscard]] int fd() const { return events_.fd(); }
  /// Whether it has ended, or was cancelled and ends soon.
  [[nodiscard]] bool is_over() const {
    return is_cancelled_.load(std::memory_order_relaxed) || events_.has_ended();
  }
  /// Call it once, after the end.
  [[nodiscard]] nb::object turn() {
    join([] {});
    if (error_ == nullptr && turn_ == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "the answer has been told already");
      nb::raise_python_error();
    }
    check(std::exchange(error_, nullptr));
    return loads(tenon_string_text(turn_.get()));
  }

 private:
  /// Waits for the thread, which `end` makes end; the toolbox may be freed from here on.
  template <typename Function>
  void join(Function end) {
    {
      const nb::gil_scoped_release released;
      const std::lock_guard lock(closing_);
      if (!thread_.joinable()) return;
      end();
      thread_.join();
    }
    std::exchange(tools_, nullptr).reset();
  }
  void ask() {
    const tenon_text what{what_.data(), what_.size()};
    const tenon_text limits{limits_.data(), limits_.size()};
    tenon_string* turn = nullptr;
    error_ = is_submit_ ? tenon_conversation_submit(handle_.get(), what, tools_.get(), limits,
                                                    &on_event, this, &turn)
                        : tenon_conversation_send(handle_.get(), what, tools_.get(), limits,
                                                  &on_event, this, &turn);
    // Before the end is told: a reader takes the turn as soon as it hears of it.
    turn_.reset(turn);
    events_.end();
  }

  static int on_event(void* user, const tenon_event* event) {
    auto& self = *static_cast<Asking*>(user);
    self.events_.put(KeptEvent(*event));
    return self.is_cancelled_.load(std::memory_order_relaxed) ? 1 : 0;
  }

  nb::object conversation_;
  nb::object toolbox_;
  const bool is_submit_;
  const std::string what_;
  const std::string limits_;
  // Kept here, too, so that close() in Python frees neither of them while the thread uses it.
  const std::shared_ptr<tenon_conversation> handle_;
  std::shared_ptr<tenon_toolbox> tools_;  // until thread_ has ended
  Mailbox<KeptEvent> events_;
  std::atomic<bool> is_cancelled_ = false;
  tenon_error* error_ = nullptr;  // written by thread_ until it ends
  Handle<tenon_string> turn_;     // the same
  std::mutex closing_;            // of thread_
  std::thread thread_;
};

void bind_toolbox(nb::module_& m) {
  nb::class_<ToolCall>(m, "_ToolCall")
      .def(
          "end",
          [](ToolCall& self, Text result, bool is_error) { self.end(result.text, is_error); },
          arg("result"), nb::arg("is_error") = false)
      .def_prop_ro("is_cancelled", &ToolCall::is_cancelled);

  nb::class_<Toolbox>(m, "_Toolbox", nb::type_slots(toolbox_slots))
      .def(
          "__init__",
          [](Toolbox* self, const Options& options) {
            new (self) Toolbox(opened<tenon_toolbox>(
                [&](tenon_toolbox** toolbox) { return tenon_toolbox_new(options.text, toolbox); }));
          },
          arg("options") = nb::none())
      .def(
          "add",
          [](Toolbox& self, const Json& tool, nb::object function) {
            const auto toolbox = self.handle.get();
            self.functions.push_back(function.inc_ref().ptr());  // before anything calls it
            check(without_gil(true, [&] {
              return tenon_toolbox_add(toolbox.get(), tool.text, &run_tool, function.ptr());
            }));
          },
          arg("tool"), nb::arg("function"))
      .def(
          "add_mcp",
          [](Toolbox& self, const Json& servers, Text folder) {
            const auto toolbox = self.handle.get();
            check(without_gil(true, [&] {
              return tenon_toolbox_add_mcp(toolbox.get(), servers.text, folder.text);
            }));
          },
          arg("servers"), arg("folder") = ".")
      .def("tools",
           [](const Toolbox& self) {
             const auto toolbox = self.handle.get();
             return json_from(
                 [&](tenon_string** tools) { return tenon_toolbox_tools(toolbox.get(), tools); });
           })
      .def("close", [](Toolbox& self) { self.handle.close(); });
}

}  // namespace

void bind_conversation(nb::module_& m) {
  bind_toolbox(m);
  nb::class_<Conversation>(m, "_Conversation", nb::type_slots(conversation_slots))
      .def(
          "__init__",
          [](Conversation* self, nb::object service, const Json& request, nb::handle saved) {
            const auto handle = nb::cast<Service&>(service).handle.get();
            tenon_conversation* conversation = nullptr;
            if (saved.is_none()) {
              conversation = opened<tenon_conversation>([&](tenon_conversation** made) {
                return tenon_conversation_new(handle.get(), request.text, made);
              });
            } else {
              const Json json = json_in(saved);
              conversation = opened<tenon_conversation>([&](tenon_conversation** made) {
                return tenon_conversation_restore(handle.get(), request.text, json.text, made);
              });
            }
            new (self)
                Conversation{std::move(service),
                             Owned<tenon_conversation, tenon_conversation_free>(conversation)};
          },
          nb::arg("service"), arg("request"), arg("saved") = nb::none())
      .def(
          "copy",
          [](const Conversation& self) {
            const auto from = self.handle.get();
            tenon_conversation* const copy =
                opened<tenon_conversation>([&](tenon_conversation** made) {
                  return tenon_conversation_copy(from.get(), made);
                });
            return new Conversation{self.service,
                                    Owned<tenon_conversation, tenon_conversation_free>(copy)};
          },
          nb::rv_policy::take_ownership)
      .def("pending",
           [](const Conversation& self) {
             const auto handle = self.handle.get();
             return json_from([&](tenon_string** calls) {
               return tenon_conversation_pending(handle.get(), calls);
             });
           })
      .def(
          "dismiss",
          [](const Conversation& self, Text why) {
            check(tenon_conversation_dismiss(self.handle.get().get(), why.text));
          },
          arg("why"))
      .def("reset",
           [](const Conversation& self) { tenon_conversation_reset(self.handle.get().get()); })
      .def("save",
           [](const Conversation& self) {
             const auto handle = self.handle.get();
             return json_from([&](tenon_string** saved) {
               return tenon_conversation_save(handle.get(), saved);
             });
           })
      .def("close", [](Conversation& self) { self.handle.close(); });

  nb::class_<Local<Asking>>(m, "_Asking", nb::is_weak_referenceable())
      .def(nb::init<nb::object, bool, Text, nb::object, Text>(), nb::arg("conversation"),
           nb::arg("is_submit"), nb::arg("what"), nb::arg("toolbox").none(), nb::arg("limits"))
      .def("next", [](const Local<Asking>& self) { return self->next(); })
      .def("take", [](const Local<Asking>& self) { return self->take(); })
      .def("fileno", [](const Local<Asking>& self) { return self->fd(); })
      .def("cancel",
           [](const Local<Asking>& self) {
             if (Asking* const here = self.if_here(); here != nullptr) here->cancel();
           })
      .def("close",
           [](const Local<Asking>& self) {
             if (Asking* const here = self.if_here(); here != nullptr) here->close();
           })
      .def_prop_ro("is_over", [](const Local<Asking>& self) { return self->is_over(); })
      .def("turn", [](const Local<Asking>& self) { return self->turn(); });
}

}  // namespace tenon::python
