#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/prompt/prompt.h"
#include "tenon/repair/rules.h"

/// From requests to answers: models by name, and one turn of a model with its template and format.
namespace tenon::chat {

/// A failure of a request that names the field it is about, so that `api` can fill `param`. `code`
/// is stable. The client can solve: context_length_exceeded, template_error, tools_not_supported,
/// invalid_value, unsupported_parameter (param names it). It cannot solve: engine_busy,
/// engine_error (with error.code `unavailable`, trying again may help).
struct Refusal {
  Error error;
  std::string param;  ///< "messages", "max_tokens", ...; "" if no field is to blame.
  std::string code;
  std::string detail{};  ///< For the operator, in the log; never sent to clients.
};

/// The refusal for an error of an engine or its tokenizer: it blames the request's field `param`,
/// unless the engine is not there.
[[nodiscard]] Refusal refusal_of(Error error, std::string param = {});

/// The code of the first Diagnostic if the engine takes text or messages: in spite of all
/// precautions, text from outside may become a control token there.
inline constexpr std::string_view kTaintUnenforced = "taint_unenforced";

class Model;
/// The refusal of a request for prompts or tokens to a model without Model::engine().
[[nodiscard]] Refusal no_prompts(const Model& model);

/// An answer under way. Destroying it cancels.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void cancel() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// The tokens of the prompt, if they are known before the model has read it; else 0.
  [[nodiscard]] virtual std::uint32_t prompt_tokens() const { return 0; }
};

/// Anything that answers chat requests: a turn of a model, a recursive model. Thread-safe.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Starts the answer; events come to `sink` from an engine's thread.
  [[nodiscard]] virtual Result<std::unique_ptr<Answer>, Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) = 0;
};

/// How many bytes of compiled grammars a model keeps.
inline constexpr std::size_t kGrammarCacheBytes = std::size_t{128} << 20U;

/// What happens to a call, written with its markers, of a tool that the request does not have.
enum class UnknownTool : std::uint8_t {
  content,  ///< It stays text.
  repair,   ///< It becomes a call of the one tool whose name differs only in case, `-` and `_`. If
            ///< there is no such tool, or repair is off, it stays text.
  forward,  ///< It is passed on as it is, `unenforced`.
};

/// The price of a million tokens, in the operator's currency.
struct Prices {
  double input = 0;
  double output = 0;
  double cached_input = 0;  ///< For prompt tokens that were found in a cache.

  [[nodiscard]] double cost_of(const message::Usage& usage) const;
  bool operator==(const Prices&) const = default;
};

struct ModelOptions {
  std::string name;
  std::vector<std::string> aliases;
  std::string chat_template;  ///< Source; "": the engine's own.
  std::string format;         ///< Name; "": detected from the template.
  /// Used instead of the format called `format`; null: that one is used.
  std::shared_ptr<const format::Format> own_format;
  std::shared_ptr<const format::Format> imported;  ///< From the model's response_template, or null.
  /// If no format is known, the prompt alone describes the tools, and answers may have calls in
  /// other forms than the format's. False: such tools are refused with 400, and such calls are
  /// text.
  bool generic_fallback = true;
  /// Calls in other forms are calls (format::with_fallbacks), masked or not. False: they are text.
  bool other_forms = true;
  /// Also if a call is required: the model chooses the form. False: only its own form is allowed.
  bool required_in_other_forms = false;
  /// A call that comes twice in a row is passed on once (TurnOptions::drops_repeats). No value: if
  /// the prompt alone teaches the model to call and no format is chosen, since small models then
  /// repeat themselves.
  std::optional<bool> drops_repeats;
  /// A section of reasoning may come first. No value: if the chat template or the vocabulary has
  /// its marker.
  std::optional<bool> reasoning;
  UnknownTool on_unknown_tool = UnknownTool::content;  ///< For answers without a mask.
  std::uint32_t default_max_tokens = 0;                ///< 0: until the context is full.
  std::chrono::milliseconds time_limit{0};             ///< For one answer; 0: no limit.
  /// Begin the answer with the opener of a call if the request demands one and the engine cannot
  /// constrain the answer. Off for engines that do not continue the prompt to the byte.
  bool begin_required_call = true;
  message::ArgumentOrder argument_order = message::ArgumentOrder::schema;
  /// Rules for repairing arguments, besides their schemas; null: arguments are never repaired.
  std::shared_ptr<const repair::Rules> repair_rules = repair::Rules::builtin();
  bool normalize = true;  ///< Arguments are repaired unless the request says otherwise.
  /// Open calls are closed before max_tokens or the context are reached, if the engine takes
  /// grammars. For required calls of a model that only the prompt teaches to call, this is always
  /// on.
  bool close_calls = false;
  std::size_t grammar_cache_bytes = kGrammarCacheBytes;
  /// Control tokens that end a turn, besides the engine's and the format's own: those of the
  /// model's generation_config.json.
  std::vector<vocab::TokenId> turn_ends;
  /// Texts that begin another turn: an answer ends before them, as it does at a control token.
  std::vector<std::string> turn_begins;
  Prices prices;
};

/// What constrains an answer, in one of two forms or not at all.
struct Constraint {
  std::shared_ptr<grammar::Grammar> grammar;
  std::shared_ptr<const std::string> printed;  ///< In the language of an upstream.
  /// The schemas of the tools that may be called, in order, if answers with the same constraint
  /// share them; else empty.
  format::SchemaList schemas{};
  /// Tools whose schema the grammar does not fully enforce; "" stands for the response format.
  std::vector<std::string> unenforced;
  /// What the reader of the answer should know about it.
  std::vector<message::Diagnostic> diagnostics;
};

/// Figures of one model since it was loaded.
struct GrammarCounts {
  std::uint64_t compilations = 0;
  std::uint64_t cache_hits = 0;
  std::size_t cache_bytes = 0;
};

/// What the model is assumed to have written already: (bytes, whether it is a control token).
using Opening = std::vector<std::pair<std::string, bool>>;

/// What an answer starts from.
struct Prepared {
  prompt::Prompt prompt;
  Opening opening;                     ///< Begins the call that the request demands; else empty.
  std::vector<vocab::TokenId> tokens;  ///< Prompt and opening.
  Constraint constraint;
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
};

}  // namespace tenon::chat
