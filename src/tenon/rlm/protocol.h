#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/rlm/repl.h"
#include "tenon/rlm/task.h"

/// The texts between a recursive model's loop and its root model: prompts, and how model outputs
/// are read.
namespace tenon::rlm {

/// The parts of an output of the root model.
struct RootAnswer {
  enum class Final : std::uint8_t {
    none,
    text,      ///< FINAL(text)
    variable,  ///< FINAL_VAR(name)
  };
  static constexpr std::size_t kMaxCells = 50;

  std::vector<std::string> cells;  ///< The code to run, in order.
  std::size_t cells_left = 0;  ///< The number of cells beyond kMaxCells; a final answer after them
                               ///< does not count.
  bool is_cell_cut = false;    ///< After them another cell began, which the end of the output has
                               ///< cut.
  Final final = Final::none;
  std::string value;  ///< The text, or the name.
};

/// Reads an output. Cells are fenced blocks (CommonMark) whose first word is `repl` or `python`. A
/// fence in a string of several lines does not close its cell, and white space with which all lines
/// of a cell begin, as in a list, is taken away. A block that is not closed runs to the end of the
/// output, unless `is_cut`: the output was ended by its length. FINAL and FINAL_VAR count at the
/// beginning of a line outside of all blocks. The text of FINAL ends at the parenthesis that
/// matches its first one, if it ends its line; else at the last parenthesis that ends a line before
/// the next cell; if no line does, the text is everything that follows. Linear.
///
///     RootAnswer answer = read_answer("```repl\nx = f(1)\n```\nFINAL_VAR(x)", false);
[[nodiscard]] RootAnswer read_answer(std::string_view text, bool is_cut);

/// What the root model is told about its abilities.
struct Place {
  bool has_children = false;  ///< rlm_query starts a recursive model of its own.
  bool has_tools = false;     ///< The caller has tools, which the model calls in the usual way.
  std::size_t max_output_chars = 20'000;
  std::uint32_t sub_tokens = 0;           ///< The context of the sub-model; 0: not known.
  bool has_value = false;                 ///< The context is a dict or another value (Task::shape).
  std::vector<std::string> imports = {};  ///< What cells may import besides Python's library.
  std::uint64_t folder_bytes = 0;         ///< The folder to write into; 0: no folder.
};
[[nodiscard]] std::string system_text(const Place& place);
/// The shorter text that takes its place where the context is full and only the answer is wanted.
[[nodiscard]] std::string last_system_text();
/// The first message: the question, and what can be said of the context without reading it.
[[nodiscard]] std::string task_text(const Task& task);
/// Its second half.
[[nodiscard]] std::string context_text(const Task& task);
/// "Turn 2 of 20: ..." and what to do in it. Small models repeat the last line of a prompt as their
/// answer, so it is an instruction.
[[nodiscard]] std::string turn_text(unsigned turn, unsigned most);
/// The result of a cell, which is number `number` of `count` cells in the output.
[[nodiscard]] std::string cell_text(const CellResult& result, std::size_t number,
                                    std::size_t count);
/// Says that some blocks were not run because there were too many; "": all were run.
[[nodiscard]] std::string cells_left_text(const RootAnswer& answer);
/// The variables that cells have made; "": there are no variables.
[[nodiscard]] std::string variables_text(const std::vector<Variable>& variables);

/// `text`, or its first `max_chars` characters and how many are missing: "... + [12 chars...]".
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t max_chars);
/// `text` with the mark of `missing` characters; 0: without a mark.
[[nodiscard]] std::string with_mark(std::string_view text, std::size_t missing);

}  // namespace tenon::rlm
