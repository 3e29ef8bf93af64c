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

/// A cell's question to models: `llm_query` and its kin.
struct SubCall {
  enum class Kind : std::uint8_t {
    llm,  ///< Of a model.
    rlm,  ///< Of a recursive model, whose context the prompt becomes.
  };
  Kind kind = Kind::llm;
  std::vector<std::string> prompts;  ///< One or more; those of a batch come together.
  std::optional<std::string> model;  ///< As the cell named it.
};

/// Who answers the questions of cells.
class SubCalls {
 public:
  /// Takes one text for each prompt, in their order; for what failed a text that begins "Error: ".
  /// Called once, from any thread, at any time: what comes after the cell's end is dropped.
  using Answer = std::function<void(std::vector<std::string> texts)>;

  virtual ~SubCalls() = default;
  /// Called on the thread of run_cell, which waits: returns at once and answers later. Questions of
  /// several threads of a cell come one after the other, without waiting for answers.
  virtual void ask(SubCall call, Answer answer) = 0;
};

/// What a cell did.
struct CellResult {
  std::string out, err;     ///< What was printed, the first max_output_chars of each.
  std::size_t out_cut = 0;  ///< Characters that are missing at its end.
  std::size_t err_cut = 0;
  std::string error;                        ///< The traceback, of the cell's own lines; "": none.
  std::string error_kind;                   ///< "ZeroDivisionError"
  std::optional<std::string> final_answer;  ///< By FINAL, FINAL_VAR or `answer["ready"]`.
  std::chrono::microseconds duration{0};    ///< All of it, sub-calls included.
  std::size_t sub_calls = 0;                ///< Prompts asked.
  /// The cell was interrupted at its time limit; its variables are there.
  bool is_timed_out = false;
};

/// The variable `context` and its like: what cells find, and find again when they have overwritten
/// it.
struct Loaded {
  std::string type;        ///< "str", "list", "dict", ...
  std::size_t length = 0;  ///< Characters of a text, else items.
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
/// Blocks its thread; one thread at a time, but interrupt(). An error of a cell is a CellResult;
/// where a call fails, and the message does not say otherwise, the worker is dead and so is the
/// session: Errc::limit_exceeded at a limit, unavailable where the worker ended, invalid where it
/// broke the protocol.
///
/// All that a worker tells is bounded here, too. Each call takes the limits of its time, and a
/// token that ends it within 100 ms and kills the worker, as interrupt() does.
class Repl {
 public:
  static constexpr std::size_t kMaxErrorChars = 9000;  ///< Of a traceback.
  static constexpr std::size_t kMaxVariables = 1000;   ///< Of those that are named.
  static constexpr std::size_t kMaxNameChars = 200;    ///< Of names and types.

  explicit Repl(std::unique_ptr<Worker> worker);
  ~Repl();

  /// Sets and keeps variables of `names` to a text. UTF-8; other bytes become U+FFFD. Fails with
  /// Errc::limit_exceeded, the worker living on, where its memory does not suffice.
  /// What is long has a second more for each 20 MiB.
  [[nodiscard]] Expected<Loaded> load_text(std::span<const std::string> names,
                                           std::string_view text, const CellLimits& limits = {},
                                           const CancelToken* cancel = nullptr);
  /// To a list of texts.
  [[nodiscard]] Expected<Loaded> load_list(std::span<const std::string> names,
                                           std::span<const std::string_view> texts,
                                           const CellLimits& limits = {},
                                           const CancelToken* cancel = nullptr);
  /// To what the JSON text `json` says. Fails with Errc::invalid, the worker living on, where it is
  /// none to Python.
  [[nodiscard]] Expected<Loaded> load_json(std::span<const std::string> names,
                                           std::string_view json, const CellLimits& limits = {},
                                           const CancelToken* cancel = nullptr);
  /// Makes Python's `random` tell the same numbers each time. With the order of sets, which is
  /// fixed always, a cell then does the same again, but for clocks.
  [[nodiscard]] Status seed(std::uint64_t value, const CellLimits& limits = {},
                            const CancelToken* cancel = nullptr);

  /// Runs a cell.
  [[nodiscard]] Expected<CellResult> run_cell(std::string_view code, SubCalls& sub_calls,
                                              const CellLimits& limits,
                                              const CancelToken* cancel = nullptr);
  /// Ends a run_cell that another thread is in, and with it the worker. Thread-safe.
  void interrupt();

  /// The text of a variable, cut to `max_chars`; nullopt: there is none of that name. A `__str__`
  /// that fails is Errc::invalid, one that is stopped at the limit Errc::limit_exceeded; the worker
  /// lives on.
  [[nodiscard]] Expected<std::optional<std::string>> variable(std::string_view name,
                                                              std::size_t max_chars,
                                                              const CellLimits& limits = {},
                                                              const CancelToken* cancel = nullptr);
  /// The variables that cells made and loads, the first kMaxVariables, without names that begin
  /// with '_'.
  [[nodiscard]] Expected<std::vector<Variable>> variables(const CellLimits& limits = {},
                                                          const CancelToken* cancel = nullptr);

  [[nodiscard]] bool is_alive();
  /// Ends the worker and what it runs.
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
  std::shared_ptr<Inbox> inbox_;  // shared with answers that come late
  std::uint64_t cells_ = 0;
};

}  // namespace tenon::rlm
