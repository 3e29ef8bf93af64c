#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/jinja/template.h"
#include "tenon/json/value.h"
#include "tenon/prompt/schema_loss.h"

/// What a chat template can express. It is found by rendering small conversations.
namespace tenon::prompt {

/// The form in which a template takes the arguments of a call in history.
enum class Arguments : std::uint8_t {
  none,    ///< The template writes no calls.
  object,  ///< Only objects; text would become a JSON string, or be left out.
  text,    ///< Only JSON text; the template fails if it gets an object.
  either,  ///< Both; text is written as it is.
};

/// What the ids of calls must look like.
enum class IdForm : std::uint8_t {
  none,  ///< The template writes no ids.
  any,
  nine_alphanumerics,  ///< The template refuses others.
  function_and_index,  ///< `functions.name:3`: the template writes the id, but not the name.
};

/// What a conversation without a user's message needs.
enum class WithoutUser : std::uint8_t {
  nothing,
  empty_message,  ///< An empty user message behind the system's.
  system_text,    ///< The system's text is given as the user's.
};

/// How a part of a JSON Schema that is more than a plain type must be written for the template. The
/// first one that works is used.
enum class SchemaForm : std::uint8_t {
  whole,
  described_object,   ///< The inner schema stands in the description.
  described_untyped,  ///< As before, and `type` is left out.
  described_text,     ///< As before, and `type` is "string".
};

/// Each member says what reaches the prompt. If a template refuses or leaves out something,
/// shape() writes it in a way that the template can express.
struct Capabilities {
  bool string_content = true;    ///< Content that is text.
  bool list_content = false;     ///< Content as a list of parts, in every role.
  bool system = false;           ///< A system message before the others.
  bool several_systems = false;  ///< More than one of them.
  bool middle_system = false;    ///< A system message between other messages.
  bool developer = false;    ///< The role developer; false if it is written like any other word.
  bool alternation = false;  ///< Two messages of one role in a row are refused.
  /// Messages with calls and with results do not count for `alternation`, as in Mistral's
  /// templates.
  bool alternation_skips_calls = false;
  bool assistant_first = true;  ///< A conversation may begin with the assistant.
  bool empty_answers = true;    ///< An assistant message without text.
  WithoutUser without_user = WithoutUser::nothing;

  bool tools = false;              ///< The tools that are offered.
  bool calls = false;              ///< Calls of earlier turns.
  bool null_beside_calls = false;  ///< Calls need `content: null` beside them.
  bool parallel_calls = false;     ///< More than one call in a turn.
  /// The template writes only the first call of a message, but each of several messages with one
  /// call and its result. False if it refuses several calls.
  bool calls_apart = false;
  bool text_beside_calls = true;      ///< Text and calls of one message.
  bool reasoning_beside_text = true;  ///< Reasoning, text and calls of one message.
  bool tool_results = false;          ///< Messages with the role tool.
  bool orphan_results = false;        ///< A result without a call before it.
  bool nameless_orphans = true;       ///< Such a result without `name`.
  bool result_names = false;          ///< `name` of a result is read.
  bool result_ids = true;             ///< The prompt says which call a result answers.
  /// The text of an assistant message that must stand between results and a user message; absent:
  /// none is needed.
  std::optional<std::string> answer_to_results;
  Arguments arguments = Arguments::none;
  IdForm ids = IdForm::any;
  bool absent_ids = true;  ///< Calls without an id.

  bool null_tools = true;       ///< `tools: null` if the request has no tools.
  bool bare_tools = true;       ///< Tools without description and parameters.
  bool bare_properties = true;  ///< A property without description.
  bool type_lists = true;       ///< `"type": ["string", "null"]`.
  bool untyped = true;          ///< A property without `type`.
  SchemaForm nested = SchemaForm::whole;
  SchemaLosses losses;  ///< Other parts of schemas that the template leaves out.

  bool reasoning = false;        ///< `reasoning_content` of earlier turns.
  bool thinking_switch = false;  ///< `enable_thinking` or `thinking` change the prompt.
  std::string reasoning_open;    ///< The markers around reasoning, such as `<think>`; "": unknown.
  std::string reasoning_close;

  bool operator==(const Capabilities&) const = default;
};

/// Renders about sixty conversations of a few words, and tools with every part of a JSON Schema.
/// Takes well below 1 ms for real templates; small limits bound the time for any other. `bos_token`
/// and `eos_token` as in rendering.
[[nodiscard]] Capabilities probe(const jinja::Template& chat_template, const std::string& bos_token,
                                 const std::string& eos_token);

/// Whether the template writes a message with `role` that follows an assistant's.
[[nodiscard]] bool writes_role(const jinja::Template& chat_template, std::string_view role,
                               const std::string& bos_token, const std::string& eos_token);

/// `{"system": true, "tools": false, ...}`: the names of the members.
[[nodiscard]] json::Object to_json(const Capabilities& capabilities);
/// The members about reasoning: `{"history", "switch", "open"?, "close"?}`.
[[nodiscard]] json::Object reasoning_of(const Capabilities& capabilities);

}  // namespace tenon::prompt
