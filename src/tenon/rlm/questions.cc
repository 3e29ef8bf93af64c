// A cell asks in batches; each prompt of a batch is an item, which passes a gate (for models, or
// for children of one depth), is started, and ends in done() with its text. A batch is answered
// once all of its items are over. Everything that changes is guarded by one mutex; models are
// started and answers are told without it, because they may come back to this object at once.
//
// A question that cannot be asked is answered with a text that begins with "Error: ", so that the
// model's code goes on; nothing here fails the run. What a cell received is recorded by the hash of
// its question, for a session that is made again, unless it is too large to be kept.

#include "tenon/rlm/questions.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/utf8.h"

namespace tenon::rlm {
namespace {

constexpr std::chrono::milliseconds kLater{100};
constexpr unsigned kMaxTries = 600;  // for an engine whose queue is full: one minute
constexpr std::size_t kMaxTraced = 2000;
constexpr std::size_t kMaxOpenBytes = std::size_t{256} << 20U;  // of the prompts of one cell
constexpr std::size_t kMaxNotes = std::size_t{32} << 20U;       // of one cell
constexpr std::size_t kNoteBytes = 64;                          // for a note, besides its text
constexpr std::size_t kMaxTracedRefusals = 100;                 // of one cell

std::string failed(std::string_view why) {
  return "Error: " + std::string(why);
}

std::size_t index_of(SubCall::Kind kind) {
  return kind == SubCall::Kind::llm ? 0 : 1;
}

}  // namespace

// The prompts of one call of llm_query_batched; llm_query is a batch of one. `texts` has a place
// for each prompt, filled in any order; `open` is how many are still empty.
struct Questions::Batch {
  SubCall::Kind kind = SubCall::Kind::llm;
  std::string model;
  std::string hash;
  std::vector<std::string> texts;
  std::size_t open = 0;
  Answer answer;
};

class Questions::Sink final : public message::ChatSinkInside {
 public:
  Sink(std::shared_ptr<Questions> questions, ItemPtr item, const chat::Prices& prices)
      : ChatSinkInside(questions->bounds_->watcher("question", questions->depth_)),
        questions_(std::move(questions)),
        item_(std::move(item)),
        prices_(prices) {}

  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {
    fold_.add(event);
    const auto* finish = std::get_if<message::Finish>(&event);
    if (finish == nullptr) return;
    questions_->bounds_->spend(finish->usage, prices_);
    std::string text = fold_.message().text();
    if (finish->reason == message::FinishReason::error) {
      text = failed(finish->error.message.empty() ? "the model failed" : finish->error.message);
    } else if (finish->reason == message::FinishReason::cancelled) {
      text = failed("the answer was cancelled");
    }
    // The item holds the answer, the answer this sink, and the sink the questions: this breaks the
    // circle.
    const auto questions = std::move(questions_);
    questions->done(item_, std::move(text));
  }

