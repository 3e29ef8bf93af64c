#include "tenon/rlm/protocol.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "tenon/base/utf8.h"

// Reads the outputs of a root model and writes its prompts. AnswerReader goes through an output
// once, line by line, and finds blocks and final answers. PythonLines follows the strings of a
// block, so that a fence within one is text; dedented() takes away the indentation of a list.
//
// Outputs may be long and hostile, so what one makes the reader search for (a parenthesis, the end
// of a string) is searched for once, and not again for each line.

namespace tenon::rlm {
namespace {

constexpr std::string_view kSpace = " \t\r";
constexpr std::size_t kNone = std::string_view::npos;

std::string_view trimmed(std::string_view text, std::string_view what = " \t\r\n") {
  const std::size_t first = text.find_first_not_of(what);
  if (first == kNone) return {};
  return text.substr(first, text.find_last_not_of(what) - first + 1);
}

/// Reads Python line by line, as far as it takes to know where strings of several lines are.
class PythonLines {
 public:
  void read(std::string_view line) {
    std::size_t at = 0;
    while (at < line.size()) {
      const char each = line[at];
      const std::string_view rest = line.substr(at);
      if (!quotes_.empty()) {
        const bool is_end = rest.starts_with(quotes_);
        at += is_end ? quotes_.size() : step(each);
        if (is_end) quotes_ = {};
      } else if (each == '#') {
        return;
      } else if (rest.starts_with(kDouble) || rest.starts_with(kSingle)) {
        quotes_ = each == '"' ? kDouble : kSingle;
        at += quotes_.size();
      } else {
        at = each == '"' || each == '\'' ? end_of_string(line, at) : at + 1;
      }
    }
  }
  /// The quotes that end the string in which the last line ended; "": it ended in no such string.
  [[nodiscard]] std::string_view quotes() const { return quotes_; }

 private:
  static constexpr std::string_view kDouble = "\"\"\"";
  static constexpr std::string_view kSingle = "'''";

  // A backslash takes the next character with it: `\"` ends no string.
  static std::size_t step(char each) { return each == '\\' ? 2 : 1; }
  // A string of one line ends with its line, whether it is closed or not.
  static std::size_t end_of_string(std::string_view line, std::size_t begin) {
    std::size_t at = begin + 1;
    while (at < line.size() && line[at] != line[begin]) at += step(line[at]);
    return at + 1;
  }

  std::string_view quotes_;
};

// Takes away the white space with which all lines begin, as those of a block in a list do. Lines
// within strings of several lines do not count, and lose as much of it as they have.
std::string dedented(std::string_view code) {
  PythonLines python;
  std::optional<std::string_view> common;
  for (std::size_t at = 0; at < code.size();) {
    const std::size_t end = std::min(code.find('\n', at), code.size());
    const std::string_view line = code.substr(at, end - at);
    at = end + 1;
    const std::size_t text = line.find_first_not_of(" \t\r");
    if (python.quotes().empty() && text != kNone) {
      const std::string_view space = line.substr(0, text);
      const std::string_view before = common.value_or(space);
      std::size_t same = 0;
      while (same < std::min(space.size(), before.size()) && space[same] == before[same]) ++same;
      common = space.substr(0, same);
      if (same == 0) break;
    }
    python.read(line);
  }
  if (!common || common->empty()) return std::string(code);
  std::string text;
  for (std::size_t at = 0; at <= code.size();) {
    const std::size_t end = std::min(code.find('\n', at), code.size());
    const std::string_view line = code.substr(at, end - at);
    std::size_t same = 0;
    while (same < std::min(line.size(), common->size()) && line[same] == (*common)[same]) ++same;
    text += line.substr(same);
    if (end < code.size()) text += '\n';
    at = end + 1;
  }
  return text;
}

/// Reads an answer line by line.
class AnswerReader {
 public:
  AnswerReader(std::string_view text, bool is_cut) : text_(text), is_cut_(is_cut) {}

