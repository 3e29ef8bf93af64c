#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/rlm/limits.h"
#include "tenon/rlm/worker.h"

namespace tenon::rlm {

/// A question of a cell: `llm_query` and similar functions, and those of define().
struct SubCall {
  enum class Kind : std::uint8_t {
    llm,   ///< To a model.
    rlm,   ///< To a recursive model; the prompt becomes its context.
    tool,  ///< To the tool `model`; the prompt is its arguments, the answer begins with '=' or '!'.
  };
  Kind kind = Kind::llm;
  std::vector<std::string> prompts;  ///< One or more; the prompts of a batch come together.
  std::optional<std::string> model;  ///< The name that the cell gave, if any.
};

/// Answers the questions of cells.
class SubCalls {
 public:
  /// Takes one text for each prompt, in their order; the text of a failed one begins with "Error:
  /// ". It is called once, from any thread, at any time. Answers after the cell's end are dropped.
  using Answer = std::function<void(std::vector<std::string> texts)>;

  virtual ~SubCalls() = default;
  /// Called on the thread of run_cell, which waits for it, so it must return at once and answer
  /// later. Questions from several threads of a cell come one after the other, without waiting for
  /// answers.
  virtual void ask(SubCall call, Answer answer) = 0;
};

/// The result of a cell.
struct CellResult {
  std::string out, err;     ///< What was printed: the first max_output_chars of each.
  std::size_t out_cut = 0;  ///< The number of characters that were cut off.
  std::size_t err_cut = 0;
  std::string error;       ///< The traceback of the cell's own lines; "": no error.
  std::string error_kind;  ///< "ZeroDivisionError"
  std::optional<std::string> final_answer;  ///< Given by FINAL, FINAL_VAR or `answer["ready"]`.
  std::chrono::microseconds duration{0};    ///< The whole duration, sub-calls included.
  std::size_t sub_calls = 0;                ///< The number of prompts asked.
  /// The cell was interrupted at its time limit; its variables still exist.
  bool is_timed_out = false;
};

/// The variable `context` and similar ones, which every cell finds. They are restored after a cell
/// has overwritten them.
struct Loaded {
  std::string type;        ///< "str", "list", "dict", ...
  std::size_t length = 0;  ///< Characters of a text, else the number of items.
};

struct Variable {
  std::string name, type;
};

/// A Python session: cells run one after the other and share their variables.
///
///     Repl repl(*std::move(worker));
///     repl.load_text({"context", "context_0"}, book);
///     Expected<CellResult> cell = repl.run_cell("print(len(context))", models, {});
///
/// Its functions block, and only one thread at a time may call them, except interrupt(). An error
/// of a cell is part of its CellResult. If a call fails, the worker is dead and the session is
/// over, unless the function says otherwise: Errc::limit_exceeded at a limit, unavailable if the
/// worker ended, invalid if it broke the protocol.
///
/// Everything that a worker sends is bounded here too. Each call takes the limits of its time, and
/// a token that ends it within 100 ms and kills the worker, as interrupt() does.
class Repl {
 public:
  static constexpr std::size_t kMaxErrorChars = 9000;  ///< In a traceback.
  static constexpr std::size_t kMaxVariables = 1000;   ///< Variables that are listed.
  static constexpr std::size_t kMaxNameChars = 200;    ///< In names and types.

  explicit Repl(std::unique_ptr<Worker> worker);
  ~Repl();

  /// Sets the variables `names` to a text and keeps them. The text is UTF-8; other bytes become
  /// U+FFFD. If the worker's memory does not suffice, it fails with Errc::limit_exceeded and the
  /// worker lives on. A long text has one second more for each 20 MiB.
  [[nodiscard]] Expected<Loaded> load_text(std::span<const std::string> names,
                                           std::string_view text, const CellLimits& limits = {},
                                           const CancelToken* cancel = nullptr);
  /// The same with a list of texts.
  [[nodiscard]] Expected<Loaded> load_list(std::span<const std::string> names,
                                           std::span<const std::string_view> texts,
                                           const CellLimits& limits = {},
                                           const CancelToken* cancel = nullptr);
  /// The same with the value of the JSON text `json`. If Python cannot read it, it fails with
  /// Errc::invalid and the worker lives on.
  [[nodiscard]] Expected<Loaded> load_json(std::span<const std::string> names,
                                           std::string_view json, const CellLimits& limits = {},
                                           const CancelToken* cancel = nullptr);
  /// Makes Python's `random` give the same numbers each time. The order of sets is always fixed, so
  /// a cell that runs again then does the same, except for clocks.
  [[nodiscard]] Status seed(std::uint64_t value, const CellLimits& limits = {},
                            const CancelToken* cancel = nullptr);

  /// Defines functions, as code that uses `call_tool(tool, arguments)`, in place of those that ask
  /// models. Cells find them as they find the others.
  [[nodiscard]] Status define(std::string_view source, const CellLimits& limits = {},
                              const CancelToken* cancel = nullptr);

  /// Runs a cell. If it awaits something at its top level, it runs in an event loop.
  [[nodiscard]] Expected<CellResult> run_cell(std::string_view code, SubCalls& sub_calls,
                                              const CellLimits& limits,
                                              const CancelToken* cancel = nullptr);
  /// Ends a run_cell on another thread, and with it the worker. Thread-safe.
  void interrupt();

  /// The text of a variable, cut to `max_chars`; nullopt if there is no such variable. A `__str__`
  /// that fails is Errc::invalid, one that reaches the limit Errc::limit_exceeded; the worker lives
  /// on.
  [[nodiscard]] Expected<std::optional<std::string>> variable(std::string_view name,
                                                              std::size_t max_chars,
                                                              const CellLimits& limits = {},
                                                              const CancelToken* cancel = nullptr);
  /// The variables of cells and loads, at most kMaxVariables, without names that begin with '_'.
  [[nodiscard]] Expected<std::vector<Variable>> variables(const CellLimits& limits = {},
                                                          const CancelToken* cancel = nullptr);

  [[nodiscard]] bool is_alive();
  /// Ends the worker and all that it runs.
  void kill();
  [[nodiscard]] Worker& worker() { return *worker_; }

 private:
  class Inbox;
  class CellClock;

  [[nodiscard]] Expected<Loaded> load(std::span<const std::string> names, std::string_view kind,
                                      std::span<const std::string_view> texts,
                                      const CellLimits& limits, const CancelToken* cancel);
  [[nodiscard]] Expected<json::Value> command(const json::Object& frame, std::string_view answer,
                                              const CellLimits& limits, const CancelToken* cancel);
  [[nodiscard]] Expected<json::Value> answer_of(std::string_view op, const Wait& wait,
                                                std::chrono::milliseconds grace);
  [[nodiscard]] Expected<json::Value> run(SubCalls& sub_calls, const CellLimits& limits,
                                          const CancelToken* cancel, CellResult& result);
  [[nodiscard]] Status start_call(json::Value& frame, SubCalls& sub_calls, CellResult& result);
  [[nodiscard]] Status send_answers(const CancelToken* cancel);

  std::unique_ptr<Worker> worker_;
  std::shared_ptr<Inbox> inbox_;  // shared with answers that arrive late
  std::uint64_t cells_ = 0;
};

}  // namespace tenon::rlm
