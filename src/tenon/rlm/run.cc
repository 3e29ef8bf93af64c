#include "tenon/rlm/run.h"

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <utility>
#include <variant>

#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/utf8.h"
#include "tenon/rlm/history.h"
#include "tenon/rlm/questions.h"

// The loop of a recursive model. run() asks the root model (ask), reads its output (read_answer),
// runs its cells (run_cells) and adds what they printed to the conversation, until the output has
// FINAL, calls a tool of the caller, or a limit is reached. At a limit the model is asked once more
// for an answer (force_answer), and if that fails too, the text that there is becomes the answer.
//
// Bounds is shared by a run and its children: gates for the number of sub-calls, what has been
// spent, and the tokens that cancel everything. Gate hands out places and wakes one waiter for each
// place that is given back. Children have a gate for each depth, because a run waits for those
// below it.
//
// The REPL can be lost (a worker dies, a session was stored). replay() then runs the recorded cells
// again with the recorded answers, so no model is asked; a cell that does something else than
// before makes the session not replayable.
//
// make_room() looks before each turn at how full the root model's context is. shrink() makes the
// conversation shorter by the gentlest means that is left: it cuts outputs of earlier turns, has
// the model sum them up (sum_up), cuts them more, and leaves the older half out. Where nothing
// helps, and at any prompt that is refused as too long, the answer is demanded from what there is.

namespace tenon::rlm {
namespace {

using chat::Refusal;
using message::ChatRequest;
using message::Message;
using message::Role;
using Clock = std::chrono::steady_clock;
using Final = RootAnswer::Final;

constexpr std::size_t kMaxInlineResult = 32'000;  // characters of a tool's result
constexpr std::size_t kPreview = 1000;            // characters of a longer one
// Bytes of recorded cells and of the answers to their questions; a session that has more cannot be
// made again.
constexpr std::size_t kMaxRunNotes = std::size_t{32} << 20U;
constexpr unsigned kMaxChildren = 4;  // at the same time, at one depth
// For a cell that runs again, unless cell_timeout is longer.
constexpr std::chrono::milliseconds kReplayTime{600'000};
constexpr std::size_t kMostBeside =
    12'000;                    // characters of tracebacks and headings, besides a turn's output
constexpr int kMaxStarts = 4;  // for a REPL that dies at once
constexpr std::size_t kMaxAnswerChars = std::size_t{16} << 20U;
constexpr std::chrono::milliseconds kLookAtRun{20};  // how often a wait checks for the run's end
constexpr std::chrono::milliseconds kBusyWait{100};  // for an engine whose queue is full
constexpr std::chrono::seconds kMaxBusy{60};
// How long to wait before a root model that has failed is asked again.
constexpr std::chrono::milliseconds kRetries[] = {
    std::chrono::milliseconds(0), std::chrono::milliseconds(500), std::chrono::milliseconds(2000)};
// The time for the last answer after max_time is a tenth of max_time, but at least this.
// For the end of an answer that was cancelled.
constexpr std::chrono::milliseconds kForItsEnd{500};
constexpr std::chrono::milliseconds kLeastLastAnswer{5000};
constexpr std::chrono::milliseconds kMostLastAnswer{60'000};
// The part of the root model's context that a prompt may have: the rest is for the answer.
constexpr double kFull = 0.9;
constexpr double kTokensPerByte = 1.0 / 3;  // where no prompt was counted yet
// The tokens of a summary: a sixth of the context, within these bounds.
constexpr std::uint32_t kLeastSummary = 256;
constexpr std::uint32_t kMostSummary = 2048;
// Characters of turns that are cut, at each step.
constexpr std::size_t kFirstCut = 8000;
constexpr std::size_t kSecondCut = 2000;
constexpr std::size_t kLastCut = 500;
constexpr std::string_view kContextIsFull = "Your context is full.";

// Errors that a client may try again are `unavailable`; clients act on that code.
Error error_of(const Refusal& refusal, const std::string& model) {
  const Errc code = refusal.code == "engine_busy" ? Errc::unavailable : refusal.error.code;
  // The registry of models names the model itself: "model 'a' could not be loaded".
  const std::string named = "model '" + model + "'";
  const std::string& why = refusal.error.message;
  return {code, "root " + (why.starts_with(named) ? why : named + ": " + why)};
}

/// Waits for the answer of a model.
class Waiting final : public message::ChatSinkInside {
 public:
  explicit Waiting(std::shared_ptr<message::ChatSink> watcher)
      : ChatSinkInside(std::move(watcher)) {}
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {
    const std::lock_guard lock(mutex_);
    fold_.add(event);
    if (!std::holds_alternative<message::Finish>(event)) return;
    is_over_ = true;
    changed_.notify_all();
  }
  /// False: `gives_up` returned true.
  /// Looks every kLookAtRun, because what `gives_up` asks (flags and the clock) wakes no thread.
  template <class GivesUp>
  bool wait(const GivesUp& gives_up) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLookAtRun, [this] { return is_over_; })) {
      if (gives_up()) return false;
    }
    return true;
  }
  [[nodiscard]] const message::Fold& fold() const { return fold_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  message::Fold fold_;
  bool is_over_ = false;
};

Message user(std::string text) {
  return {.role = Role::user, .content = std::move(text)};
}

void append_paragraph(std::string& out, std::string_view text) {
  if (text.empty()) return;
  if (!out.empty()) out += "\n\n";
  out += text;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n.") == std::string_view::npos;
}

/// Ends a cell's questions on every path.
/// run_cells() calls end_cell() itself where it needs the records; a second call finds nothing to
/// end.
class CellEnd {
 public:
  explicit CellEnd(Questions& questions) : questions_(questions) {}
  ~CellEnd() { static_cast<void>(questions_.end_cell()); }
  CellEnd(const CellEnd&) = delete;
  CellEnd& operator=(const CellEnd&) = delete;

