#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/fields.h"
#include "tenon/mcp/allow_list.h"
#include "tenon/message/message.h"

/// What the requests of all dialects have in common.
namespace tenon::api {

/// Limits of one request.
inline constexpr unsigned kMaxChoices = 16;
inline constexpr std::size_t kMaxBiases = 4096;  ///< Entries of `logit_bias`.
inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 1024;
inline constexpr std::size_t kMaxTools = 1024;
inline constexpr std::size_t kMaxPromptTokens = std::size_t{1} << 18;
inline constexpr std::size_t kMaxModelBytes = 1024;  ///< For its name.

/// How requests are read.
struct DecodeOptions {
  /// What would be left out is an error: unknown fields and members, hosted tools, content that is
  /// not text.
  bool refuses_unknown_fields = false;
  /// Everything that is read stands before an answer: content that is not text is left out
  /// anywhere.
  bool is_all_past = false;
  /// Decrypts what a client keeps for this server; no value if it is not ours. Empty: clients keep
  /// nothing.
  std::function<std::optional<std::string>(std::string_view)> unseal{};
  /// The servers of tools that clients may name; null or empty: none, and they are left out.
  const mcp::AllowList* servers = nullptr;
};

/// What happens with a field: it is honoured; it is refused with 400 and its name (values that ask
/// for nothing are accepted); or it is checked and ignored, because it cannot change an answer.
enum class Effect : std::uint8_t { honoured, refused, without_effect };

struct FieldInfo {
  std::string_view name;
  Effect effect;
  bool is_required = false;
  /// JSON Schema of its values, for openapi.json; or "#Name", one of the schemas there.
  std::string_view schema{};
};

/// A field of the dialect that `Decoder` reads. Its handler is called for values that are not null.
/// A field without effect needs no handler: its kind is checked, so that mistakes are still found.
template <class Decoder>
struct Field {
  FieldInfo info;
  bool (Decoder::*decode)(const json::Value& value);
  json::Kind kind = json::Kind::null;
};

/// The schema of a field of which only the kind is checked.
[[nodiscard]] constexpr std::string_view schema_of(json::Kind kind) {
  switch (kind) {
    case json::Kind::boolean:
      return R"({"type": "boolean"})";
    case json::Kind::object:
      return R"({"type": "object"})";
    case json::Kind::array:
      return R"({"type": "array"})";
    case json::Kind::string:
      return R"({"type": "string"})";
    default:
      return {};
  }
}

/// The infos of `kFields`, a std::array of Fields.
template <const auto& kFields>
[[nodiscard]] std::span<const FieldInfo> infos_of() {
  static const auto kInfos = [] {
    std::array<FieldInfo, kFields.size()> infos{};
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      infos[i] = kFields[i].info;
      if (infos[i].schema.empty()) infos[i].schema = schema_of(kFields[i].kind);
    }
    return infos;
  }();
  return kInfos;
}

/// The table `fields` with the rows of `more` behind it.
template <class Decoder, std::size_t N, std::size_t M>
[[nodiscard]] constexpr std::array<Field<Decoder>, N + M> joined(
    const std::array<Field<Decoder>, N>& fields, const std::array<Field<Decoder>, M>& more) {
  std::array<Field<Decoder>, N + M> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = fields[i];
  for (std::size_t i = 0; i < M; ++i) all[N + i] = more[i];
  return all;
}

/// Why a hosted tool is left out.
inline constexpr std::string_view kRunsNoTools = "this server runs no tools for its clients";

/// Why a server of tools is left out.
inline constexpr std::string_view kCallsNoServers =
    "this server calls no servers of tools for its clients, unless its operator names them in "
    "server.mcp_allow";
/// Limits of servers of tools.
inline constexpr std::size_t kMaxServers = 8;
inline constexpr std::size_t kMaxServerHeaders = 32;
inline constexpr std::size_t kMaxServerUrl = 2048;
inline constexpr std::size_t kMaxHeaderBytes = std::size_t{8} << 10;
inline constexpr std::size_t kMaxDecisions = 256;
inline constexpr std::size_t kMaxCodeCalls = std::size_t{1} << 16;

