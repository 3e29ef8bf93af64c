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
#include "tenon/grammar/grammar.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/prompt/prompt.h"
#include "tenon/repair/rules.h"

/// Requests to answers: models by name, one turn of a model with its template and format.
namespace tenon::chat {

/// A request-level failure that names the field it is about, so that `api` can say `param`. `code`
/// is stable, one of: context_length_exceeded, template_error, tools_not_supported,
/// invalid_value, unsupported_parameter (param says of what) for what the request can mend;
/// engine_busy, engine_error (by error.code `unavailable`: a repetition may help) for what it
/// cannot.
struct Refusal {
  Error error;
  std::string param;  ///< "messages", "max_tokens", ...; "" if no field is to blame.
  std::string code;
  std::string detail{};  ///< For who runs the server, who sees its log: no client's to know.
};

/// What an engine or its tokenizer says no to is the request's fault, and `param`'s, unless they
/// are not there.
[[nodiscard]] Refusal refusal_of(Error error, std::string param = {});

/// Of the Diagnostic that comes first where the engine is sent text, or messages: somebody's text
/// may become a control token there, whatever was done against it.
inline constexpr std::string_view kTaintUnenforced = "taint_unenforced";

class Model;
/// What is said to who wants prompts or tokens of a model without Model::engine().
[[nodiscard]] Refusal no_prompts(const Model& model);

/// An answer under way. Destroying it cancels.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void cancel() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// Of the prompt, where they are known before it has been read; else 0.
  [[nodiscard]] virtual std::uint32_t prompt_tokens() const { return 0; }
};

/// Anything that answers chat requests: a turn of a model, a recursive model. Thread-safe.
class Responder {
 public:
  virtual ~Responder() = default;
  /// Starts the answer; events come to `sink` from an engine thread.
  [[nodiscard]] virtual Result<std::unique_ptr<Answer>, Refusal> start(
      const message::ChatRequest& request, std::shared_ptr<message::ChatSink> sink) = 0;
};

/// How much of what it has compiled a model keeps.
inline constexpr std::size_t kGrammarCacheBytes = std::size_t{128} << 20U;

/// What becomes of a call, in its markers, of a tool that the request does not have.
enum class UnknownTool : std::uint8_t {
  content,  ///< It stays text.
  repair,   ///< It is taken for a call of the one tool that is called so but for case, `-` and `_`;
            ///< else it stays text. So it does where nothing is to be mended.
  forward,  ///< It leaves as it is, `unenforced`.
};

/// What a million tokens cost, in the currency of who runs the server.
struct Prices {
  double input = 0;
  double output = 0;
  double cached_input = 0;  ///< Of the prompt, found in a cache.

  [[nodiscard]] double cost_of(const message::Usage& usage) const;
  bool operator==(const Prices&) const = default;
};

struct ModelOptions {
  std::string name;
  std::vector<std::string> aliases;
  std::string chat_template;  ///< Source; "": the engine's own.
  std::string format;         ///< Name; "": detected from the template.
  /// Instead of the one called `format`; null: that one.
  std::shared_ptr<const format::Format> own_format;
  std::shared_ptr<const format::Format> imported;  ///< By the model's response_template, or null.
  /// Where no format is known tools are told of by the prompt alone, and answers may have calls in
  /// other forms than the format's. False: such tools are refused with 400, such calls are text.
  bool generic_fallback = true;
  /// Calls in other forms are calls (format::with_fallbacks), masked or not. False: they are text.
  bool other_forms = true;
  /// So they are where a call must come: the model chooses the form. False: its own form alone.
  bool required_in_other_forms = false;
  /// A call that comes twice in a row in one answer comes once (TurnOptions::drops_repeats).
  /// Absent: where the prompt alone teaches the model to call and no format is chosen, since small
  /// models then repeat themselves.
  std::optional<bool> drops_repeats;
  /// A section of reasoning may come first. Absent: where the chat template or the vocabulary knows
  /// its marker.
  std::optional<bool> reasoning;
  UnknownTool on_unknown_tool = UnknownTool::content;  ///< Where no mask holds the answer.
  std::uint32_t default_max_tokens = 0;                ///< 0: until the context is full.
  std::chrono::milliseconds time_limit{0};             ///< Of one answer; 0: none.
  /// Begin the answer with the opener of a call where the request demands one and nothing holds the
  /// answer to it. Off for engines that do not continue the prompt to the byte.
  bool begin_required_call = true;
  message::ArgumentOrder argument_order = message::ArgumentOrder::schema;
  /// What arguments are mended by beside their schemas; null: they never are.
  std::shared_ptr<const repair::Rules> repair_rules = repair::Rules::builtin();
  bool normalize = true;  ///< Arguments are mended unless the request says otherwise.
  /// Calls come to their end before max_tokens or the context do, where the engine takes grammars.
  /// Demanded calls of a model that the prompt alone teaches to call do so anyway.
  bool close_calls = false;
  std::size_t grammar_cache_bytes = kGrammarCacheBytes;
  /// Control tokens that end a turn, beside the engine's and the format's own: those of the model's
  /// generation_config.json.
  std::vector<vocab::TokenId> turn_ends;
  Prices prices;
};