 private:
  Questions& questions_;
};

std::size_t size_of(const std::vector<CellRecord>& cells) {
  std::size_t bytes = 0;
  for (const CellRecord& cell : cells) {
    bytes += cell.code.size();
    for (const AskedRecord& asked : cell.asked) {
      for (const std::string& text : asked.texts) bytes += text.size();
    }
  }
  return bytes;
}

}  // namespace

// ---- what runs share

void Trace::listen(Listener listener) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back(std::move(listener));
}

// Listeners are called with the lock, so each gets one event at a time, in order, and no event
// after close().
void Trace::add(const json::Object& event) {
  const std::lock_guard lock(mutex_);
  for (const Listener& listener : listeners_) listener(event);
}

void Trace::close() {
  const std::lock_guard lock(mutex_);
  listeners_.clear();
}

bool Trace::is_on() const {
  const std::lock_guard lock(mutex_);
  return !listeners_.empty();
}

bool Gate::enter(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  if (taken_ < places_) {
    ++taken_;
    return true;
  }
  wakes_.push_back(std::move(wake));
  return false;
}

// Frees a place and wakes those that wait, one after the other and without the lock, because a
// woken one may enter or leave the gate itself.
void Gate::leave() {
  std::unique_lock lock(mutex_);
  --taken_;
  // The one that is woken may have nothing to start any more.
  while (taken_ < places_ && !wakes_.empty()) {
    const std::function<void()> wake = std::move(wakes_.front());
    wakes_.pop_front();
    lock.unlock();
    wake();
    lock.lock();
  }
}

Bounds::Bounds(const RunLimits& chosen) : limits(chosen), calls(chosen.max_concurrent) {
  for (unsigned depth = 0; depth < limits.max_depth; ++depth) {
    children_.push_back(std::make_unique<Gate>(std::min(kMaxChildren, limits.max_concurrent)));
  }
}

RunFacts Bounds::own() const {
  const std::lock_guard lock(mutex_);
  return own_;
}

RunFacts Bounds::spent() const {
  const std::lock_guard lock(mutex_);
  RunFacts all = earlier_;
  all += own_;
  return all;
}

void Bounds::spend(const message::Usage& usage, const chat::Prices& prices) {
  const std::lock_guard lock(mutex_);
  own_ += {.usage = usage, .cost = prices.cost_of(usage)};
}

std::size_t Bounds::take_sub_calls(std::size_t count) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = earlier_.sub_calls + own_.sub_calls;
  const std::uint64_t left = limits.max_sub_calls - std::min(limits.max_sub_calls, before);
  const std::size_t taken = std::min<std::uint64_t>(count, left);
  own_.sub_calls += taken;
  return taken;
}

std::shared_ptr<message::ChatSink> Bounds::watcher(std::string_view part, unsigned depth) const {
  const auto sink = client.lock();
  if (sink == nullptr) return nullptr;
  if (depth == 0) return sink->inside(part);
  return sink->inside(std::string(part) + ", depth " + std::to_string(depth));
}

std::string_view Bounds::used_up() const {
  const RunFacts now = spent();
  const std::uint64_t tokens = std::uint64_t{now.usage.prompt_tokens} + now.usage.completion_tokens;
  if (limits.max_tokens > 0 && tokens >= limits.max_tokens) return "tokens";
  if (limits.max_cost > 0 && now.cost >= limits.max_cost) return "funds";
  return {};
}

void Bounds::go_on_from(const RunFacts& earlier) {
  const std::lock_guard lock(mutex_);
  earlier_ = earlier;
}

CancelToken Bounds::token() {
  // After halt() a token is born cancelled, so a child that is only starting then ends at once.
  const CancelToken token;
  const std::lock_guard lock(mutex_);
  if (is_halted_) token.cancel();
  tokens_.push_back(token);
  return token;
}

void Bounds::halt() {
  const std::lock_guard lock(mutex_);
  is_halted_ = true;
  for (const CancelToken& token : tokens_) token.cancel();
}

// ---- a run

Run::Run(std::shared_ptr<Host> host, std::shared_ptr<Bounds> bounds, const CancelToken& halt,
         Session& session, const ChatRequest& request, unsigned depth)
    : host_(std::move(host)),
      bounds_(std::move(bounds)),
      halt_(halt),
      session_(session),
      request_(request),
      depth_(depth) {}

void Run::tell(std::string type, const json::Object& event) {
  if (!bounds_->trace->is_on()) return;
  json::Object whole{{"type", std::move(type)}, {"depth", depth_}, {"session", session_.id}};
  for (const json::Member& member : event) whole.set(member.key, member.value);
  bounds_->trace->add(whole);
}

void Run::say(std::string text) {
  session_.messages.push_back(user(std::move(text)));
}

