#include "tenon/grammar/machine/machine.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace tenon::grammar {
// The machine of machine.h. A step takes each cell of a state, calls its frame, and runs the tasks
// (enter, resume, wait) that the frame schedules, depth first on an explicit stack, until every way
// has come to a cell that waits for a byte, a token or an answer. These cells, sorted, are the new
// state, which gets a number by its contents.
//
// Results are kept: the state after a cell and a byte, after a state and a byte, after a cell was
// resumed, and the bytes that a state can read. Since the frames of one cell do not depend on other
// cells, a state of several cells is put together from the results of each.
//
// An ambiguous grammar has many stacks with equal tops. Two things keep them few. A state's cells
// of the same frame and local are one cell, on a kJoin of what lies below (pack); joins are packed
// in the same way, so that common parts further down are shared too. And once a closure has many
// tasks, a frame that is entered a second time is entered on a kOpen, to which later places are
// only added: each frame is entered at most twice, whatever the number of ways to it (Scott and
// Johnstone, GLL parsing, 2010). When all is done, kOpens are replaced by joins (close_waiting). A
// kOpen on itself is a rule that begins with itself, which is refused.
//
// Work is counted for one byte, one mask and one text, each with a limit. After a limit states are
// dead and error() says why. least() and left() estimate the bytes to an end of the text, for
// end_search.h: a frame that contains itself counts as kFar while it is being asked, and results
// that depend on that are not kept.

namespace {

// Multiplies by 2^64 divided by the golden ratio, and folds the high bits into the low ones, which
// are those that select a slot of a table (int_map.h).
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

std::uint64_t key(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32U | low;
}

// The steps of a mask that a step of an expression counts as: it takes some 100 ns.
constexpr std::uint64_t kPerExpressionStep = 2;

Error too_many(std::uint64_t steps, const char* what) {
  return {Errc::limit_exceeded, "grammar: more than " + std::to_string(steps) + " steps " + what};
}

}  // namespace

// A frame overrides those of these methods that can be called for its cells. A frame that never
// enters another has no cell that could be resumed, and so on.
void Frame::resume(Machine&, const Cell&) {
  assert(!"this frame enters nothing");
}
void Frame::read(Machine&, const Cell&, std::uint8_t) {
  assert(!"this frame does not wait");
}
const TokenSet* Frame::tokens(const Cell&) const {
  return nullptr;
}
void Frame::read_token(Machine&, const Cell&, vocab::TokenId) {
  assert(!"this frame waits for no token");
}
void Frame::answer(Machine&, const Cell&, std::string_view) {
  assert(!"this frame does not ask");
}
std::optional<Frame::Lexeme> Frame::lexeme(const Cell&) const {
  return std::nullopt;
}

Machine::Machine(MachineLimits limits)
    : limits_(limits), expressions_(limits.max_expression_steps, limits.max_expression_bytes) {
  cells_.push_back({});  // the empty stack
  asking_.push_back(false);
  states_.push_back({});  // the empty set
}

Machine::~Machine() = default;

// Defined before its callers, so that it is inlined there.
void Machine::begin_byte() {
  steps_ = 0;
  byte_begun_ = work_;
}

void Machine::add_work(std::uint64_t steps) {
  work_ += steps;
  // Within a mask this is the limit of one call, to which what was read before did not contribute.
  if (work_ - byte_begun_ > limits_.max_work) [[unlikely]] {
    Error error = too_many(limits_.max_work, "to find out what may come next");
    if (is_in_mask_) {
      fail_by_one_call(std::move(error));
    } else {
      fail(std::move(error));
    }
  }
  check_mask();
}

void Machine::begin_mask(std::uint64_t fraction) {
  begin_byte();
  mask_begun_ = work_;
  expressions_begun_ = expressions_.steps_used();
  mask_limit_ = limits_.max_mask_steps / fraction;
  walked_ = 0;
  is_in_mask_ = true;
  // Expressions stop by themselves, within work that this machine does not see.
  expressions_.set_max_steps(std::min(limits_.max_expression_steps,
                                      expressions_begun_ + mask_limit_ / kPerExpressionStep));
}

void Machine::end_mask() {
  is_in_mask_ = false;
  expressions_.set_max_steps(limits_.max_expression_steps);
}

