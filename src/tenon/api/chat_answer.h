#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/answer_phase.h"
#include "tenon/api/error.h"
#include "tenon/api/keys.h"
#include "tenon/api/metrics.h"
#include "tenon/api/workers.h"
#include "tenon/chat/responder.h"
#include "tenon/http/server.h"
#include "tenon/record/recorder.h"

namespace tenon::api {

/// One chat request being answered, as a stream or as a whole: receives the events of its choices
/// and writes them to the exchange in its client's dialect. It lives as long as one of its choices
/// is under way.
///
/// A client that reads slowly pauses its choices, one that goes away cancels them. While nothing
/// happens in a stream, keep_alive() writes comments.
///
/// start() is called once, from one thread; keep_alive() and cut() from any, also while start() or
/// an event is under way.
class ChatAnswer final : public std::enable_shared_from_this<ChatAnswer> {
 public:
  struct Options {
    std::unique_ptr<AnswerEncoder> encoder;
    std::string model;  ///< Name, for the metrics.
    /// Separate, since it is freed once the answer has started.
    std::unique_ptr<message::ChatRequest> chat = std::make_unique<message::ChatRequest>();
    /// What the choices continue, `choices` of them for each; empty: `chat` has the conversation.
    std::vector<message::Continuation> prompts;
    /// What each choice answers, instead of `chat`; empty: that.
    std::vector<message::ChatRequest> requests;
    unsigned choices = 1;
    bool stream = false;
    std::vector<http::Header> headers;  ///< For every answer: request id, CORS.
    std::string about;                  ///< The beginning of its log lines.
    RunningRequest running;
    KeyUse key;  ///< Released when the answer is over; counts its tokens.
    std::shared_ptr<record::Recording> recording;  ///< Null: the answer is not recorded.
  };

  /// Choices pause when this many bytes wait for a slow client.
  static constexpr std::size_t kPauseBytes = std::size_t{256} << 10;
  static constexpr std::chrono::seconds kKeepAlive{10};

  /// `metrics` and `workers` must outlive it; workers encode whole answers.
  ChatAnswer(Options options, std::shared_ptr<http::Exchange> exchange, Metrics& metrics,
             Workers& workers);
  ~ChatAnswer();
  ChatAnswer(const ChatAnswer&) = delete;
  ChatAnswer& operator=(const ChatAnswer&) = delete;

  /// Starts the choices; call it once. A refusal of `responder` becomes an error answer, and so
  /// does a failure before a stream has its first event.
  void start(chat::Responder& responder);

  /// Writes a comment if the stream has been silent for kKeepAlive, and begins the stream for that
  /// if needed. Any thread may call.
  void keep_alive(std::chrono::steady_clock::time_point now);

  /// Ends the answer with `error`, unless it is over. A stream reports it in its dialect's form.
  /// Any thread may call.
  void cut(const ApiError& error);

 private:
  class ChoiceSink;
  using Clock = std::chrono::steady_clock;

  std::optional<ApiError> start_choice(chat::Responder& responder,
                                       std::vector<std::shared_ptr<chat::Answer>>& answers);
  void on_event(unsigned choice, const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs);
  [[nodiscard]] std::optional<AnswerPhase> on_finish(unsigned choice, const message::Finish& finish,
                                                     std::string& out);
  void may_open();
  void open();
  void write(std::string bytes);
  void respond(http::Response response);
  void send(std::string bytes);
  void complete();
  void end_stream();
  void refuse(const ApiError& error);
  [[nodiscard]] AnswerPhase fail(const ApiError& error, std::string& out);
  void give_up(unsigned status);
  void enter(AnswerPhase next);
  void conclude(AnswerPhase next);
  void pause_if_slow();
  void resume();
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] std::vector<std::shared_ptr<chat::Answer>> answers() const;
  void done(unsigned status);
  [[nodiscard]] message::ChatRequest request_of(unsigned choice);  // once for each choice

  // Only read after start(), without the request; except `running`, see done().
  Options options_;
  const std::shared_ptr<http::Exchange> exchange_;
  Metrics& metrics_;
  Workers& workers_;
  const unsigned choices_each_;  // for each prompt
  const Clock::time_point begun_ = Clock::now();

  std::atomic<bool> is_reported_ = false;

  // Held while the choices are paused or resumed, so that the later decision takes effect last.
  // Locked before mutex_.
  std::mutex flow_mutex_;
  bool is_paused_ = false;

  // Guards the members below; never held while an answer or a responder is called.
  mutable std::mutex mutex_;
  const std::unique_ptr<AnswerEncoder> encoder_;
  std::vector<CallCounts> calls_;  // per choice
  message::Usage usage_;           // of the choices that have ended
  unsigned unfinished_;
  unsigned status_ = 200;
  std::string error_{};  // why it failed; "": it has not
  AnswerPhase phase_ = AnswerPhase::starting;
  bool has_event_ = false;                    // for the metrics
  std::string early_;                         // what waits for the stream to open
  std::optional<unsigned> unrecorded_end_{};  // the status, which the recording gets then
  Clock::time_point last_write_ = begun_;
  std::vector<std::shared_ptr<chat::Answer>> answers_;
};

}  // namespace tenon::api
