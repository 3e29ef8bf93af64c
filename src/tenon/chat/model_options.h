#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/repair/rules.h"
#include "tenon/vocab/tokenizer.h"

/// What an operator says about a model.
namespace tenon::chat {

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

/// Most calls of one answer, unless the request or the configuration says otherwise.
inline constexpr std::uint32_t kMaxCalls = 64;

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
  /// Most tokens of reasoning, if a request does not say how many. No value: any number.
  std::optional<std::uint32_t> max_reasoning_tokens;
  std::uint32_t max_calls = kMaxCalls;  ///< In one answer; 0: any number.
  message::OnLoop on_loop = message::OnLoop::tell;
  message::Bounds bounds = message::Bounds::usual;
  std::chrono::milliseconds time_limit{0};  ///< For one answer; 0: no limit.
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

}  // namespace tenon::chat
