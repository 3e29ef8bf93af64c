#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/jinja/template.h"
#include "tenon/json/value.h"
#include "tenon/prompt/schema_loss.h"

/// What a chat template makes of a conversation, found by rendering small ones.
namespace tenon::prompt {

/// The form in which a template takes the arguments of a call in history.
enum class Arguments : std::uint8_t {
  none,    ///< It writes no calls.
  object,  ///< Text it would write as a JSON string, or not at all.
  text,    ///< An object it fails at.
  either,  ///< Text is written as it is.
};

/// What the ids of calls must look like.
enum class IdForm : std::uint8_t {
  none,  ///< It writes none.
  any,
  nine_alphanumerics,  ///< Others are refused.
  function_and_index,  ///< `functions.name:3`: the template writes the id and no name.
};

/// What a conversation without a user's message needs.
enum class WithoutUser : std::uint8_t {
  nothing,
  empty_message,  ///< A user's message of no text behind the system's.
  system_text,    ///< The system's text as the user's.
};

/// How much of a part of a JSON Schema that is more than a plain type the template takes: a lower
/// one is tried first.
enum class SchemaForm : std::uint8_t {
  whole,
  described_object,   ///< What is inside stands in the description.
  described_untyped,  ///< And there is no type.
  described_text,     ///< And the type is string.
};

/// Each says what reaches the prompt. Where a template refuses or drops something, shape() gives
/// it what it takes instead.
struct Capabilities {
  bool string_content = true;    ///< Content that is text.
  bool list_content = false;     ///< Content as a list of parts, in every role.
  bool system = false;           ///< A system message before the others.
  bool several_systems = false;  ///< More than one of them.
  bool middle_system = false;    ///< One between other messages.
  bool developer = false;        ///< The role developer, as more than any unknown word.
  bool alternation = false;      ///< Two messages of one role are refused.
  /// Messages of calls and of results do not count there, as in Mistral's templates.
  bool alternation_skips_calls = false;
  bool assistant_first = true;  ///< A conversation may begin with the assistant.
  bool empty_answers = true;    ///< A message of the assistant's without text.
  WithoutUser without_user = WithoutUser::nothing;

  bool tools = false;                 ///< The tools that are offered.
  bool calls = false;                 ///< Calls of earlier turns.
  bool null_beside_calls = false;     ///< Calls need `content: null` beside them.
  bool parallel_calls = false;        ///< More than one of them in a turn.
  bool text_beside_calls = true;      ///< Both are written where a message has both.
  bool reasoning_beside_text = true;  ///< Beside calls: reasoning and text.
  bool tool_results = false;          ///< Messages of the role tool.
  bool orphan_results = false;        ///< Such a message without a call before it.
  bool nameless_orphans = true;       ///< One without a name, too.
  bool result_names = false;          ///< `name` of such a message is read.
  bool result_ids = true;             ///< The prompt says which call a result answers.
  /// What an assistant has to say between results and a user's message; absent: nothing.
  std::optional<std::string> answer_to_results;
  Arguments arguments = Arguments::none;
  IdForm ids = IdForm::any;
  bool absent_ids = true;  ///< Calls without an id.

  bool null_tools = true;       ///< `tools: null`, where none are offered.
  bool bare_tools = true;       ///< Tools without description and parameters.
  bool bare_properties = true;  ///< A property without description.
  bool type_lists = true;       ///< `"type": ["string", "null"]`.
  bool untyped = true;          ///< A property without `type`.
  SchemaForm nested = SchemaForm::whole;
  SchemaLosses losses;  ///< Other parts of schemas that it leaves out.

  bool reasoning = false;        ///< `reasoning_content` of earlier turns.
  bool thinking_switch = false;  ///< `enable_thinking` or `thinking` change the prompt.
  std::string reasoning_open;    ///< What reasoning stands between, as `<think>`; "" if unknown.
  std::string reasoning_close;

  bool operator==(const Capabilities&) const = default;
};

/// Renders some sixty conversations of a few words each, and tools with every part of a JSON
/// Schema, under small limits: well below 1 ms for real templates, and never longer than they
/// allow. `bos_token` and `eos_token` as in rendering.
[[nodiscard]] Capabilities probe(const jinja::Template& chat_template, const std::string& bos_token,
                                 const std::string& eos_token);

/// Whether the template writes a message of `role` behind an assistant's.
[[nodiscard]] bool writes_role(const jinja::Template& chat_template, std::string_view role,
                               const std::string& bos_token, const std::string& eos_token);

/// `{"system": true, "tools": false, ...}`: the names of the members.
[[nodiscard]] json::Object to_json(const Capabilities& capabilities);
/// What they say of reasoning alone: `{"history", "switch", "open"?, "close"?}`.
[[nodiscard]] json::Object reasoning_of(const Capabilities& capabilities);

}  // namespace tenon::prompt