// What cells may import is known once the interpreter was looked at. Where that fails, so does the
// first cell, and says why.
std::vector<std::string> Run::importable() const {
  if (host_->options().sandbox.packages.empty()) return {};
  const auto sandbox = host_->sandbox();
  return sandbox ? imports_of((*sandbox)->interpreter().packages) : std::vector<std::string>();
}

// A sub-model that is not there now is no error yet: the first question to it will say so.
void Run::begin() {
  const RunLimits& limits = bounds_->limits;
  const auto sub = host_->find(session_.sub);
  const Place place{
      .has_children = depth_ + 1 < limits.max_depth,
      .has_tools = !request_.tools.empty() && request_.tool_choice.mode != message::ToolMode::none,
      .max_output_chars = most_output(),
      .sub_tokens = sub ? (*sub)->capabilities().context_tokens : 0,
      .has_value = !session_.task.shape.empty(),
      .imports = importable(),
      .folder_bytes = host_->options().sandbox.folder_bytes};
  session_.messages = {{.role = Role::system, .content = system_text(place)}};
  say(task_text(session_.task) + "\n\n" + turn_text(1, limits.max_iterations));
  tell("metadata", {{"model", session_.model},
                    {"root", session_.root},
                    {"sub", session_.sub},
                    {"question", cut_text(session_.task.question, kMaxInlineResult)},
                    {"context_pieces", std::uint64_t{session_.task.context.size()}},
                    {"context_chars", std::uint64_t{session_.task.context_chars()}},
                    {"limits", to_json(limits)},
                    {"tier", host_->tier()}});
}

// results[i] answers session_.calls[i]: RecursiveModel::match() has checked that none is missing
// and put them in this order. A result over kMaxInlineResult would fill the context, so the model
// sees how it begins, and reads the rest in the REPL.
void Run::resume(const std::vector<Message>& results, const std::string& others) {
  session_.answered.clear();
  json::Array traced;
  for (std::size_t i = 0; i < session_.calls.size(); ++i) {
    const message::ToolCall& call = session_.calls[i];
    const std::string whole = results[i].text();
    std::string told = whole;
    if (utf8::length(whole) > kMaxInlineResult) {
      told = cut_text(whole, kPreview) + "\n(All of it is tool_results[" +
             std::to_string(session_.tool_results.size()) + "] in the REPL.)";
    }
    session_.messages.push_back({.role = Role::tool,
                                 .content = std::move(told),
                                 .tool_call_id = call.id,
                                 .name = call.name,
                                 .extra = results[i].extra});
    session_.tool_results.push_back(whole);
    session_.answered.push_back(call.id);
    traced.emplace_back(json::Object{{"id", call.id}, {"content", cut_text(whole, kPreview)}});
  }
  session_.calls.clear();
  session_.state = Session::State::running;
  std::string said = std::exchange(session_.note, {});
  append_paragraph(said, others);
  if (!said.empty()) {
    if (utf8::length(said) > kMaxInlineResult) {
      session_.tool_results.push_back(said);
      // The user's own text is cut as a long result is.
      said = cut_text(said, kPreview) + "\n(All of it is tool_results[" +
             std::to_string(session_.tool_results.size() - 1) + "] in the REPL.)";
    }
    say(std::move(said));
  }
  tell("tool_results", {{"results", std::move(traced)}});
}

void Run::ask_again(const std::string& question) {
  session_.turns = session_.errors = 0;
  session_.answered.clear();
  session_.final_text.clear();
  session_.forced.clear();
  session_.state = Session::State::running;
  session_.task.question = question;
  std::string said = std::exchange(session_.note, {});
  append_paragraph(said, "Answer another question. Variables are as they were: " + question);
  append_paragraph(said, variables_now());
  append_paragraph(said, turn_text(1, bounds_->limits.max_iterations));
  say(std::move(said));
  tell("question", {{"question", question}});
}

// A session that goes on may bring another context. The notes of earlier turns stay true only for
// what the model has read, so the model is told, and the session can no longer be made again from
// its cells.
void Run::change_context(Task task) {
  // The variables were made from the earlier context, so they are made again.
  if (!session_.cells.empty()) {
    if (const Status ready = need_repl(); !ready) log::warn("rlm: " + ready.error().message);
  }
  session_.is_replayable = false;  // because there are two contexts now
  session_.cells.clear();
  session_.task.context = std::move(task.context);
  session_.task.shape = std::move(task.shape);
  session_.context_hash = hash_of(session_.task.context);
  append_paragraph(session_.note, "The context is another one now: " + context_text(session_.task));
  if (session_.repl == nullptr || !session_.repl->is_alive()) return;
  if (const Status loaded = load(*session_.repl); !loaded) {
    session_.repl.reset();
    lost_ = "The Python process was started anew: variables of earlier blocks are lost.";
  }
}

