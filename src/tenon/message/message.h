#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"

/// The messages of a request, in the one form into which every client dialect is decoded.
namespace tenon::message {

enum class Role : std::uint8_t { system, developer, user, assistant, tool };

[[nodiscard]] std::string_view role_name(Role role);
[[nodiscard]] std::optional<Role> role_from_name(std::string_view name);

/// A tool call as a model made it.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON text as generated; it may be incomplete, see CallEnd.

  bool operator==(const ToolCall&) const = default;
};

/// One piece of a message's content. Every engine takes text. Other kinds are kept as they came,
/// for templates that know them.
struct ContentPart {
  std::string type = "text";  ///< "text", "image_url", ...
  std::string text;           ///< For type "text".
  json::Value raw;            ///< The whole part, if it has more than type and text.
};

struct Message {
  Role role = Role::user;
  /// Absent: null or missing; templates distinguish that from "".
  std::optional<std::string> content;
  std::vector<ContentPart> parts;    ///< Instead of `content` when the client sent a list.
  std::string reasoning;             ///< `reasoning_content` of an assistant's earlier turn.
  std::vector<ToolCall> tool_calls;  ///< For an assistant.
  std::string tool_call_id;          ///< For a tool: the call that it answers.
  std::string name;                  ///< The author, or the tool's name.
  json::Object extra;                ///< Unknown keys; they are passed to the template.

  /// `content`, or the text parts joined; "" if there is neither.
  [[nodiscard]] std::string text() const;
};

/// A grammar that says which texts are allowed.
struct TextGrammar {
  enum class Syntax : std::uint8_t {
    lark,
    regex,           ///< As OpenAI defines it: Rust's syntax, and the whole text must match.
    gbnf,            ///< The GBNF of llama.cpp, and the EBNF of xgrammar, vLLM and SGLang.
    structural_tag,  ///< The JSON of xgrammar's structural tags.
    choice,          ///< A JSON list of strings; the text must be one of them.
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
  json::Value raw;  ///< The tool as OpenAI writes it, `{"type": "function", "function": {...}}`,
                    ///< for templates.
  bool is_custom = false;              ///< Made by custom_tool().
  std::optional<TextGrammar> grammar;  ///< The grammar of its input; absent: any text.
  bool is_deferred = false;  ///< The client wants the model to search for it (`defer_loading`).
  bool is_listed = true;     ///< The prompt's list of tools has it; else a message describes it.
  bool for_model = true;     ///< The model may call it itself.
  bool for_code = false;     ///< Code that the model writes may call it (ChatRequest::code).
};

/// A tool that takes a text instead of arguments. For the model, and for all code that reads model
/// output, it is a function with one parameter, a string. Its description includes the grammar.
[[nodiscard]] Tool custom_tool(std::string name, std::string description,
                               std::optional<TextGrammar> grammar);
/// The name of that parameter.
inline constexpr std::string_view kInput = "input";
/// The arguments of a call of such a tool, as JSON text.
[[nodiscard]] std::string arguments_of(std::string_view input);

enum class ToolMode : std::uint8_t { automatic, none, required };

struct ToolChoice {
  ToolMode mode = ToolMode::automatic;
  std::vector<std::string> allowed;  ///< Names the model is limited to; empty: all.

  bool operator==(const ToolChoice&) const = default;
};

/// The order of a call's arguments. Models are trained on the schema's order, and with it more of
/// the text is known in advance.
enum class ArgumentOrder : std::uint8_t { schema, any };

/// What is done about a conversation that repeats its calls.
enum class OnLoop : std::uint8_t {
  tell,  ///< The answer says so.
  stop,  ///< From the third round on the answer has no calls.
};

/// What keeps a value from running on to the end of an answer that a mask constrains: numbers have
/// a usual number of digits, whitespace has a maximum, and a value that repeats itself is closed.
enum class Bounds : std::uint8_t {
  usual,
  none,  ///< Only what the schema says bounds a value.
};

/// The form of an answer's content. The answer may have calls instead.
struct ResponseFormat {
  enum class Kind : std::uint8_t { text, json, grammar };
  Kind kind = Kind::text;
  json::Value schema;  ///< JSON Schema of the JSON; null: any object.
  std::optional<bool> strict;
  TextGrammar grammar;  ///< For `grammar`: the grammar of the text.
};

/// The tool that runs code of the model's, as the request has it.
struct CodeTool {
  std::string name;  ///< As the model calls it. Its arguments are `{"code": ...}`.
  std::string type;  ///< The client's word for it, such as "code_execution_20260120".

  bool operator==(const CodeTool&) const = default;
};
/// ServerTool::server of that tool. No server of tools can have this label.
inline constexpr std::string_view kCodeServer = "code execution";

/// A call of a client's tool that code has made in an earlier answer, with the client's result.
struct CodeCall {
  std::string code_id;  ///< The call of the CodeTool whose code it was.
  ToolCall call;
  std::optional<std::string> result;  ///< Absent: the client has sent none.
  bool is_error = false;              ///< The result says that the tool failed.

