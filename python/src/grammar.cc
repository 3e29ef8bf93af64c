#include <algorithm>

#include "common.h"
#include <nanobind/ndarray.h>

namespace tenon::python {
namespace {

/// 32-bit words to write to, of anything with Python's buffer protocol (NumPy) or with DLPack
/// (PyTorch on the CPU). Nothing is copied.
class Words {
 public:
  /// `row` -1: the array has only one row.
  Words(nb::handle source, Py_ssize_t row) {
    if (row < -1) raise_error(PyExc_IndexError, "row is %zd, and they are counted from 0", row);
    if (PyObject_CheckBuffer(source.ptr()) != 0) {
      if (PyObject_GetBuffer(source.ptr(), &buffer_, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT) != 0)
        nb::raise_python_error();
      has_buffer_ = true;
      const bool is_words = buffer_.itemsize == 4 && is_integer(buffer_.format);
      set(static_cast<std::uint32_t*>(buffer_.buf), buffer_.ndim, is_words, row,
          [this](int axis) { return buffer_.shape[axis]; });
      return;
    }
    if (!nb::try_cast(source, tensor_)) {
      raise_error(PyExc_TypeError,
                  "a mask is an array of int32 or uint32 in the CPU's memory, that can be written "
                  "and has no gaps; this is a %s",
                  Py_TYPE(source.ptr())->tp_name);
    }
    const nb::dlpack::dtype type = tensor_.dtype();
    const bool is_integer_type =
        type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int) ||
        type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
    set(static_cast<std::uint32_t*>(tensor_.data()), static_cast<int>(tensor_.ndim()),
        is_integer_type && type.bits == 32 && type.lanes == 1, row, [this](int axis) {
          return static_cast<Py_ssize_t>(tensor_.shape(static_cast<std::size_t>(axis)));
        });
  }
  ~Words() {
    if (has_buffer_) PyBuffer_Release(&buffer_);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  [[nodiscard]] std::uint32_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  using Tensor = nb::ndarray<nb::c_contig, nb::device::cpu>;

  static bool is_integer(const char* format) {
    const std::string_view text = format == nullptr ? "B" : format;
    return text == "i" || text == "I" || text == "l" || text == "L" || text == "<i" || text == "<I";
  }

  template <typename Shape>
  void set(std::uint32_t* data, int dimensions, bool is_words, Py_ssize_t row, Shape shape) {
    if (!is_words) fail(PyExc_TypeError, "a mask is an array of int32 or uint32");
    if (dimensions == 1 && row < 0) {
      data_ = data;
      size_ = static_cast<std::size_t>(shape(0));
      return;
    }
    if (dimensions != 2 || (row < 0 && shape(0) != 1)) {
      fail(PyExc_ValueError, "a mask has one dimension, or two and the index of a row");
    }
    if (row >= shape(0)) fail(PyExc_IndexError, "the mask has fewer rows");
    size_ = static_cast<std::size_t>(shape(1));
    data_ = data + (row < 0 ? 0 : static_cast<std::size_t>(row)) * size_;
  }

  [[noreturn]] void fail(PyObject* type, const char* message) {
    if (has_buffer_) PyBuffer_Release(&buffer_);
    PyErr_SetString(type, message);
    nb::raise_python_error();
  }

  Py_buffer buffer_{};
  bool has_buffer_ = false;
  Tensor tensor_;
  std::uint32_t* data_ = nullptr;
  std::size_t size_ = 0;
};

void fill_mask(Matcher& self, nb::handle mask, Py_ssize_t row) {
  const Words words(mask, row);
  const Turn::Taken taken = self.turn.take();
  tenon_matcher* const handle = self.get();
  check(without_gil(true,
                    [&] { return tenon_matcher_fill_mask(handle, words.data(), words.size()); }));
}

bool verdict(const Matcher& self, int result) {
  if (result >= 0) return result != 0;
  PyErr_SetObject(nb::module_::import_("tenon._errors").attr("LimitExceededError").ptr(),
                  str_of(tenon_matcher_error(self.get())).ptr());
  nb::raise_python_error();
}

// tenon.h promises that there are never more forced tokens, or tokens that lead to an end.
constexpr std::size_t kMostTokens = 65'536;

// Ids from a function that fills an array and says how many there are.
template <typename Function>
nb::list ids_from(Matcher& self, std::size_t most, Function function) {
  const Turn::Taken taken = self.turn.take();
  tenon_matcher* const handle = self.get();
  std::vector<std::int32_t> ids(std::min(most, kMostTokens));
  std::size_t count = 0;
  check(without_gil(true, [&] { return function(handle, ids.data(), ids.size(), &count); }));
  return list_of(ids.data(), count);
}

Grammar compiled(nb::handle vocab, const Json& request) {
  auto* const handle = the<Vocab>(vocab).handle.get();
  return {made<tenon_grammar>([&](tenon_grammar** grammar) {
            return tenon_grammar_compile(handle, request.text, grammar);
          }),
          nb::borrow(vocab)};
}

// Shorter ones keep the GIL, and so do accept() of a token, is_accepting and its like. Letting go
// of it takes 15 to 30 ns of their 50, and where another thread is busy it comes back after that
// one's 5 ms, for each token of each row. What they may wait for, a mask that another matcher of
// the grammar is filling, takes 0.2 ms at most.
constexpr std::size_t kManyBytes = 64;
constexpr std::size_t kManyTokens = 8;

void bind_matcher(nb::module_& m) {
  nb::class_<Matcher>(m, "Matcher")
      .def(
          "__init__",
          [](Matcher* self, nb::handle grammar) {
            const auto& of = the<Grammar>(grammar);
            Handle<tenon_matcher> handle = made<tenon_matcher>([&](tenon_matcher** matcher) {
              return tenon_matcher_new(of.handle.get(), matcher);
            });
            new (self) Matcher{
                .handle = std::move(handle),
                .grammar = nb::borrow(grammar),
                .words = tenon_mask_words(tenon_vocab_size(the<Vocab>(of.vocab).handle.get()))};
          },
          arg("grammar"))
      .def(
          "copy",
          [](Matcher& self) {
            const Turn::Taken taken = self.turn.take();
            tenon_matcher* const from = self.get();
            Handle<tenon_matcher> handle = made<tenon_matcher>(
                [&](tenon_matcher** copy) { return tenon_matcher_copy(from, copy); });
            return new Matcher{
                .handle = std::move(handle), .grammar = self.grammar, .words = self.words};
          },
          nb::rv_policy::take_ownership)
      .def_ro("grammar", &Matcher::grammar)
      .def_ro("mask_words", &Matcher::words)
      .def("fill_mask", &fill_mask, arg("mask"), nb::arg("row") = -1)
      .def(
          "accept",
          [](Matcher& self, Token token) {
            const Turn::Taken taken = self.turn.take();
            return verdict(self, tenon_matcher_accept(self.get(), token.id));
          },
          arg("token"))
      .def(
          "accept_text",
          [](Matcher& self, Text text) {
            const Turn::Taken taken = self.turn.take();
            tenon_matcher* const handle = self.get();
            return verdict(self, without_gil(text.text.size >= kManyBytes, [&] {
                             return tenon_matcher_accept_bytes(handle, text.text);
                           }));
          },
          arg("text"))
      .def(
          "validate_draft",
          [](Matcher& self, nb::handle tokens) {
            const std::vector<std::int32_t> ids = ids_of(tokens, "tokens");
            const Turn::Taken taken = self.turn.take();
            tenon_matcher* const handle = self.get();
            return without_gil(ids.size() >= kManyTokens, [&] {
              return tenon_matcher_validate_draft(handle, ids.data(), ids.size());
            });
          },
          arg("tokens"))
      .def(
          "rollback",
          [](Matcher& self, Count count) {
            const Turn::Taken taken = self.turn.take();
            check(tenon_matcher_rollback(self.get(), count.count));
          },
          arg("count"))
      .def("reset",
           [](Matcher& self) {
             const Turn::Taken taken = self.turn.take();
             tenon_matcher_reset(self.get());
           })
      .def_prop_ro("accepted_count",
                   [](Matcher& self) {
                     const Turn::Taken taken = self.turn.take();
                     return tenon_matcher_accepted_count(self.get());
                   })
      .def_prop_ro("is_accepting",
                   [](Matcher& self) {
                     const Turn::Taken taken = self.turn.take();
                     return tenon_matcher_is_accepting(self.get()) != 0;
                   })
      .def_prop_ro("is_complete",
                   [](Matcher& self) {
                     const Turn::Taken taken = self.turn.take();
                     return tenon_matcher_is_complete(self.get()) != 0;
                   })
      .def_prop_ro("is_finished",
                   [](Matcher& self) {
                     const Turn::Taken taken = self.turn.take();
                     return tenon_matcher_is_finished(self.get()) != 0;
                   })
      .def(
          "forced_bytes",
          [](Matcher& self, Count most) {
            const Turn::Taken taken = self.turn.take();
            tenon_matcher* const handle = self.get();
            return bytes_of(
                without_gil(true, [&] { return tenon_matcher_forced_bytes(handle, most.count); }));
          },
          arg("max_bytes") = 0)
      .def(
          "forced_tokens",
          [](Matcher& self, Count most) {
            return ids_from(self, most.count, tenon_matcher_forced_tokens);
          },
          arg("max_tokens") = 1024)
      .def(
          "tokens_to_end",
          [](Matcher& self, Count most) {
            return ids_from(self, most.count, tenon_matcher_tokens_to_end);
          },
          arg("max_tokens") = 1024);
}

}  // namespace

tenon_matcher* Matcher::get() const {
  if (handle) return handle.get();
  if (lent != nullptr) return lent;
  raise_error(PyExc_RuntimeError, "this matcher was lent for one answer, which has ended");
}

void bind_grammar(nb::module_& m) {
  nb::class_<Grammar>(m, "Grammar")
      .def(
          "__init__",
          [](Grammar* self, nb::handle vocab, const Json& request) {
            new (self) Grammar(compiled(vocab, request));
          },
          arg("vocab"), arg("request"))
      .def_static(
          "for_tools",
          [](nb::handle vocab, const FormatArgument& format, const Json& request) {
            auto* const handle = the<Vocab>(vocab).handle.get();
            return Grammar{made<tenon_grammar>([&](tenon_grammar** grammar) {
                             return tenon_grammar_for_tools(handle, format.format, request.text,
                                                            grammar);
                           }),
                           nb::borrow(vocab)};
          },
          arg("vocab"), arg("format"), arg("request"))
      .def_ro("vocab", &Grammar::vocab)
      .def_prop_ro("relaxed", [](const Grammar& self) {
        return json_from([&](tenon_string** relaxed) {
          return tenon_grammar_relaxed(self.handle.get(), relaxed);
        });
      });
  m.def(
      "print_grammar",
      [](const Json& request, Text to) {
        tenon_string* relaxed = nullptr;
        const Handle<tenon_string> text = text_from([&](tenon_string** printed) {
          return tenon_grammar_print(request.text, to.text, printed, &relaxed);
        });
        const Handle<tenon_string> kept(relaxed);
        return nb::make_tuple(str_of(tenon_string_text(text.get())),
                              loads(tenon_string_text(relaxed)));
      },
      arg("request"), arg("to"));
  bind_matcher(m);
}

}  // namespace tenon::python