// One answer of the model. The last answer of a run does not heed the halt, because it is asked for
// when the run's time is up; it has a tenth of that time, within bounds, of its own.
Result<Run::Turn, Refusal> Run::ask_once(const ChatRequest& request, bool heeds_halt,
                                         std::string_view part) {
  const Clock::time_point latest =
      Clock::now() + std::clamp(bounds_->limits.max_time / 10, kLeastLastAnswer, kMostLastAnswer);
  const auto gives_up = [&] {
    if (bounds_->is_cancelled) return true;
    if (heeds_halt) return halt_.is_cancelled();
    return bounds_->is_late && Clock::now() > latest;
  };
  patience::Limit patience;
  if (heeds_halt) {
    patience.cancel = halt_;
  } else {
    patience.deadline = latest;
  }
  const patience::Scope scope(std::move(patience));
  auto model = host_->find(request.model);
  if (!model) return Failure<Refusal>(std::move(model.error()));
  auto waiting = std::make_shared<Waiting>(bounds_->watcher(part, depth_));
  auto answer = (*model)->start(request, waiting);
  if (!answer) return Failure<Refusal>(std::move(answer.error()));
  if (!waiting->wait(gives_up)) {
    (*answer)->cancel();
    // What was computed until then is told at the end of the answer, which most engines give at
    // once.
    const Clock::time_point told = Clock::now() + kForItsEnd;
    if (waiting->wait([&] { return Clock::now() > told; })) {
      bounds_->spend(waiting->fold().finish().usage, (*model)->prices());
    }
    return Failure<Refusal>(
        {.error = {Errc::unavailable, "the run was ended"}, .param = {}, .code = "cancelled"});
  }
  // No event follows Finish, so the fold is read without its lock.
  const message::Fold& fold = waiting->fold();
  bounds_->spend(fold.finish().usage, (*model)->prices());
  if (const std::uint32_t tokens = fold.finish().usage.prompt_tokens; tokens > 0) {
    // The template and the tools are counted too, so this is rather too high than too low.
    tokens_per_byte_ =
        tokens / static_cast<double>(std::max<std::size_t>(size_of(request.messages), 1));
  }
  if (fold.finish().reason == message::FinishReason::error) {
    return Failure<Refusal>(chat::refusal_of(fold.finish().error));
  }
  if (fold.finish().reason == message::FinishReason::cancelled) {  // by a time limit of its own
    return Failure<Refusal>({.error = {Errc::unavailable, "the answer was not there in time"},
                             .param = {},
                             .code = "engine_error"});
  }
  return Turn{fold.message(), fold.finish(), fold.incomplete(), fold.diagnostics()};
}

ChatRequest Run::request_for(Wish wish) const {
  ChatRequest request = request_;
  request.model = session_.root;
  request.messages = session_.messages;
  request.rlm = {};
  request.owner = session_.owner;
  if (wish == Wish::text) {
    request.tools.clear();
    request.tool_choice = {};
  } else if (wish == Wish::any && request.tool_choice.mode == message::ToolMode::required) {
    request.tool_choice.mode = message::ToolMode::automatic;  // otherwise it could not run code
  }
  return request;
}

// Asks until there is an answer. A prompt that is too long is made shorter, a busy engine is waited
// for, and an upstream that fails is asked again after growing pauses (kRetries); a run may have
// cost minutes that a single failure should not lose.
Result<Run::Turn, Error> Run::ask(Wish wish) {
  const bool is_last = wish == Wish::text;
  const Clock::time_point begun = Clock::now();
  const auto is_unwanted = [&] {
    return is_last ? bounds_->is_cancelled.load() : halt_.is_cancelled();
  };
  std::size_t failures = 0;
  while (true) {
    auto turn = ask_once(request_for(wish), !is_last, "root");
    if (turn) return *std::move(turn);
    const Refusal& refusal = turn.error();
    if (is_unwanted()) return Failure<Error>(error_of(refusal, session_.root));
    if (refusal.code == "context_length_exceeded") {
      if (shrink(/*may_sum_up=*/wish == Wish::any)) continue;
      // The question and the demand for an answer are enough for some answer; other turns need
      // more.
      if (is_last && drop_turns(session_.messages)) continue;
      is_full_ = true;
    }
    if (refusal.code == "engine_busy" && Clock::now() - begun < kMaxBusy) {
      std::this_thread::sleep_for(kBusyWait);
      continue;
    }
    // Upstreams fail now and then, and much work would be lost.
    const bool may_pass = refusal.error.code == Errc::unavailable && refusal.code != "cancelled";
    if (!may_pass || failures == std::size(kRetries)) {
      return Failure<Error>(error_of(refusal, session_.root));
    }
    log::warn("rlm: the root model is asked again: " +
              std::string(log::content(refusal.error.message)));
    const Clock::time_point again = Clock::now() + kRetries[failures++];
    while (Clock::now() < again && !is_unwanted()) std::this_thread::sleep_for(kLookAtRun);
  }
}

// ---- room in the root model's context

// 0: not known.
std::uint32_t Run::window() const {
  const auto root = host_->find(session_.root);
  return root ? (*root)->capabilities().context_tokens : 0;
}

// A turn's output takes at most a quarter of the context, at three characters for a token.
std::size_t Run::most_output() const {
  const std::size_t tokens = window();
  const std::size_t most = bounds_->limits.max_output_chars;
  return tokens == 0 ? most : std::min(most, std::max(tokens * 3 / 4, kPreview));
}

bool Run::is_fuller_than(double part) const {
  const double each = tokens_per_byte_ > 0 ? tokens_per_byte_ : kTokensPerByte;
  const auto size = static_cast<double>(size_of(session_.messages));
  const std::uint32_t tokens = window();
  return tokens > 0 && size * each > part * tokens;
}

