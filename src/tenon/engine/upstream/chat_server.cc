#include "tenon/engine/upstream/chat_server.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/engine/admission.h"
#include "tenon/engine/sampling_fields.h"
#include "tenon/engine/upstream/readings.h"
#include "tenon/engine/upstream/remote.h"
#include "tenon/json/lexer.h"
#include "tenon/json/value.h"
#include "tenon/vocab/byte_tokenizer.h"

// How an answer is read
//
// Servers that speak Chat Completions differ most in how they stream calls, and ChatReader accepts
// them all. The model's calls come as pieces with an index. By OpenAI each call has its own index
// and one name; in practice some servers give all calls one index, some repeat id and name with
// each piece, some send a name in several pieces, some send no index. told_of() finds the call of a
// piece, and begins_another() decides by id, by arguments that are complete JSON, and by the names
// of the request's tools whether the piece begins a new one. A name is passed on once it is certain
// to be whole (tell_name, is_whole): when arguments begin, when no tool's name goes on from it, or
// at the end. Reasoning may come in three fields, content as text or as parts. Types are those of
// the Python package openai 3.52.0 (openai/types/chat/), and of EXO (exo-explore/exo,
// src/exo/api/types/api.py and adapters/chat_completions.py).
namespace tenon::engine {
namespace {

using json::Value;
using message::ChatRequest;
using message::FinishReason;
using message::Role;

// ---- what is asked --------------------------------------------------------------------------

// Text, parts as the client sent them, or null: an assistant's message with calls may have no
// content.
Value content_of(const message::Message& message) {
  if (message.content) return *message.content;
  if (message.parts.empty()) return nullptr;
  json::Array parts;
  for (const message::ContentPart& part : message.parts) {
    parts.push_back(part.raw.is_null() ? json::Object{{"type", part.type}, {"text", part.text}}
                                       : part.raw);
  }
  return parts;
}

// Only OpenAI's own models know the role `developer`; all know `system`.
std::string_view role_of(const message::Message& message) {
  return message::role_name(message.role == Role::developer ? Role::system : message.role);
}

// OpenAI's tool messages have no field for a failure (`is_error` is Anthropic's), so the text says
// that the tool failed.
void mark_failure(Value& content) {
  constexpr std::string_view kMark = "Error: ";
  if (json::Array* const parts = content.if_array()) {
    parts->insert(parts->begin(), json::Object{{"type", "text"}, {"text", kMark}});
  } else {
    const std::string text = content.if_string() == nullptr ? "" : *content.if_string();
    const bool says_so = text.starts_with("Error") || text.starts_with("error");
    if (!says_so) content = Value(std::string(kMark) + text);
  }
}

// OpenAI's API takes names of these characters and of this length only.
constexpr std::size_t kMaxNameBytes = 64;

bool is_legal(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '-';
}

/// The names of a request's tools as the server may take them, and back. A name that is legal is
/// sent as it is.
class SentNames {
 public:
  explicit SentNames(const std::vector<message::Tool>& tools) {
    for (const message::Tool& tool : tools) {
      if (as_legal(tool.name) == tool.name) taken_.insert(tool.name);
    }
    for (const message::Tool& tool : tools) static_cast<void>(add(tool.name));
  }

  /// Also for a name in the history that no tool of the request has.
  std::string add(const std::string& name) {
    const std::string stem = as_legal(name);
    if (stem == name) return stem;
    if (const auto known = sent_.find(name); known != sent_.end()) return known->second;
    std::string sent = stem;
    while (!taken_.insert(sent).second) {
      const std::string suffix =
          '_' + std::to_string(++numbers_.try_emplace(stem, 1U).first->second);
      sent = stem.substr(0, kMaxNameBytes - suffix.size()) + suffix;
    }
    meant_.emplace(sent, name);
    return sent_.emplace(name, std::move(sent)).first->second;
  }
  [[nodiscard]] std::string meant(const std::string& sent) const {
    const auto found = meant_.find(sent);
    return found == meant_.end() ? sent : found->second;
  }

 private:
  static std::string as_legal(std::string_view name) {
    std::string legal(name.substr(0, kMaxNameBytes));
    std::ranges::replace_if(legal, [](char byte) { return !is_legal(byte); }, '_');
    return legal;
  }

