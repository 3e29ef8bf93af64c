#include "tenon/api/chat_answer.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>
#include <variant>

#include "tenon/base/log.h"
#include "tenon/json/value.h"

// How an answer is written
//
// Events come from the engine's thread, one choice after the other or several at once;
// keep_alive(), cut() and the client's end come from others. The lock guards the phase
// (answer_phase.h), the encoder and what is written. Nothing that can wait is done under it: other
// choices are cancelled, and long endings are encoded, once it is released.
//
// A stream begins with its first event that is not a failure, so a failure before it has its own
// HTTP status. Events that come while start() still starts choices are encoded into early_, and are
// sent when the stream opens. A whole answer is kept by the encoder and written at the end, on a
// worker.
//
// A slow client pauses all choices at kPauseBytes, and they go on when half of that is gone.

namespace tenon::api {
namespace {

using message::FinishReason;

bool is_failure(FinishReason reason) {
  return reason == FinishReason::error || reason == FinishReason::cancelled;
}

// Passes the tokens and runs of one strand of a recording on to it. `recording` may be null: then
// it asks for none.
class RecordedSink : public message::ChatSink {
 public:
  RecordedSink(std::shared_ptr<record::Recording> recording, unsigned strand)
      : recording_(std::move(recording)), strand_(strand) {}
  [[nodiscard]] bool watches() const override { return recording_ != nullptr; }
  [[nodiscard]] std::uint32_t watched_logprobs() const override {
    return recording_ == nullptr ? 0 : recording_->logprobs();
  }
  void on_run(const message::RunBegin& run) override { recording_->run(strand_, run); }
  void on_made(const message::MadeToken& token) override { recording_->made(strand_, token); }
  void on_piece(const message::MadePiece& piece) override { recording_->piece(strand_, piece); }
  void on_upstream(const message::UpstreamPart& part) override {
    recording_->upstream(strand_, part);
  }
  void on_run_end(const message::RunEnded& end) override { recording_->run_end(strand_, end); }

 protected:
  const std::shared_ptr<record::Recording> recording_;
  const unsigned strand_;
};

// Records an answer that is made inside of a choice, and sends none of it.
class InsideSink final : public RecordedSink {
 public:
  using RecordedSink::RecordedSink;
  void on_event(const message::ChatEvent& /*event*/,
                const std::vector<message::TokenLogprob>& /*logprobs*/) override {}
};

}  // namespace

// Carries the events of one choice to the answer. The strand of a choice has its number; what an
// answer makes inside of it (a second try, a recursive model's calls) gets strands of its own.
class ChatAnswer::ChoiceSink final : public RecordedSink {
 public:
  ChoiceSink(std::shared_ptr<ChatAnswer> answer, unsigned choice)
      : RecordedSink(answer->options_.recording, choice), answer_(std::move(answer)) {}
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    answer_->on_event(strand_, event, logprobs);
  }
  void on_own_tools(const message::OwnTools& tools) override {
    recording_->own_tools(strand_, tools);
  }
  void on_tool_run(const message::ToolRun& run) override { recording_->tool_run(strand_, run); }
  [[nodiscard]] std::shared_ptr<message::ChatSink> inside(std::string_view part) const override {
    if (recording_ == nullptr) return nullptr;
    return std::make_shared<InsideSink>(recording_, recording_->inside(strand_, part));
  }

 private:
  const std::shared_ptr<ChatAnswer> answer_;
};

ChatAnswer::ChatAnswer(Options options, std::shared_ptr<http::Exchange> exchange, Metrics& metrics,
                       Workers& workers)
    : options_(std::move(options)),
      exchange_(std::move(exchange)),
      metrics_(metrics),
      workers_(workers),
      // Several prompts, or requests, share the choices evenly: choice 5 of 2 prompts with 4
      // choices each belongs to the second prompt.
      choices_each_(options_.choices /
                    static_cast<unsigned>(std::max(
                        {options_.prompts.size(), options_.requests.size(), std::size_t{1}}))),
      encoder_(std::move(options_.encoder)),
      calls_(options_.choices),
      unfinished_(options_.choices) {}

ChatAnswer::~ChatAnswer() = default;

// Choices differ by their seeds; without a seed the engine draws one for each. Requests that were
// given one by one are used once, so they are moved out.
message::ChatRequest ChatAnswer::request_of(unsigned choice) {
  if (!options_.requests.empty()) return std::move(options_.requests[choice]);
  message::ChatRequest request = *options_.chat;
  if (!options_.prompts.empty()) request.continuation = options_.prompts[choice / choices_each_];
  if (request.sampling.seed) *request.sampling.seed += choice % choices_each_;
  return request;
}