// Makes the conversation shorter before the context is full. False: there is no room for another
// turn, and nothing more can be cut.
bool Run::make_room() {
  const double part = bounds_->limits.compact_at;
  if (session_.turns == 0) return true;  // nothing to cut: the model says whether it fits
  const auto fills_up = [&] { return part > 0 && is_fuller_than(part); };
  // From compact_at on, outputs are cut and older turns are summed up, each once. From kFull on
  // every means is used, because the next prompt would be refused.
  if (fills_up()) static_cast<void>(cut_turns(session_.messages, kFirstCut, kFirstCut));
  if (fills_up()) static_cast<void>(cut_turns(session_.messages, kSecondCut, kFirstCut));
  if (fills_up() && are_old_turns_long(session_.messages)) static_cast<void>(sum_up());
  while (is_fuller_than(std::max(part, kFull))) {
    if (!shrink(/*may_sum_up=*/part > 0)) return false;
  }
  return true;
}

// Makes the conversation shorter by one step. False: nothing more can be cut.
bool Run::shrink(bool may_sum_up) {
  auto& messages = session_.messages;
  if (cut_turns(messages, kFirstCut, kFirstCut * 4)) return true;
  if (cut_turns(messages, kSecondCut, kFirstCut)) return true;
  if (may_sum_up && bounds_->limits.compact_at > 0 && sum_up()) return true;
  if (cut_turns(messages, kLastCut, kSecondCut)) return true;
  if (!drop_oldest(messages)) return false;
  may_sum_up_ = true;
  log::info("rlm: the older turns are left out: the root model's context is full");
  return true;
}

std::string Run::variables_now() {
  if (session_.repl == nullptr) return {};
  const auto variables = session_.repl->variables();
  return variables ? variables_text(*variables) : std::string();
}

// Has the root model sum up all turns but the last, and puts the summary in their place. False: it
// was not possible; the conversation is as it was.
bool Run::sum_up() {
  const auto end = end_of_old_turns(session_.messages);
  if (!end || !may_sum_up_ || halt_.is_cancelled() || !bounds_->used_up().empty()) return false;
  const std::uint32_t tokens = window();
  std::uint32_t most =
      tokens == 0 ? kMostSummary : std::clamp(tokens / 6, kLeastSummary, kMostSummary);
  if (request_.max_tokens) most = std::min(most, *request_.max_tokens);
  const std::string variables = variables_now();
  ChatRequest request = request_for(Wish::text);
  request.messages.resize(*end);
  const std::size_t before = size_of(session_.messages);
  const std::size_t replaced = size_of(request.messages);
  // Two tokens for a word, so a summary that keeps to its number of words is not cut.
  request.messages.push_back(user(summary_question(most / 2, variables)));
  request.max_tokens = most;
  auto turn = ask_once(request, /*heeds_halt=*/true, "summary");
  std::string failed;
  std::string summary = turn ? turn->message.text() : std::string();
  if (!turn) {
    failed = turn.error().error.message;
  } else if (turn->finish.reason == message::FinishReason::length) {
    failed = "the summary is longer than " + std::to_string(most) + " tokens";
  } else if (is_blank(summary)) {
    failed = "the summary is empty";
  } else if (const RootAnswer said = read_answer(summary, false); !said.cells.empty()) {
    failed = "the model wrote code in place of a summary";
  } else if (summary.size() + size_of({request.messages[0], request.messages[1]}) >= replaced) {
    failed = "the summary is as long as what it sums up";
  }
  json::Object event{{"iteration", session_.turns}, {"messages", std::uint64_t{*end - 2}}};
  if (failed.empty()) {
    event.set("summary", summary);
    put_summary(session_.messages, *end, std::move(summary), variables);
    ++session_.compactions;
  } else {
    event.set("failed", failed);
    log::warn("rlm: earlier turns could not be summed up: " + std::string(log::content(failed)));
  }
  may_sum_up_ = failed.empty();
  event.set("bytes_before", std::uint64_t{before});
  event.set("bytes_after", std::uint64_t{size_of(session_.messages)});
  tell("compaction", event);
  return failed.empty();
}

// ---- the REPL

CellLimits Run::cell_limits(std::size_t max_output) const {
  return {.wall = bounds_->limits.cell_timeout, .max_output_chars = max_output};
}

void Run::lose_repl() {
  session_.repl.reset();
  session_.cells.clear();
  session_.is_replayable = true;
}

// One piece of context is a text, several are a list: the model is told which, and its code relies
// on it.
Status Run::load(Repl& repl) {
  const std::vector<std::string>& context = session_.task.context;
  Expected<Loaded> loaded;
  if (!session_.task.shape.empty()) {
    loaded = repl.load_json(std::vector<std::string>{"context"}, context.front());
  } else if (context.size() <= 1) {
    loaded = repl.load_text(std::vector<std::string>{"context"},
                            context.empty() ? std::string_view() : context.front());
  } else {
    const std::vector<std::string_view> pieces(context.begin(), context.end());
    loaded = repl.load_list(std::vector<std::string>{"context"}, pieces);
  }
  if (loaded) {
    loaded =
        repl.load_json(std::vector<std::string>{"history"}, json::to_string(session_.task.history));
  }
  if (!loaded) return Unexpected(loaded.error());
  return {};
}