  bool operator==(const CodeCall&) const = default;
};

/// An absent value means the model's own default (`general.sampling.*` of a GGUF file, a server's
/// `generation_config.json`, a Modelfile), or if it has none, the value named here.
struct Sampling {
  std::optional<double> temperature;  ///< 0: always the likeliest token. Default 1.
  std::optional<double> top_p;        ///< Default 1.
  std::optional<int> top_k;           ///< 0: all tokens. Default 0.
  std::optional<double> min_p;        ///< Default 0.
  std::optional<std::uint64_t> seed;
  std::optional<double> presence_penalty;                   ///< Default 0.
  std::optional<double> frequency_penalty;                  ///< Default 0.
  std::optional<double> repetition_penalty;                 ///< Default 1.
  std::vector<std::pair<std::int32_t, double>> logit_bias;  ///< (token id, added to its logit)
};

/// Which calls of a server's tools wait for the client's approval.
struct Approvals {
  enum class Rule : std::uint8_t {
    never,
    always,
    by_annotation,  ///< All but tools that say of themselves that they only read.
  };
  Rule rule = Rule::never;          ///< For tools that are in no list.
  std::vector<std::string> always;  ///< Names of tools. They go before `never`.
  std::vector<std::string> never;

  bool operator==(const Approvals&) const = default;
};

/// A server of tools (Model Context Protocol) that the request names and this server calls for it.
struct HostedServer {
  std::string label;  ///< The request's name for it.
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  ///< Secrets may be among them.
  bool may_be_private = false;  ///< The operator allows it to be within their own network.
  std::optional<std::vector<std::string>> only_tools;  ///< All other tools are left out.
  std::vector<std::string> without_tools;              ///< These tools are left out.
  bool only_reading = false;  ///< Only tools that say of themselves that they only read.
  Approvals approvals;
  bool is_listed = false;  ///< The conversation has the list of its tools already.
  bool for_model = true;   ///< As Tool::for_model, for all of its tools.
  bool for_code = false;

  bool operator==(const HostedServer&) const = default;
};

/// A tool by the name that its server has for it.
struct ServerTool {
  std::string server;
  std::string tool;  ///< "": all tools of the server.

  bool operator==(const ServerTool&) const = default;
};

/// What the client decides about a call that waits for it.
struct Decision {
  std::string call_id;
  bool approves = false;
  std::string reason;  ///< Why it refuses, for the model; may be empty.

  bool operator==(const Decision&) const = default;
};

/// Text that the model continues, instead of messages: no template, no tools, and the output is
/// text. Texts of control tokens in it are control tokens, because its author writes the whole
/// prompt; not so if there is a `suffix`, because then the text is a user's document.
struct Continuation {
  std::string text;
  std::vector<std::int32_t> tokens;   ///< Instead of `text`.
  std::optional<std::string> suffix;  ///< The text after the answer.
};

/// A decoded request of any dialect.
struct ChatRequest {
  std::string model;
  std::vector<Message> messages;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  Sampling sampling;
  std::optional<std::uint32_t> max_tokens;  ///< Absent: generates until the context is full.
  /// At most so many tokens of reasoning; then its section is closed. 0: no reasoning. Absent: the
  /// model's setting.
  std::optional<std::uint32_t> max_reasoning_tokens;
  std::vector<std::string> stop;  ///< Strings that end the answer. The client never sees them.
  bool logprobs = false;
  int top_logprobs = 0;
  json::Object template_kwargs;   ///< Extra variables of the chat template.
  std::optional<bool> normalize;  ///< Repairs arguments with their schema. Absent: the model's
                                  ///< setting.
  ResponseFormat response_format;
  std::optional<ArgumentOrder> argument_order;  ///< Absent: the model's setting.
  std::optional<bool> close_calls;  ///< Closes calls before max_tokens is reached. Absent: the
                                    ///< model's setting.
  /// Text with which the model's turn begins. The model continues it, and it is not part of the
  /// answer.
  std::string prefill;
  /// The prompt as token ids, instead of one that is made of the messages; tools and format stay
  /// what they are. Empty: the messages make the prompt.
  std::vector<std::int32_t> prompt_token_ids;
  /// The tokens of the conversation up to the end of the assistant's last message: prompt and
  /// answer as AnswerTokens has them. They stay as they are, and only what came since is rendered
  /// and tokenised, if the template allows that. Empty: everything is.
  std::vector<std::int32_t> previous_token_ids;
  bool tells_tokens = false;                 ///< Finish::tokens is wanted.
  std::optional<std::uint32_t> max_calls;    ///< Most calls of the answer. Absent: the model's
                                             ///< setting. 0: any number.
  std::optional<OnLoop> on_loop;             ///< Absent: the model's setting.
  std::optional<Bounds> bounds;              ///< Absent: the model's setting.
  std::string call_id_prefix = "call_";      ///< The prefix of ids that the model has not written
                                             ///< itself.
  std::optional<Continuation> continuation;  ///< Instead of `messages`.
  /// The owner of the request, for models that remember something of it; "": no owner.
  std::string owner;
  json::Value rlm;  ///< For a recursive model: its limits for this request. Null: the model's own.

  // Tools that the server runs.
  std::vector<HostedServer> servers;
  std::vector<ServerTool> chosen_tools;  ///< Beside `tool_choice.allowed`.
  /// Calls in `messages`, by their ids, whose names are those that the servers have for the tools.
  std::vector<std::pair<std::string, ServerTool>> server_calls;
  std::vector<Decision> decisions;
  bool can_approve = false;  ///< The client can be asked for approvals.

  std::optional<CodeTool> code;      ///< The model may write code, which the server runs.
  std::vector<CodeCall> code_calls;  ///< They are in no message.
};

}  // namespace tenon::message
