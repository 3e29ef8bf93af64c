#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/grammar/int_map.h"
#include "tenon/grammar/relaxed.h"
#include "tenon/grammar/scanner.h"
#include "tenon/grammar/token_set.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/expr.h"

/// The machine that reads bytes (docs/masks.md): a nondeterministic pushdown automaton whose stacks
/// are hash-consed cells and whose states are interned sets of cells, both built as they are met.
/// Equal stacks are one number, so a state can be kept, compared and come back to for nothing, and
/// what follows from it is computed once.
namespace tenon::grammar {

class Machine;

using FrameId = std::uint32_t;
using CellId = std::uint32_t;   ///< A stack. 0 is the empty one: the text is whole.
using StateId = std::uint32_t;  ///< A set of stacks. 0 is the empty one: no text goes on like this.

/// A frame on a stack: how far the reading of something has come, and what is to be read after it.
struct Cell {
  FrameId frame = 0;
  CellId parent = 0;
  std::uint64_t local = 0;  ///< What the frame has to remember.
};

/// Something that can be read: a byte, a sequence, a JSON object. Its methods tell the machine how
/// reading goes on by calling Machine::enter, resume and wait, any number of times: each call is
/// one more way.
class Frame {
 public:
  virtual ~Frame() = default;

  /// Reading begins; what comes after is `parent`. `self` is the number of this frame.
  virtual void enter(Machine& machine, FrameId self, CellId parent) = 0;
  /// What was entered on top of `cell`, a cell of this frame, has been read.
  virtual void resume(Machine& machine, const Cell& cell);
  /// The bytes that `cell` may be able to read; none but these. Most bytes lead nowhere, so this is
  /// asked first.
  [[nodiscard]] virtual regex::ByteSet readable(const Cell& /*cell*/) const {
    return regex::ByteSet::all();
  }
  /// `cell` waited for a byte, and here is one of them.
  virtual void read(Machine& machine, const Cell& cell, std::uint8_t byte);

  /// The tokens that `cell` waits for as wholes, control tokens above all; null: it waits for a
  /// byte. Lives as long as the frame.
  [[nodiscard]] virtual const TokenSet* tokens(const Cell& cell) const;
  /// One of them is here.
  virtual void read_token(Machine& machine, const Cell& cell, vocab::TokenId token);

  /// `cell` waited for an answer: `text` is all that has been read since the start.
  virtual void answer(Machine& machine, const Cell& cell, std::string_view text);

  /// Where the cell is within a lexeme, after which its parent goes on: a token mask can be had
  /// from the scanner.
  struct Lexeme {
    Scanner* scanner = nullptr;
    Scanner::State state = 0;
  };
  [[nodiscard]] virtual std::optional<Lexeme> lexeme(const Cell& cell) const;

  // How many bytes must still be read, at the least and roughly, so that a search for an end of the
  // text (end_search.h) tries short ways first: that of all of this frame, and what is left of it
  // in `cell`, without what may lie on top. Machine::least() tells of other frames.
  [[nodiscard]] virtual std::uint32_t least(Machine& /*machine*/) { return 1; }
  [[nodiscard]] virtual std::uint32_t left(Machine& /*machine*/, const Cell& /*cell*/) { return 1; }

  /// What it has remembered of the texts it has seen, roughly.
  [[nodiscard]] virtual std::size_t memory_bytes() const { return 0; }
};

struct MachineLimits {
  std::size_t max_cells = 4'000'000;
  std::size_t max_cells_per_state = 20'000;  ///< Ways to read one text.
  std::size_t max_state_cells = 16'000'000;  ///< Of all states together.
  std::size_t max_steps = 200'000;           ///< Calls of frames for one byte.
  /// Of all kinds for one byte, or to begin with: also those to find out what may come at all.
  std::uint64_t max_work = 6'000'000;
  std::uint64_t max_mask_steps = 10'000'000;  ///< The same for one mask.
  /// The same for one text: so many, and so many more for each of its bytes and each call.
  std::uint64_t max_text_steps = 10'000'000;
  std::uint64_t steps_per_byte = 2'000;
  /// Of all its regular expressions together. As long as they are made and not only walked, a step
  /// takes some 40 ns.
  std::uint64_t max_expression_steps = 12'000'000;
  std::uint64_t max_expression_bytes = std::uint64_t{64} << 20U;
};

/// Not thread-safe: whoever shares one locks it.
class Machine {
 public:
  explicit Machine(MachineLimits limits = {});
  ~Machine();