 private:
  std::shared_ptr<Questions> questions_;
  const ItemPtr item_;
  const chat::Prices prices_;
  message::Fold fold_;
};

Questions::Questions(std::shared_ptr<Host> host, std::shared_ptr<Bounds> bounds,
                     const CancelToken& halt, const Session& session, unsigned depth)
    : host_(std::move(host)),
      bounds_(std::move(bounds)),
      halt_(halt),
      session_(session.id),
      root_(session.root),
      sub_(session.sub),
      owner_(session.owner),
      depth_(depth) {}

bool Questions::makes_children() const {
  return depth_ + 1 < bounds_->limits.max_depth;
}

// Each depth has a gate of its own for children, because a parent that waits for its child still
// holds its own place.
Gate& Questions::gate_of(SubCall::Kind kind) const {
  return kind == SubCall::Kind::llm ? bounds_->calls : bounds_->children_at(depth_ + 1);
}

// A cell may name the root model or the sub-model, which the operator has allowed, and no other.
std::string Questions::model_of(const SubCall& call, std::string& error) const {
  if (!call.model) return sub_;
  if (*call.model == root_ || *call.model == sub_) return *call.model;
  error = failed("there is no model " + json::quoted(cut_text(*call.model, 100)) + " here, but " +
                 json::quoted(root_) + " and " + json::quoted(sub_));
  return {};
}

void Questions::ask(SubCall call, Answer answer) {
  // Code that was not given functions of tools can only have forged such a question.
  if (call.kind == SubCall::Kind::tool) {
    return answer(std::vector<std::string>(call.prompts.size(), "!there are no tools here"));
  }
  auto batch = std::make_shared<Batch>();
  const std::size_t count = call.prompts.size();
  batch->hash = hash_of(call);
  // At the deepest level rlm_query asks a model, as llm_query does.
  batch->kind = makes_children() ? call.kind : SubCall::Kind::llm;
  std::string error;
  batch->model = model_of(call, error);
  std::size_t bytes = 0;
  for (const std::string& prompt : call.prompts) bytes += prompt.size();
  std::size_t allowed = 0;
  {
    const std::lock_guard lock(mutex_);
    if (error.empty() && open_bytes_ + bytes > kMaxOpenBytes) {
      error = failed("too much is being asked at the same time");
    }
  }
  if (error.empty()) {
    allowed = bounds_->take_sub_calls(count);
    if (allowed < count) {
      error = failed("the limit of " + std::to_string(bounds_->limits.max_sub_calls) +
                     " sub-calls is reached");
    }
  }
  batch->texts.resize(count);
  // Where the limit allows a part of the batch, its first prompts are asked and the others get the
  // error.
  for (std::size_t i = allowed; i < count; ++i) batch->texts[i] = error;
  batch->open = allowed;
  batch->answer = std::move(answer);
  bool is_traced = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_noted_) batches_.push_back(batch);
    if (allowed == 0) note(*batch);
    for (std::size_t i = 0; i < allowed; ++i) {
      auto item = std::make_shared<Item>();
      item->batch = batch;
      item->index = i;
      item->prompt = std::move(call.prompts[i]);
      open_bytes_ += item->prompt.size();
      waiting_[index_of(batch->kind)].push_back(std::move(item));
    }
    is_traced = allowed < count && ++refusals_ <= kMaxTracedRefusals;
  }
  if (is_traced) trace(*batch, call.prompts[allowed], error, Clock::now());
  if (allowed == 0) {
    const Answer tell = std::move(batch->answer);
    return tell(batch->texts);
  }
  pump();
}

// Starts the items for which there is room.
void Questions::pump() {
  std::vector<ItemPtr> starting;
  {
    const std::lock_guard lock(mutex_);
    for (const SubCall::Kind kind : {SubCall::Kind::llm, SubCall::Kind::rlm}) {
      const std::size_t index = index_of(kind);
      std::deque<ItemPtr>& waiting = waiting_[index];
      // Once in the queue of a gate, this object waits for its turn instead of asking again: the
      // gate would keep a wake for each try.
      while (!waiting.empty() && !is_queued_[index]) {
        const auto wake = [weak = weak_from_this(), kind] {
          if (const auto self = weak.lock()) self->woken(kind);
        };
        if (!gate_of(kind).enter(wake)) {
          is_queued_[index] = true;
          break;
        }
        running_.insert(waiting.front());
        starting.push_back(std::move(waiting.front()));
        waiting.pop_front();
      }
    }
  }
  for (const ItemPtr& item : starting) {
    item->begun = Clock::now();
    const auto self = shared_from_this();
    if (!host_->errand([self, item] { self->start(item); })) {
      done(item, failed("the server is being stopped"));
    }
  }
}

void Questions::woken(SubCall::Kind kind) {
  {
    const std::lock_guard lock(mutex_);
    is_queued_[index_of(kind)] = false;
  }
  pump();
}