/// Base of the dialects' decoders: reads fields that they share into `chat_`.
class RequestReader : protected FieldReader {
 public:
  explicit RequestReader(const DecodeOptions& options = {}) {
    refuses_unknown_ = options.refuses_unknown_fields;
    if (options.servers != nullptr && !options.servers->empty()) allowed_ = options.servers;
  }

  /// Limited, because each chunk of a stream repeats the name.
  bool model(const json::Value& value) {
    return string(value, "model", chat_.model) &&
           at_most(kMaxModelBytes, chat_.model.size(), "model", "bytes");
  }
  bool temperature(const json::Value& value) {
    return number(value, "temperature", 0.0, 2.0, chat_.sampling.temperature);
  }
  bool top_p(const json::Value& value) {
    return number(value, "top_p", 0.0, 1.0, chat_.sampling.top_p);
  }
  bool top_k(const json::Value& value);
  bool min_p(const json::Value& value) {
    return number(value, "min_p", 0.0, 1.0, chat_.sampling.min_p);
  }
  bool presence_penalty(const json::Value& value) {
    return number(value, "presence_penalty", -2.0, 2.0, chat_.sampling.presence_penalty);
  }
  bool frequency_penalty(const json::Value& value) {
    return number(value, "frequency_penalty", -2.0, 2.0, chat_.sampling.frequency_penalty);
  }
  bool repetition_penalty(const json::Value& value) {
    return number(value, "repetition_penalty", 0.01, 10.0, chat_.sampling.repetition_penalty);
  }
  bool seed(const json::Value& value);
  bool logit_bias(const json::Value& value);
  bool top_logprobs(const json::Value& value);
  bool response_format(const json::Value& value);
  /// The answer's text must be one of these strings.
  bool choice_of(const json::Value& value, const std::string& path);
  /// The answer's text must fit this grammar; "" means no grammar.
  bool answer_grammar(const json::Value& value, const std::string& path,
                      message::TextGrammar::Syntax syntax);
  /// EBNF as in llama.cpp, xgrammar and vLLM; or Lark, if no rule is written with `::=`.
  bool ebnf_or_lark(const json::Value& value, const std::string& path);
  /// A structural tag of xgrammar, as an object or as its text.
  bool structural_tag(const json::Value& value, const std::string& path);
  /// vLLM's object with one of these constraints.
  bool structured_outputs(const json::Value& value);
  // Fields of local engines, each of which constrains the answer's text: kTextFields lists them.
  bool json_schema_field(const json::Value& value) { return bare_schema(value, "json_schema"); }
  bool guided_json(const json::Value& value) { return bare_schema(value, "guided_json"); }
  bool guided_choice(const json::Value& value) { return choice_of(value, "guided_choice"); }
  bool guided_regex(const json::Value& value) {
    return answer_grammar(value, "guided_regex", message::TextGrammar::Syntax::regex);
  }
  bool guided_grammar(const json::Value& value) { return ebnf_or_lark(value, "guided_grammar"); }
  bool grammar(const json::Value& value) { return ebnf_or_lark(value, "grammar"); }
  bool regex(const json::Value& value) {
    return answer_grammar(value, "regex", message::TextGrammar::Syntax::regex);
  }
  bool ebnf(const json::Value& value) {
    return answer_grammar(value, "ebnf", message::TextGrammar::Syntax::gbnf);
  }
  bool structural_tag_field(const json::Value& value) {
    return structural_tag(value, "structural_tag");
  }
  /// Ollama's: "json", or a schema; "" means nothing.
  bool format(const json::Value& value);
  bool template_kwargs(const json::Value& value);
  /// vLLM's limit for reasoning; -1 means no limit.
  bool thinking_token_budget(const json::Value& value);
  bool tenon(const json::Value& value);
  /// The recursive model checks its content.
  bool rlm(const json::Value& value);