void Machine::add_walked(std::uint64_t nodes) {
  constexpr std::uint64_t kNodesPerStep = 4;
  walked_ += nodes / kNodesPerStep;
  check_mask();
}

void Machine::check_mask() {
  if (!is_in_mask_) return;
  const std::uint64_t of_expressions =
      kPerExpressionStep * (expressions_.steps_used() - expressions_begun_);
  if (work_ - mask_begun_ + walked_ + of_expressions > mask_limit_) [[unlikely]] {
    fail_by_one_call(
        too_many(mask_limit_, "for one mask: there are too many ways to read the text"));
  }
}

std::shared_ptr<regex::ExprSet> Machine::new_exprs(Limits own) {
  return std::make_shared<regex::ExprSet>(limits_of_exprs(own));
}

Limits Machine::limits_of_exprs(Limits own) {
  own.shared = &expressions_;
  return own;
}

FrameId Machine::add(std::unique_ptr<Frame> frame) {
  frames_.push_back(std::move(frame));
  return static_cast<FrameId>(frames_.size() - 1);
}

FrameId Machine::reserve() {
  return add(nullptr);
}

void Machine::set(FrameId id, std::unique_ptr<Frame> frame) {
  assert(!frames_[id]);
  frames_[id] = std::move(frame);
}

CellId Machine::push(FrameId frame, std::uint64_t local, CellId parent) {
  const std::uint64_t hash = mix(mix(0, key(frame, parent)), local);
  const CellId known = cell_ids_.find(hash, [&](CellId id) {
    const Cell& cell = cells_[id];
    return cell.frame == frame && cell.parent == parent && cell.local == local;
  });
  if (known != IdIndex::kNone) return known;
  const auto id = static_cast<CellId>(cells_.size());
  cell_ids_.insert(hash, id);
  cells_.push_back({frame, parent, local});
  asking_.push_back(false);
  if (frame == kOpen || is_in_open(parent)) {
    // The flag is inherited by all cells above, so that closed() leaves others alone without a look
    // at what is below them.
    in_open_.resize(cells_.size(), false);
    in_open_[id] = true;
  }
  if (cells_.size() > limits_.max_cells) {
    fail({Errc::limit_exceeded,
          "grammar: more than " + std::to_string(limits_.max_cells) + " stacks"});
  }
  return id;
}

void Machine::enter(FrameId frame, CellId parent) {
  tasks_.push_back({true, frame, parent});
}

void Machine::resume(CellId cell) {
  // The empty stack has no frame to ask: the text may end here.
  if (cell == 0) {
    waiting_.push_back(0);
  } else {
    tasks_.push_back({false, cell, 0});
  }
}

void Machine::wait(FrameId frame, std::uint64_t local, CellId parent) {
  waiting_.push_back(push(frame, local, parent));
}

void Machine::ask(FrameId frame, std::uint64_t local, CellId parent) {
  waiting_.push_back(push(frame, local, parent));
  asking_[waiting_.back()] = true;
}

void Machine::run(const Task& task) {
  if (task.is_enter) {
    frames_[task.what]->enter(*this, task.what, task.parent);
    return;
  }
  const Cell cell = cells_[task.what];  // a copy, because cells_ grows
  if (cell.frame == kJoin) {
    for (const CellId member : members(cell)) resume(member);
  } else if (cell.frame == kOpen) {
    Opened& opened = opened_[static_cast<FrameId>(cell.local)];
    opened.is_resumed = true;
    for (const CellId parent : opened.parents) resume(parent);
  } else {
    frames_[cell.frame]->resume(*this, cell);
  }
}

// The task that does for all places at which a frame is entered; nothing: it has been run. The
// first place is entered as it is, since most frames are entered once. The second one enters the
// frame on a kOpen, and later places only become parents of that kOpen. If the frame has already
// been read on it, because it may be empty, a later parent goes on at once.
std::optional<Machine::Task> Machine::shared(const Task& task) {
  const auto [place, is_new] = opened_.try_emplace(task.what);
  if (is_new) return task;
  Opened& opened = place->second;
  opened.parents.push_back(task.parent);
  if (opened.is_resumed) resume(task.parent);
  const Task once{true, task.what, push(kOpen, task.what, 0)};
  return is_first(once) ? std::optional(once) : std::nullopt;
}