// One prompt of a batch. A busy engine is asked again later, because a loop of a model's own making
// easily asks more at once than there are places; other failures become the answer, which the
// model's code reads.
void Questions::start(const ItemPtr& item) try {
  sweep();
  if (halt_.is_cancelled() || over_.is_cancelled()) {
    return done(item, failed("the run was ended"));
  }
  if (const std::string_view what = bounds_->used_up(); !what.empty()) {
    return done(item, failed("no " + std::string(what) + " are left for this run"));
  }
  if (item->batch->kind == SubCall::Kind::rlm) return start_child(item);
  // A wait for the model, to be loaded or for its server, ends with the cell.
  const patience::Scope scope({.cancel = over_});
  auto model = host_->find(item->batch->model);
  if (!model) return done(item, failed(model.error().error.message));
  message::ChatRequest request;
  request.model = item->batch->model;
  request.owner = owner_;
  request.messages.push_back({.role = message::Role::user, .content = item->prompt});
  auto sink = std::make_shared<Sink>(shared_from_this(), item, (*model)->prices());
  auto started = (*model)->start(request, std::move(sink));
  if (!started) {
    const bool is_busy = started.error().code == "engine_busy";
    if (is_busy && ++item->tries < kMaxTries) return try_later(item);
    return done(item, failed(started.error().error.message));
  }
  const std::shared_ptr<chat::Answer> answer = *std::move(started);
  {
    const std::lock_guard lock(mutex_);
    // The answer may have ended within start(), and end_cell() may have come meanwhile.
    if (!item->is_over && !over_.is_cancelled()) {
      item->model = *std::move(model);
      item->answer = answer;
      return;
    }
  }
  answer->cancel();  // the cell has ended, or the answer has arrived; it is released here
} catch (const std::exception& thrown) {
  log::error(std::string("rlm: a sub-call failed: ") + thrown.what());
  done(item, failed("the question could not be asked"));
}

void Questions::try_later(const ItemPtr& item) {
  auto alarm = host_->alarm(Clock::now() + kLater, [weak = weak_from_this(), item] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    if (!self->host_->errand([self, item] { self->start(item); })) {
      self->done(item, failed("the server is being stopped"));
    }
  });
  const std::lock_guard lock(mutex_);
  // The earlier alarm has fired.
  item->alarm.swap(alarm);
}

// Starts a run inside the run, with a REPL whose context is the prompt.
void Questions::start_child(const ItemPtr& item) {
  auto is_done = std::make_shared<std::atomic<bool>>(false);
  const CancelToken halt = bounds_->token();
  // `this` is safe: end_cell() joins the thread.
  const auto work = [this, item, is_done, halt] {
    const crash::ThreadStack stack;
    Outcome outcome;
    try {
      Session session;
      session.id = session_;
      session.owner = owner_;
      session.root = item->batch->model;
      session.sub = sub_;
      session.task.context.push_back(item->prompt);
      session.task.question = item->prompt;
      session.task.is_question_context = utf8::length(item->prompt) > kMaxQuestionChars;
      message::ChatRequest request;
      request.owner = owner_;
      Run run(host_, bounds_, halt, session, request, depth_ + 1);
      run.begin();
      outcome = run.run();
    } catch (const std::exception& thrown) {
      outcome.kind = Outcome::Kind::failure;
      outcome.error.message = thrown.what();
    }
    const bool is_answer = outcome.kind == Outcome::Kind::answer;
    done(item, is_answer ? std::move(outcome.text) : failed(outcome.error.message));
    is_done->store(true);
  };
  std::list<Child> ended;
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    // Threads of children that have ended are joined here, so that a loop of rlm_query keeps no
    // thread for each of its turns.
    is_late = over_.is_cancelled();
    for (auto child = children_.begin(); child != children_.end();) {
      const auto next = std::next(child);
      if (child->is_done->load()) ended.splice(ended.end(), children_, child);
      child = next;
    }
    if (!is_late) {
      children_.push_back({{}, is_done, halt});
      try {
        children_.back().thread = std::thread(work);
      } catch (...) {
        children_.pop_back();
        throw;
      }
    }
  }
  for (Child& child : ended) child.thread.join();
  if (is_late) done(item, failed("the run was ended"));
}