 protected:
  /// Reads the fields of `body` in the order of `fields`; any other is unknown(). False after
  /// fail().
  template <class Decoder, std::size_t N>
  bool read(const json::Value& body, const std::array<Field<Decoder>, N>& fields) {
    if (!kind(body, json::Kind::object, "")) return false;
    for (const json::Member& member : *body.if_object()) {
      bool is_known = member.value.is_null();
      for (const auto& field : fields) is_known = is_known || field.info.name == member.key;
      if (is_known) continue;
      if (!unknown(member.key, shown(member.key) + " is not a field of this request; docs/api.md "
                                                   "lists those that are")) {
        return false;
      }
    }
    for (const auto& field : fields) {
      const json::Value* value = field.info.is_required ? required(body, "", field.info.name)
                                                        : present(body, field.info.name);
      if (value != nullptr && field.decode == nullptr) {
        kind(*value, field.kind, field.info.name);
      } else if (value != nullptr) {
        (static_cast<Decoder&>(*this).*field.decode)(*value);
      }
      if (error_) return false;
    }
    return true;
  }

  /// The result of a decoder: `out`, or the error.
  template <class Request>
  Result<Request, ApiError> outcome(bool is_right, Request& out) {
    if (!is_right) return Failure<ApiError>(*std::move(error_));
    add_late_results();
    out.chat = std::move(chat_);
    out.left_out = std::move(left_out_);
    return std::move(out);
  }

  using FieldReader::number;
  bool number(const json::Value& value, std::string_view path, double least, double most,
              std::optional<double>& out) {
    return number(value, path, least, most, out.emplace());
  }
  bool choices(const json::Value& value, std::string_view path, unsigned& out);
  bool stream_options(const json::Value& value, bool& include_usage);
  bool token_limit(const json::Value& value, std::string_view path);
  bool stops(const json::Value& value, std::string_view name);
  bool enable_thinking(const json::Value& value, const std::string& path);
  bool effort(const json::Value& value, const std::string& path);
  /// The same, and whether the template should make the model think at all.
  bool effort_and_thinking(const json::Value& value, const std::string& path);
  /// Reads at least one token id.
  bool token_ids(const json::Value& value, const std::string& path, std::vector<std::int32_t>& out);
  bool logprob_count(const json::Value& value, std::string_view path);
  /// The answer's text must be JSON by this schema, given as an object or as its text.
  bool bare_schema(const json::Value& value, const std::string& path);
  /// Whether `value` is a tool of a type that a server would run for its clients: it has no
  /// parameters of the client's.
  [[nodiscard]] static bool is_hosted_tool(const json::Value& value);
  /// A tool that finds deferred tools, as OpenAI and Anthropic have it. Ours is offered whenever a
  /// tool is deferred, so nothing is lost without it.
  [[nodiscard]] static bool is_tool_search(const json::Value& value);
  /// Reads `name`, `description`, `schema` and `strict` of `value`, for the answer's text.
  bool answer_schema(const json::Value& value, const std::string& path);
  // server_reader.cc
  /// OpenAI's tool of type `mcp`: a server of tools that is called for the client.
  bool mcp_tool(const json::Value& value, const std::string& path);
  /// The list `mcp_servers` of Anthropic's dialect, in which each server has a name.
  bool mcp_server_list(const json::Value& value, const std::string& path);
  /// Anthropic's tool of type `mcp_toolset`: which tools of one of those servers there are.
  bool mcp_toolset(const json::Value& value, const std::string& path);
  /// Fails if a server of `mcp_servers` has no toolset although another one has.
  bool toolsets_fit();
  /// `{"type": "mcp", "server_label", "name"}`, in a choice of tools.
  bool chosen_server(const json::Value& value, const std::string& path);
  /// Whether servers of tools are called for clients at all.
  [[nodiscard]] bool calls_servers() const { return allowed_ != nullptr; }
  /// A call of a server's tool in an earlier answer: its name becomes one that models can have.
  void add_server_call(message::ToolCall& call, std::string server, std::string tool);
  /// Puts the result of a call behind the message with the call, and behind the other results
  /// there. Without such a message it is the last one. Calls may be added to the last message only.
  void place_result(message::Message result);
  /// Whether a message has this call.
  [[nodiscard]] bool has_call(std::string_view id);
  /// With those that place_result() has not put into their places yet.
  [[nodiscard]] std::size_t message_count() const {
    return chat_.messages.size() + late_results_.size();
  }
  bool add_decision(message::Decision decision, const std::string& path);
  /// Fails if no message has the call that a decision is about, and as decisions_differ().
  bool decisions_fit();
  /// Fails if there are two decisions on a call that has no result. Call it when all is read.
  bool decisions_differ();

