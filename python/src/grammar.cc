#include <algorithm>
#include <deque>
#include <span>

#include "common.h"
#include <nanobind/ndarray.h>

// Grammars, matchers and mask pools in Python. A mask is written into memory of the caller: Words
// takes anything with Python's buffer protocol or DLPack, checks its type and shape, and copies
// nothing. Calls that may take long release the GIL; an object that serves one thread at a time has
// a Turn, so a second thread is refused and does not corrupt it. fill_masks() takes the turns of
// all its matchers first, and raises the first error with all others in `failed`.

namespace tenon::python {
namespace {

/// Rows of 32-bit words to write to, of anything with Python's buffer protocol (NumPy) or with
/// DLPack (PyTorch on the CPU). Nothing is copied.
class Words {
 public:
  explicit Words(nb::handle source) {
    if (PyObject_CheckBuffer(source.ptr()) != 0) {
      if (PyObject_GetBuffer(source.ptr(), &buffer_, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT) != 0)
        nb::raise_python_error();
      has_buffer_ = true;
      const bool is_words = buffer_.itemsize == 4 && is_integer(buffer_.format);
      set(static_cast<std::uint32_t*>(buffer_.buf), buffer_.ndim, is_words,
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
        is_integer_type && type.bits == 32 && type.lanes == 1, [this](int axis) {
          return static_cast<Py_ssize_t>(tensor_.shape(static_cast<std::size_t>(axis)));
        });
  }
  ~Words() {
    if (has_buffer_) PyBuffer_Release(&buffer_);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  /// The words of one row; `row` -1: the array has only one.
  [[nodiscard]] std::span<std::uint32_t> row(Py_ssize_t row) const {
    if (row < -1) raise_error(PyExc_IndexError, "row is %zd, and they are counted from 0", row);
    // A flat array is one row, and takes no index. An array of rows needs one, unless it has a
    // single row.
    if (is_flat_ ? row >= 0 : row < 0 && rows_ != 1) {
      raise_error(PyExc_ValueError, "a mask has one dimension, or two and the index of a row");
    }
    if (row >= static_cast<Py_ssize_t>(rows_)) {
      raise_error(PyExc_IndexError, "the mask has fewer rows");
    }
    return all().subspan(row < 0 ? 0 : static_cast<std::size_t>(row) * size_, size_);
  }
  [[nodiscard]] std::span<std::uint32_t> all() const { return {data_, rows_ * size_}; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The words of each row.
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  // What DLPack may give: on the CPU, without gaps. Other arrays are refused and not copied.
  using Tensor = nb::ndarray<nb::c_contig, nb::device::cpu>;

  // Formats as the struct module writes them. "l" is 4 bytes on some systems; itemsize has been
  // checked.
  static bool is_integer(const char* format) {
    const std::string_view text = format == nullptr ? "B" : format;
    return text == "i" || text == "I" || text == "l" || text == "L" || text == "<i" || text == "<I";
  }

  template <typename Shape>
  void set(std::uint32_t* data, int dimensions, bool is_words, Shape shape) {
    if (!is_words) fail(PyExc_TypeError, "a mask is an array of int32 or uint32");
    if (dimensions != 1 && dimensions != 2) {
      fail(PyExc_ValueError, "a mask has one dimension, or two and the index of a row");
    }
    data_ = data;
    is_flat_ = dimensions == 1;
    rows_ = is_flat_ ? 1 : static_cast<std::size_t>(shape(0));
    size_ = static_cast<std::size_t>(shape(is_flat_ ? 0 : 1));
  }

  // A constructor that throws has no destructor.
  [[noreturn]] void fail(PyObject* type, const char* message) {
    if (has_buffer_) PyBuffer_Release(&buffer_);
    PyErr_SetString(type, message);
    nb::raise_python_error();
  }

  Py_buffer buffer_{};
  bool has_buffer_ = false;
  Tensor tensor_;
  std::uint32_t* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t size_ = 0;
  bool is_flat_ = false;
};

void fill_mask(Matcher& self, nb::handle mask, Py_ssize_t row) {
  const Words words(mask);
  const std::span<std::uint32_t> one = words.row(row);
  const Turn::Taken taken = self.turn.take();
  tenon_matcher* const handle = self.get();
  check(without_gil(true, [&] { return tenon_matcher_fill_mask(handle, one.data(), one.size()); }));
}

// Numbers of nodes or rows, of an array (NumPy, PyTorch on the CPU) or a sequence; -1 may be one.
// tolist() makes Python's own ints of an array in one call.
std::vector<std::int64_t> numbers_of(nb::handle source, const char* name) {
  nb::object list = nb::borrow(source);
  if (nb::hasattr(source, "tolist")) list = source.attr("tolist")();
  const nb::object fast = nb::steal(PySequence_Fast(list.ptr(), ""));
  if (!fast.is_valid()) {
    PyErr_Clear();
    raise_error(PyExc_TypeError, "%s must be a sequence of int, not %s", name,
                Py_TYPE(source.ptr())->tp_name);
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.ptr());
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
    int is_large = 0;
    const long long number = PyLong_Check(item) ? PyLong_AsLongLongAndOverflow(item, &is_large) : 0;
    if (!PyLong_Check(item) || is_large != 0) {
      raise_error(PyExc_TypeError, "%s[%zd] must be an int, not %s", name, i,
                  Py_TYPE(item)->tp_name);
    }
    numbers.push_back(number);
  }
  return numbers;
}

// As node numbers. A number that does not fit becomes -2, which no tree has.
std::vector<std::int32_t> nodes_of(const std::vector<std::int64_t>& numbers) {
  std::vector<std::int32_t> nodes;
  nodes.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    nodes.push_back(std::in_range<std::int32_t>(number) ? static_cast<std::int32_t>(number) : -2);
  }
  return nodes;
}

// One row of the mask for each node of a tree of drafted tokens. Returns how many nodes can come.
std::size_t fill_tree(Matcher& self, const std::vector<std::int32_t>& tokens,
                      const std::vector<std::int32_t>& parents, nb::handle masks) {
  const Words words(masks);
  if (tokens.size() != parents.size() || words.rows() != parents.size()) {
    raise_error(error_class(TENON_INVALID),
                "a tree has as many tokens as parents, and a row of the mask for each: there are "
                "%zu, %zu and %zu",
                tokens.size(), parents.size(), words.rows());
  }
  const Turn::Taken taken = self.turn.take();
  tenon_matcher* const handle = self.get();
  std::size_t reached = 0;
  check(without_gil(true, [&] {
    return tenon_matcher_fill_draft_masks(handle, tokens.data(), parents.data(), parents.size(),
                                          words.all().data(), words.size(), &reached);
  }));
  return reached;
}

std::size_t fill_draft_masks(Matcher& self, nb::handle tokens, nb::handle parents,
                             nb::handle masks) {
  return fill_tree(self, nodes_of(numbers_of(tokens, "tokens")),
                   nodes_of(numbers_of(parents, "parents")), masks);
}

// The tree as SGLang and xgrammar write it: the first child and the next sibling of each node, -1
// for none. Each node is visited once, as the child of one parent, so a list with a cycle ends with
// the error "two parents".
std::size_t traverse_draft_tree(Matcher& self, nb::handle next_token, nb::handle next_sibling,
                                nb::handle draft_tokens, nb::handle masks) {
  const std::vector<std::int64_t> children = numbers_of(next_token, "retrieve_next_token");
  const std::vector<std::int64_t> siblings = numbers_of(next_sibling, "retrieve_next_sibling");
  if (siblings.size() != children.size()) {
    raise_error(error_class(TENON_INVALID),
                "retrieve_next_token has %zu nodes, and retrieve_next_sibling has %zu",
                children.size(), siblings.size());
  }
  std::vector<std::int32_t> parents(children.size(), -1);
  for (std::size_t node = 0; node < children.size(); ++node) {
    std::int64_t child = children[node];
    while (child != -1) {
      if (child < 1 || std::cmp_greater_equal(child, children.size())) {
        raise_error(error_class(TENON_INVALID), "there is no node %lld behind node %zu",
                    static_cast<long long>(child), node);
      }
      std::int32_t& parent = parents[static_cast<std::size_t>(child)];
      if (parent != -1) {
        raise_error(error_class(TENON_INVALID), "node %lld has two parents: %d and %zu",
                    static_cast<long long>(child), parent, node);
      }
      parent = static_cast<std::int32_t>(node);
      child = siblings[static_cast<std::size_t>(child)];
    }
  }
  return fill_tree(self, nodes_of(numbers_of(draft_tokens, "draft_tokens")), parents, masks);
}

// The turns of many matchers. They are taken in the order of their addresses; a turn that another
// thread has is an error and no wait, so no two batches can wait for each other.
class Turns {
 public:
  explicit Turns(std::vector<Matcher*> matchers) {
    std::ranges::sort(matchers);
    const auto [same, end] = std::ranges::unique(matchers);
    matchers.erase(same, end);  // the C function names one that occurs twice
    for (Matcher* const matcher : matchers) taken_.emplace_back(matcher->turn);
  }