void ChatAnswer::start(chat::Responder& responder) {
  std::vector<std::shared_ptr<chat::Answer>> answers;
  // A choice may end, and fail the answer, before the next one is started: the sink is called by
  // the engine's thread at once.
  while (answers.size() < options_.choices && !is_over()) {
    if (const auto error = start_choice(responder, answers)) {
      refuse(*error);
      for (const auto& answer : answers) answer->cancel();
      return;
    }
  }
  // A stream may last for hours, and the request is not needed any more.
  exchange_->release_body();
  options_.chat.reset();
  options_.prompts.clear();
  options_.requests.clear();
  std::vector<std::shared_ptr<chat::Answer>> unwanted;
  {
    const std::lock_guard lock(mutex_);
    // Only streams begin before they end, and a whole answer may have been written by now.
    if (options_.stream && !answers.empty())
      encoder_->set_prompt_tokens(answers.front()->prompt_tokens());
    answers_ = std::move(answers);
    // The thread that ended the answer meanwhile did not know these choices.
    if (!is_running(phase_) && unfinished_ > 0) unwanted = answers_;
  }
  for (const auto& answer : unwanted) answer->cancel();
  if (!options_.stream && is_over()) return;
  // Weak, because the exchange keeps the callbacks and the answer keeps the exchange.
  const std::weak_ptr<ChatAnswer> weak = weak_from_this();
  exchange_->on_closed([weak] {
    if (const auto self = weak.lock()) self->give_up(kClientGone);
  });
  if (!options_.stream) return;
  exchange_->on_drained(kPauseBytes, [weak] {
    if (const auto self = weak.lock()) self->resume();
  });
  may_open();
}

// Appends the next choice to `answers`, or says why it cannot be started.
std::optional<ApiError> ChatAnswer::start_choice(
    chat::Responder& responder, std::vector<std::shared_ptr<chat::Answer>>& answers) try {
  const auto choice = static_cast<unsigned>(answers.size());
  auto sink = std::make_shared<ChoiceSink>(shared_from_this(), choice);
  // The first choice takes the request as it is: no copy for the most common kind of answer.
  const bool is_as_asked = choice == 0 && options_.prompts.empty() && options_.requests.empty();
  auto started = is_as_asked ? responder.start(*options_.chat, std::move(sink))
                             : responder.start(request_of(choice), std::move(sink));
  if (!started) return from_refusal(started.error(), encoder_->field_names());
  answers.push_back(*std::move(started));
  return std::nullopt;
} catch (const std::exception& thrown) {
  log::error(std::string("a request failed: ") + thrown.what());
  return internal_error();
}

// Call under the lock.
void ChatAnswer::enter(AnswerPhase next) {
  assert(may_follow(phase_, next));
  phase_ = next;
}

// Call under the lock: all bytes of this phase are written. Ends the stream if it is over with
// them.
void ChatAnswer::conclude(AnswerPhase next) {
  if (phase_ == AnswerPhase::open && next == AnswerPhase::over) exchange_->end_stream();
  enter(next);
}

// From here on the stream may begin, which it does with the first event. Until then a failure is an
// answer with its own status, which clients act on.
void ChatAnswer::may_open() {
  const std::lock_guard lock(mutex_);
  switch (phase_) {
    case AnswerPhase::starting:
      enter(AnswerPhase::ready);
      return;
    case AnswerPhase::begun:
      open();
      enter(AnswerPhase::open);
      return;
    case AnswerPhase::ending_early:
      open();
      enter(AnswerPhase::ending);
      return;
    case AnswerPhase::ended_early:
      open();
      exchange_->end_stream();
      enter(AnswerPhase::over);
      if (unrecorded_end_) options_.recording->end(*unrecorded_end_, error_);
      return;
    default:  // refused, failed or given up meanwhile
      return;
  }
}

// Call under the lock. Events are then written as they come; those that came before are sent first.
void ChatAnswer::open() {
  std::string out;
  // Proxies between us and the client must neither cache the stream nor hold it back.
  std::vector<http::Header> headers = options_.headers;
  headers.push_back({"cache-control", "no-cache"});
  headers.push_back({"x-accel-buffering", "no"});
  exchange_->begin_stream("text/event-stream", std::move(headers));
  encoder_->begin(out);
  out += early_;
  early_.clear();
  send(std::move(out));
}