// A repetition of a part that may be empty comes back to itself, so nothing is run twice.
bool Machine::is_first(const Task& task) {
  constexpr std::size_t kFew = 32;
  // The shift loses no bit: there are at most max_cells cells, which is far below 2^31.
  const std::uint64_t id = key(task.what << 1U | (task.is_enter ? 1U : 0U), task.parent);
  if (many_done_.empty()) {
    if (std::find(few_done_.begin(), few_done_.end(), id) != few_done_.end()) return false;
    few_done_.push_back(id);
    if (few_done_.size() > kFew) many_done_.insert(few_done_.begin(), few_done_.end());
    return true;
  }
  return many_done_.insert(id).second;
}

// Runs the tasks that `begin` schedules, and those that they schedule, until all cells wait for a
// byte.
template <class Begin>
StateId Machine::closure(Begin begin) {
  tasks_.clear();
  few_done_.clear();
  if (!many_done_.empty()) many_done_.clear();
  if (!opened_.empty()) opened_.clear();
  waiting_.clear();
  begin();
  while (!tasks_.empty() && !error_) {
    const Task task = tasks_.back();
    tasks_.pop_back();
    if (!is_first(task)) continue;
    if (task.is_enter && !many_done_.empty() && shares_stacks_) {
      if (const auto once = shared(task)) run(*once);
    } else {
      run(task);
    }
    add_work(1);
    if (++steps_ > limits_.max_steps || waiting_.size() > limits_.max_cells_per_state) {
      fail_as_ambiguous();
    }
  }
  if (!opened_.empty()) close_waiting();
  return intern();
}

// Replaces cells on a kOpen.
void Machine::close_waiting() {
  closed_.clear();
  for (CellId& cell : waiting_) {
    if (error_) return;
    const bool is_asking = asking_[cell];
    cell = closed(cell, 0);
    if (is_asking) asking_[cell] = true;
  }
}

// The cell that replaces `cell`, with joins in place of all kOpens below it. A cell that is met
// again while it is being closed lies on itself: a rule begins with itself, which has no finite
// stack.
CellId Machine::closed(CellId cell, unsigned depth) {
  constexpr unsigned kDeepest = 2000;
  constexpr CellId kBeingClosed = ~CellId{0};
  if (!is_in_open(cell) || error_) return cell;
  const auto [place, is_new] = closed_.try_emplace(cell, kBeingClosed);
  if (!is_new && place->second != kBeingClosed) return place->second;
  if (!is_new || depth == kDeepest) {
    fail_as_ambiguous();
    return 0;
  }
  add_work(1);
  const Cell open = cells_[cell];
  CellId result = 0;
  if (open.frame == kOpen) {
    std::vector<CellId> parents = opened_[static_cast<FrameId>(open.local)].parents;
    for (CellId& parent : parents) parent = closed(parent, depth + 1);
    result = joined(std::move(parents), 0);
  } else {
    result = push(open.frame, open.local, closed(open.parent, depth + 1));
  }
  closed_[cell] = result;
  return result;
}

// To sort, compare and join a cell takes some 200 ns.
constexpr std::uint64_t kStepsPerPacked = 4;

