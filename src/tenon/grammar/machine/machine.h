#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"
#include "tenon/grammar/machine/int_map.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/grammar/machine/scanner.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/expr.h"

/// The machine that reads bytes (docs/masks.md): a nondeterministic pushdown automaton. Its stacks
/// are hash-consed cells, and its states are interned sets of cells; both are made when they are
/// first met. Equal stacks have the same number, so a state is kept, compared and returned to at no
/// cost, and what follows from it is computed once.
namespace tenon::grammar {

class Machine;

using FrameId = std::uint32_t;
using CellId = std::uint32_t;   ///< A stack. 0 is the empty stack: the text is complete.
using StateId = std::uint32_t;  ///< A set of stacks. 0 is the empty set: no text continues like
                                ///< this.

/// A frame on a stack: how far something has been read, and what is to be read after it.
struct Cell {
  FrameId frame = 0;
  CellId parent = 0;
  std::uint64_t local = 0;  ///< What the frame must remember.
};

/// Something that can be read: a byte, a sequence, a JSON object. Its methods tell the machine how
/// reading continues by calling Machine::enter, resume and wait any number of times: each call is
/// one more way.
class Frame {
 public:
  virtual ~Frame() = default;

  /// Begins to read; `parent` comes after it. `self` is the number of this frame.
  virtual void enter(Machine& machine, FrameId self, CellId parent) = 0;
  /// Called when the frame that was entered on top of `cell`, a cell of this frame, has been read.
  virtual void resume(Machine& machine, const Cell& cell);
  /// The bytes that `cell` may be able to read; it can read no others. Most bytes lead nowhere, so
  /// this is asked first.
  [[nodiscard]] virtual regex::ByteSet readable(const Cell& /*cell*/) const {
    return regex::ByteSet::all();
  }
  /// Called with a byte for which `cell` waits.
  virtual void read(Machine& machine, const Cell& cell, std::uint8_t byte);

  /// The tokens for which `cell` waits as wholes, mostly control tokens. Null: it waits for a byte.
  /// Valid as long as the frame.
  [[nodiscard]] virtual const TokenSet* tokens(const Cell& cell) const;
  /// Called with one of these tokens.
  virtual void read_token(Machine& machine, const Cell& cell, vocab::TokenId token);

  /// Called if `cell` waits for an answer: `text` is everything that has been read since the start.
  virtual void answer(Machine& machine, const Cell& cell, std::string_view text);

  /// The place of a cell inside a lexeme, after which its parent continues. The scanner can make a
  /// token mask for it.
  struct Lexeme {
    Scanner* scanner = nullptr;
    Scanner::State state = 0;
  };
  [[nodiscard]] virtual std::optional<Lexeme> lexeme(const Cell& cell) const;

  // The least number of bytes that must still be read, estimated, so that a search for an end of
  // the text (end_search.h) tries short ways first: for the whole frame, and for the rest of it in
  // `cell`, without cells on top. Machine::least() gives the value of other frames.
  [[nodiscard]] virtual std::uint32_t least(Machine& /*machine*/) { return 1; }
  [[nodiscard]] virtual std::uint32_t left(Machine& /*machine*/, const Cell& /*cell*/) { return 1; }

  /// The estimated size of what it has remembered of the texts it has seen.
  [[nodiscard]] virtual std::size_t memory_bytes() const { return 0; }
};

struct MachineLimits {
  std::size_t max_cells = 4'000'000;
  std::size_t max_cells_per_state = 20'000;  ///< Ways to read one text.
  std::size_t max_state_cells = 16'000'000;  ///< For all states together.
  std::size_t max_steps = 200'000;           ///< Calls of frames for one byte.
  /// Calls of all kinds for one byte, or for the beginning, including those that find out which
  /// values are possible.
  std::uint64_t max_work = 6'000'000;
  /// The limit for one mask. A step of its expressions counts as two.
  std::uint64_t max_mask_steps = 1'000'000;
  /// The limit for one text: this number, plus a number for each of its bytes and calls.
  std::uint64_t max_text_steps = 10'000'000;
  std::uint64_t steps_per_byte = 2'000;
  /// For all its regular expressions together. While expressions are made and not only walked, a
  /// step takes some 40 ns.
  std::uint64_t max_expression_steps = 12'000'000;
  std::uint64_t max_expression_bytes = std::uint64_t{64} << 20U;
};

/// Not thread-safe: threads that share one must lock it.
class Machine {
 public:
  explicit Machine(MachineLimits limits = {});
  ~Machine();

