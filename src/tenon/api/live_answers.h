#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/call.h"
#include "tenon/api/call_runner.h"
#include "tenon/api/chat_answer.h"
#include "tenon/chat/model.h"

namespace tenon::api {

/// A decoded request, and the encoder of its answer.
struct Asked {
  std::unique_ptr<AnswerEncoder> encoder;
  message::ChatRequest chat;
  std::vector<message::Continuation> prompts{};
  std::vector<message::ChatRequest> requests{};  ///< One for each choice; empty: `chat` is all.
  unsigned choices = 1;
  bool stream = false;
  std::vector<message::Diagnostic> left_out{};  ///< From the request.
  json::Object found{};                         ///< record::Heading::found
};

/// Leaves out the tool that runs code where the model runs none and nothing of the request needs
/// it, as other tools are that a client expects of its server. `left_out` says so.
void leave_out_code(message::ChatRequest& chat, std::vector<message::Diagnostic>& left_out,
                    const chat::Model& model);

/// Why the model cannot accept the request: its field for recursive models, or its code.
[[nodiscard]] std::optional<ApiError> refused_by(const message::ChatRequest& chat,
                                                 const chat::Model& model);

/// Calls a function every second on a thread of its own, until destroyed.
class Ticker {
 public:
  explicit Ticker(std::function<void()> tick);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void run();

  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;  // guarded by mutex_
  std::thread thread_;
};

/// Starts answers, keeps their streams alive and cuts them when the server stops. An answer runs by
/// itself (chat_answer.h). Thread-safe.
class LiveAnswers {
 public:
  /// The first two must outlive it. Without a recorder nothing is recorded.
  LiveAnswers(CallRunner& runner, Metrics& metrics, std::shared_ptr<record::Recorder> recorder)
      : runner_(runner), metrics_(metrics), recorder_(std::move(recorder)) {}

  void start(Call& call, chat::Model& model, Asked asked);
  /// Ends every answer under way. The runner has been cut before, so no answer begins after this.
  void cut();

 private:
  std::vector<std::shared_ptr<ChatAnswer>> live();
  void keep_alive();

  CallRunner& runner_;
  Metrics& metrics_;
  const std::shared_ptr<record::Recorder> recorder_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<ChatAnswer>> under_way_;  // guarded by mutex_
  Ticker ticker_{[this] { keep_alive(); }};           // last: it uses the members above
};

}  // namespace tenon::api