// Makes cells that differ only in their parents one. `cells` are sorted, and stay so.
void Machine::pack(std::vector<CellId>& cells, unsigned depth) {
  constexpr unsigned kDeepest = 8;
  if (cells.size() < 2 || depth == kDeepest || error_) return;
  // What cells have in common if they become one. A cell that asks stays apart from one that waits.
  struct Top {
    FrameId frame;
    bool is_asking;
    std::uint64_t local;
    CellId cell;
    auto operator<=>(const Top&) const = default;
  };
  const auto is_like = [](const Top& a, const Top& b) {
    return a.frame == b.frame && a.is_asking == b.is_asking && a.local == b.local;
  };
  const auto is_lone = [&](CellId id) {
    return std::ranges::none_of(cells, [&](CellId other) {
      return other != 0 && other != id && cells_[other].frame == cells_[id].frame &&
             cells_[other].local == cells_[id].local;
    });
  };
  // Few cells are compared one with another, which needs no memory.
  constexpr std::size_t kFew = 6;
  if (cells.size() <= kFew &&
      std::ranges::all_of(cells, [&](CellId id) { return id == 0 || is_lone(id); })) {
    return;
  }
  std::vector<Top> tops;
  tops.reserve(cells.size());
  for (const CellId id : cells) {
    if (id != 0) tops.push_back({cells_[id].frame, asking_[id], cells_[id].local, id});
  }
  add_work(kStepsPerPacked * tops.size());
  std::ranges::sort(tops);
  if (std::ranges::adjacent_find(tops, is_like) == tops.end()) return;
  // The empty stack, which sorts first, has no top and stays by itself.
  cells.resize(cells[0] == 0 ? 1 : 0);
  for (std::size_t i = 0; i < tops.size();) {
    std::size_t end = i + 1;
    while (end < tops.size() && is_like(tops[i], tops[end])) ++end;
    CellId cell = tops[i].cell;
    if (end - i > 1) {
      std::vector<CellId> parents;
      for (std::size_t j = i; j < end; ++j) parents.push_back(cells_[tops[j].cell].parent);
      cell = push(tops[i].frame, tops[i].local, joined(std::move(parents), depth + 1));
      if (tops[i].is_asking) asking_[cell] = true;
    }
    cells.push_back(cell);
    i = end;
  }
  std::ranges::sort(cells);
}

// The cell that stands for all of `cells`: the cell itself if there is one, else a kJoin. The
// result is kept twice: for the cells as they are given, so that the next call with them ends after
// one look-up, and for the cells after joins among them were replaced by their members and equal
// tops were packed, so that equal sets of stacks have one number however they came about.
CellId Machine::joined(std::vector<CellId> cells, unsigned depth) {
  const auto sort = [&] {
    std::ranges::sort(cells);
    const auto repeated = std::ranges::unique(cells);
    cells.erase(repeated.begin(), repeated.end());
  };
  const auto find = [&](std::uint64_t hash) {
    return join_ids_.find(hash, [&](std::uint32_t id) {
      const Join& join = joins_[id];
      return std::ranges::equal(std::span(join_cells_).subspan(join.first, join.count), cells);
    });
  };
  const auto hash = [&] {
    std::uint64_t sum = cells.size();
    for (const CellId cell : cells) sum = mix(sum, cell);
    return sum;
  };
  const auto add = [&] {
    const auto id = static_cast<std::uint32_t>(joins_.size());
    join_ids_.insert(hash(), id);
    joins_.push_back({static_cast<std::uint32_t>(join_cells_.size()),
                      static_cast<std::uint32_t>(cells.size()), 0});
    join_cells_.insert(join_cells_.end(), cells.begin(), cells.end());
    return id;
  };
  sort();
  if (cells.size() == 1) return cells[0];
  if (const auto known = find(hash()); known != IdIndex::kNone) return joins_[known].cell;
  // Its cell is 0 until the end of this function.
  const std::uint32_t as_given = add();
  const std::size_t count = cells.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (cells[i] == 0 || cells_[cells[i]].frame != kJoin) continue;
    const auto inner = members(cells_[cells[i]]);
    cells[i] = inner[0];
    cells.insert(cells.end(), inner.begin() + 1, inner.end());
  }
  sort();
  add_work(kStepsPerPacked * cells.size());
  pack(cells, depth);
  CellId cell = cells[0];
  if (cells.size() > 1) {
    std::uint32_t packed = find(hash());
    // This may be as_given itself, if nothing was flattened or packed.
    if (packed == IdIndex::kNone) packed = add();
    if (joins_[packed].cell == 0) joins_[packed].cell = push(kJoin, packed, 0);
    cell = joins_[packed].cell;
  }
  joins_[as_given].cell = cell;
  return cell;
}

// True only while begin_mask() has lowered the limit of the expressions below that of the machine.
bool Machine::has_mask_used_up_expressions() const {
  return is_in_mask_ && expressions_.max_steps() < limits_.max_expression_steps &&
         expressions_.steps_used() > expressions_.max_steps();
}

void Machine::fail_by_one_call(Error error) {
  is_limit_of_one_call_ = is_limit_of_one_call_ || !error_;
  fail(std::move(error));
}