  // Line by line, as the prompt describes it: fenced blocks to run, and FINAL or FINAL_VAR outside
  // of blocks. A block that the end of the answer closes is run, one that the limit of tokens cut
  // off is not.
  RootAnswer run() {
    while (at_ < text_.size()) {
      const std::size_t begin = at_;
      const std::string_view line = next_line();
      if (is_in_block_) {
        if (closes(line) && !is_in_string()) {
          end_block(begin);
        } else if (is_cell_) {
          python_.read(line);
        }
      } else if (!opens(line)) {
        read_prose(begin, line);
      }
    }
    if (is_in_block_ && is_cell_) {
      if (is_cut_) {
        answer_.is_cell_cut = true;
      } else {
        end_block(text_.size());
      }
    }
    return std::move(answer_);
  }

 private:
  std::string_view next_line() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    return line;
  }

  // The number of backticks of a fence; 0: the line begins no block. In the middle of a line only a
  // cell's fence counts, with nothing behind its word. "```python" is 3 and a cell, "```json" is 3
  // and no cell, "So: ```repl" is 3 and a cell, "x ``` y" is 0. A backtick behind the fence makes
  // it inline code, as in CommonMark.
  static std::size_t fence_of(std::string_view line, bool& is_cell) {
    const std::size_t start = line.find("```");
    if (start == kNone) return 0;
    const std::size_t after = line.find_first_not_of('`', start);
    const std::string_view info =
        trimmed(after == kNone ? std::string_view() : line.substr(after), kSpace);
    const std::string_view word = info.substr(0, info.find_first_of(" \t{"));
    is_cell = word == "repl" || word == "python" || word == "py" || word == "python3";
    const bool is_first = line.find_first_not_of(kSpace) == start;
    if (info.find('`') != kNone || (!is_first && !(is_cell && word == info))) return 0;
    return (after == kNone ? line.size() : after) - start;
  }

  bool opens(std::string_view line) {
    bool is_cell = false;
    const std::size_t ticks = fence_of(line, is_cell);
    if (ticks == 0) return false;
    is_in_block_ = true;
    is_cell_ = is_cell;
    ticks_ = ticks;
    code_begin_ = at_;
    python_ = {};
    return true;
  }

  // As in CommonMark: at least as many backticks as the fence that opened, and nothing else.
  [[nodiscard]] bool closes(std::string_view line) const {
    const std::string_view ticks = trimmed(line, kSpace);
    return ticks.size() >= ticks_ && ticks.find_first_not_of('`') == kNone;
  }

  // A fence in a string is text, if the string ends at all: the quotes of code that is wrong would
  // otherwise hide the rest of the answer. Each end is searched for once.
  [[nodiscard]] bool is_in_string() {
    const std::string_view quotes = is_cell_ ? python_.quotes() : std::string_view();
    if (quotes.empty()) return false;
    std::size_t& next = next_quotes_[quotes.front() == '"' ? 0 : 1];
    if (next != kNone && next < at_) next = text_.find(quotes, at_);
    return next != kNone;
  }

  void end_block(std::size_t end) {
    is_in_block_ = false;
    if (!is_cell_) return;
    std::string_view code = text_.substr(code_begin_, end - code_begin_);
    if (code.ends_with('\n')) code.remove_suffix(1);
    if (answer_.cells.size() == RootAnswer::kMaxCells) {
      ++answer_.cells_left;
    } else {
      answer_.cells.push_back(dedented(code));
    }
  }

  // Only at the beginning of a line: models also talk about FINAL within sentences. The first final
  // answer counts.
  void read_prose(std::size_t begin, std::string_view line) {
    if (answer_.final != RootAnswer::Final::none || answer_.cells_left > 0) return;
    const std::size_t start = line.find_first_not_of(kSpace);
    if (start == kNone) return;
    constexpr std::string_view kText = "FINAL(";
    constexpr std::string_view kVariable = "FINAL_VAR(";
    const std::string_view said = line.substr(start);
    if (said.starts_with(kVariable)) {
      const std::string_view name = said.substr(kVariable.size());
      const std::size_t close = name.find(')');
      if (close == kNone) return;
      answer_.final = RootAnswer::Final::variable;
      answer_.value = trimmed(name.substr(0, close), " \t\r\"'`");
    } else if (said.starts_with(kText)) {
      read_final(begin + start + kText.size());
    }
  }

