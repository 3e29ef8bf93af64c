#include "tenon/api/chat_answer.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

#include "tenon/base/log.h"
#include "tenon/json/value.h"

namespace tenon::api {
namespace {

using message::FinishReason;

bool is_failure(FinishReason reason) {
  return reason == FinishReason::error || reason == FinishReason::cancelled;
}

}  // namespace

class ChatAnswer::ChoiceSink final : public message::ChatSink {
 public:
  ChoiceSink(std::shared_ptr<ChatAnswer> answer, unsigned choice)
      : answer_(std::move(answer)), choice_(choice) {}
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    answer_->on_event(choice_, event, logprobs);
  }
  bool watches() const override { return recording() != nullptr; }
  std::uint32_t watched_logprobs() const override {
    return recording() == nullptr ? 0 : recording()->logprobs();
  }
  void on_run(const message::RunBegin& run) override { recording()->run(choice_, run); }
  void on_made(const message::MadeToken& token) override { recording()->made(choice_, token); }
  void on_piece(const message::MadePiece& piece) override { recording()->piece(choice_, piece); }
  void on_run_end(const message::RunEnded& end) override { recording()->run_end(choice_, end); }

 private:
  [[nodiscard]] record::Recording* recording() const { return answer_->options_.recording.get(); }

  const std::shared_ptr<ChatAnswer> answer_;
  const unsigned choice_;
};

ChatAnswer::ChatAnswer(Options options, std::shared_ptr<http::Exchange> exchange, Metrics& metrics,
                       Workers& workers)
    : options_(std::move(options)),
      exchange_(std::move(exchange)),
      metrics_(metrics),
      workers_(workers),
      choices_each_(options_.choices /
                    static_cast<unsigned>(std::max(options_.prompts.size(), std::size_t{1}))),
      encoder_(std::move(options_.encoder)),
      calls_(options_.choices),
      unfinished_(options_.choices) {}

ChatAnswer::~ChatAnswer() = default;

// Choices differ by their seeds; without a seed the engine draws one for each.
message::ChatRequest ChatAnswer::request_of(unsigned choice) const {
  message::ChatRequest request = *options_.chat;
  if (!options_.prompts.empty()) request.continuation = options_.prompts[choice / choices_each_];
  if (request.sampling.seed) *request.sampling.seed += choice % choices_each_;
  return request;
}

void ChatAnswer::start(chat::Responder& responder) {
  std::vector<std::shared_ptr<chat::Answer>> answers;
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
  std::vector<std::shared_ptr<chat::Answer>> unwanted;
  {
    const std::lock_guard lock(mutex_);
    // Only streams begin before they end, and a whole answer may have been written by now.
    if (options_.stream && !answers.empty())
      encoder_->set_prompt_tokens(answers.front()->prompt_tokens());
    answers_ = std::move(answers);
    // The thread that ended the answer meanwhile did not know these choices.
    if (is_over_ && unfinished_ > 0) unwanted = answers_;
  }
  for (const auto& answer : unwanted) answer->cancel();
  if (!options_.stream && is_over()) return;
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
  const bool is_as_asked = choice == 0 && options_.prompts.empty();
  auto started = is_as_asked ? responder.start(*options_.chat, std::move(sink))
                             : responder.start(request_of(choice), std::move(sink));
  if (!started) return renamed(from_refusal(started.error()), encoder_->field_names());
  answers.push_back(*std::move(started));
  return std::nullopt;
} catch (const std::exception& thrown) {
  log::error(std::string("a request failed: ") + thrown.what());
  return internal_error();
}