void Machine::fail_as_ambiguous() {
  fail_by_one_call(
      {Errc::limit_exceeded, "grammar: more than " + std::to_string(limits_.max_cells_per_state) +
                                 " ways to read one text, or a rule that begins with itself"});
}

// The number of the state that has the cells of waiting_, in ascending order and each once. Equal
// sets of cells always get the same number, on which all memos rely.
StateId Machine::intern() {
  if (error_ || waiting_.empty()) return 0;
  add_work(waiting_.size());
  std::sort(waiting_.begin(), waiting_.end());
  waiting_.erase(std::unique(waiting_.begin(), waiting_.end()), waiting_.end());
  if (shares_stacks_) pack(waiting_, 0);
  if (error_) return 0;
  if (waiting_.size() > limits_.max_cells_per_state) {
    fail_as_ambiguous();
    return 0;
  }
  std::uint64_t hash = waiting_.size();
  for (const CellId cell : waiting_) hash = mix(hash, cell);
  const StateId known =
      state_ids_.find(hash, [&](StateId id) { return std::ranges::equal(cells_of(id), waiting_); });
  if (known != IdIndex::kNone) return known;
  const StateId id = static_cast<StateId>(states_.size());
  states_.push_back(
      {static_cast<std::uint32_t>(state_cells_.size()), static_cast<std::uint32_t>(waiting_.size()),
       std::ranges::any_of(waiting_, [&](CellId cell) { return asking_[cell]; }),
       std::ranges::any_of(waiting_, [&](CellId cell) { return lexeme(cell).has_value(); })});
  if (state_cells_.size() + waiting_.size() > limits_.max_state_cells) {
    fail({Errc::limit_exceeded, "grammar: more than " + std::to_string(limits_.max_state_cells) +
                                    " stacks in all states: there are too many ways to read the "
                                    "text"});
  }
  state_cells_.insert(state_cells_.end(), waiting_.begin(), waiting_.end());
  state_ids_.insert(hash, id);
  return id;
}

StateId Machine::start(FrameId frame) {
  begin_byte();
  return closure([&] { enter(frame, 0); });
}

StateId Machine::answer(StateId state, std::string_view text) {
  begin_byte();
  // Again, because what follows from an answer may ask in its turn.
  while (states_[state].asks && !error_) {
    const std::span<const CellId> span = cells_of(state);
    // A copy, because closures add to state_cells_.
    const std::vector<CellId> cells(span.begin(), span.end());
    state = closure([&] {
      for (const CellId id : cells) {
        if (!asking_[id]) {
          waiting_.push_back(id);
          continue;
        }
        const Cell cell = cells_[id];
        frames_[cell.frame]->answer(*this, cell, text);
      }
    });
  }
  return error_ ? 0 : state;
}

StateId Machine::step_cell(CellId id, std::uint8_t byte) {
  begin_byte();
  return step_one(id, byte);
}

StateId Machine::step_one(CellId id, std::uint8_t byte) {
  if (id == 0 || !frames_[cells_[id].frame]->readable(cells_[id]).contains(byte)) return 0;
  const std::uint64_t memo = std::uint64_t{id} << 8U | byte;
  StateId next = cell_steps_.find(memo);
  if (next == IntMap::kNone) {
    next = closure([&] {
      const Cell cell = cells_[id];
      frames_[cell.frame]->read(*this, cell, byte);
    });
    cell_steps_.insert(memo, next);
  }
  return next;
}

StateId Machine::step(StateId state, std::uint8_t byte) {
  const StateSpan span = states_[state];
  if (span.count == 0) return 0;
  if (span.count == 1) return step_cell(state_cells_[span.first], byte);
  if (!readable(state).contains(byte)) return 0;
  const std::uint64_t memo = std::uint64_t{state} << 8U | byte;
  StateId next = state_steps_.find(memo);
  if (next == IntMap::kNone) {
    begin_byte();
    // Put together here and not in waiting_, which step_one() uses for the closure of each cell.
    std::vector<CellId> all;
    add_work(span.count);
    for (std::uint32_t i = 0; i < span.count && !error_; ++i) {
      const StateId one = step_one(state_cells_[span.first + i], byte);
      const std::span<const CellId> cells = cells_of(one);
      add_work(cells.size());
      all.insert(all.end(), cells.begin(), cells.end());
    }
    waiting_.swap(all);
    next = intern();
    state_steps_.insert(memo, next);
  }
  return next;
}

