#include "common.h"

namespace tenon::python {
namespace {

// ---- Events
// -------------------------------------------------------------------------------------------------------------------

// Each is an object of a class of its own with few members. They are made at the rate of a model's
// tokens, for many answers at a time, so the members are Python's own objects, made once.
struct ContentDelta {
  nb::object text;
  static constexpr const char* kName = "ContentDelta";
  auto members() const { return std::tuple(text); }
};
struct ReasoningDelta {
  nb::object text;
  static constexpr const char* kName = "ReasoningDelta";
  auto members() const { return std::tuple(text); }
};
struct CallBegin {
  nb::object index, id, name;
  static constexpr const char* kName = "CallBegin";
  auto members() const { return std::tuple(index, id, name); }
};
struct CallArguments {
  nb::object index, text;
  static constexpr const char* kName = "CallArguments";
  auto members() const { return std::tuple(index, text); }
};
struct CallEnd {
  nb::object index, is_incomplete;
  static constexpr const char* kName = "CallEnd";
  auto members() const { return std::tuple(index, is_incomplete); }
};
struct Diagnostic {
  nb::object code, message;
  static constexpr const char* kName = "Diagnostic";
  auto members() const { return std::tuple(code, message); }
};
struct Finish {
  nb::object reason, details;
  static constexpr const char* kName = "Finish";
  auto members() const { return std::tuple(reason, details); }
};

template <typename Event>
nb::tuple tuple_of(const Event& event) {
  return std::apply([](const auto&... member) { return nb::make_tuple(member...); },
                    event.members());
}

template <typename Event>
nb::class_<Event> bind_event(nb::module_& m) {
  return nb::class_<Event>(m, Event::kName)
      .def("__reduce__",
           [](const Event& self) { return nb::make_tuple(nb::type<Event>(), tuple_of(self)); })
      .def(
          "__eq__",
          [](const Event& self, nb::handle other) {
            const Event* that = nullptr;
            return nb::try_cast<const Event*>(other, that) && that != nullptr &&
                   tuple_of(self).equal(tuple_of(*that));
          },
          nb::arg("other").none())
      .def("__hash__", [](const Event& self) { return nb::hash(tuple_of(self)); })
      .def("__repr__", [](const Event& self) {
        const nb::tuple names = nb::cast<nb::tuple>(nb::type<Event>().attr("__match_args__"));
        const nb::tuple values = tuple_of(self);
        nb::list members;
        for (std::size_t i = 0; i < nb::len(values); ++i)
          members.append(nb::str("{}={!r}").format(names[i], values[i]));
        return nb::str("{}({})").format(Event::kName, nb::str(", ").attr("join")(members));
      });
}

template <typename Class>
void match_args(Class& type, std::initializer_list<const char*> names) {
  nb::list all;
  for (const char* name : names) all.append(name);
  type.attr("__match_args__") = nb::tuple(all);
}

void bind_events(nb::module_& m) {
  auto content = bind_event<ContentDelta>(m);
  content.def(nb::init<nb::str>(), nb::arg("text")).def_ro("text", &ContentDelta::text);
  match_args(content, {"text"});
  auto reasoning = bind_event<ReasoningDelta>(m);
  reasoning.def(nb::init<nb::str>(), nb::arg("text")).def_ro("text", &ReasoningDelta::text);
  match_args(reasoning, {"text"});
  auto begin = bind_event<CallBegin>(m);
  begin
      .def(nb::init<nb::int_, nb::str, nb::str>(), nb::arg("index"), nb::arg("id"), nb::arg("name"))
      .def_ro("index", &CallBegin::index)
      .def_ro("id", &CallBegin::id)
      .def_ro("name", &CallBegin::name);
  match_args(begin, {"index", "id", "name"});
  auto arguments = bind_event<CallArguments>(m);
  arguments.def(nb::init<nb::int_, nb::str>(), nb::arg("index"), nb::arg("text"))
      .def_ro("index", &CallArguments::index)
      .def_ro("text", &CallArguments::text);
  match_args(arguments, {"index", "text"});
  auto end = bind_event<CallEnd>(m);
  end.def(nb::init<nb::int_, nb::bool_>(), nb::arg("index"), nb::arg("is_incomplete") = false)
      .def_ro("index", &CallEnd::index)
      .def_ro("is_incomplete", &CallEnd::is_incomplete);
  match_args(end, {"index", "is_incomplete"});
  auto diagnostic = bind_event<Diagnostic>(m);
  diagnostic.def(nb::init<nb::str, nb::str>(), nb::arg("code"), nb::arg("message"))
      .def_ro("code", &Diagnostic::code)
      .def_ro("message", &Diagnostic::message);
  match_args(diagnostic, {"code", "message"});
  auto finish = bind_event<Finish>(m);
  finish.def(nb::init<nb::str, nb::dict>(), nb::arg("reason"), nb::arg("details"))
      .def_ro("reason", &Finish::reason)
      .def_ro("details", &Finish::details);
  match_args(finish, {"reason", "details"});
}

// ---- Parsers and menders
// --------------------------------------------------------------------------------------------------------

struct StreamParser {
  Handle<tenon_parser> handle;
  Turn turn;
};

// Shorter ones are read in less time than letting go of the GIL takes.
constexpr std::size_t kLongText = 4096;

nb::list feed(StreamParser& self, Text text, bool is_control) {
  const Turn::Taken taken = self.turn.take();
  const tenon_event* events = nullptr;
  std::size_t count = 0;
  check(without_gil(text.text.size >= kLongText, [&] {
    return tenon_parser_feed(self.handle.get(), text.text, is_control ? 1 : 0, &events, &count);
  }));
  return events_of(events, count);
}

struct Mender {
  Handle<tenon_mender> handle;
  Turn turn;
};

void bind_parser(nb::module_& m) {
  nb::class_<StreamParser>(m, "StreamParser")
      .def(
          "__init__",
          [](StreamParser* self, const FormatArgument& format, Maybe<Vocab> vocab,
             const Options& options) {
            Handle<tenon_parser> handle = made<tenon_parser>([&](tenon_parser** parser) {
              return tenon_parser_new(format.format,
                                      vocab.it == nullptr ? nullptr : vocab->handle.get(),
                                      options.text, parser);
            });
            new (self) StreamParser{.handle = std::move(handle)};
          },
          arg("format"), arg("vocab") = nb::none(), arg("options") = nb::none())
      .def("feed", &feed, arg("text"), nb::arg("is_control") = false)
      .def(
          "feed_token",
          [](StreamParser& self, Token token) {
            const Turn::Taken taken = self.turn.take();
            const tenon_event* events = nullptr;
            std::size_t count = 0;
            check(tenon_parser_feed_token(self.handle.get(), token.id, &events, &count));
            return events_of(events, count);
          },
          arg("token"))
      .def(
          "finish",
          [](StreamParser& self, bool is_truncated) {
            const Turn::Taken taken = self.turn.take();
            const tenon_event* events = nullptr;
            std::size_t count = 0;
            check(tenon_parser_finish(self.handle.get(), is_truncated ? 1 : 0, &events, &count));
            return events_of(events, count);
          },
          nb::arg("is_truncated") = false)
      .def("reset", [](StreamParser& self) {
        const Turn::Taken taken = self.turn.take();
        tenon_parser_reset(self.handle.get());
      });

  nb::class_<Mender>(m, "Mender")
      .def(
          "__init__",
          [](Mender* self, const Json& tool, Text rules) {
            Handle<tenon_mender> handle = made<tenon_mender>([&](tenon_mender** mender) {
              return tenon_mender_new(tool.text, rules.text, mender);
            });
            new (self) Mender{.handle = std::move(handle)};
          },
          arg("tool"), arg("rules") = "")
      .def(
          "feed",
          [](Mender& self, Text arguments) {
            const Turn::Taken taken = self.turn.take();
            tenon_text mended{};
            check(without_gil(arguments.text.size >= kLongText, [&] {
              return tenon_mender_feed(self.handle.get(), arguments.text, &mended);
            }));
            return str_of(mended);
          },
          arg("arguments"))
      .def(
          "finish",
          [](Mender& self, bool is_incomplete) {
            const Turn::Taken taken = self.turn.take();
            tenon_text mended{};
            check(without_gil(true, [&] {
              return tenon_mender_finish(self.handle.get(), is_incomplete ? 1 : 0, &mended);
            }));
            return str_of(mended);
          },
          nb::arg("is_incomplete") = false)
      .def_prop_ro("repairs", [](Mender& self) {
        const Turn::Taken taken = self.turn.take();
        return json_from([&](tenon_string** repairs) {
          return tenon_mender_repairs(self.handle.get(), repairs);
        });
      });
}

}  // namespace

FormatArgument format_in(nb::handle value) {
  FormatArgument found;
  if (nb::isinstance<Format>(value) && nb::inst_ready(value)) {
    found.owner = nb::borrow(value);
    found.format = nb::inst_ptr<Format>(value)->handle.get();
    return found;
  }
  if (!nb::isinstance<nb::str>(value)) raise_type("a tenon.Format, or the name of one,", value);
  const tenon_text name = text_in(value, "the name of a format");
  found.named =
      made<tenon_format>([&](tenon_format** format) { return tenon_format_find(name, format); });
  found.format = found.named.get();
  return found;
}

nb::object event_of(const tenon_event& event) {
  const auto text = [](tenon_text from) -> nb::object { return str_of(from); };
  const auto index = [&]() -> nb::object { return nb::int_(event.call); };
  switch (event.type) {
    case TENON_EVENT_CONTENT:
      return nb::cast(ContentDelta{text(event.text)});
    case TENON_EVENT_REASONING:
      return nb::cast(ReasoningDelta{text(event.text)});
    case TENON_EVENT_CALL:
      return nb::cast(CallBegin{index(), text(event.id), text(event.name)});
    case TENON_EVENT_ARGUMENTS:
      return nb::cast(CallArguments{index(), text(event.text)});
    case TENON_EVENT_CALL_END:
      return nb::cast(CallEnd{index(), nb::bool_(event.is_incomplete != 0)});
    case TENON_EVENT_DIAGNOSTIC:
      return nb::cast(Diagnostic{text(event.name), text(event.text)});
    case TENON_EVENT_FINISH:
      return nb::cast(Finish{text(event.name),
                             event.text.size == 0 ? nb::object(nb::dict()) : loads(event.text)});
    default:
      return nb::none();
  }
}

nb::list events_of(const tenon_event* events, std::size_t count) {
  // Of its size from the start: appending to an empty list is one allocation more.
  nb::list result = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!result.is_valid()) nb::raise_python_error();
  Py_ssize_t known = 0;
  const char* at = reinterpret_cast<const char*>(events);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& event = *reinterpret_cast<const tenon_event*>(at);
    at += event.size;  // which may be more than this version knows
    nb::object object = event_of(event);
    if (!object.is_none()) PyList_SET_ITEM(result.ptr(), known++, object.release().ptr());
  }
  if (known < PyList_GET_SIZE(result.ptr()) &&
      PyList_SetSlice(result.ptr(), known, PyList_GET_SIZE(result.ptr()), nullptr) != 0) {
    nb::raise_python_error();
  }
  return result;
}