// Takes each event from the engine's threads. What follows from it (another phase, choices to
// cancel, an ending that takes long) is decided under the lock and done after it.
void ChatAnswer::on_event(unsigned choice, const message::ChatEvent& event,
                          const std::vector<message::TokenLogprob>& logprobs) {
  if (options_.recording != nullptr) options_.recording->event(choice, event);
  const auto* finish = std::get_if<message::Finish>(&event);
  std::optional<unsigned> status;
  bool ends_later = false;
  std::vector<std::shared_ptr<chat::Answer>> unwanted;
  {
    const std::lock_guard lock(mutex_);
    calls_[choice].add(event);
    const auto* repair = std::get_if<message::Diagnostic>(&event);
    // This diagnostic is about the engine, not about what the model wrote.
    if (repair != nullptr && repair->code != chat::kTaintUnenforced) {
      metrics_.repaired(options_.model, repair->code);
    }
    if (finish != nullptr) {
      metrics_.answer_ended(options_.model, *finish, calls_[choice]);
      const std::uint64_t prompt = choice % choices_each_ == 0 ? finish->usage.prompt_tokens : 0;
      options_.key.spend(prompt + finish->usage.completion_tokens);
    }
    // What was made after the answer has ended still counts: the engine has computed it.
    if (!is_running(phase_)) return;
    if (!has_event_) metrics_.first_event(options_.model, Clock::now() - begun_);
    has_event_ = true;
    // Neither a diagnostic nor a failure opens a stream: an error may still follow, with its own
    // status.
    const bool is_news = repair == nullptr && (finish == nullptr || !is_failure(finish->reason));
    if (options_.stream && is_news && phase_ == AnswerPhase::starting) enter(AnswerPhase::begun);
    if (options_.stream && is_news && phase_ == AnswerPhase::ready) {
      open();
      enter(AnswerPhase::open);
    }
    std::string out;
    if (options_.stream) {
      encoder_->add(choice, event, logprobs, out);
    } else {
      encoder_->keep(choice, event, logprobs);
    }
    std::optional<AnswerPhase> next;
    if (finish != nullptr) next = on_finish(choice, *finish, out);
    if (!out.empty()) write(std::move(out));
    if (next) {
      conclude(*next);
      status = status_;
      const bool is_ending = *next == AnswerPhase::ending || *next == AnswerPhase::ending_early;
      ends_later = is_ending || (!options_.stream && unfinished_ == 0);
      if (unfinished_ > 0) unwanted = answers_;
    }
  }
  for (const auto& answer : unwanted) answer->cancel();
  if (ends_later) {
    // With logprobs, or a disk, that takes long, and the engine's thread serves other runs, too.
    workers_.post([self = shared_from_this()] {
      self->options_.stream ? self->end_stream() : self->complete();
    });
  } else if (status) {
    done(*status);
  } else if (finish == nullptr) {
    pause_if_slow();
  }
}

// Call under the lock. `out` gets the next events of a stream. Returns the phase that follows once
// they are written; nothing: there are other choices.
std::optional<AnswerPhase> ChatAnswer::on_finish(unsigned choice, const message::Finish& finish,
                                                 std::string& out) {
  if (is_failure(finish.reason)) {
    const ApiError error = finish.reason == FinishReason::error
                               ? from_engine(finish.error, finish.denial)
                               : time_is_up();
    log::warn("the answer failed: " + std::string(error.code.name()) + ": " +
              std::string(log::content(error.message)));
    return fail(error, out);
  }
  message::Usage usage = finish.usage;
  // The choices of a prompt share it, so it counts once.
  if (choice % choices_each_ != 0) usage.prompt_tokens = usage.cached_tokens = 0;
  usage_ += usage;
  if (--unfinished_ > 0) return std::nullopt;
  options_.key.leave();
  if (!options_.stream) return AnswerPhase::over;
  const bool is_early = !is_open(phase_);
  if (encoder_->ends_slowly()) return is_early ? AnswerPhase::ending_early : AnswerPhase::ending;
  encoder_->end(usage_, out);
  return is_early ? AnswerPhase::ended_early : AnswerPhase::over;
}

// A whole answer is over: no other thread uses its parts any more.
void ChatAnswer::complete() {
  http::Response response{.headers = options_.headers};
  json::append(response.body, encoder_->whole(usage_));
  const unsigned status = response.status;
  respond(std::move(response));
  done(status);
}

// Writes the end of a stream, which may take long. Other threads may only still open the stream.
void ChatAnswer::end_stream() {
  std::string out;
  encoder_->end(usage_, out);
  {
    const std::lock_guard lock(mutex_);
    write(std::move(out));
    if (phase_ == AnswerPhase::ending) exchange_->end_stream();
    enter(phase_ == AnswerPhase::ending ? AnswerPhase::over : AnswerPhase::ended_early);
  }
  done(200);
}