  /// "auto", "none" or "required".
  bool choice_word(const std::string& word);
  /// Reads the member `name` of `value`, one of the request's tools, the only one of this `field`.
  bool chosen_name(const json::Value& value, const std::string& path, bool is_custom,
                   const std::string& field = "tool_choice");
  /// Reads `mode` and `tools` of `value`; each tool is read by `choose`.
  template <class Decoder>
  bool allowed_tools(const json::Value& value, const std::string& path,
                     bool (Decoder::*choose)(const json::Value&, const std::string&)) {
    const std::string_view mode = required_word(value, path, "mode", {"auto", "required"});
    if (mode.empty()) return false;
    if (mode == "required") chat_.tool_choice.mode = message::ToolMode::required;
    const json::Value* tools = required(value, path, "tools", json::Kind::array);
    if (tools == nullptr) return false;
    const std::string where = in(path, "tools");
    const json::Array& items = *tools->if_array();
    if (items.empty()) return fail("invalid_value", where, where + " must not be empty");
    if (!at_most(kMaxTools, items.size(), where, "tools")) return false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!kind(items[i], json::Kind::object, at(where, i))) return false;
      if (!(static_cast<Decoder&>(*this).*choose)(items[i], at(where, i))) return false;
    }
    return true;
  }
  /// Reads `allowed_callers` of `value`: who may call a tool, the model itself ("direct") or code
  /// that it writes ("code_execution_20260120" and the like, or OpenAI's "programmatic").
  bool callers(const json::Value& value, const std::string& path, bool& for_model, bool& for_code);
  /// Sets ChatRequest::code, once in a request.
  bool code_tool(const std::string& path, std::string name, std::string type);
  /// Whether the request's tools fit its code tool, if it has one. Call it when all is read.
  bool code_fits();
  /// Whether a tool of this type runs code: "code_execution_" and a date, of any date.
  [[nodiscard]] static bool is_code_type(std::string_view type);
  /// Code of an earlier answer. Its id must be new.
  bool add_code(const std::string& id, const std::string& path);
  /// A call that such code has made. Its id must be new, and the code's one that is known.
  bool add_code_call(std::string code_id, message::ToolCall call, const std::string& path);
  /// Gives such a call its result; false: `message` answers another call.
  bool take_code_result(const message::Message& message);
  /// Reads `defer_loading`: the tool is searched for instead of listed.
  bool deferral(const json::Value& value, const std::string& path, message::Tool& out);
  /// Reads `name`, `description`, `strict` and the parameters (`schema_key`) of a function from
  /// `value`. The caller sets its `raw`.
  bool function_tool(const json::Value& value, const std::string& path, std::string_view schema_key,
                     message::Tool& out);
  /// The same, and sets `raw` in the shape of Chat Completions.
  bool flat_function_tool(const json::Value& value, const std::string& path,
                          std::string_view schema_key, message::Tool& out);
  /// Reads `name`, `description` and `format` of a custom tool. `nests_grammar`: a format that is a
  /// grammar has `grammar: {syntax, definition}` instead of the two members themselves.
  bool custom_tool(const json::Value& value, const std::string& path, bool nests_grammar,
                   message::Tool& out);
  /// Reads the list `field` of tools, each by `read_tool`, which leaves the name of a tool empty if
  /// it is left out. Two tools with one name are an error.
  template <class Decoder>
  bool tool_list(const json::Value& value, const std::string& field,
                 bool (Decoder::*read_tool)(const json::Value&, const std::string&,
                                            message::Tool&)) {
    if (!kind(value, json::Kind::array, field)) return false;
    const json::Array& items = *value.if_array();
    if (!at_most(kMaxTools, items.size(), field, "tools")) return false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      message::Tool tool;
      if (!(static_cast<Decoder&>(*this).*read_tool)(items[i], at(field, i), tool)) return false;
      if (!tool.name.empty()) chat_.tools.push_back(std::move(tool));
    }
    return at_most(kMaxTools, chat_.tools.size(), field, "tools") && each_name_once();
  }
  /// Fails if a call is required although there are no tools.
  bool choice_fits_tools();
  /// Fails if the usage of a stream is wanted without a stream.
  bool usage_fits_stream(bool include_usage, bool is_stream);
  /// Makes the last message, the assistant's own words, the beginning of the answer. Fails about
  /// `param` with `refusal` if the answer is a JSON document, which cannot begin in the middle.
  bool take_prefill(const std::string& param, const std::string& refusal);

  bool is_tool_name(const std::string& name, const std::string& path);
  /// A list of names of tools.
  bool tool_names(const json::Value& value, const std::string& path, std::vector<std::string>& out);

  message::ChatRequest chat_;

 private:
  bool holds_text(const std::string& path);
  bool set_grammar(const std::string& path, message::TextGrammar grammar);
  bool each_name_once();
  bool any_json(const std::string& path);
  bool tool_name(const json::Value& value, const std::string& path, std::string& out);
  bool input_format(const json::Value& value, const std::string& path, bool nests_grammar,
                    std::optional<message::TextGrammar>& out);
  bool text_grammar(const json::Value& value, const std::string& path,
                    std::optional<message::TextGrammar>& out);
  bool json_schema(const json::Value& value);
  bool argument_order(const json::Value& value, const std::string& path);
  bool member_of_tenon(const json::Member& member, const std::string& path);
  bool approvals(const json::Value& value, const std::string& path);
  bool add_server(message::HostedServer server, const std::string& path,
                  const std::string& url_path);
  bool server_headers(const json::Value& value, const std::string& path,
                      message::HostedServer& server);
  bool bearer(const json::Value& value, const std::string& path, message::HostedServer& server);
  bool tool_filter(const json::Value& value, const std::string& path,
                   std::vector<std::string>& names, bool& only_reading);
  bool allowed_of_server(const json::Value& value, const std::string& path,
                         message::HostedServer& server);
  bool approval_rule(const json::Value& value, const std::string& path, message::Approvals& out);
  message::HostedServer* server_named(const std::string& label);
  void index_calls();
  void add_late_results();

  const mcp::AllowList* allowed_ = nullptr;
  std::set<std::string> with_toolset_;  // labels of servers
  std::string held_by_;                 // the field that constrains the answer's text

  // Where the calls are, so that many results take no longer than their number.
  std::map<std::string, std::size_t, std::less<>> call_places_;  // the last message with the call
  std::size_t indexed_messages_ = 0;  // all of their calls are in call_places_
  std::size_t indexed_calls_ = 0;     // of the message behind those
  std::size_t last_other_ = 0;        // the last message that is no result
  // Results of calls that other messages follow, by the index of the message with the call.
  std::multimap<std::size_t, message::Message> late_results_;
  std::set<std::string, std::less<>> codes_;       // ids of code
  std::map<std::string, std::size_t> code_calls_;  // where in chat_.code_calls, by the call's id
  // Decisions on calls that were decided on before: the call's id and the path of the first one.
  std::map<std::string, std::string> repeated_decisions_;
};