regex::ByteSet Machine::readable(StateId state) const {
  const auto cells = cells_of(state);
  const std::uint32_t known = cells.size() > 1 ? state_readable_.find(state) : IntMap::kNone;
  if (known != IntMap::kNone) return readable_sets_[known];
  regex::ByteSet bytes;
  for (const CellId id : cells) {
    if (id != 0) bytes |= frames_[cells_[id].frame]->readable(cells_[id]);
  }
  if (cells.size() > 1) {
    state_readable_.insert(state, static_cast<std::uint32_t>(readable_sets_.size()));
    readable_sets_.push_back(bytes);
  }
  return bytes;
}

// Up to 256 steps for a new state, but the second live byte ends the search. The answer is kept by
// state, so a text of forced bytes costs a look-up for each.
std::uint32_t Machine::only_byte(StateId state) {
  if (const std::uint32_t known = only_bytes_.find(state); known != IntMap::kNone) return known;
  const regex::ByteSet bytes = readable(state);
  std::uint32_t only = kNoByte;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    if (!bytes.contains(static_cast<std::uint8_t>(byte))) continue;
    const StateId after = step(state, static_cast<std::uint8_t>(byte));
    if (after == 0) continue;
    if (has_questions(after)) {
      only = kAsksForByte;
      break;
    }
    if (only != kNoByte) {
      only = kNoByte;
      break;
    }
    only = byte;
  }
  if (!error_) only_bytes_.insert(state, only);
  return only;
}

StateId Machine::step_token(StateId state, vocab::TokenId token) {
  const auto reads = [&](CellId id) {
    const TokenSet* const set = tokens(id);
    return set != nullptr && set->contains(token);
  };
  if (std::ranges::none_of(cells_of(state), reads)) return 0;
  begin_byte();
  return closure([&] {
    for (const CellId id : cells_of(state)) {
      if (!reads(id)) continue;
      const Cell cell = cells_[id];  // a copy, because cells_ grows
      frames_[cell.frame]->read_token(*this, cell, token);
    }
  });
}

// For a token that can be read both as a whole and by its bytes.
StateId Machine::united(StateId a, StateId b) {
  if (a == 0 || a == b) return b;
  if (b == 0) return a;
  std::vector<CellId> all;
  for (const StateId state : {a, b}) {
    const std::span<const CellId> cells = cells_of(state);
    all.insert(all.end(), cells.begin(), cells.end());
  }
  return state_of(all);
}

StateId Machine::resumed(CellId parent) {
  StateId next = resumed_.find(parent);
  if (next == IntMap::kNone) {
    begin_byte();
    next = closure([&] { resume(parent); });
    resumed_.insert(parent, next);
  }
  return next;
}

StateId Machine::state_of(CellId cell) {
  StateId state = cell_states_.find(cell);
  if (state == IntMap::kNone) {
    waiting_.assign(1, cell);
    state = intern();
    cell_states_.insert(cell, state);
  }
  return state;
}

StateId Machine::state_of(std::span<const CellId> cells) {
  waiting_.assign(cells.begin(), cells.end());
  return intern();
}

std::optional<Frame::Lexeme> Machine::lexeme(CellId id) const {
  if (id == 0) return std::nullopt;
  return frames_[cells_[id].frame]->lexeme(cells_[id]);
}

const TokenSet* Machine::tokens(CellId id) const {
  return id == 0 ? nullptr : frames_[cells_[id].frame]->tokens(cells_[id]);
}

bool Machine::waits_for_token(StateId state) const {
  return std::ranges::any_of(cells_of(state), [&](CellId id) { return tokens(id) != nullptr; });
}

std::optional<vocab::TokenId> Machine::only_token(StateId state) const {
  std::optional<vocab::TokenId> only;
  for (const CellId id : cells_of(state)) {
    const TokenSet* const set = tokens(id);
    const auto one = set == nullptr ? std::nullopt : set->only();
    // A cell that waits for a byte, or for the end of the text, is another way to go on.
    if (!one || (only && *only != *one)) return std::nullopt;
    only = one;
  }
  return only;
}

