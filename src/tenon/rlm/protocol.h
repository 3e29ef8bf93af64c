#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/rlm/repl.h"
#include "tenon/rlm/task.h"

/// What is said between a recursive model's loop and the model at its root: the texts of prompts,
/// and how answers are read.
namespace tenon::rlm {

/// An answer of the root model, taken apart.
struct RootAnswer {
  enum class Final : std::uint8_t {
    none,
    text,      ///< FINAL(text)
    variable,  ///< FINAL_VAR(name)
  };
  static constexpr std::size_t kMaxCells = 50;

  std::vector<std::string> cells;  ///< Code to be run, in order.
  std::size_t cells_left = 0;      ///< Beyond kMaxCells; no final answer behind them counts.
  bool is_cell_cut = false;        ///< Behind them one began that the output's end has cut.
  Final final = Final::none;
  std::string value;  ///< The text, or the name.
};

/// Reads an answer. Cells are fenced blocks (CommonMark) whose first word is `repl` or `python`;
/// one that is not closed runs to the end of the answer, unless `is_cut`: the output was ended by
/// its length. FINAL and FINAL_VAR count at the beginning of a line outside of all blocks. FINAL's
/// text ends at the parenthesis that belongs to its first, if that ends its line; else at the last
/// one that ends a line, before the next cell; without any it is all that follows. Linear.
///
///     RootAnswer answer = read_answer("```repl\nx = f(1)\n```\nFINAL_VAR(x)", false);
[[nodiscard]] RootAnswer read_answer(std::string_view text, bool is_cut);

/// What the root model is told of its place.
struct Place {
  bool has_children = false;  ///< rlm_query begins a recursive model of its own.
  bool has_tools = false;     ///< The caller's, which are called as the model calls tools.
  std::size_t max_output_chars = 20'000;
};
[[nodiscard]] std::string system_text(const Place& place);
/// The first message: the question, and what there is to know of the context without reading it.
[[nodiscard]] std::string task_text(const Task& task);
/// The second half of it.
[[nodiscard]] std::string context_text(const Task& task);
/// "Turn 2 of 20."; the last one is told that it is.
[[nodiscard]] std::string turn_text(unsigned turn, unsigned most);
/// What a cell has done. `number` of `count` cells in the answer.
[[nodiscard]] std::string cell_text(const CellResult& result, std::size_t number,
                                    std::size_t count);
/// That blocks were not run since they were too many; "": all were.
[[nodiscard]] std::string cells_left_text(const RootAnswer& answer);
/// The variables that cells have made; "": none.
[[nodiscard]] std::string variables_text(const std::vector<Variable>& variables);

/// `text`, or its first `max_chars` characters and how many are missing: "... + [12 chars...]".
[[nodiscard]] std::string cut_text(std::string_view text, std::size_t max_chars);

}  // namespace tenon::rlm