/// The fields of local engines that constrain the answer's text, the same in all dialects.
template <class Decoder>
inline constexpr auto kTextFields = std::to_array<Field<Decoder>>({
    {{"json_schema", Effect::honoured, false, "#JsonSchema"}, &Decoder::json_schema_field},
    {{"guided_json", Effect::honoured, false, "#JsonSchema"}, &Decoder::guided_json},
    {{"guided_choice", Effect::honoured, false, "#Strings"}, &Decoder::guided_choice},
    {{"guided_regex", Effect::honoured, false, "#String"}, &Decoder::guided_regex},
    {{"guided_grammar", Effect::honoured, false, "#String"}, &Decoder::guided_grammar},
    {{"structured_outputs", Effect::honoured, false, "#StructuredOutputs"},
     &Decoder::structured_outputs},
    {{"grammar", Effect::honoured, false, "#String"}, &Decoder::grammar},
    {{"regex", Effect::honoured, false, "#String"}, &Decoder::regex},
    {{"ebnf", Effect::honoured, false, "#String"}, &Decoder::ebnf},
    {{"structural_tag", Effect::honoured, false, "{}"}, &Decoder::structural_tag_field},
    {{"format", Effect::honoured, false, "{}"}, &Decoder::format},
});

}  // namespace tenon::api