void Questions::trace(const Batch& batch, std::string_view prompt, std::string_view text,
                      Clock::time_point begun) const {
  if (!bounds_->trace->is_on()) return;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  bounds_->trace->add({{"type", "sub_call"},
                       {"depth", depth_},
                       {"session", session_},
                       {"kind", batch.kind == SubCall::Kind::rlm ? "rlm" : "llm"},
                       {"model", batch.model},
                       {"prompt", cut_text(prompt, kMaxTraced)},
                       {"prompt_chars", std::uint64_t{utf8::length(prompt)}},
                       {"response", cut_text(text, kMaxTraced)},
                       {"duration_ms", std::int64_t{took.count()}}});
}

// Called with the lock when all answers of the batch have arrived.
void Questions::note(const Batch& batch) {
  for (const std::string& text : batch.texts) noted_bytes_ += text.size() + kNoteBytes;
  if (noted_bytes_ <= kMaxNotes) return;
  is_noted_ = false;
  batches_.clear();
}

// Called with the lock. A thread of ours destroys later what the item holds.
Questions::Told Questions::settle(Item& item, std::string text) {
  item.is_over = true;
  open_bytes_ -= item.prompt.size();
  std::string().swap(item.prompt);
  if (item.answer != nullptr || item.alarm != nullptr) {
    gone_.push_back({.model = std::move(item.model),
                     .answer = std::move(item.answer),
                     .alarm = std::move(item.alarm)});
  }
  Batch& batch = *item.batch;
  batch.texts[item.index] = std::move(text);
  if (--batch.open > 0) return {};
  note(batch);
  return {std::move(batch.answer), batch.texts};
}

void Questions::done(const ItemPtr& item, std::string text) {
  // Before settle(), which gives the prompt's memory back.
  trace(*item->batch, item->prompt, text, item->begun);
  Told told;
  {
    const std::lock_guard lock(mutex_);
    if (item->is_over) return;
    told = settle(*item, std::move(text));
    running_.erase(item);
  }
  if (told.answer) told.answer(std::move(told.texts));
  gate_of(item->batch->kind).leave();
}

// Destroys answers that are over, on a thread that is not an engine's.
void Questions::sweep() {
  std::vector<Item> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(gone_);
}

std::optional<std::vector<AskedRecord>> Questions::end_cell() {
  std::vector<Item> gone;
  std::list<Child> children;
  std::deque<ItemPtr> dropped[2];
  std::set<ItemPtr> running;
  std::vector<AskedRecord> asked;
  bool is_noted = false;
  {
    const std::lock_guard lock(mutex_);
    over_.cancel();
    for (std::size_t kind = 0; kind < std::size(waiting_); ++kind) {
      dropped[kind].swap(waiting_[kind]);
    }
    gone.swap(gone_);
    running.swap(running_);
    for (const ItemPtr& item : running) {
      item->is_over = true;  // answers that arrive later are dropped
      gone.push_back({.model = std::move(item->model),
                      .answer = std::move(item->answer),
                      .alarm = std::move(item->alarm)});
    }
    children.swap(children_);
    is_noted = is_noted_;
    for (const auto& batch : batches_) {
      // A batch without all its answers was never told to the cell; its record has no texts.
      asked.push_back({batch->hash, batch->open == 0 ? batch->texts : std::vector<std::string>()});
    }
  }
  for (const Item& held : gone) {
    if (held.answer != nullptr) held.answer->cancel();
  }
  for (const Child& child : children) child.halt.cancel();
  for (Child& child : children) child.thread.join();
  // This may start waiting items of other cells at once. Items that had no place yet are in
  // `dropped`, and leave no gate.
  for (const ItemPtr& item : running) gate_of(item->batch->kind).leave();
  if (!is_noted) return std::nullopt;
  return asked;
}

// Each record is used once, in order, so a cell that asks the same twice gets both answers.
void NotedAnswers::ask(SubCall call, Answer answer) {
  const std::string hash = hash_of(call);
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const AskedRecord& record = cell_.asked[i];
    if (used_[i] || record.hash != hash || record.texts.size() != call.prompts.size()) continue;
    used_[i] = true;
    return answer(record.texts);
  }
  answer(std::vector<std::string>(call.prompts.size(),
                                  failed("this was not asked when the cell was run first")));
}

}  // namespace tenon::rlm
