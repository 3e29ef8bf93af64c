#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/model_options.h"
#include "tenon/chat/prepared.h"
#include "tenon/chat/responder.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/message/message.h"

/// From requests to answers: one turn of a model with its template and format.
namespace tenon::chat {

/// The code of the first Diagnostic if the engine takes text or messages: in spite of all
/// precautions, text from outside may become a control token there.
inline constexpr std::string_view kTaintUnenforced = "taint_unenforced";

/// Figures of one model since it was loaded.
struct GrammarCounts {
  std::uint64_t compilations = 0;
  std::uint64_t cache_hits = 0;
  std::size_t cache_bytes = 0;
};

/// A model that clients can ask for. One turn of it:
///
///     Expected<std::shared_ptr<Model>> model = Model::create({.name = "tiny"}, engine);
///     auto answer = (*model)->start(request, sink);   // events come to sink; ~Answer cancels
///
/// The rules of a turn:
/// - `stop` strings end the answer at the first one in its content (not in reasoning, not in the
///   arguments of a call) and never reach the sink.
/// - The finish reason is `length` if the output was cut, else `tool_calls` if there was a call,
///   else `stop`.
/// - With ToolMode::none the model is not told about the tools. With `parallel_tool_calls` false
///   the first call ends the answer.
/// - A prompt that does not fit is refused with the numbers; nothing is ever left out of it.
/// - An engine that takes grammars is constrained to the request's tools (Constraints), and the
///   answer's calls are `masked` then. With another engine and ToolMode::required, the answer is
///   begun for the model as the format begins a call; what the model then writes is not enforced.
/// - A continuation goes to the engine without template and format, and everything is content.
class Model : public Responder {
 public:
  /// Fails with `invalid` if the format is unknown, or as the template's compiler does. A model
  /// without a chat template gets prompt::plain_template().
  [[nodiscard]] static Expected<std::shared_ptr<Model>> create(
      ModelOptions options, std::shared_ptr<engine::Engine> engine);

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& aliases() const = 0;
  [[nodiscard]] virtual const engine::Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual engine::EngineStats stats() const = 0;
  /// The engine that gets the prompts. Null: the engine takes messages, and there are no prompts,
  /// tokens or templates here; prepare() refuses, and start() refuses continuations.
  [[nodiscard]] virtual engine::Engine* engine() const = 0;
  /// Null: tools are refused.
  [[nodiscard]] virtual const format::Format* format() const = 0;
  /// What `request` would be answered from. Waits for the tokenizer of an upstream, as start()
  /// does. start() does the same and adds the engine's own refusals. One of those is that the
  /// prompt leaves no room for an answer; prepare() only refuses a prompt that is far too long.
  [[nodiscard]] virtual Result<Prepared, Refusal> prepare(
      const message::ChatRequest& request) const = 0;
  [[nodiscard]] virtual GrammarCounts grammar_counts() const = 0;
  [[nodiscard]] virtual Prices prices() const { return {}; }
  /// The model to use where this one would run the server's tools; it lives as long as this one.
  [[nodiscard]] virtual Model* without_tools() { return this; }
  /// Whether it is a recursive model, which accepts ChatRequest::rlm.
  [[nodiscard]] virtual bool takes_rlm() const { return false; }
  /// Whether it runs code that it writes (ChatRequest::code).
  [[nodiscard]] virtual bool runs_code() const { return false; }
};

/// The refusal of a request for prompts or tokens to a model without Model::engine().
[[nodiscard]] Refusal no_prompts(const Model& model);

}  // namespace tenon::chat
