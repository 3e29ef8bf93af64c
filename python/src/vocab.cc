#include "common.h"

namespace tenon::python {
namespace {

nb::object new_vocab(Handle<tenon_vocab> handle) {
  return nb::cast(Vocab{std::move(handle)});
}

Handle<tenon_vocab> of_tokens(const nb::sequence& tokens, nb::handle ends) {
  std::vector<tenon_token> all;
  // Some sequences make their items when they are asked for them, and others change meanwhile.
  std::vector<nb::object> owners;
  all.reserve(nb::len(tokens));
  owners.reserve(nb::len(tokens));
  for (nb::handle each : tokens) {
    tenon_token token{{nullptr, 0}, TENON_TOKEN_UNUSED};
    nb::object bytes = nb::borrow(each);
    if (nb::isinstance<nb::tuple>(each)) {
      bytes = nb::borrow(nb::tuple(bytes)[0]);
      const nb::object control = nb::borrow(nb::tuple(nb::borrow(each))[1]);
      token.kind = nb::cast<bool>(control) ? TENON_TOKEN_CONTROL : TENON_TOKEN_TEXT;
    } else if (!each.is_none()) {
      token.kind = TENON_TOKEN_TEXT;
    }
    if (!bytes.is_none()) token.bytes = nb::cast<Text>(bytes).text;
    all.push_back(token);
    owners.push_back(std::move(bytes));
  }
  const std::vector<std::int32_t> end_ids = ids_of(ends);
  return made<tenon_vocab>([&](tenon_vocab** vocab) {
    return tenon_vocab_new(all.data(), all.size(), end_ids.data(), end_ids.size(), vocab);
  });
}

nb::list encode(const Vocab& vocab, Text text, bool controls) {
  std::vector<std::int32_t> ids(text.text.size / 2 + 16);
  std::size_t count = 0;
  for (;;) {
    tenon_error* error = nullptr;
    {
      const nb::gil_scoped_release released;
      error = tenon_vocab_encode(vocab.handle.get(), text.text, controls ? 1 : 0, ids.data(),
                                 ids.size(), &count);
    }
    check(error);
    if (count <= ids.size()) return list_of(ids.data(), count);
    ids.resize(count);
  }
}

Handle<tenon_string> decoded(const Vocab& vocab, nb::handle ids) {
  const std::vector<std::int32_t> all = ids_of(ids);
  return text_from([&](tenon_string** text) {
    return tenon_vocab_decode(vocab.handle.get(), all.data(), all.size(), text);
  });
}

nb::object or_none(std::int32_t id) {
  return id < 0 ? nb::object(nb::none()) : nb::int_(id);
}

}  // namespace

void bind_vocab(nb::module_& m) {
  nb::class_<Vocab>(m, "Vocab")
      .def(
          "__init__",
          [](Vocab* self, const nb::sequence& tokens, const nb::sequence& ends) {
            new (self) Vocab{of_tokens(tokens, ends)};
          },
          nb::arg("tokens"), nb::arg("ends"))
      .def_static(
          "load",
          [](nb::handle path) {
            const nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
            if (!text.is_valid()) nb::raise_python_error();
            const auto name = nb::cast<Text>(text);
            return new_vocab(made<tenon_vocab>(
                [&](tenon_vocab** vocab) { return tenon_vocab_load(name.text, vocab); }));
          },
          nb::arg("path"))
      .def_static(
          "parse",
          [](Json tokenizer, Json config) {
            return new_vocab(made<tenon_vocab>([&](tenon_vocab** vocab) {
              return tenon_vocab_parse(tokenizer.text, config.text, vocab);
            }));
          },
          nb::arg("tokenizer_json"), nb::arg("config") = nb::none())
      .def_static(
          "parse_tiktoken",
          [](Text file, Json options) {
            return new_vocab(made<tenon_vocab>([&](tenon_vocab** vocab) {
              return tenon_vocab_parse_tiktoken(file.text, options.text, vocab);
            }));
          },
          nb::arg("file"), nb::arg("options"))
      .def(
          "with_ends",
          [](const Vocab& self, nb::handle ends) {
            const std::vector<std::int32_t> ids = ids_of(ends);
            return new_vocab(made<tenon_vocab>([&](tenon_vocab** vocab) {
              return tenon_vocab_with_ends(self.handle.get(), ids.data(), ids.size(), vocab);
            }));
          },
          nb::arg("ends"))
      .def("__len__", [](const Vocab& self) { return tenon_vocab_size(self.handle.get()); })
      .def(
          "token",
          [](const Vocab& self, std::int32_t id) {
            return bytes_of(tenon_vocab_token(self.handle.get(), id).bytes);
          },
          nb::arg("id"))
      .def(
          "is_control",
          [](const Vocab& self, std::int32_t id) {
            return tenon_vocab_token(self.handle.get(), id).kind == TENON_TOKEN_CONTROL;
          },
          nb::arg("id"))
      .def_prop_ro("ends",
                   [](const Vocab& self) {
                     std::size_t count = 0;
                     const std::int32_t* const ids = tenon_vocab_ends(self.handle.get(), &count);
                     return list_of(ids, count);
                   })
      .def_prop_ro("bos",
                   [](const Vocab& self) { return or_none(tenon_vocab_bos(self.handle.get())); })
      .def(
          "control",
          [](const Vocab& self, Text name) {
            return or_none(tenon_vocab_control(self.handle.get(), name.text));
          },
          nb::arg("name"))
      .def("encode", &encode, nb::arg("text"), nb::arg("controls") = false)
      .def(
          "decode",
          [](const Vocab& self, nb::handle ids) {
            return str_of(tenon_string_text(decoded(self, ids).get()));
          },
          nb::arg("ids"))
      .def(
          "decode_bytes",
          [](const Vocab& self, nb::handle ids) {
            return bytes_of(tenon_string_text(decoded(self, ids).get()));
          },
          nb::arg("ids"))
      .def_prop_ro("mask_words", [](const Vocab& self) {
        return tenon_mask_words(tenon_vocab_size(self.handle.get()));
      });

  nb::class_<Schema>(m, "Schema")
      .def(
          "__init__",
          [](Schema* self, Json schema, Json options) {
            new (self) Schema{made<tenon_schema>([&](tenon_schema** compiled) {
              return tenon_schema_compile(schema.text, options.text, compiled);
            })};
          },
          nb::arg("schema"), nb::arg("options") = nb::none())
      .def(
          "validate",
          [](const Schema& self, nb::handle instance) {
            const Json json = json_of(instance);
            return json_from([&](tenon_string** violations) {
              return tenon_schema_validate(self.handle.get(), json.text, violations);
            });
          },
          nb::arg("instance").none())
      .def(
          "validate_json",
          [](const Schema& self, Text instance) {
            return json_from([&](tenon_string** violations) {
              return tenon_schema_validate(self.handle.get(), instance.text, violations);
            });
          },
          nb::arg("text"))
      .def(
          "is_valid",
          [](const Schema& self, nb::handle instance) {
            const Json json = json_of(instance);
            int is_valid = 0;
            check(tenon_schema_is_valid(self.handle.get(), json.text, &is_valid));
            return is_valid != 0;
          },
          nb::arg("instance").none())
      .def(
          "is_valid_json",
          [](const Schema& self, Text instance) {
            int is_valid = 0;
            check(tenon_schema_is_valid(self.handle.get(), instance.text, &is_valid));
            return is_valid != 0;
          },
          nb::arg("text"));
}

}  // namespace tenon::python