// A frame that contains itself gets kFar for the inner one, and results that depend on this are not
// kept, except that of the outermost frame: a way through the frame itself is never its shortest.
// If too many frames are asked, the result is a guess.
std::uint32_t Machine::least(FrameId frame) {
  constexpr std::size_t kMaxAsked = 64;
  constexpr std::size_t kMaxWork = 1000;
  if (const std::uint32_t known = leasts_.find(frame); known != IntMap::kNone) return known;
  if (asked_.empty()) {
    least_work_ = 0;
    met_itself_ = false;
  }
  if (std::ranges::find(asked_, frame) != asked_.end()) {
    met_itself_ = true;
    return kFar;
  }
  if (asked_.size() >= kMaxAsked || ++least_work_ > kMaxWork) {
    met_itself_ = true;
    return 1;
  }
  // Set aside, so that met_itself_ tells about this frame alone; the frame above gets both.
  const bool above = std::exchange(met_itself_, false);
  asked_.push_back(frame);
  const std::uint32_t least = std::min(frames_[frame]->least(*this), kFar);
  asked_.pop_back();
  if (!met_itself_ || asked_.empty()) leasts_.insert(frame, least);
  met_itself_ = met_itself_ || above;
  return least;
}

// The bytes from `cell` to the end of the text: the rest of its frame and of all frames below it.
// Kept for each cell on the way. The stack of cells may be as deep as the text is long, so this is
// a loop and no recursion.
std::uint32_t Machine::left_of(CellId cell) {
  std::vector<CellId> path{cell};  // each one needs the one after it
  std::uint32_t left = 0;
  while (!path.empty()) {
    const CellId id = path.back();
    const Cell at = cells_[id];
    const auto known = [&](CellId below) { return below == 0 ? 0 : left_.find(below); };
    left = known(id);
    if (left == IntMap::kNone && at.frame == kJoin) {
      left = kFar;
      for (const CellId member : members(at)) {
        const std::uint32_t each = known(member);
        if (each == IntMap::kNone) path.push_back(member);
        left = std::min(left, each);
      }
      // Otherwise members were pushed that have to be found first; then this cell comes again.
      if (path.back() == id) left_.insert(id, left);
    } else if (left == IntMap::kNone) {
      left = known(at.parent);
      if (left == IntMap::kNone) {
        path.push_back(at.parent);
      } else {
        left = std::min(left + frames_[at.frame]->left(*this, at), kFar);
        left_.insert(id, left);
      }
    }
    if (path.back() == id) path.pop_back();
  }
  return left;
}

std::uint32_t Machine::left(StateId state) {
  // Without asking frames, which may make the frames of later text.
  if (is_accepting(state)) return 0;
  std::uint32_t fewest = kFar;
  const std::size_t count = cells_of(state).size();
  for (std::size_t i = 0; i < count; ++i) {  // by index, because frames may make states
    fewest = std::min(fewest, left_of(cells_of(state)[i]));
  }
  return fewest;
}

void Machine::fail(Error error) {
  if (error_) return;
  // Then it was the mask's limit that stopped the expressions, and not that of all of them.
  is_limit_of_one_call_ = is_limit_of_one_call_ || has_mask_used_up_expressions();
  error_ = std::move(error);
}

std::size_t Machine::memory_bytes() const {
  std::size_t of_frames = 0;
  for (const auto& frame : frames_) of_frames += sizeof(frame) + frame->memory_bytes();
  return of_frames + cells_.capacity() * sizeof(Cell) + cell_ids_.memory_bytes() +
         joins_.capacity() * sizeof(Join) + join_cells_.capacity() * sizeof(CellId) +
         join_ids_.memory_bytes() + states_.capacity() * sizeof(StateSpan) +
         state_cells_.capacity() * sizeof(CellId) + state_ids_.memory_bytes() +
         cell_steps_.memory_bytes() + state_steps_.memory_bytes() + state_readable_.memory_bytes() +
         readable_sets_.capacity() * sizeof(regex::ByteSet) + only_bytes_.memory_bytes() +
         cell_states_.memory_bytes() + resumed_.memory_bytes() + left_.memory_bytes() +
         leasts_.memory_bytes();
}

}  // namespace tenon::grammar