// Call under the lock: one choice has failed, so the answer fails. Returns the phase that follows
// once `out` is written. A failure before the first event is an answer of its own. The client's
// place is free before it can know.
AnswerPhase ChatAnswer::fail(const ApiError& error, std::string& out) {
  options_.key.leave();
  error_ = error.message;
  const bool has_begun =
      is_open(phase_) || (phase_ == AnswerPhase::begun && !(early_.empty() && out.empty()));
  if (has_begun) {
    encoder_->fail(error, out);
    return is_open(phase_) ? AnswerPhase::over : AnswerPhase::ended_early;
  }
  status_ = error.status();
  respond(to_response(error, options_.headers, encoder_->dialect()));
  return AnswerPhase::over;
}

// Call under the lock. Before the stream is open, its bytes wait in early_.
void ChatAnswer::write(std::string bytes) {
  if (is_open(phase_)) {
    send(std::move(bytes));
  } else {
    early_ += bytes;
  }
}

// Call under the lock.
void ChatAnswer::send(std::string bytes) {
  last_write_ = Clock::now();
  if (options_.recording != nullptr) options_.recording->sent(bytes);
  exchange_->write(std::move(bytes));
}

void ChatAnswer::respond(http::Response response) {
  if (options_.recording != nullptr) options_.recording->sent(response.body);
  exchange_->respond(std::move(response));
}

// Refuses the request before anything was sent.
void ChatAnswer::refuse(const ApiError& error) {
  // A client may close the connection as soon as it has the answer.
  const unsigned status = exchange_->is_closed() ? kClientGone : error.status();
  {
    const std::lock_guard lock(mutex_);
    if (!is_running(phase_)) return;
    options_.key.leave();
    enter(AnswerPhase::over);
    early_.clear();
    error_ = error.message;
    respond(to_response(error, options_.headers, encoder_->dialect()));
  }
  done(status);
}

// The client has gone, so what the engine still makes is not needed.
void ChatAnswer::give_up(unsigned status) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_running(phase_)) return;
    options_.key.leave();
    enter(AnswerPhase::over);
  }
  for (const auto& answer : answers()) answer->cancel();
  done(status);
}

void ChatAnswer::pause_if_slow() {
  if (!options_.stream || exchange_->queued_bytes() < kPauseBytes) return;
  {
    const std::lock_guard flow(flow_mutex_);
    if (is_paused_) return;
    is_paused_ = true;
    for (const auto& answer : answers()) answer->pause();
  }
  // The queue may have drained since we looked, and then nothing would resume the choices.
  if (exchange_->queued_bytes() < kPauseBytes / 2) resume();
}

void ChatAnswer::resume() {
  const std::lock_guard flow(flow_mutex_);
  if (!is_paused_) return;
  is_paused_ = false;
  for (const auto& answer : answers()) answer->resume();
}

bool ChatAnswer::is_over() const {
  const std::lock_guard lock(mutex_);
  return !is_running(phase_);
}

std::vector<std::shared_ptr<chat::Answer>> ChatAnswer::answers() const {
  const std::lock_guard lock(mutex_);
  return answers_;
}

// Called by the ticker. A stream that has no event yet is opened for it, since proxies close a
// connection that stays silent; from then on a failure is an event and not a status.
void ChatAnswer::keep_alive(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const bool may_write = phase_ == AnswerPhase::ready || phase_ == AnswerPhase::open;
  if (!may_write || now - last_write_ < kKeepAlive) return;
  if (phase_ == AnswerPhase::ready) {
    open();
    enter(AnswerPhase::open);
  }
  std::string out;
  encoder_->keep_alive(out);
  send(std::move(out));
}

// Ends the answer because the server stops.
void ChatAnswer::cut(const ApiError& error) {
  unsigned status = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!is_running(phase_)) return;
    std::string out;
    const AnswerPhase next = fail(error, out);
    if (!out.empty()) write(std::move(out));
    conclude(next);
    status = status_;
  }
  {
    const log::About about(options_.about);
    log::warn("the answer was cut: " + error.message);
  }
  for (const auto& answer : answers()) answer->cancel();
  done(status);
}

// Reports the end once, whichever of the threads comes first.
void ChatAnswer::done(unsigned status) {
  if (is_reported_.exchange(true)) return;
  if (options_.recording != nullptr) {
    const std::lock_guard lock(mutex_);
    // A stream that is over before it is open is still to be sent, and then its recording ends.
    if (phase_ == AnswerPhase::ended_early) {
      unrecorded_end_ = status;
    } else {
      options_.recording->end(status, error_);
    }
  }
  options_.running.ended(status);
}

}  // namespace tenon::api