  // ---- Building -------------------------------------------------------------------------------
  FrameId add(std::unique_ptr<Frame> frame);
  /// Frames that refer to each other: a number first, the frame later.
  FrameId reserve();
  void set(FrameId id, std::unique_ptr<Frame> frame);
  [[nodiscard]] Frame& frame(FrameId id) { return *frames_[id]; }
  /// Expressions for frames, within limits of their own and those of the machine.
  [[nodiscard]] std::shared_ptr<regex::ExprSet> new_exprs(Limits own);
  /// What the frames leave out, as those who add them say.
  [[nodiscard]] std::vector<Relaxed>& relaxed() { return relaxed_; }

  // ---- Running --------------------------------------------------------------------------------
  /// The state in which `frame` is to be read, and then the text ends.
  [[nodiscard]] StateId start(FrameId frame);
  [[nodiscard]] StateId step(StateId state, std::uint8_t byte);
  [[nodiscard]] StateId step_cell(CellId cell, std::uint8_t byte);
  /// The same for the cells that wait for this token as a whole.
  [[nodiscard]] StateId step_token(StateId state, vocab::TokenId token);
  /// The state after what is on top of `parent` has been read whole.
  [[nodiscard]] StateId resumed(CellId parent);
  [[nodiscard]] StateId state_of(CellId cell);
  [[nodiscard]] StateId state_of(std::span<const CellId> cells);
  /// Some ways of reading go on only after a look at the text: call answer() before anything else.
  /// What follows from other states depends on nothing but the state.
  [[nodiscard]] bool has_questions(StateId state) const { return states_[state].asks; }
  /// Some way of reading is within a lexeme.
  [[nodiscard]] bool has_lexeme(StateId state) const { return states_[state].in_lexeme; }
  /// The bytes that may lead on from `state`; no others do.
  [[nodiscard]] regex::ByteSet readable(StateId state) const;
  [[nodiscard]] StateId answer(StateId state, std::string_view text);
  /// The one byte that leads on from `state`; or kNoByte, where several do or none does; or
  /// kAsksForByte, where it takes the text to say.
  [[nodiscard]] std::uint32_t only_byte(StateId state);
  static constexpr std::uint32_t kNoByte = 256;
  static constexpr std::uint32_t kAsksForByte = 257;
  /// True if the text may end here.
  [[nodiscard]] bool is_accepting(StateId state) const {
    const std::span<const CellId> cells = cells_of(state);
    return !cells.empty() && cells[0] == 0;
  }
  /// True if it must.
  [[nodiscard]] bool is_complete(StateId state) const {
    return is_accepting(state) && cells_of(state).size() == 1;
  }
  /// In rising order. Valid until the next call that makes a state.
  [[nodiscard]] std::span<const CellId> cells_of(StateId state) const {
    return std::span(state_cells_).subspan(states_[state].first, states_[state].count);
  }
  [[nodiscard]] const Cell& cell(CellId id) const { return cells_[id]; }
  [[nodiscard]] std::optional<Frame::Lexeme> lexeme(CellId id) const;
  [[nodiscard]] const TokenSet* tokens(CellId id) const;
  /// Some way of reading `state` goes on with a token as a whole.
  [[nodiscard]] bool waits_for_token(StateId state) const;
  /// The token as a whole that is the one thing that can come next.
  [[nodiscard]] std::optional<vocab::TokenId> only_token(StateId state) const;
  /// Bytes to the end of the text, roughly: Frame::left() of the stack with the fewest. A token as
  /// a whole counts as one.
  [[nodiscard]] std::uint32_t left(StateId state);
  static constexpr std::uint32_t kFar = 1U << 20U;  ///< So many, or more.
  /// Each of two ways of reading.
  [[nodiscard]] StateId united(StateId a, StateId b);

