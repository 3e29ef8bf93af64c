#include <string>

#include "common.h"

// Vocabularies and schemas in Python. Both are immutable and may be used by several threads at a
// time; what takes long runs without the GIL. Ids come from any sequence of int, NumPy's arrays
// too.

namespace tenon::python {
namespace {

nb::object new_vocab(Handle<tenon_vocab> handle) {
  return nb::cast(Vocab{std::move(handle)});
}

// One of tokens[id]; `owner` gets what keeps its bytes.
tenon_token token_of(nb::handle given, std::size_t id, nb::object& owner) {
  const std::string what = "tokens[" + std::to_string(id) + "]";
  tenon_token token{{nullptr, 0}, TENON_TOKEN_UNUSED};
  if (given.is_none()) return token;
  token.kind = TENON_TOKEN_TEXT;
  owner = nb::borrow(given);
  if (nb::isinstance<nb::tuple>(given)) {
    const nb::tuple pair(owner);
    if (nb::len(pair) != 2 || !nb::isinstance<nb::bool_>(pair[1])) {
      raise_error(PyExc_TypeError, "%s must be a pair of bytes and whether it is a control token",
                  what.c_str());
    }
    owner = nb::borrow(pair[0]);
    if (nb::cast<bool>(pair[1])) token.kind = TENON_TOKEN_CONTROL;
  } else if (!nb::isinstance<nb::str>(given) && !nb::isinstance<nb::bytes>(given)) {
    raise_error(PyExc_TypeError,
                "%s must be bytes, str, a pair (bytes, is_control) or None, not %s", what.c_str(),
                Py_TYPE(given.ptr())->tp_name);
  }
  token.bytes = text_in(owner, what.c_str());
  return token;
}

// `[b"a", ("<|end|>", True), None]`: text, a control token, and an id without a token.
Handle<tenon_vocab> of_tokens(nb::handle tokens, nb::handle ends) {
  if (PySequence_Check(tokens.ptr()) == 0) raise_type("a sequence of tokens by id", tokens);
  std::vector<tenon_token> all;
  // Some sequences make their items when they are asked for them, and others change meanwhile.
  std::vector<nb::object> owners;
  all.reserve(nb::len(tokens));
  owners.reserve(nb::len(tokens));
  for (nb::handle each : tokens) {
    all.push_back(token_of(each, all.size(), owners.emplace_back()));
  }
  const std::vector<std::int32_t> end_ids = ids_of(ends, "ends");
  return made<tenon_vocab>([&](tenon_vocab** vocab) {
    return tenon_vocab_new(all.data(), all.size(), end_ids.data(), end_ids.size(), vocab);
  });
}

nb::list encode(const Vocab& vocab, Text text, bool controls) {
  // At least one token for two bytes is usual; text of other kinds takes a second call.
  std::vector<std::int32_t> ids(text.text.size / 2 + 16);
  std::size_t count = 0;
  for (;;) {
    check(without_gil(true, [&] {
      return tenon_vocab_encode(vocab.handle.get(), text.text, controls ? 1 : 0, ids.data(),
                                ids.size(), &count);
    }));
    if (count <= ids.size()) return list_of(ids.data(), count);
    ids.resize(count);
  }
}

Handle<tenon_string> decoded(const Vocab& vocab, nb::handle ids) {
  const std::vector<std::int32_t> all = ids_of(ids, "ids");
  return text_from([&](tenon_string** text) {
    return tenon_vocab_decode(vocab.handle.get(), all.data(), all.size(), text);
  });
}

bool is_valid(const Schema& schema, tenon_text instance) {
  int verdict = 0;
  check(without_gil(
      true, [&] { return tenon_schema_is_valid(schema.handle.get(), instance, &verdict); }));
  return verdict != 0;
}

// The C interface says -1 where Python says None.
nb::object or_none(std::int32_t id) {
  return id < 0 ? nb::object(nb::none()) : nb::int_(id);
}

}  // namespace

void bind_vocab(nb::module_& m) {
  nb::class_<Vocab>(m, "Vocab")
      .def(
          "__init__",
          [](Vocab* self, nb::handle tokens, nb::handle ends) {
            new (self) Vocab{of_tokens(tokens, ends)};
          },
          arg("tokens"), arg("ends"))
      .def_static(
          "load",
          [](const Path& path) {
            return new_vocab(made<tenon_vocab>(
                [&](tenon_vocab** vocab) { return tenon_vocab_load(path.text, vocab); }));
          },
          arg("path"))
      .def_static(
          "parse",
          [](const Json& tokenizer, const Options& config) {
            return new_vocab(made<tenon_vocab>([&](tenon_vocab** vocab) {
              return tenon_vocab_parse(tokenizer.text, config.text, vocab);
            }));
          },
          arg("tokenizer_json"), arg("config") = nb::none())
      .def_static(
          "parse_tiktoken",
          [](Text file, const Json& options) {
            return new_vocab(made<tenon_vocab>([&](tenon_vocab** vocab) {
              return tenon_vocab_parse_tiktoken(file.text, options.text, vocab);
            }));
          },
          arg("file"), arg("options"))
      .def(
          "with_ends",
          [](const Vocab& self, nb::handle ends) {
            const std::vector<std::int32_t> ids = ids_of(ends, "ends");
            return new_vocab(made<tenon_vocab>([&](tenon_vocab** vocab) {
              return tenon_vocab_with_ends(self.handle.get(), ids.data(), ids.size(), vocab);
            }));
          },
          arg("ends"))
      .def("__len__", [](const Vocab& self) { return tenon_vocab_size(self.handle.get()); })
      .def(
          "token",
          [](const Vocab& self, Token token) {
            return bytes_of(tenon_vocab_token(self.handle.get(), token.id).bytes);
          },
          arg("id"))
      .def(
          "is_control",
          [](const Vocab& self, Token token) {
            return tenon_vocab_token(self.handle.get(), token.id).kind == TENON_TOKEN_CONTROL;
          },
          arg("id"))
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
          arg("name"))
      .def("encode", &encode, arg("text"), nb::arg("controls") = false)
      .def(
          "decode",
          [](const Vocab& self, nb::handle ids) {
            return str_of(tenon_string_text(decoded(self, ids).get()));
          },
          arg("ids"))
      .def(
          "decode_bytes",
          [](const Vocab& self, nb::handle ids) {
            return bytes_of(tenon_string_text(decoded(self, ids).get()));
          },
          arg("ids"))
      .def_prop_ro("mask_words", [](const Vocab& self) {
        return tenon_mask_words(tenon_vocab_size(self.handle.get()));
      });

  nb::class_<Schema>(m, "Schema")
      .def(
          "__init__",
          [](Schema* self, const Json& schema, const Options& options) {
            new (self) Schema{made<tenon_schema>([&](tenon_schema** compiled) {
              return tenon_schema_compile(schema.text, options.text, compiled);
            })};
          },
          arg("schema"), arg("options") = nb::none())
      .def(
          "validate",
          [](const Schema& self, nb::handle instance) {
            const Json json = json_of(instance);
            return json_from([&](tenon_string** violations) {
              return tenon_schema_validate(self.handle.get(), json.text, violations);
            });
          },
          arg("instance"))
      .def(
          "validate_json",
          [](const Schema& self, Text instance) {
            return json_from([&](tenon_string** violations) {
              return tenon_schema_validate(self.handle.get(), instance.text, violations);
            });
          },
          arg("text"))
      .def(
          "is_valid",
          [](const Schema& self, nb::handle instance) {
            return is_valid(self, json_of(instance).text);
          },
          arg("instance"))
      .def(
          "is_valid_json",
          [](const Schema& self, Text instance) { return is_valid(self, instance.text); },
          arg("text"));
}

}  // namespace tenon::python