void bind_format(nb::module_& m) {
  bind_events(m);
  nb::class_<Format>(m, "Format")
      .def(
          "__init__",
          [](Format* self, Text name) {
            new (self) Format{made<tenon_format>(
                [&](tenon_format** format) { return tenon_format_find(name.text, format); })};
          },
          arg("name"))
      .def_static(
          "compile",
          [](Text definition) {
            return Format{made<tenon_format>([&](tenon_format** format) {
              return tenon_format_compile(definition.text, format);
            })};
          },
          arg("definition"))
      .def_static(
          "import_template",
          [](const Json& response_template) {
            return Format{made<tenon_format>([&](tenon_format** format) {
              return tenon_format_import(response_template.text, format);
            })};
          },
          arg("response_template"))
      .def_static(
          "names",
          [] { return json_from([](tenon_string** names) { return tenon_format_names(names); }); })
      .def_static(
          "detect",
          [](Maybe<Vocab> vocab, nb::kwargs clues) {
            const Json request = json_of(clues);
            tenon_string* evidence = nullptr;
            Handle<tenon_format> format = made<tenon_format>([&](tenon_format** found) {
              return tenon_format_detect(request.text,
                                         vocab.it == nullptr ? nullptr : vocab->handle.get(), found,
                                         &evidence);
            });
            const Handle<tenon_string> text(evidence);
            return nb::make_tuple(format ? nb::cast(Format{std::move(format)}) : nb::none(),
                                  loads(tenon_string_text(evidence)));
          },
          arg("vocab") = nb::none(), nb::arg("clues"))
      .def("register",
           [](const Format& self) {
             check(without_gil(true, [&] { return tenon_format_register(self.handle.get()); }));
           })
      .def_prop_ro("info",
                   [](const Format& self) {
                     return json_from([&](tenon_string** info) {
                       return tenon_format_info(self.handle.get(), info);
                     });
                   })
      .def_prop_ro("name",
                   [](const Format& self) -> nb::object {
                     const nb::object info = json_from([&](tenon_string** text) {
                       return tenon_format_info(self.handle.get(), text);
                     });
                     return info["name"];
                   })
      .def(
          "render_calls",
          [](const Format& self, const Json& calls) {
            return str_from([&](tenon_string** text) {
              return tenon_format_render_calls(self.handle.get(), calls.text, text);
            });
          },
          arg("calls"))
      .def(
          "describe_tools",
          [](const Format& self, const Json& tools) {
            return str_from([&](tenon_string** text) {
              return tenon_format_describe_tools(self.handle.get(), tools.text, text);
            });
          },
          arg("tools"))
      .def("__repr__", [](const Format& self) {
        const nb::object info = json_from(
            [&](tenon_string** text) { return tenon_format_info(self.handle.get(), text); });
        return nb::str("Format({!r})").format(info["name"]);
      });
  bind_parser(m);
}

}  // namespace tenon::python