  [[nodiscard]] bool ends_line(std::size_t at) const {
    const std::size_t next = text_.find_first_not_of(kSpace, at);
    return next == kNone || text_[next] == '\n';
  }

  // Reads the text of FINAL, which begins at `begin`.
  void read_final(std::size_t begin) {
    if (begin < no_close_until_) return;
    const std::size_t end = next_cell(begin);  // searched for once between two cells
    std::size_t depth = 1;
    std::size_t close = begin;
    for (; close < end; ++close) {
      if (text_[close] == '(') ++depth;
      if (text_[close] == ')' && --depth == 0) break;
    }
    // A parenthesis in the text may be left open, as in "FINAL(see :( above)"; then the last one
    // that ends a line closes it.
    const bool has_none = close >= end;
    if (has_none || !ends_line(close + 1)) {
      const std::size_t last = last_close(begin, end);
      // If no parenthesis ends a line here, no later FINAL before the next cell has one either.
      if (last == kNone) no_close_until_ = end;
      if (last == kNone && (is_cut_ || !has_none)) return;  // FINAL is only mentioned here
      close = last == kNone ? end : last;
    }
    answer_.final = RootAnswer::Final::text;
    answer_.value = trimmed(text_.substr(begin, close - begin));
    const std::size_t line_end = text_.find('\n', close);
    at_ = line_end == kNone ? text_.size() : line_end + 1;
    // The text ended at the next cell and not at a parenthesis, so reading goes on with that cell's
    // fence.
    if (close < text_.size() && text_[close] != ')') at_ = close;
  }

  // Where the next cell's fence begins, or the answer ends.
  [[nodiscard]] std::size_t next_cell(std::size_t begin) const {
    std::size_t at = begin;
    while (at < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      bool is_cell = false;
      if (fence_of(text_.substr(at, end - at), is_cell) > 0 && is_cell) return at;
      at = end + 1;
    }
    return text_.size();
  }

  // The last parenthesis before `end` that ends a line.
  [[nodiscard]] std::size_t last_close(std::size_t begin, std::size_t end) const {
    while (end > begin) {
      const std::size_t line = text_.rfind('\n', end - 1);
      const std::size_t from = line == kNone || line < begin ? begin : line;
      const std::size_t last = text_.substr(from, end - from).find_last_not_of(" \t\r\n");
      if (last != kNone && text_[from + last] == ')') return from + last;
      end = from;
    }
    return kNone;
  }