  // ---- Building -------------------------------------------------------------------------------
  FrameId add(std::unique_ptr<Frame> frame);
  /// For frames that refer to each other: a number now, the frame later.
  FrameId reserve();
  void set(FrameId id, std::unique_ptr<Frame> frame);
  [[nodiscard]] Frame& frame(FrameId id) { return *frames_[id]; }
  /// Expressions for frames, with limits of their own within those of the machine.
  [[nodiscard]] std::shared_ptr<regex::ExprSet> new_exprs(Limits own);
  /// The limits that new_exprs() would give them.
  [[nodiscard]] Limits limits_of_exprs(Limits own);
  /// What the frames leave out, as reported by the code that adds them.
  [[nodiscard]] std::vector<Relaxed>& relaxed() { return relaxed_; }
  /// For frames that look at the cells below their own: every cell then stands for one stack.
  void keep_stacks_apart() { shares_stacks_ = false; }

  // ---- Running --------------------------------------------------------------------------------
  /// The state in which `frame` is to be read, after which the text ends.
  [[nodiscard]] StateId start(FrameId frame);
  [[nodiscard]] StateId step(StateId state, std::uint8_t byte);
  [[nodiscard]] StateId step_cell(CellId cell, std::uint8_t byte);
  /// The same for the cells that wait for this token as a whole.
  [[nodiscard]] StateId step_token(StateId state, vocab::TokenId token);
  /// The state after the frame on top of `parent` has been read.
  [[nodiscard]] StateId resumed(CellId parent);
  [[nodiscard]] StateId state_of(CellId cell);
  [[nodiscard]] StateId state_of(std::span<const CellId> cells);
  /// True if some ways of reading need the text to continue: call answer() before anything else.
  /// What follows from other states depends on the state only.
  [[nodiscard]] bool has_questions(StateId state) const { return states_[state].asks; }
  /// True if some way of reading is inside a lexeme.
  [[nodiscard]] bool has_lexeme(StateId state) const { return states_[state].in_lexeme; }
  /// The bytes that may lead on from `state`; no other byte does.
  [[nodiscard]] regex::ByteSet readable(StateId state) const;
  [[nodiscard]] StateId answer(StateId state, std::string_view text);
  /// The one byte that leads on from `state`; kNoByte if several do or none does; kAsksForByte if
  /// the answer depends on the text.
  [[nodiscard]] std::uint32_t only_byte(StateId state);
  static constexpr std::uint32_t kNoByte = 256;
  static constexpr std::uint32_t kAsksForByte = 257;
  /// True if the text may end here.
  [[nodiscard]] bool is_accepting(StateId state) const {
    const std::span<const CellId> cells = cells_of(state);
    return !cells.empty() && cells[0] == 0;
  }
  /// True if the text must end here.
  [[nodiscard]] bool is_complete(StateId state) const {
    return is_accepting(state) && cells_of(state).size() == 1;
  }
  /// In ascending order. Valid until the next call that makes a state.
  [[nodiscard]] std::span<const CellId> cells_of(StateId state) const {
    return std::span(state_cells_).subspan(states_[state].first, states_[state].count);
  }
  [[nodiscard]] const Cell& cell(CellId id) const { return cells_[id]; }
  [[nodiscard]] std::optional<Frame::Lexeme> lexeme(CellId id) const;
  [[nodiscard]] const TokenSet* tokens(CellId id) const;
  /// True if some way of reading `state` continues with a whole token.
  [[nodiscard]] bool waits_for_token(StateId state) const;
  /// The whole token that is the only possible continuation.
  [[nodiscard]] std::optional<vocab::TokenId> only_token(StateId state) const;
  /// The estimated number of bytes to the end of the text: Frame::left() of the stack with the
  /// fewest. A whole token counts as one byte.
  [[nodiscard]] std::uint32_t left(StateId state);
  static constexpr std::uint32_t kFar = 1U << 20U;  ///< This many bytes, or more.
  /// The state with the ways of reading of both.
  [[nodiscard]] StateId united(StateId a, StateId b);

  /// The first limit that was reached; states made after it are dead.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  void fail(Error error);
  /// Work from now on counts against max_mask_steps, or a fraction of it, and so do the steps of
  /// expressions.
  void begin_mask(std::uint64_t fraction = 1);
  void end_mask();
  /// The limit was that of a single byte or mask, so what was read before did not contribute.
  [[nodiscard]] bool is_limit_of_one_call() const { return is_limit_of_one_call_; }
  /// The work since the beginning, at some 50 ns each: calls of frames, cells looked at, steps of
  /// expressions, and other counted work.
  [[nodiscard]] std::uint64_t work() const { return work_ + expressions_.steps_used(); }
  /// The bytes that the expressions use.
  [[nodiscard]] std::uint64_t expression_bytes() const { return expressions_.bytes_used(); }
  void add_work(std::uint64_t steps);
  /// Counts trie nodes that scanners have walked for a mask. They count only against
  /// max_mask_steps, because the results are kept and a text with many masks does not walk them
  /// again.
  void add_walked(std::uint64_t nodes);
  [[nodiscard]] const MachineLimits& limits() const { return limits_; }
  [[nodiscard]] std::size_t memory_bytes() const;