  /// The first limit that was reached; states from then on are dead.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  void fail(Error error);
  /// What comes between counts against max_mask_steps, or a fraction of them; then expressions,
  /// too, may take so many steps meanwhile.
  void begin_mask(std::uint64_t fraction = 1);
  void end_mask();
  /// The limit was one of a single byte or mask: what was read before has not helped to reach it.
  [[nodiscard]] bool is_limit_of_one_call() const { return is_limit_of_one_call_; }
  /// Calls of frames, cells that were looked at, steps of expressions and what else was counted,
  /// since the beginning: at some 50 ns each.
  [[nodiscard]] std::uint64_t work() const { return work_ + expressions_.steps_used(); }
  /// That the expressions take.
  [[nodiscard]] std::uint64_t expression_bytes() const { return expressions_.bytes_used(); }
  void add_work(std::uint64_t steps);
  /// Nodes of tries that scanners have walked within a mask, which count against max_mask_steps
  /// alone: what they find is kept, and a text of many masks costs no more for it.
  void add_walked(std::uint64_t nodes);
  [[nodiscard]] const MachineLimits& limits() const { return limits_; }
  [[nodiscard]] std::size_t memory_bytes() const;

  // ---- For frames, within their methods -------------------------------------------------------
  /// `frame` is to be read next, and then `parent`.
  void enter(FrameId frame, CellId parent);
  /// What was on top of `cell` has been read. 0: the text may end here.
  void resume(CellId cell);
  /// A cell that waits for a byte.
  void wait(FrameId frame, std::uint64_t local, CellId parent);
  /// A cell that waits for answer().
  void ask(FrameId frame, std::uint64_t local, CellId parent);
  /// Frame::least() of another frame; up to kFar. kFar for one whose own is being asked for.
  [[nodiscard]] std::uint32_t least(FrameId frame);
  /// The cell, for use as a parent.
  [[nodiscard]] CellId push(FrameId frame, std::uint64_t local, CellId parent);

 private:
  struct StateSpan {
    std::uint32_t first = 0;  // in state_cells_
    std::uint32_t count = 0;
    bool asks = false;
    bool in_lexeme = false;
  };
  struct Task {
    bool is_enter = false;
    std::uint32_t what = 0;  // frame or cell
    CellId parent = 0;
  };

  template <class Begin>
  StateId closure(Begin begin);
  void run(const Task& task);
  [[nodiscard]] bool is_first(const Task& task);
  StateId step_one(CellId id, std::uint8_t byte);
  StateId intern();
  void begin_byte();
  void check_mask();
  void fail_by_one_call(Error error);
  void fail_as_ambiguous();

  MachineLimits limits_;
  Allowance expressions_;  // what all of them may take
  std::vector<Relaxed> relaxed_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Cell> cells_;
  std::vector<bool> asking_;  // by cell
  IdIndex cell_ids_;
  std::vector<StateSpan> states_;
  std::vector<CellId> state_cells_;
  IdIndex state_ids_;              // by their cells
  IntMap cell_steps_;              // cell and byte -> state
  IntMap state_steps_;             // state and byte -> state, for states of several cells
  mutable IntMap state_readable_;  // state -> readable_sets_, for states of several cells
  mutable std::vector<regex::ByteSet> readable_sets_;
  IntMap only_bytes_;   // state -> only_byte()
  IntMap cell_states_;  // cell -> state of it alone
  IntMap resumed_;      // cell -> state
  IntMap left_;         // cell -> bytes to the end of the text
  IntMap leasts_;       // frame -> least(), where that is known for good

  // The state under construction.
  std::vector<Task> tasks_;
  std::vector<std::uint64_t> few_done_;          // keys of the tasks so far,
  std::unordered_set<std::uint64_t> many_done_;  // here once they are many
  std::vector<CellId> waiting_;
  std::size_t steps_ = 0;         // for the byte at hand
  std::uint64_t work_ = 0;        // but for expressions
  std::uint64_t byte_begun_ = 0;  // work_ by then
  std::uint64_t mask_begun_ = 0;
  std::uint64_t walked_ = 0;  // in the mask at hand, in steps
  std::uint64_t mask_limit_ = 0;
  bool is_in_mask_ = false;
  std::vector<FrameId> asked_;  // frames whose least() is being asked for
  std::size_t least_work_ = 0;  // frames asked since the first of them
  bool met_itself_ = false;     // one of them came to a frame above it, or there were too many
  std::optional<Error> error_;
  bool is_limit_of_one_call_ = false;
};

}  // namespace tenon::grammar