  const std::string_view text_;
  const bool is_cut_;
  RootAnswer answer_;
  std::size_t at_ = 0;
  bool is_in_block_ = false;
  bool is_cell_ = false;
  // Up to here no parenthesis ends a line: further FINALs are skipped, which keeps the reader
  // linear.
  std::size_t no_close_until_ = 0;
  std::size_t ticks_ = 0;
  std::size_t code_begin_ = 0;
  PythonLines python_;  // the lines of the block so far
  // Where three double and three single quotes are next; kNone: nowhere behind at_.
  std::size_t next_quotes_[2] = {0, 0};
};

std::string count_of(std::size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

void append_line(std::string& out, std::string_view text) {
  if (text.empty()) return;
  if (!out.empty() && out.back() != '\n') out += '\n';
  out += text;
}

// How much a prompt may have so that the sub-model's context has room for the answer too.
// Three quarters of the context at three characters a token, in whole thousands: 8192 tokens are
// 18000 characters.
std::size_t prompt_chars(std::uint32_t tokens) {
  constexpr std::size_t kUnknown = 100'000;
  constexpr std::size_t kCharsPerToken = 3;
  constexpr std::size_t kRound = 1000;
  const std::size_t chars = std::size_t{tokens} * 3 / 4 * kCharsPerToken;
  return tokens == 0 ? kUnknown : std::max(chars / kRound * kRound, kRound);
}

// What cells have beside the functions.
std::string surroundings_text(const Place& place) {
  std::string text = "Python's standard library";
  for (std::size_t i = 0; i < place.imports.size(); ++i) {
    text += (i + 1 == place.imports.size() ? " and " : ", ") + place.imports[i];
  }
  text += ". There are no other packages, ";
  if (place.folder_bytes == 0) {
    text += "no files";
  } else {
    text += "no files but those that you write into the current folder, which may have " +
            std::to_string(place.folder_bytes >> 20) + " MiB";
  }
  return text + ", and no network";
}

}  // namespace

RootAnswer read_answer(std::string_view text, bool is_cut) {
  return AnswerReader(text, is_cut).run();
}

std::string with_mark(std::string_view text, std::size_t missing) {
  std::string marked(text);
  if (missing > 0) marked += "... + [" + std::to_string(missing) + " chars...]";
  return marked;
}

std::string cut_text(std::string_view text, std::size_t max_chars) {
  if (text.size() <= max_chars) return std::string(text);
  std::size_t bytes = 0;
  for (std::size_t chars = 0; chars < max_chars && bytes < text.size(); ++chars) {
    bytes += std::max<std::size_t>(utf8::decode(text.substr(bytes)).length, 1);
  }
  return with_mark(text.substr(0, bytes), utf8::length(text.substr(bytes)));
}

// All that the root model is told of its work. What it says of the REPL is what worker.py does.
std::string system_text(const Place& place) {
  std::string text =
      "You answer a question about a context that may be far too long to read at once. You do not "
      "see the context: it is the variable `context` in a Python REPL that you control. You work "
      "in turns. To run Python, write a fenced block:\n"
      "\n"
      "```repl\n"
      "print(type(context), len(context))\n"
      "print(" +
      std::string(place.has_value ? "str(context)" : "context") +
      "[:500])\n"
      "```\n"
      "\n"
      "What the block prints is told to you in the next turn, at most " +
      std::to_string(place.max_output_chars) +
      " characters of it. Variables live on from block to block, so keep what is long in variables "
      "and print only what you need to see. In the REPL there are:\n"
      "- `context`: the context, " +
      std::string(place.has_value ? "of the type that you are told"
                                  : "a str, or a list of str where it has several pieces") +
      "\n"
      "- `llm_query(prompt)`: asks a language model and returns its answer as a str; it sees "
      "nothing but the prompt, which may have some " +
      std::to_string(prompt_chars(place.sub_tokens)) +
      " characters\n"
      "- `llm_query_batched(prompts)`: asks many prompts at the same time, returns a list of "
      "answers in their order; use it, some 20 prompts at a time, rather than a loop of "
      "llm_query. An answer that begins with \"Error: \" is a failure\n";
  text += place.has_children
              ? "- `rlm_query(prompt)`, `rlm_query_batched(prompts)`: the same, but the prompt is "
                "given to a model with a REPL of its own, for parts that are too long or too hard "
                "for one answer\n"
              : "- `rlm_query(prompt)`, `rlm_query_batched(prompts)`: here the same as the two "
                "above\n";
  text +=
      "- `SHOW_VARS()`: returns the names and types of the variables\n"
      "- " +
      surroundings_text(place) +
      "\n"
      "\n"
      "Look at the context first, then take it apart with code, ask the model about the parts, and "
      "put the answers together. Do not guess what code can find out.\n"
      "\n"
      "When you know the answer, give it in one of these ways:\n"
      "- on a line of its own, outside of any block: FINAL(the answer), or FINAL_VAR(name) for the "
      "value of a variable\n"
      "- in a block: answer[\"content\"] = ...; answer[\"ready\"] = True\n"
      "Give it only once you have seen what you need: a block's output comes after your turn.";
  if (place.has_tools) {
    text +=
        "\n"
        "\n"
        "Beside the REPL there are tools of the caller, which you call as tools, not in a block. A "
        "call ends your turn; blocks and final answers in the same turn are not taken. Results are "
        "also in the list `tool_results` in the REPL, where long ones stand in full.";
  }
  return text;
}

std::string last_system_text() {
  return "You have worked on a question about a long context, with code in a Python REPL. Now you "
         "give your final answer from your notes: as plain text, or as FINAL_VAR(name) for the "
         "value of a variable in the REPL.";
}

// A question that is itself too long is part of the context, and the model sees how it begins and
// ends.
std::string task_text(const Task& task) {
  std::string text;
  constexpr std::size_t kPreview = 1000;
  if (task.is_question_context) {
    const std::string& whole = task.question;
    text = task.context.size() == 1 ? "The request is long, and is itself the context."
                                    : "The request is long: it is the last text of the context.";
    text += " It begins:\n" + cut_text(whole, kPreview) + "\n\nIt ends:\n" +
            utf8::sanitized(std::string_view(whole).substr(whole.size() - kPreview)) +
            "\n\nFind out what it asks, and answer it.";
  } else if (task.question.empty()) {
    text = "There is no question beside the context: find out what it asks, and do it.";
  } else {
    text = "Answer the following: " + task.question;
  }
  return text + "\n\n" + context_text(task);
}

// What can be said without showing the context, which must not come into the prompt.
std::string context_text(const Task& task) {
  std::string text;
  if (task.context.empty()) {
    text += "There is no context: `context` is an empty str.";
  } else if (!task.shape.empty()) {
    text += "Your context is " + task.shape + ". As JSON it has " +
            count_of(task.context_chars(), "character") + ".";
  } else if (task.context.size() == 1) {
    text += "Your context is a str of " + count_of(task.context_chars(), "character") + ".";
  } else {
    text += "Your context is a list of " + count_of(task.context.size(), "str") + " with " +
            count_of(task.context_chars(), "character") + " in all; the lengths are";
    constexpr std::size_t kMostShown = 20;
    const std::size_t shown = std::min(task.context.size(), kMostShown);
    for (std::size_t i = 0; i < shown; ++i) {
      text += (i == 0 ? " " : ", ") + std::to_string(utf8::length(task.context[i]));
    }
    text += task.context.size() > shown ? ", ..." : ".";
  }
  if (!task.history.empty()) {
    text += "\nWhat was said before is in the variable `history`, a list of " +
            count_of(task.history.size(), "dict") + " with role and content.";
  }
  return text;
}

std::string turn_text(unsigned turn, unsigned most) {
  const std::string which = "Turn " + std::to_string(turn) + " of " + std::to_string(most);
  if (turn == most) return which + ", the last one: give your final answer now.";
  return which + ": write a block of code, or give your final answer if you have seen it.";
}

std::string cell_text(const CellResult& result, std::size_t number, std::size_t count) {
  std::string text = "REPL output";
  if (count > 1) {
    text += " of block " + std::to_string(number) + " of " + std::to_string(count);
  }
  text += ":";
  std::string output = with_mark(result.out, result.out_cut);
  const std::string err = with_mark(result.err, result.err_cut);
  if (!err.empty()) append_line(output, "stderr: " + err);
  append_line(output, result.error);
  while (output.ends_with('\n')) output.pop_back();
  append_line(text, output.empty() ? "(no output)" : output);
  return text;
}

std::string cells_left_text(const RootAnswer& answer) {
  if (answer.cells_left == 0) return {};
  return "Only the first " + std::to_string(RootAnswer::kMaxCells) +
         " blocks of your turn were run; write one, and wait for what it prints.";
}

// Leaves out the variables that every REPL has.
std::string variables_text(const std::vector<Variable>& variables) {
  constexpr std::size_t kMost = 50;
  constexpr std::size_t kMaxName = 60;
  std::string text;
  std::size_t shown = 0;
  for (const Variable& variable : variables) {
    if (variable.name == "context" || variable.name == "history" || variable.name == "answer" ||
        variable.name == "tool_results") {
      continue;
    }
    if (shown++ == kMost) {
      text += ", ...";
      break;
    }
    text += (text.empty() ? "Variables: " : ", ") + cut_text(variable.name, kMaxName) + " (" +
            cut_text(variable.type, kMaxName) + ")";
  }
  return text;
}

}  // namespace tenon::rlm
