#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"

#include "tenon/base/cancel.h"
#include "tenon/chat/model.h"
#include "tenon/config/models.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

namespace tenon::app {

/// The options that `chat` and `call` share: which model, how it samples, which tools it has.
struct AskOptions {
  std::string model;   ///< GGUF file, "": the bundled one; or a name in `config`.
  std::string config;  ///< tenon.toml; "": none.
  std::string chat_template;
  std::string format;
  std::int64_t threads = 0;
  std::string tools_file;
  std::string tool_choice;
  std::string system;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> max_tokens;
};

/// While it lives, Ctrl-C cancels its token and does nothing else. One at a time.
class Interruption {
 public:
  /// With `ends`, SIGTERM and SIGHUP do the same.
  explicit Interruption(bool ends = false);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  [[nodiscard]] const CancelToken& token() const { return cancel_; }
  /// The last signal that came; 0 if none came.
  [[nodiscard]] int signal() const;
  /// Waits until stdin, a terminal, has a line or has ended. False: the living Interruption, if
  /// there is one, got its signal, before the call or while it waits.
  [[nodiscard]] static bool wait_for_input();

 private:
  const CancelToken cancel_;
  const int wake_;  // the eventfd to which the handler writes
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// Adds the options that name the model, and all options. `otherwise` is what answers without
/// --model.
void add_model_options(App app, AskOptions& options,
                       std::string_view otherwise = "the bundled model");
void add_ask_options(App app, AskOptions& options);

/// The model that `options` name. Fails with kUsage for a recursive model; `why_single` says why
/// the command cannot use one.
[[nodiscard]] OrComplaint<config::ModelConfig> single_model(const AskOptions& options,
                                                            std::string_view why_single);

[[nodiscard]] OrComplaint<std::shared_ptr<chat::Model>> load_model(const AskOptions& options);

/// A Chat Completions request as JSON, without messages: what a client that has `tools` would send
/// for `options`.
[[nodiscard]] OrComplaint<json::Object> request_body(const AskOptions& options, json::Array tools);

/// The request for `body`, checked as the server checks one. `body` has at least one message.
[[nodiscard]] OrComplaint<message::ChatRequest> decode_request(const json::Object& body);

/// Answers `request`; `on_event` is called on this thread for each event. Ctrl-C cancels the
/// answer, not the program. Fails with kEngine if the engine failed, else with kBadInput.
[[nodiscard]] OrComplaint<message::Fold> answer(
    chat::Model& model, const message::ChatRequest& request,
    const std::function<void(const message::ChatEvent&)>& on_event = {});
/// The same if there is an Interruption already: `cancel` cancels the answer.
[[nodiscard]] OrComplaint<message::Fold> answer(
    chat::Model& model, const message::ChatRequest& request, const CancelToken& cancel,
    const std::function<void(const message::ChatEvent&)>& on_event = {});

/// kEngine if the engine has failed, else kBadInput.
[[nodiscard]] Complaint complaint_of(const chat::Refusal& refusal);

/// `name(key: value, ...)` for people; arguments that are not an object are shown as they are.
[[nodiscard]] std::string described(const message::ToolCall& call);

}  // namespace tenon::app