/// What holds an answer, where the engine takes grammars: one of two, or nothing.
struct Constraint {
  std::shared_ptr<grammar::Grammar> grammar;
  std::shared_ptr<const std::string> printed;  ///< In the language of an engine elsewhere.
  /// Those of the tools that may be called, in their order, where answers that are held in the same
  /// way share them; else none.
  format::SchemaList schemas{};
  /// Tools whose schema the grammar does not hold in full; "": the response format's.
  std::vector<std::string> unenforced;
  /// What the answer's reader should know of it.
  std::vector<message::Diagnostic> diagnostics;
};

/// Of one model, since it was loaded.
struct GrammarCounts {
  std::uint64_t compilations = 0;
  std::uint64_t cache_hits = 0;
  std::size_t cache_bytes = 0;
};

/// What the model is taken to have written already: (bytes, is a control token), as tokens.
using Opening = std::vector<std::pair<std::string, bool>>;

/// What an answer begins from.
struct Prepared {
  prompt::Prompt prompt;
  Opening opening;                     ///< Of the call that the request demands; else empty.
  std::vector<vocab::TokenId> tokens;  ///< Of both.
  Constraint constraint;
};

/// A model that clients may ask for. One turn of it:
///
///     Expected<std::shared_ptr<Model>> model = Model::create({.name = "tiny"}, engine);
///     auto answer = (*model)->start(request, sink);   // events come to sink; ~Answer cancels
///
/// The rules of a turn. `stop` strings end the answer at the first one in its content (not in
/// reasoning, not in the arguments of a call) and never reach the sink. The answer's finish reason
/// is `length` where the output was cut, else `tool_calls` if there was a call, else `stop`. With
/// ToolMode::none the model is not told of the tools. With `parallel_tool_calls` false the first
/// call ends the answer. A prompt that does not fit is refused with the numbers; nothing is ever
/// left out of it. An engine that takes grammars is held to the request's tools (Constraints), and
/// the answer's calls are `masked` then. With another one an answer under ToolMode::required is
/// begun for the model as the format begins a call; what it writes then is not enforced. A
/// continuation goes to the engine without template and format, and all that comes is content.
class Model : public Responder {
 public:
  /// Fails with `invalid` where the format is unknown, or as the template's compiler does. A model
  /// without a chat template gets prompt::plain_template().
  [[nodiscard]] static Expected<std::shared_ptr<Model>> create(
      ModelOptions options, std::shared_ptr<engine::Engine> engine);

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& aliases() const = 0;
  [[nodiscard]] virtual const engine::Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual engine::EngineStats stats() const = 0;
  /// What prompts are sent to. Null: the engine takes messages, and there are no prompts, tokens
  /// and templates here: prepare() refuses, as start() does continuations.
  [[nodiscard]] virtual engine::Engine* engine() const = 0;
  /// Null: tools are refused.
  [[nodiscard]] virtual const format::Format* format() const = 0;
  /// What `request` would be answered from. Waits for the tokenizer of an engine that runs
  /// elsewhere, as start() does. start() is this, and the engine's own refusals: among them that
  /// the prompt leaves no room for an answer, which here is said only of one that is beyond count.
  [[nodiscard]] virtual Result<Prepared, Refusal> prepare(
      const message::ChatRequest& request) const = 0;
  [[nodiscard]] virtual GrammarCounts grammar_counts() const = 0;
  [[nodiscard]] virtual Prices prices() const { return {}; }
  /// The model that answers where this one would run tools of the server; it lives as long.
  [[nodiscard]] virtual Model* without_tools() { return this; }
  /// Whether it is a recursive model, which takes ChatRequest::rlm.
  [[nodiscard]] virtual bool takes_rlm() const { return false; }
};

}  // namespace tenon::chat