 private:
  std::deque<Turn::Taken> taken_;
};

void fill_masks(tenon_mask_pool* pool, nb::handle matchers, nb::handle masks, nb::handle rows) {
  std::vector<Matcher*> all;
  // Keep the matchers alive while the GIL is released: `matchers` may be changed by another thread.
  std::vector<nb::object> owners;
  if (PySequence_Check(matchers.ptr()) == 0) {
    raise_error(PyExc_TypeError, "matchers must be a sequence of tenon.Matcher, not %s",
                Py_TYPE(matchers.ptr())->tp_name);
  }
  for (nb::handle each : matchers) {
    Matcher* matcher = nullptr;
    if (!nb::try_cast(each, matcher) || matcher == nullptr) {
      raise_error(PyExc_TypeError, "matchers[%zu] must be a tenon.Matcher, not %s", all.size(),
                  Py_TYPE(each.ptr())->tp_name);
    }
    all.push_back(matcher);
    owners.push_back(nb::borrow(each));
  }
  const Words words(masks);
  // The row of each matcher; without `rows` the first matcher has row 0, and so on.
  std::vector<std::size_t> places;
  if (rows.is_none()) {
    for (std::size_t i = 0; i < all.size(); ++i) places.push_back(i);
  } else {
    for (const std::int64_t row : numbers_of(rows, "rows")) {
      if (row < 0) {
        raise_error(PyExc_IndexError, "rows[%zu] is %lld, and they are counted from 0",
                    places.size(), static_cast<long long>(row));
      }
      places.push_back(static_cast<std::size_t>(row));
    }
  }
  if (places.size() != all.size()) {
    raise_error(error_class(TENON_INVALID), "rows has %zu numbers, and there are %zu matchers",
                places.size(), all.size());
  }
  const Turns turns(all);
  std::vector<tenon_matcher*> handles;
  handles.reserve(all.size());
  for (const Matcher* const matcher : all) handles.push_back(matcher->get());
  // The C function frees none of these; exception_of() does, for each that is set.
  std::vector<tenon_error*> errors(all.size(), nullptr);
  check(without_gil(true, [&] {
    return tenon_mask_pool_fill_masks(pool, handles.data(), handles.size(), words.all().data(),
                                      words.rows(), words.size(), places.data(), errors.data());
  }));
  nb::dict failed;
  nb::object first;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] == nullptr) continue;
    const nb::object error = exception_of(errors[i]);
    failed[nb::cast(i)] = error;
    if (!first.is_valid()) first = error;
  }
  if (!first.is_valid()) return;
  // All errors by their index in `matchers`, so a caller can drop those and go on with the batch.
  first.attr("failed") = failed;
  PyErr_SetObject(nb::handle(first.type()).ptr(), first.ptr());
  nb::raise_python_error();
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

// The compilation runs without the GIL; the text of the request is kept by the argument.
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

// Each method takes the matcher's turn first; those that only read, too, since another thread could
// change it meanwhile.
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
      .def("fill_draft_masks", &fill_draft_masks, arg("tokens"), arg("parents"), arg("masks"))
      .def("traverse_draft_tree", &traverse_draft_tree, arg("retrieve_next_token"),
           arg("retrieve_next_sibling"), arg("draft_tokens"), arg("masks"))
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
  nb::class_<MaskPool>(m, "MaskPool")
      .def(
          "__init__",
          [](MaskPool* self, Count threads) {
            new (self) MaskPool{made<tenon_mask_pool>(
                [&](tenon_mask_pool** pool) { return tenon_mask_pool_new(threads.count, pool); })};
          },
          arg("threads") = 0)
      .def(
          "fill_masks",
          [](MaskPool& self, nb::handle matchers, nb::handle masks, nb::handle rows) {
            fill_masks(self.handle.get(), matchers, masks, rows);
          },
          arg("matchers"), arg("masks"), nb::arg("rows").none() = nb::none());
}

}  // namespace tenon::python
