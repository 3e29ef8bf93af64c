#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"

/// What is said: the one form into which every client dialect is decoded.
namespace tenon::message {

enum class Role : std::uint8_t { system, developer, user, assistant, tool };

[[nodiscard]] std::string_view role_name(Role role);
[[nodiscard]] std::optional<Role> role_from_name(std::string_view name);

/// A tool call as a model made it.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON text as generated; perhaps incomplete, see CallEnd.

  bool operator==(const ToolCall&) const = default;
};

/// One piece of a message's content. Text is what every engine takes; other kinds are kept as they
/// came, so that a template that knows them can use them.
struct ContentPart {
  std::string type = "text";  ///< "text", "image_url", ...
  std::string text;           ///< For type "text".
  json::Value raw;            ///< The whole part, where it is more than type and text.
};

struct Message {
  Role role = Role::user;
  /// Absent: null or missing, which templates tell apart from "".
  std::optional<std::string> content;
  std::vector<ContentPart> parts;    ///< Instead of `content` when the client sent a list.
  std::string reasoning;             ///< `reasoning_content` of an assistant's earlier turn.
  std::vector<ToolCall> tool_calls;  ///< Of an assistant.
  std::string tool_call_id;          ///< Of a tool: which call it answers.
  std::string name;                  ///< Author, or the tool's name.
  json::Object extra;                ///< Unknown keys; they reach the template.

  /// `content`, or the text parts joined; "" if there is neither.
  [[nodiscard]] std::string text() const;
};

/// Which texts there are, as a grammar says it.
struct TextGrammar {
  enum class Syntax : std::uint8_t {
    lark,
    regex,           ///< As OpenAI has it: Rust's syntax, and the whole text matches.
    gbnf,            ///< Of llama.cpp, and EBNF of xgrammar, vLLM and SGLang.
    structural_tag,  ///< JSON, of xgrammar.
    choice,          ///< A JSON list of strings, one of which the text is.
  };
  Syntax syntax = Syntax::lark;
  std::string definition;

  bool operator==(const TextGrammar&) const = default;
};

/// A function that the model may call.
struct Tool {
  std::string name;
  std::string description;
  json::Value parameters;  ///< JSON Schema; null: the client sent none.
  std::optional<bool> strict;
  json::Value raw;  ///< OpenAI shape `{"type": "function", "function": {...}}`, for templates.
  bool is_custom = false;              ///< By custom_tool().
  std::optional<TextGrammar> grammar;  ///< Of its input; absent: any text.
};

/// A tool that takes a text instead of arguments. To the model, and to all that reads what it
/// writes, it is a function with one parameter, a string; its description has the grammar.
[[nodiscard]] Tool custom_tool(std::string name, std::string description,
                               std::optional<TextGrammar> grammar);
/// What that parameter is called.
inline constexpr std::string_view kInput = "input";
/// The arguments of a call of such a tool.
[[nodiscard]] std::string arguments_of(std::string_view input);

enum class ToolMode : std::uint8_t { automatic, none, required };

struct ToolChoice {
  ToolMode mode = ToolMode::automatic;
  std::vector<std::string> allowed;  ///< Names the model is limited to; empty: all.

  bool operator==(const ToolChoice&) const = default;
};

/// In which order a call's arguments come. Models are trained on the schema's, and more of the text
/// is then known beforehand.
enum class ArgumentOrder : std::uint8_t { schema, any };

/// What the content of an answer is. Calls may stand instead.
struct ResponseFormat {
  enum class Kind : std::uint8_t { text, json, grammar };
  Kind kind = Kind::text;
  json::Value schema;  ///< JSON Schema of the JSON; null: any object.
  std::optional<bool> strict;
  TextGrammar grammar;  ///< Of `grammar`: what the text is.
};

/// What is absent was not said: it takes the model's own default, where the model is
/// (`general.sampling.*` of a GGUF file, a server's `generation_config.json`, a Modelfile), else
/// the value named here.
struct Sampling {
  std::optional<double> temperature;  ///< 0: always the likeliest token. Else 1.
  std::optional<double> top_p;        ///< Else 1.
  std::optional<int> top_k;           ///< 0: all tokens. Else 0.
  std::optional<double> min_p;        ///< Else 0.
  std::optional<std::uint64_t> seed;
  std::optional<double> presence_penalty;                   ///< Else 0.
  std::optional<double> frequency_penalty;                  ///< Else 0.
  std::optional<double> repetition_penalty;                 ///< Else 1.
  std::vector<std::pair<std::int32_t, double>> logit_bias;  ///< (token id, added to its logit)
};

/// Text that the model goes on from as it is, instead of messages: no template, no tools, and what
/// it writes is text. Texts of control tokens in it are control tokens, as its author writes the
/// whole prompt; but for text around a `suffix`, which is somebody's document.
struct Continuation {
  std::string text;
  std::vector<std::int32_t> tokens;   ///< Instead of `text`.
  std::optional<std::string> suffix;  ///< What stands behind the answer.
};

/// A request of any dialect, decoded.
struct ChatRequest {
  std::string model;
  std::vector<Message> messages;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  Sampling sampling;
  std::optional<std::uint32_t> max_tokens;  ///< Absent: until the context is full.
  std::vector<std::string> stop;            ///< Never part of what the client sees.
  bool logprobs = false;
  int top_logprobs = 0;
  json::Object template_kwargs;   ///< Extra variables of the chat template.
  std::optional<bool> normalize;  ///< Schema-aware repair. Absent: the model's setting.
  ResponseFormat response_format;
  std::optional<ArgumentOrder> argument_order;  ///< Absent: the model's setting.
  std::optional<bool> close_calls;  ///< In time for max_tokens. Absent: the model's setting.
  /// With what the answer has begun: text that the model goes on from, and no part of the answer.
  std::string prefill;
  std::string call_id_prefix = "call_";      ///< Of ids that no model has written.
  std::optional<Continuation> continuation;  ///< Instead of `messages`.
  /// Whose request it is, for models that remember something of it; "": anybody's.
  std::string owner;
  json::Value rlm;  ///< Of a recursive model: its limits for this request. Null: its own.
};

}  // namespace tenon::message
