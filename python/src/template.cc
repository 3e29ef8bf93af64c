#include "common.h"

// Chat templates and the prompts that they make, in Python. Bytes and characters differ: the
// library counts bytes of UTF-8, a str counts characters, so spans are converted.

namespace tenon::python {
namespace {

struct Prompt {
  Handle<tenon_prompt> handle;
};

// Places in a text of UTF-8 as places in a str, which counts characters. They are asked for in
// ascending order, so the whole text is read once.
class Characters {
 public:
  explicit Characters(tenon_text text) : text_(text) {}
  [[nodiscard]] std::size_t at(std::size_t byte) {
    for (; byte_ < byte; ++byte_)
      characters_ += (static_cast<unsigned char>(text_.data[byte_]) & 0xC0U) != 0x80U ? 1 : 0;
    return characters_;
  }

 private:
  tenon_text text_;
  std::size_t byte_ = 0;
  std::size_t characters_ = 0;
};

nb::list spans(const Prompt& self) {
  std::size_t count = 0;
  const tenon_span* const all = tenon_prompt_spans(self.handle.get(), &count);
  Characters characters(tenon_prompt_text(self.handle.get()));
  const nb::object type = nb::module_::import_("tenon._types").attr("Span");
  nb::list result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = characters.at(all[i].begin);
    result.append(type(begin, characters.at(all[i].end), nb::bool_(all[i].is_data != 0)));
  }
  return result;
}

nb::list tokenize(const Prompt& self, Of<Vocab> vocab) {
  std::vector<std::int32_t> ids(tenon_prompt_text(self.handle.get()).size / 2 + 16);
  std::size_t count = 0;
  for (;;) {
    check(without_gil(true, [&] {
      return tenon_prompt_tokenize(self.handle.get(), vocab->handle.get(), ids.data(), ids.size(),
                                   &count);
    }));
    if (count <= ids.size()) return list_of(ids.data(), count);
    ids.resize(count);
  }
}

}  // namespace

void bind_template(nb::module_& m) {
  nb::class_<Prompt>(m, "Prompt")
      .def_prop_ro("text",
                   [](const Prompt& self) { return str_of(tenon_prompt_text(self.handle.get())); })
      .def("__str__",
           [](const Prompt& self) { return str_of(tenon_prompt_text(self.handle.get())); })
      .def_prop_ro("spans", &spans)
      .def_prop_ro("shaping",
                   [](const Prompt& self) {
                     return json_from([&](tenon_string** text) {
                       return tenon_prompt_shaping(self.handle.get(), text);
                     });
                   })
      .def("tokenize", &tokenize, arg("vocab"));

  nb::class_<ChatTemplate>(m, "ChatTemplate")
      .def(
          "__init__",
          [](ChatTemplate* self, Text source, const Options& options) {
            new (self) ChatTemplate{made<tenon_template>([&](tenon_template** compiled) {
              return tenon_template_compile(source.text, options.text, compiled);
            })};
          },
          arg("source"), arg("options") = nb::none())
      .def_static(
          "load",
          [](const Path& path) {
            return ChatTemplate{made<tenon_template>([&](tenon_template** compiled) {
              return tenon_template_load(path.text, compiled);
            })};
          },
          arg("path"))
      .def_prop_ro("format",
                   [](const ChatTemplate& self) -> nb::object {
                     Handle<tenon_format> format = made<tenon_format>([&](tenon_format** found) {
                       return tenon_template_format(self.handle.get(), found);
                     });
                     return format ? nb::cast(Format{std::move(format)}) : nb::none();
                   })
      .def_prop_ro("capabilities",
                   [](const ChatTemplate& self) {
                     return json_from([&](tenon_string** text) {
                       return tenon_template_capabilities(self.handle.get(), text);
                     });
                   })
      .def(
          "render_request",
          [](const ChatTemplate& self, const Json& request) {
            return Prompt{made<tenon_prompt>([&](tenon_prompt** prompt) {
              return tenon_template_render(self.handle.get(), request.text, prompt);
            })};
          },
          arg("request"))
      .def(
          "render",
          [](const ChatTemplate& self, nb::handle messages, nb::kwargs more) {
            nb::dict request;
            request["messages"] = messages;
            request.update(more);
            const Json json = json_of(request);
            return Prompt{made<tenon_prompt>([&](tenon_prompt** prompt) {
              return tenon_template_render(self.handle.get(), json.text, prompt);
            })};
          },
          arg("messages"), nb::arg("more"));
}

}  // namespace tenon::python