// From here on the stream may begin, which it does with the first event. Until then a failure is an
// answer with its own status, which clients act on.
void ChatAnswer::may_open() {
  const std::lock_guard lock(mutex_);
  may_open_ = true;
  const bool has_failed = is_over_ && !is_ending_ && early_.empty();
  if (!has_begun_ || has_failed) return;
  open();
  if (is_over_ && !is_ending_) exchange_->end_stream();
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
  is_open_ = true;
  write(std::move(out));
}

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
    if (repair != nullptr && repair->code != chat::kTaintUnenforced) {
      metrics_.repaired(options_.model, repair->code);
    }
    if (finish != nullptr) {
      metrics_.answer_ended(options_.model, *finish, calls_[choice]);
      const std::uint64_t prompt = choice % choices_each_ == 0 ? finish->usage.prompt_tokens : 0;
      options_.key.spend(prompt + finish->usage.completion_tokens);
    }
    if (is_over_) return;
    if (!has_event_) metrics_.first_event(options_.model, Clock::now() - begun_);
    has_event_ = true;
    const bool is_news = repair == nullptr && (finish == nullptr || !is_failure(finish->reason));
    has_begun_ = has_begun_ || is_news;
    if (options_.stream && has_begun_ && may_open_ && !is_open_) open();
    std::string out;
    if (options_.stream) {
      encoder_->add(choice, event, logprobs, out);
    } else {
      encoder_->keep(choice, event, logprobs);
    }
    if (finish != nullptr) on_finish(choice, *finish, out);
    if (!out.empty()) write(std::move(out));
    if (is_over_) {
      if (is_open_ && !is_ending_) exchange_->end_stream();
      status = status_;
      ends_later = is_ending_ || (!options_.stream && unfinished_ == 0);
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

// Call under the lock. `out` gets the next events of a stream.
void ChatAnswer::on_finish(unsigned choice, const message::Finish& finish, std::string& out) {
  if (is_failure(finish.reason)) {
    const ApiError error = finish.reason == FinishReason::error
                               ? from_engine(finish.error, finish.denial)
                               : time_is_up();
    log::warn("the answer failed: " + std::string(error.code.name()) + ": " +
              std::string(log::content(error.message)));
    fail(error, out);
    return;
  }
  message::Usage usage = finish.usage;
  // The choices of a prompt share it, so it counts once.
  if (choice % choices_each_ != 0) usage.prompt_tokens = usage.cached_tokens = 0;
  usage_ += usage;
  if (--unfinished_ > 0) return;
  be_over();
  if (!options_.stream) return;
  is_ending_ = encoder_->ends_slowly();
  if (!is_ending_) encoder_->end(usage_, out);
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
    is_ending_ = false;
    write(std::move(out));
    if (is_open_) exchange_->end_stream();
  }
  done(200);
}

// Call under the lock: one choice has failed, so the answer fails.
void ChatAnswer::fail(const ApiError& error, std::string& out) {
  be_over();
  const bool has_begun = is_open_ || !early_.empty() || !out.empty();
  if (options_.stream && has_begun) {
    encoder_->fail(error, out);
    return;
  }
  status_ = error.status();
  respond(to_response(error, options_.headers, encoder_->dialect()));
}

// Call under the lock, before the client can know, so that its next request finds the place free.
void ChatAnswer::be_over() {
  is_over_ = true;
  options_.key.leave();
}

// Call under the lock.
void ChatAnswer::write(std::string bytes) {
  if (!is_open_) {
    early_ += bytes;
    return;
  }
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
    if (is_over_) return;
    be_over();
    early_.clear();
    respond(to_response(error, options_.headers, encoder_->dialect()));
  }
  done(status);
}

// The client has gone, so what the engine still makes is not needed.
void ChatAnswer::give_up(unsigned status) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    be_over();
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
  return is_over_;
}

std::vector<std::shared_ptr<chat::Answer>> ChatAnswer::answers() const {
  const std::lock_guard lock(mutex_);
  return answers_;
}

void ChatAnswer::keep_alive(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (is_over_ || !may_open_ || now - last_write_ < kKeepAlive) return;
  if (!is_open_) open();
  std::string out;
  encoder_->keep_alive(out);
  write(std::move(out));
}

void ChatAnswer::cut(const ApiError& error) {
  unsigned status = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    std::string out;
    fail(error, out);
    if (!out.empty()) write(std::move(out));
    if (is_open_) exchange_->end_stream();
    status = status_;
  }
  {
    const log::About about(options_.about);
    log::warn("the answer was cut: " + error.message);
  }
  for (const auto& answer : answers()) answer->cancel();
  done(status);
}

void ChatAnswer::done(unsigned status) {
  if (is_reported_.exchange(true)) return;
  if (options_.recording != nullptr) options_.recording->end(status);
  options_.running.ended(status);
}

}  // namespace tenon::api