  std::set<std::string> taken_;
  std::map<std::string, unsigned> numbers_;  // the last one that was tried, by stem
  std::map<std::string, std::string> sent_;
  std::map<std::string, std::string> meant_;
};

// The message as the client sent it: chat_completion_message_param.py and the types it names.
Value message_of(const message::Message& message, SentNames& names) {
  json::Object out{{"role", role_of(message)}, {"content", content_of(message)}};
  if (const Value* const failed = message.extra.find("is_error");
      message.role == Role::tool && failed != nullptr && *failed == Value(true)) {
    mark_failure(*out.find("content"));
  }
  if (!message.reasoning.empty()) out.set("reasoning_content", message.reasoning);
  json::Array calls;
  for (const message::ToolCall& call : message.tool_calls) {
    calls.emplace_back(json::Object{
        {"id", call.id},
        {"type", "function"},
        {"function", json::Object{{"name", names.add(call.name)}, {"arguments", call.arguments}}}});
  }
  if (!calls.empty()) out.set("tool_calls", std::move(calls));
  if (!message.tool_call_id.empty()) out.set("tool_call_id", message.tool_call_id);
  if (!message.name.empty()) {
    out.set("name", message.role == Role::tool ? names.add(message.name) : message.name);
  }
  for (const json::Member& member : message.extra) {
    const bool is_mark = message.role == Role::tool && member.key == "is_error";
    if (!is_mark && !out.contains(member.key)) out.set(member.key, member.value);
  }
  return out;
}

// OpenAI's API refuses an object schema without `properties`, which means that it has no
// properties.
void complete_parameters(Value& function) {
  Value* const parameters = function.find("parameters");
  if (parameters == nullptr || parameters->find("properties") != nullptr) return;
  const Value* const type = parameters->find("type");
  if (type != nullptr && *type == Value("object")) {
    parameters->if_object()->set("properties", json::Object());
  }
}

// As the client sent it if it came in this dialect (`raw`), so that fields which we do not know are
// kept.
Value tool_of(const message::Tool& tool, SentNames& names) {
  if (tool.raw.if_object() != nullptr) {
    Value raw = tool.raw;
    Value* const function = raw.find("function");
    if (function == nullptr || function->if_object() == nullptr) return raw;
    function->if_object()->set("name", names.add(tool.name));
    complete_parameters(*function);
    return raw;
  }
  Value function = json::Object{{"name", names.add(tool.name)}, {"description", tool.description}};
  if (!tool.parameters.is_null()) function.if_object()->set("parameters", tool.parameters);
  if (tool.strict) function.if_object()->set("strict", *tool.strict);
  complete_parameters(function);
  return json::Object{{"type", "function"}, {"function", std::move(function)}};
}

template <class T, class Encode>
json::Array list_of(const std::vector<T>& all, const Encode& encode, SentNames& names) {
  json::Array list;
  for (const T& one : all) list.push_back(encode(one, names));
  return list;
}

// The choice is one tool, or any of the tools that are sent.
Value tool_choice_of(const message::ToolChoice& choice, SentNames& names) {
  if (choice.allowed.size() != 1) return "required";
  return json::Object{{"type", "function"},
                      {"function", json::Object{{"name", names.add(choice.allowed.front())}}}};
}

// OpenAI requires the schema's name, which has no effect.
Value response_format_of(const message::ResponseFormat& format) {
  if (format.schema.is_null()) return json::Object{{"type", "json_object"}};
  json::Object schema{{"name", "answer"}, {"schema", format.schema}};
  if (format.strict) schema.set("strict", *format.strict);
  return json::Object{{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

void set_choice(json::Object& body, const message::Sampling& sampling) {
  // Most other servers have the fields that OpenAI lacks; a server without one refuses the request.
  set_sampling(body, sampling);
  if (sampling.seed) {
    body.set("seed", signed_seed(*sampling.seed));
  }
  set_biases(body, sampling);
}

// The effort of reasoning is a field of all dialects; other template variables have a field only on
// servers that render templates themselves.
void set_template_kwargs(json::Object& body, const json::Object& variables, bool is_exo) {
  json::Object rest;
  const Value* effort = variables.find("reasoning_effort");
  if (effort != nullptr) body.set("reasoning_effort", *effort);
  for (const json::Member& member : variables) {
    if (member.key == "reasoning_effort") continue;
    if (member.key == "enable_thinking" && (effort != nullptr || is_exo)) {
      if (effort == nullptr) body.set(member.key, member.value);  // the effort says the same
      continue;
    }
    rest.set(member.key, member.value);
  }
  if (rest.size() > 0) body.set("chat_template_kwargs", std::move(rest));
}

json::Object body_of(const GenerateRequest& request, const std::string& model, bool is_exo,
                     SentNames& names) {
  const ChatRequest& chat = *request.chat;
  json::Object body{{"model", model},
                    {"messages", list_of(chat.messages, message_of, names)},
                    {"stream", true},
                    {"stream_options", json::Object{{"include_usage", true}}}};
  // Many servers, EXO and Ollama among them, do not know the newer max_completion_tokens.
  if (request.max_tokens > 0) body.set("max_tokens", std::uint64_t{request.max_tokens});
  set_choice(body, request.sampling);
  set_template_kwargs(body, chat.template_kwargs, is_exo);
  if (!chat.tools.empty()) body.set("tools", list_of(chat.tools, tool_of, names));
  // EXO has no fields for what follows.
  if (is_exo) return body;
  if (!chat.tools.empty()) {
    if (chat.tool_choice.mode == message::ToolMode::required) {
      body.set("tool_choice", tool_choice_of(chat.tool_choice, names));
    }
    if (!chat.parallel_tool_calls) body.set("parallel_tool_calls", false);
  }
  if (request.printed != nullptr) {
    body.set("response_format", response_format_of(chat.response_format));
  }
  return body;
}

// ---- what is answered -----------------------------------------------------------------------

// Text, or the texts of its parts.
std::string text_of(const Value* content) {
  if (content == nullptr) return {};
  if (const std::string* text = content->if_string()) return *text;
  std::string all;
  if (const json::Array* parts = content->if_array()) {
    for (const Value& part : *parts) all += text_at(part, "/text");
  }
  return all;
}

// The text of parts `{"type": "thinking", "thinking": text or parts}`, which Mistral's API sends.
std::string thinking_in(const Value* content) {
  std::string all;
  const json::Array* parts = content == nullptr ? nullptr : content->if_array();
  if (parts == nullptr) return all;
  for (const Value& part : *parts) all += text_of(part.find("thinking"));
  return all;
}

// By OpenAI arguments are JSON in a string; some servers send the JSON itself.
std::string arguments_of(const Value* arguments) {
  if (arguments == nullptr || arguments->is_null()) return {};
  const std::string* text = arguments->if_string();
  return text != nullptr ? *text : json::to_string(*arguments);
}

/// Reads the events of one answer, or the one document of an answer that is not streamed:
/// chat_completion_chunk.py, chat_completion.py.
class ChatReader {
 public:
  ChatReader(bool is_exo, const std::vector<message::Tool>& tools, SentNames names)
      : is_exo_(is_exo), names_(std::move(names)) {
    for (const message::Tool& tool : tools) tools_.push_back(names_.add(tool.name));
  }

  Delta operator()(const Value& event) {
    Delta delta = read(event);
    for (Delta::Call& call : delta.calls) call.name = names_.meant(call.name);
    return delta;
  }

 private:
  Delta read(const Value& event);
  [[nodiscard]] bool is_of_another(const Value& event);
  void read_message(const Value& message, Delta& delta);
  void read_calls(const json::Array& calls, Delta& delta);
  // A call whose pieces are coming.
  struct Told {
    std::string id;
    std::uint32_t number = 0;  // its CallPiece::index
    std::string name;          // so far
    bool is_named = false;     // the name is whole, and was passed on
    json::Lexer arguments{};   // which end where their JSON is whole
  };
  Told& told_of(std::uint32_t index, const std::string& id, const std::string& name, Delta& delta);
  [[nodiscard]] bool begins_another(const Told& told, const std::string& id,
                                    const std::string& name) const;
  [[nodiscard]] bool begins_a_tool(const std::string& name) const;
  [[nodiscard]] bool is_whole(const std::string& name) const;
  static void tell_name(Told& told, Delta& delta);
  static void read_end(const std::string& reason, Delta& delta);

  const bool is_exo_;
  SentNames names_;
  std::string id_;                // of the answer
  std::uint32_t call_count_ = 0;  // calls begun so far
  std::vector<std::string> tools_;
  std::map<std::uint32_t, Told> told_;  // by the server's index: its last call
};

Delta ChatReader::read(const Value& event) {
  Delta delta;
  if (event.is_null()) {  // the end
    for (auto& [index, told] : told_) tell_name(told, delta);
    return delta;
  }
  if (event.if_object() == nullptr) delta.failure = unavailable("an event is no object");
  if (is_of_another(event)) return delta;
  if (const Value* usage = event.find("usage"); usage != nullptr && usage->if_object() != nullptr) {
    delta.prompt_tokens = told_at(*usage, "/prompt_tokens");
    delta.completion_tokens = told_at(*usage, "/completion_tokens");
    delta.cached_tokens = told_at(*usage, "/prompt_tokens_details/cached_tokens");
    delta.reasoning_tokens = told_at(*usage, "/completion_tokens_details/reasoning_tokens");
  }
  const Value* choices = event.find("choices");
  if (choices == nullptr || choices->if_array() == nullptr) return delta;
  for (const Value& choice : *choices->if_array()) {
    if (count_at(choice, "/index") != 0) continue;
    delta.is_of_answer = true;
    const Value* message = choice.find("delta");
    if (message == nullptr) message = choice.find("message");
    if (message != nullptr) read_message(*message, delta);
    const std::string reason = text_at(choice, "/finish_reason");
    if (!reason.empty()) {
      for (auto& [index, told] : told_) tell_name(told, delta);
    }
    read_end(reason, delta);
    const Value* error = choice.find("error");
    const std::string words = error == nullptr ? std::string() : words_of(*error);
    if (!words.empty()) delta.failure = unavailable("the server says: " + words);
    break;
  }
  return delta;
}

// EXO's nodes give an answer the id of the command that asked for it: adapters/chat_completions.py.
bool ChatReader::is_of_another(const Value& event) {
  if (!is_exo_) return false;
  std::string id = text_at(event, "/id");
  if (id_.empty()) id_ = std::move(id);
  return !id.empty() && id != id_;
}

void ChatReader::read_message(const Value& message, Delta& delta) {
  delta.reasoning = text_of(message.find("reasoning_content"));
  if (delta.reasoning.empty()) delta.reasoning = text_of(message.find("reasoning"));
  delta.reasoning += thinking_in(message.find("content"));
  std::string text = text_of(message.find("content")) + text_of(message.find("refusal"));
  if (!text.empty()) delta.tokens.push_back({.bytes = std::move(text)});
  const Value* calls = message.find("tool_calls");
  if (calls != nullptr && calls->if_array() != nullptr) read_calls(*calls->if_array(), delta);
  // The old field for a single call. llama-cpp-python sends its calls in both fields.
  const Value* old = message.find("function_call");
  if (delta.calls.empty() && old != nullptr && old->if_object() != nullptr) {
    delta.calls.push_back({.index = 0,
                           .name = text_at(*old, "/name"),
                           .arguments = arguments_of(old->find("arguments"))});
  }
}

void ChatReader::read_calls(const json::Array& calls, Delta& delta) {
  for (const Value& piece : calls) {
    Delta::Call call{.name = text_at(piece, "/function/name"),
                     .arguments = arguments_of(json::at_pointer(piece, "/function/arguments"))};
    const Value* index = piece.find("index");
    if (index == nullptr || index->if_number() == nullptr) {
      // Without an index, a piece with a name begins a call.
      call.index = call.name.empty() && call_count_ > 0 ? call_count_ - 1 : call_count_;
      call_count_ = std::max(call_count_, call.index + 1);
      delta.calls.push_back(std::move(call));
      continue;
    }
    Told& told = told_of(count_at(piece, "/index"), text_at(piece, "/id"), call.name, delta);
    call.index = told.number;
    // Some servers repeat the name with each piece.
    const bool is_again = call.name == told.name && !begins_a_tool(told.name + call.name);
    if (!told.is_named && !is_again) told.name += std::exchange(call.name, {});
    static_cast<void>(told.arguments.feed(call.arguments));
    if (!told.is_named && (!call.arguments.empty() || is_whole(told.name))) {
      told.is_named = true;
      call.name = told.name;
    } else {
      call.name.clear();
    }
    if (!call.name.empty() || !call.arguments.empty()) delta.calls.push_back(std::move(call));
  }
}

// Finds the call that a piece belongs to. Some servers give all their calls one index, with an id
// for each or without. Others repeat id and name with each piece, or send the name in pieces.
ChatReader::Told& ChatReader::told_of(std::uint32_t index, const std::string& id,
                                      const std::string& name, Delta& delta) {
  const auto [known, is_new] = told_.try_emplace(index);
  Told& told = known->second;
  if (is_new) {
    for (auto& [earlier, other] : told_) {
      if (earlier != index) tell_name(other, delta);
    }
    told = {.id = id, .number = std::max(index, call_count_), .name = {}};
    call_count_ = told.number + 1;
  } else if (!name.empty() && begins_another(told, id, name)) {
    tell_name(told, delta);
    told = {.id = id, .number = call_count_++, .name = {}};
  } else if (told.id.empty()) {
    told.id = id;
  }
  return told;
}

// Whether a piece with a name, which is not the first of its index, belongs to another call.
bool ChatReader::begins_another(const Told& told, const std::string& id,
                                const std::string& name) const {
  const bool is_whole = told.is_named && told.arguments.is_complete();
  if (!id.empty() && !told.id.empty()) {
    // Some servers give all calls one id, too; those that repeat it repeat the call's own name.
    return id != told.id || (is_whole && name != told.name);
  }
  // While the arguments are incomplete, the name is only repeated.
  if (told.is_named) return is_whole || told.arguments.is_empty();
  return std::ranges::find(tools_, told.name) != tools_.end() && !begins_a_tool(told.name + name);
}

bool ChatReader::begins_a_tool(const std::string& name) const {
  return std::ranges::any_of(tools_, [&](const auto& tool) { return tool.starts_with(name); });
}

// Whether it is a tool's name that no other tool's name continues.
bool ChatReader::is_whole(const std::string& name) const {
  const auto goes_on = std::ranges::count_if(tools_, [&](const auto& tool) {
    return tool.size() > name.size() && tool.starts_with(name);
  });
  return goes_on == 0 && std::ranges::find(tools_, name) != tools_.end();
}

void ChatReader::tell_name(Told& told, Delta& delta) {
  if (std::exchange(told.is_named, true) || told.name.empty()) return;
  delta.calls.push_back({.index = told.number, .name = told.name, .arguments = {}});
}

void ChatReader::read_end(const std::string& reason, Delta& delta) {
  if (reason.empty()) return;
  std::string word = reason;
  std::ranges::transform(word, word.begin(), [](char byte) {
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
  });
  // vLLM and SGLang send `abort` for an answer that was broken off, DeepSeek and GLM the reasons
  // with two words.
  constexpr std::string_view kBroken[] = {"abort",         "aborted",
                                          "cancel",        "cancelled",
                                          "canceled",      "error",
                                          "failed",        "timeout",
                                          "interrupted",   "content_filter",
                                          "engine_dead",   "server_error",
                                          "network_error", "insufficient_system_resource"};
  if (std::ranges::find(kBroken, word) != std::end(kBroken)) {
    delta.failure = unavailable("the server ends the answer by '" + reason + "'");
    return;
  }
  const bool is_cut = word == "length" || word == "max_tokens" || word == "model_length";
  delta.end = is_cut ? FinishReason::length : FinishReason::stop;
}

Reading reading_of(bool is_exo, const GenerateRequest& request, SentNames names) {
  return {.read = ChatReader(is_exo, request.chat->tools, std::move(names)),
          .framing = Framing::chat};
}

// Which names were sent follows from the request, and body_of() is what chooses them.
Reading reading_again(bool is_exo, const GenerateRequest& request) {
  SentNames names(request.chat->tools);
  static_cast<void>(body_of(request, "", is_exo, names));
  return reading_of(is_exo, request, std::move(names));
}

// ---- the engine -----------------------------------------------------------------------------

class ChatServer final : public Engine {
 public:
  ChatServer(ChatServerOptions options, std::unique_ptr<Remote> remote)
      : options_(std::move(options)), remote_(std::move(remote)) {}

  /// Asks the server which model it has.
  Status meet();

  const Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return tokenizer_; }
  std::string_view chat_template() const override { return {}; }
  Status check() const override {
    return listed(model_).transform([](auto&&) {});
  }
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override;

 private:
  [[nodiscard]] Expected<ListedModel> listed(const std::string& name) const {
    return find_model(*remote_, "/models", name, /*trusts_name=*/true);
  }
  [[nodiscard]] bool is_exo() const { return options_.dialect == ChatDialect::exo; }

  const ChatServerOptions options_;
  const std::unique_ptr<Remote> remote_;
  const vocab::ByteTokenizer tokenizer_;  // a stand-in that is never used
  std::string model_;
  Capabilities capabilities_;
};

Status ChatServer::meet() {
  auto model = listed(options_.model);
  if (!model) return Unexpected(std::move(model.error()));
  model_ = std::move(model->name);
  constexpr std::uint32_t kManyAtATime = 16;  // a guess: servers do not tell
  capabilities_ = {.kind = is_exo() ? "exo" : "openai",
                   .context_tokens = model->context_tokens,
                   .max_concurrent = kManyAtATime,
                   .assumes_concurrent = true,
                   .constrained_by = is_exo() ? ConstrainedBy::none : ConstrainedBy::json_schema,
                   .takes = Takes::messages};
  return {};
}

// The first thing in the request for which the dialect has no field.
std::optional<std::string> unknown_to_exo(const GenerateRequest& request) {
  const message::Sampling& sampling = request.sampling;
  if (!sampling.logit_bias.empty()) return "logit_bias";
  if (sampling.presence_penalty.value_or(0.0) != 0.0) return "presence_penalty";
  if (sampling.frequency_penalty.value_or(0.0) != 0.0) return "frequency_penalty";
  for (const json::Member& member : request.chat->template_kwargs) {
    if (member.key != "reasoning_effort" && member.key != "enable_thinking") {
      return "chat_template_kwargs." + member.key;
    }
  }
  return std::nullopt;
}

Expected<std::unique_ptr<Run>> ChatServer::start(GenerateRequest request,
                                                 std::shared_ptr<EventSink> sink) {
  const auto refused = [this](const std::string& what, std::string field) {
    return Unexpected(Error{Errc::invalid,
                            what + " is not taken by the engine '" + capabilities_.kind + "'",
                            std::move(field)});
  };
  if (request.chat == nullptr) return refused("a prompt", "prompt");
  if (request.logprobs) return refused("logprobs", "logprobs");
  if (const auto unknown = is_exo() ? unknown_to_exo(request) : std::nullopt) {
    return refused(*unknown, *unknown);
  }
  SentNames names(request.chat->tools);
  const std::string body = json::to_string(Value(body_of(request, model_, is_exo(), names)));
  return remote_->generate("/chat/completions", body, request,
                           reading_of(is_exo(), request, std::move(names)), std::move(sink));
}

// Accepts both `https://host` and the base address that OpenAI's clients take, with any path.
std::string base_address(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  const std::size_t scheme = url.find("://");
  const std::size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  return url.find('/', host) == std::string::npos ? url + "/v1" : url;
}

}  // namespace

Reading openai_reading(const GenerateRequest& request, const vocab::Tokenizer& /*tokenizer*/) {
  return reading_again(/*is_exo=*/false, request);
}

Reading exo_reading(const GenerateRequest& request, const vocab::Tokenizer& /*tokenizer*/) {
  return reading_again(/*is_exo=*/true, request);
}

Expected<std::unique_ptr<Engine>> connect_chat_server(ServerAddress server,
                                                      ChatServerOptions options) {
  server.url = base_address(std::move(server.url));
  auto remote = Remote::create(std::move(server));
  if (!remote) return Unexpected(std::move(remote.error()));
  auto engine = std::make_unique<ChatServer>(std::move(options), *std::move(remote));
  if (Status met = engine->meet(); !met) return Unexpected(unavailable(met.error().message));
  return engine;
}

}  // namespace tenon::engine
