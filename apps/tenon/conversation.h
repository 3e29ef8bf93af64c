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
#include "tenon/chat/responder.h"
#include "tenon/config/models.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

namespace tenon::app {

/// What `chat` and `call` have in common: which model, how it samples, which tools it has.
struct AskOptions {
  std::string model;   ///< GGUF file; "": the bundled one. With `config` a name in it.
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

/// While it lives, Ctrl-C sets its token and nothing else. One at a time.
class Interruption {
 public:
  /// With `ends`, SIGTERM and SIGHUP do so, too.
  explicit Interruption(bool ends = false);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  [[nodiscard]] const CancelToken& token() const { return cancel_; }
  /// The last signal that came; 0: none.
  [[nodiscard]] int signal() const;
  /// Waits until stdin, a terminal, has a line or has ended. False: the signal came, before the
  /// call or while it waits, of the Interruption that lives, if one does.
  [[nodiscard]] static bool wait_for_input();

 private:
  const CancelToken cancel_;
  const int wake_;  // an eventfd that the handler writes to
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// Those that say which model, and the others, too.
void add_model_options(App app, AskOptions& options);
void add_ask_options(App app, AskOptions& options);

/// The model that `options` name. Fails with kUsage where it is a recursive one, which `why_single`
/// says is none of the command's.
[[nodiscard]] OrComplaint<config::ModelConfig> single_model(const AskOptions& options,
                                                            std::string_view why_single);

[[nodiscard]] OrComplaint<std::shared_ptr<chat::Model>> load_model(const AskOptions& options);

/// A Chat Completions request as JSON, without messages: what a client that has `tools` would send
/// for `options`.
[[nodiscard]] OrComplaint<json::Object> request_body(const AskOptions& options, json::Array tools);

/// The request for `body`, checked as the server checks one. `body` has at least one message.
[[nodiscard]] OrComplaint<message::ChatRequest> decode_request(const json::Object& body);

/// Answers `request`; `on_event` is called on this thread for each event. Ctrl-C cancels the
/// answer, not the program. Fails with kEngine where the engine failed, else with kBadInput.
[[nodiscard]] OrComplaint<message::Fold> answer(
    chat::Model& model, const message::ChatRequest& request,
    const std::function<void(const message::ChatEvent&)>& on_event = {});
/// The same where an Interruption lives already: `cancel` cancels the answer.
[[nodiscard]] OrComplaint<message::Fold> answer(
    chat::Model& model, const message::ChatRequest& request, const CancelToken& cancel,
    const std::function<void(const message::ChatEvent&)>& on_event = {});

/// kEngine where the engine is to blame, else kBadInput.
[[nodiscard]] Complaint complaint_of(const chat::Refusal& refusal);

/// `name(key: value, ...)` as a person reads it; arguments that are no object are shown as they
/// are.
[[nodiscard]] std::string described(const message::ToolCall& call);

}  // namespace tenon::app