Status Run::load_results(Repl& repl, std::size_t count) {
  if (session_.loaded_results == count) return {};
  const std::vector<std::string_view> results(
      session_.tool_results.begin(),
      session_.tool_results.begin() + static_cast<std::ptrdiff_t>(count));
  const auto loaded = repl.load_list(std::vector<std::string>{"tool_results"}, results);
  if (!loaded) return Unexpected(loaded.error());
  session_.loaded_results = count;
  return {};
}

// Runs the earlier cells again, without asking models.
Status Run::replay(Repl& repl) {
  for (const CellRecord& cell : session_.cells) {
    if (Status loaded = load_results(repl, cell.results); !loaded) return loaded;
    NotedAnswers answers(cell);
    // What the cell prints is in the conversation already.
    CellLimits limits = cell_limits(0);
    limits.wall = std::max(limits.wall, kReplayTime);
    const auto result = repl.run_cell(cell.code, answers, limits, &halt_);
    if (!result) return Unexpected(result.error());
    // Only the kind of an error is recorded, because its text may hold addresses or times.
    if (result->is_timed_out || result->error_kind != cell.error) {
      return Unexpected(Error{Errc::invalid, "a cell did not do the same again"});
    }
  }
  return {};
}

// A REPL with the context and, if `replays`, everything that earlier cells have left there. A
// worker that dies meanwhile, because memory ran out or because it was killed, is replaced.
Expected<std::unique_ptr<Repl>> Run::make_repl(bool replays) {
  if (const auto sandbox = host_->sandbox(); !sandbox) return Unexpected(sandbox.error());
  for (int tries = 1;; ++tries) {
    auto repl = host_->repl(bounds_->unsafe_local);
    Status ready;
    if (repl) {
      session_.loaded_results.reset();
      ready = (*repl)->seed(session_.seed);
      if (ready) ready = load(**repl);
      if (ready && replays) ready = replay(**repl);
      if (ready) return repl;
    } else {
      ready = Unexpected(repl.error());
    }
    // Only Errc::unavailable may be chance: a worker died or could not be started.
    const bool may_help = ready.error().code == Errc::unavailable && !halt_.is_cancelled();
    if (!may_help || tries == kMaxStarts) return Unexpected(ready.error());
    log::warn("rlm: a REPL died while it was made, and is made again: " + ready.error().message);
  }
}

// The Python process is made when code is first run. A session that has run code before gets its
// variables back by running its cells again with the recorded answers of sub-calls; if that is not
// possible, the model is told that its variables are lost.
Status Run::need_repl() {
  if (session_.repl != nullptr && !session_.repl->is_alive()) session_.repl.reset();
  if (session_.repl != nullptr) return load_results(*session_.repl, session_.tool_results.size());
  if (session_.is_replayable && !session_.cells.empty()) {
    if (auto repl = make_repl(/*replays=*/true)) {
      session_.repl = *std::move(repl);
    } else if (halt_.is_cancelled()) {
      return Unexpected(repl.error());
    } else {
      log::warn("rlm: a session's REPL could not be made again: " + repl.error().message);
    }
  }
  if (session_.repl == nullptr) {
    if (!session_.is_replayable || !session_.cells.empty()) {
      lose_repl();
      lost_ = "The Python process was started anew: variables of earlier blocks are lost.";
    }
    auto repl = make_repl(/*replays=*/false);
    if (!repl) return Unexpected(repl.error());
    session_.repl = *std::move(repl);
  }
  return load_results(*session_.repl, session_.tool_results.size());
}

// Records a cell for a REPL that is made again.
void Run::note(CellRecord cell, bool may_be_repeated) {
  if (!session_.is_replayable) return;
  session_.cells.push_back(std::move(cell));
  if (may_be_repeated && size_of(session_.cells) <= kMaxRunNotes) return;
  session_.is_replayable = false;
  session_.cells.clear();
}

// The final answer, if a cell gave it. `told` is the text for the root model.
std::optional<std::string> Run::run_cells(const RootAnswer& answer, std::string& told,
                                          bool& has_failed) {
  const std::size_t most = most_output();
  // All cells of a turn share `most` characters of output; each is shown at least kPreview of them.
  std::size_t room = most;
  json::Array traced;
  std::optional<std::string> final_answer;
  const std::size_t count = answer.cells.size();
  for (std::size_t i = 0; i < count && !halt_.is_cancelled() && !final_answer; ++i) {
    const std::string& code = answer.cells[i];
    const auto questions = std::make_shared<Questions>(host_, bounds_, halt_, session_, depth_);
    const CellEnd end(*questions);
    const auto result = session_.repl->run_cell(
        code, *questions, cell_limits(std::max<std::size_t>(room, kPreview)), &halt_);
    std::optional<std::vector<AskedRecord>> asked = questions->end_cell();
    if (!result) {
      has_failed = true;
      if (halt_.is_cancelled()) break;
      append_paragraph(told, "REPL output:\nError: " + result.error().message +
                                 "\nA new Python process has been started: the context is there, "
                                 "variables of earlier blocks are lost.");
      traced.emplace_back(json::Object{{"code", code}, {"error", result.error().message}});
      lose_repl();
      if (const Status ready = need_repl(); !ready) lost_ = ready.error().message;
      break;
    }
    const std::string text = cell_text(*result, i + 1, count);
    append_paragraph(told, room > 0 ? text : cut_text(text, kPreview));
    room -= std::min(room, utf8::length(text));
    has_failed = has_failed || !result->error.empty();
    final_answer = result->final_answer;
    // A cell that was interrupted stopped at an unknown line, and a second run would not stop
    // there.
    const bool may_be_repeated = asked.has_value() && !result->is_timed_out;
    note({code, session_.loaded_results.value_or(0), result->error_kind,
          std::move(asked).value_or(std::vector<AskedRecord>())},
         may_be_repeated);
    traced.emplace_back(json::Object{{"code", code},
                                     {"stdout", result->out},
                                     {"stderr", result->err},
                                     {"error", result->error},
                                     {"sub_calls", std::uint64_t{result->sub_calls}},
                                     {"duration_us", std::int64_t{result->duration.count()}}});
  }
  told = cut_text(told, most + kMostBeside);
  tell("cells", {{"iteration", session_.turns}, {"cells", std::move(traced)}});
  return final_answer;
}

