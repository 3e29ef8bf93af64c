#include "common.h"

// Formats, parsers of streams and menders of arguments in Python. A format is immutable; a parser
// and a mender keep the state of one answer, and a second thread that uses one is refused (Turn).

namespace tenon::python {
namespace {

// ---- Parsers and menders ------------------------------------------------------------------------

struct StreamParser {
  Handle<tenon_parser> handle;
  Turn turn;
};

// Shorter texts are read in less time than releasing the GIL takes.
constexpr std::size_t kLongText = 4096;

// Most events share the argument's str (events_of), so no second one is made for a piece.
nb::list feed(StreamParser& self, Text text, bool is_control) {
  const Turn::Taken taken = self.turn.take();
  const tenon_event* events = nullptr;
  std::size_t count = 0;
  check(without_gil(text.text.size >= kLongText, [&] {
    return tenon_parser_feed(self.handle.get(), text.text, is_control ? 1 : 0, &events, &count);
  }));
  return events_of(events, count, text);
}

struct Mender {
  Handle<tenon_mender> handle;
  Turn turn;
};

// Parsers and menders keep state and serve one thread at a time. A token's bytes are few, so
// feed_token() keeps the GIL.
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
            tenon_text repaired{};
            check(without_gil(arguments.text.size >= kLongText, [&] {
              return tenon_mender_feed(self.handle.get(), arguments.text, &repaired);
            }));
            return str_of(repaired);
          },
          arg("arguments"))
      .def(
          "finish",
          [](Mender& self, bool is_incomplete) {
            const Turn::Taken taken = self.turn.take();
            tenon_text repaired{};
            check(without_gil(true, [&] {
              return tenon_mender_finish(self.handle.get(), is_incomplete ? 1 : 0, &repaired);
            }));
            return str_of(repaired);
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

// A Format, or the name of one; the C handle that a name needs lives as long as the argument.
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

void bind_format(nb::module_& m) {
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
          // Arguments are called as the clues of tenon_format_detect(): chat_template, bos_token,
          // model_name.
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