  // ---- For frames, within their methods -------------------------------------------------------
  /// Reads `frame` next, and then `parent`.
  void enter(FrameId frame, CellId parent);
  /// Continues after the frame on top of `cell` has been read. 0: the text may end here.
  void resume(CellId cell);
  /// Adds a cell that waits for a byte.
  void wait(FrameId frame, std::uint64_t local, CellId parent);
  /// Adds a cell that waits for answer().
  void ask(FrameId frame, std::uint64_t local, CellId parent);
  /// Frame::least() of another frame, at most kFar. kFar for a frame that is already being asked.
  [[nodiscard]] std::uint32_t least(FrameId frame);
  /// The number of the cell, for use as a parent.
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

  // Several cells as one, to be resumed together: `local` of its cell is a number of joins_.
  static constexpr FrameId kJoin = ~FrameId{0};
  // All the places in which a frame is entered in the closure that is being made: `local` of its
  // cell is the frame. Such cells are never part of a state.
  static constexpr FrameId kOpen = kJoin - 1;
  struct Join {
    std::uint32_t first = 0;  // in join_cells_
    std::uint32_t count = 0;
    CellId cell = 0;  // what stands for it
  };
  struct Opened {
    bool is_resumed = false;
    std::vector<CellId> parents;  // without the first one
  };

  template <class Begin>
  StateId closure(Begin begin);
  void run(const Task& task);
  [[nodiscard]] std::optional<Task> shared(const Task& task);
  [[nodiscard]] bool is_in_open(CellId cell) const {
    return cell < in_open_.size() && in_open_[cell];
  }
  CellId closed(CellId cell, unsigned depth);
  void close_waiting();
  void pack(std::vector<CellId>& cells, unsigned depth);
  [[nodiscard]] CellId joined(std::vector<CellId> cells, unsigned depth);
  [[nodiscard]] std::span<const CellId> members(const Cell& join) const {
    return std::span(join_cells_).subspan(joins_[join.local].first, joins_[join.local].count);
  }
  [[nodiscard]] std::uint32_t left_of(CellId cell);
  [[nodiscard]] bool is_first(const Task& task);
  StateId step_one(CellId id, std::uint8_t byte);
  StateId intern();
  void begin_byte();
  void check_mask();
  [[nodiscard]] bool has_mask_used_up_expressions() const;
  void fail_by_one_call(Error error);
  void fail_as_ambiguous();

  MachineLimits limits_;
  Allowance expressions_;  // the limit for all of them
  std::vector<Relaxed> relaxed_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Cell> cells_;
  std::vector<bool> asking_;   // by cell
  std::vector<bool> in_open_;  // by cell: it lies on a kOpen, or is one; absent: no
  bool shares_stacks_ = true;
  std::vector<Join> joins_;
  std::vector<CellId> join_cells_;
  IdIndex join_ids_;  // by their cells
  IdIndex cell_ids_;
  std::vector<StateSpan> states_;
  std::vector<CellId> state_cells_;
  IdIndex state_ids_;              // by their cells
  IntMap cell_steps_;              // cell and byte -> state
  IntMap state_steps_;             // state and byte -> state, for states of several cells
  mutable IntMap state_readable_;  // state -> readable_sets_, for states of several cells
  mutable std::vector<regex::ByteSet> readable_sets_;
  IntMap only_bytes_;   // state -> only_byte()
  IntMap cell_states_;  // cell -> the state of this cell only
  IntMap resumed_;      // cell -> state
  IntMap left_;         // cell -> bytes to the end of the text
  IntMap leasts_;       // frame -> least(), if that is final

  // The state that is being made.
  std::vector<Task> tasks_;
  std::vector<std::uint64_t> few_done_;          // the tasks done so far,
  std::unordered_set<std::uint64_t> many_done_;  // moved here once they are many
  std::unordered_map<FrameId, Opened> opened_;   // only if they are many
  std::unordered_map<CellId, CellId> closed_;    // cells on a kOpen, and what replaces them
  std::vector<CellId> waiting_;
  std::size_t steps_ = 0;         // for the current byte
  std::uint64_t work_ = 0;        // without expressions
  std::uint64_t byte_begun_ = 0;  // work_ when the byte began
  std::uint64_t mask_begun_ = 0;
  std::uint64_t expressions_begun_ = 0;  // their steps when the mask began
  std::uint64_t walked_ = 0;             // for the current mask, in steps
  std::uint64_t mask_limit_ = 0;
  bool is_in_mask_ = false;
  std::vector<FrameId> asked_;  // frames whose least() is being computed
  std::size_t least_work_ = 0;  // frames asked since the first of them
  bool met_itself_ = false;     // one of them met a frame above it, or there were too many
  std::optional<Error> error_;
  bool is_limit_of_one_call_ = false;
};

}  // namespace tenon::grammar