// FINAL_VAR(name) takes the answer out of the process, so that it may be longer than what a model
// can write. A name without a variable is a mistake that the model is told about; the run goes on.
std::optional<std::string> Run::read_final(const RootAnswer& answer, std::string& told) {
  if (answer.final == Final::none) return std::nullopt;
  if (answer.final == Final::text) return answer.value;
  const std::string name = answer.value;
  Expected<std::optional<std::string>> value;
  if (const Status ready = need_repl(); !ready) {
    value = Unexpected(ready.error());
  } else {
    value = session_.repl->variable(name, kMaxAnswerChars);
  }
  if (value && *value) return *std::move(value);
  std::string why = value ? "Error: there is no variable '" + cut_text(name, 100) + "'."
                          : "Error: " + value.error().message;
  append_paragraph(told, "FINAL_VAR(" + cut_text(name, 100) + ") gave no answer. " + why);
  return std::nullopt;
}

// ---- the loop

// Calls of the client's tools end the run for now: the session waits for their results. Code in the
// same turn is not run, because it may depend on those results. A call that was cut off is not
// made, because half of its arguments may mean something else.
std::optional<Outcome> Run::take_calls(Turn& turn) {
  std::vector<message::ToolCall>& calls = turn.message.tool_calls;
  if (calls.empty()) return std::nullopt;
  // One cut call voids all calls of the turn.
  if (std::ranges::find(turn.incomplete, true) != turn.incomplete.end()) {
    calls.clear();
    session_.messages.push_back(turn.message);
    std::string text =
        "Your call of a tool was cut off at the end of the output, and was not made.";
    if (session_.turns < bounds_->limits.max_iterations) {
      append_paragraph(text, turn_text(session_.turns + 1, bounds_->limits.max_iterations));
    }
    say(std::move(text));
    return std::nullopt;
  }
  json::Array traced;
  for (message::ToolCall& call : calls) {
    call.id = new_call_id(request_.call_id_prefix, session_.id);
    traced.emplace_back(
        json::Object{{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
  const RootAnswer answer = read_answer(turn.message.text(), false);
  if (!answer.cells.empty() || answer.final != Final::none) {
    session_.note = "Your turn called tools, so the ";
    session_.note += !answer.cells.empty() ? "code" : "final answer";
    session_.note += " in it was not taken. Here are the results of the calls; go on with them.";
  }
  session_.calls = calls;
  session_.guarantee = turn.finish.guarantee;
  session_.format = turn.finish.format;
  session_.messages.push_back(std::move(turn.message));
  tell("tool_calls", {{"iteration", session_.turns}, {"calls", std::move(traced)}});
  return Outcome{.kind = Outcome::Kind::calls, .diagnostics = std::move(turn.diagnostics)};
}

Outcome Run::stopped() {
  // A child whose parent is over needs no answer.
  if (bounds_->is_cancelled || !bounds_->is_late || depth_ > 0) {
    return {.kind = Outcome::Kind::cancelled, .error = {Errc::unavailable, "the run was ended"}};
  }
  return force_answer("max_time", "The time for this run is over.");
}

// Ends with the answer, or with the calls that the request demands in its place.
Outcome Run::end_with(std::string answer) {
  Outcome answered{.kind = Outcome::Kind::answer, .text = std::move(answer)};
  if (request_.tool_choice.mode != message::ToolMode::required || request_.tools.empty()) {
    return answered;
  }
  say("Who asks wants calls of tools, not an answer: call what brings the question on.");
  Result<Turn, Error> turn = ask(Wish::calls);
  if (!turn) {
    if (bounds_->is_late || is_full_) return answered;
    if (halt_.is_cancelled()) return stopped();
    return {.kind = Outcome::Kind::failure, .error = std::move(turn.error())};
  }
  ++session_.turns;
  if (auto calls = take_calls(*turn)) return *std::move(calls);
  return answered;
}

// Asks the root model for its answer and nothing else.
Outcome Run::force_answer(std::string_view limit, std::string_view why) {
  const std::string nothing = "No answer was found: " + std::string(why);
  if (request_.tool_choice.mode == message::ToolMode::required && !bounds_->is_late) {
    Outcome outcome = end_with(nothing);
    outcome.forced = limit;
    return outcome;
  }
  std::string demand(why);
  demand +=
      " Give your final answer to the question now, from what you know so far: as plain text, or "
      "as FINAL(...) or FINAL_VAR(name). No code is run any more.";
  if (limit == kContext) {
    session_.messages.front().content = last_system_text();
    static_cast<void>(cut_turns(session_.messages, kLastCut, kSecondCut));
    append_paragraph(demand, variables_now());
  }
  say(std::move(demand));
  Outcome none{
      .kind = Outcome::Kind::answer, .text = nothing, .is_cut = true, .forced = std::string(limit)};
  Result<Turn, Error> turn = ask(Wish::text);
  if (!turn) {
    if (bounds_->is_cancelled) {
      return {.kind = Outcome::Kind::cancelled, .error = std::move(turn.error())};
    }
    if (bounds_->is_late || is_full_) return none;
    return {.kind = Outcome::Kind::failure, .error = std::move(turn.error())};
  }
  const std::string text = turn->message.text();
  const bool is_cut = turn->finish.reason == message::FinishReason::length;
  session_.messages.push_back(std::move(turn->message));
  tell("iteration", {{"iteration", session_.turns + 1}, {"forced", true}, {"response", text}});
  const RootAnswer answer = read_answer(text, is_cut);
  std::string told;
  // After max_time no REPL is started any more; one that lives may still be asked.
  const bool may_look =
      !bounds_->is_late || (session_.repl != nullptr && session_.repl->is_alive());
  std::optional<std::string> final_answer;
  if (answer.final != Final::variable || may_look) final_answer = read_final(answer, told);
  if (!final_answer) {
    // Code that is not run, or the name of a missing variable, is not an answer.
    if (answer.final != Final::none || !answer.cells.empty() || answer.is_cell_cut) return none;
    final_answer = text;
  }
  if (is_blank(*final_answer)) return none;
  return {.kind = Outcome::Kind::answer,
          .text = *std::move(final_answer),
          .is_cut = is_cut,
          .forced = std::string(limit)};
}

// One turn after the other, until there is an answer, a call for the client, or a limit. At a limit
// the model is asked once more for its best answer (force_answer). Each turn tells the model what
// its code printed, which variables there are, and how many turns are left.
Outcome Run::run() {
  const RunLimits& limits = bounds_->limits;
  while (true) {
    if (halt_.is_cancelled()) return stopped();
    if (session_.turns >= limits.max_iterations) {
      return force_answer("max_iterations",
                          "All " + std::to_string(limits.max_iterations) + " turns are used up.");
    }
    if (const std::string_view what = bounds_->used_up(); !what.empty()) {
      return force_answer(what == "tokens" ? "max_tokens" : "max_cost",
                          "No " + std::string(what) + " are left for this run.");
    }
    if (limits.max_errors > 0 && session_.errors >= limits.max_errors) {
      return force_answer("max_errors", "The code of " + std::to_string(session_.errors) +
                                            " turns in a row has failed.");
    }
    if (!make_room()) return force_answer(kContext, kContextIsFull);
    // The top of the loop decides what becomes of a halted run.
    if (halt_.is_cancelled()) continue;
    Result<Turn, Error> turn = ask(Wish::any);
    if (!turn) {
      if (halt_.is_cancelled()) return stopped();
      if (is_full_ && session_.turns > 0) return force_answer(kContext, kContextIsFull);
      return {.kind = Outcome::Kind::failure, .error = std::move(turn.error())};
    }
    ++session_.turns;
    const bool has_calls = !turn->message.tool_calls.empty();
    const bool is_cut = turn->finish.reason == message::FinishReason::length;
    const std::string text = turn->message.text();
    tell("iteration", {{"iteration", session_.turns},
                       {"response", text},
                       {"reasoning", turn->message.reasoning},
                       {"prompt_tokens", turn->finish.usage.prompt_tokens},
                       {"completion_tokens", turn->finish.usage.completion_tokens}});
    if (auto calls = take_calls(*turn)) return *std::move(calls);
    // The calls were cut off; take_calls() has said so to the model.
    if (has_calls) continue;
    session_.messages.push_back(std::move(turn->message));

    const RootAnswer answer = read_answer(text, is_cut);
    std::string told;
    bool has_failed = false;
    std::optional<std::string> final_answer;
    if (!answer.cells.empty()) {
      if (const Status ready = need_repl(); !ready) {
        if (halt_.is_cancelled()) return stopped();
        return {.kind = Outcome::Kind::failure, .error = ready.error()};
      }
      final_answer = run_cells(answer, told, has_failed);
      session_.errors = has_failed ? session_.errors + 1 : 0;
    }
    if (halt_.is_cancelled()) continue;
    if (!final_answer) final_answer = read_final(answer, told);
    if (final_answer) return end_with(*std::move(final_answer));

    append_paragraph(told, cells_left_text(answer));
    if (answer.is_cell_cut) {
      append_paragraph(told,
                       "Your last block was cut off at the end of the output, and was not "
                       "run. Write less in a turn.");
    } else if (told.empty()) {
      append_paragraph(told,
                       "There was neither a ```repl block nor a final answer in your turn. Go on: "
                       "run code, or give the answer with FINAL(...) on a line of its own.");
    }
    // A note on a REPL that was lost is told once, with the first output that comes after it.
    append_paragraph(told, std::exchange(lost_, {}));
    append_paragraph(told, variables_now());
    if (session_.turns < limits.max_iterations) {
      append_paragraph(told, turn_text(session_.turns + 1, limits.max_iterations));
    }
    say(std::move(told));
  }
}

}  // namespace tenon::rlm
