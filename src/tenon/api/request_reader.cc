#include "tenon/api/request_reader.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "tenon/chat/code_functions.h"
#include "tenon/format/input_grammar.h"
#include "tenon/message/build.h"

// The handlers that several dialects share
//
// fields.h reads values by their paths and keeps the first error; this class adds what the
// dialects' requests have in common, so that a field means the same in all of them and is written
// once: sampling, tools and tool choice, response formats and grammars of the answer's text,
// template variables, and Tenon's own fields. A handler reads one value into chat_ (a
// message::ChatRequest) and returns false after fail(). The dialects' decoders (chat_request.cc,
// completion_request.cc, messages_request.cc, responses_request.cc) derive from it, and name these
// methods in their tables. Several fields can constrain the answer's text (response_format,
// grammar, guided_json and others); holds_text() notes the first one and refuses a second.

namespace tenon::api {

using json::Kind;
using json::Value;
using message::ArgumentOrder;
using message::ResponseFormat;
using message::Tool;
using message::ToolMode;

// Both names of the limit may come in one request; the smaller value satisfies both.
bool RequestReader::token_limit(const Value& value, std::string_view path) {
  std::int64_t limit = 0;
  if (!integer(value, path, 1, std::numeric_limits<std::int32_t>::max(), limit)) return false;
  const auto most = static_cast<std::uint32_t>(limit);
  chat_.max_tokens = std::min(chat_.max_tokens.value_or(most), most);
  return true;
}

bool RequestReader::tool_name(const Value& value, const std::string& path, std::string& out) {
  return string(value, path, out) && is_tool_name(out, path);
}

bool RequestReader::is_tool_name(const std::string& name, const std::string& path) {
  if (message::is_tool_name(name)) return true;
  return fail("invalid_value", path,
              path + " must be 1 to " + std::to_string(message::kMaxToolNameBytes) +
                  " of the characters a-z A-Z 0-9 _ - . : /, not " + shown(name));
}

// `"stop": "A"` or `"stop": ["A", "B"]`.
bool RequestReader::stops(const Value& value, std::string_view name) {
  std::vector<const Value*> items;
  if (const json::Array* array = value.if_array()) {
    for (const Value& item : *array) items.push_back(&item);
  } else if (value.if_string() != nullptr) {
    items.push_back(&value);
  } else {
    return fail("invalid_type", std::string(name),
                std::string(name) + " must be a string or an array of strings");
  }
  if (!at_most(kMaxStops, items.size(), name, "strings")) return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path = value.if_array() != nullptr ? at(name, i) : std::string(name);
    std::string text;
    if (!string(*items[i], path, text)) return false;
    if (text.empty() || text.size() > kMaxStopBytes) {
      return fail("invalid_value", path,
                  path + " must have 1 to " + std::to_string(kMaxStopBytes) + " bytes");
    }
    chat_.stop.push_back(std::move(text));
  }
  return true;
}

// Some servers write -1 for "all".
bool RequestReader::top_k(const Value& value) {
  std::int64_t count = 0;
  if (!integer(value, "top_k", -1, std::numeric_limits<std::int32_t>::max(), count)) return false;
  chat_.sampling.top_k = static_cast<int>(std::max<std::int64_t>(count, 0));
  return true;
}

// The effort goes to the template, which alone can tell the model about it.
bool RequestReader::effort(const Value& value, const std::string& path) {
  if (!one_of(value, path, {"none", "minimal", "low", "medium", "high", "xhigh", "max"})) {
    return false;
  }
  // What another field has set already stays.
  json::Object& variables = chat_.template_kwargs;
  if (!variables.contains("reasoning_effort")) variables.set("reasoning_effort", value);
  return true;
}

bool RequestReader::effort_and_thinking(const Value& value, const std::string& path) {
  if (!effort(value, path)) return false;
  json::Object& variables = chat_.template_kwargs;
  if (!variables.contains("enable_thinking")) {
    variables.set("enable_thinking", value != Value("none"));
  }
  return true;
}

bool RequestReader::deferral(const Value& value, const std::string& path, Tool& out) {
  const Value* deferred = present(value, "defer_loading");
  return deferred == nullptr || boolean(*deferred, in(path, "defer_loading"), out.is_deferred);
}

bool RequestReader::function_tool(const Value& value, const std::string& path,
                                  std::string_view schema_key, Tool& out) {
  const Value* name = required(value, path, "name");
  if (name == nullptr || !tool_name(*name, in(path, "name"), out.name)) return false;
  if (!optional_string(value, path, "description", out.description)) return false;
  if (const Value* schema = present(value, schema_key)) {
    if (!kind(*schema, Kind::object, in(path, schema_key))) return false;
    out.parameters = *schema;
  }
  if (!deferral(value, path, out)) return false;
  const Value* strict = present(value, "strict");
  return strict == nullptr || boolean(*strict, in(path, "strict"), out.strict.emplace());
}

// `raw` is what templates read. They are written for Chat Completions, so a tool of another dialect
// is put into that shape: its schema, in "input_schema" for example, becomes `function.parameters`.
bool RequestReader::flat_function_tool(const Value& value, const std::string& path,
                                       std::string_view schema_key, Tool& out) {
  if (!function_tool(value, path, schema_key, out)) return false;
  json::Object function{{"name", out.name}};
  const std::pair<std::string_view, std::string_view> others[] = {
      {"description", "description"}, {schema_key, "parameters"}, {"strict", "strict"}};
  for (const auto& [own, chat] : others) {
    if (const Value* given = present(value, own)) function.set(std::string(chat), *given);
  }
  out.raw = json::Object{{"type", "function"}, {"function", std::move(function)}};
  return true;
}

// A custom tool has a free text as its input. For the model it is a function with one string,
// `input`, whose text a grammar may constrain.
bool RequestReader::custom_tool(const Value& value, const std::string& path, bool nests_grammar,
                                Tool& out) {
  std::string name;
  std::string description;
  const Value* given = required(value, path, "name");
  if (given == nullptr || !tool_name(*given, in(path, "name"), name)) return false;
  if (!optional_string(value, path, "description", description)) return false;
  std::optional<message::TextGrammar> grammar;
  if (const Value* format = present(value, "format")) {
    if (!input_format(*format, in(path, "format"), nests_grammar, grammar)) return false;
  }
  out = message::custom_tool(std::move(name), std::move(description), std::move(grammar));
  return true;
}

// `{"type": "text"}` or `{"type": "grammar", ...}`
bool RequestReader::input_format(const Value& value, const std::string& path, bool nests_grammar,
                                 std::optional<message::TextGrammar>& out) {
  if (!kind(value, Kind::object, path)) return false;
  const std::string_view type = required_word(value, path, "type", {"text", "grammar"});
  if (type.empty()) return false;
  if (type == "text") return only(value, path, {"type"});
  if (!nests_grammar) {
    return only(value, path, {"type", "syntax", "definition"}) && text_grammar(value, path, out);
  }
  if (!only(value, path, {"type", "grammar"})) return false;
  const Value* grammar = required(value, path, "grammar", Kind::object);
  const std::string where = in(path, "grammar");
  return grammar != nullptr && only(*grammar, where, {"syntax", "definition"}) &&
         text_grammar(*grammar, where, out);
}

// `syntax` and `definition`, members of `value`.
bool RequestReader::text_grammar(const Value& value, const std::string& path,
                                 std::optional<message::TextGrammar>& out) {
  using Syntax = message::TextGrammar::Syntax;
  const std::string_view syntax = required_word(value, path, "syntax", {"lark", "regex"});
  if (syntax.empty()) return false;
  message::TextGrammar& grammar = out.emplace();
  grammar.syntax = syntax == "lark" ? Syntax::lark : Syntax::regex;
  if (!required_string(value, path, "definition", grammar.definition)) return false;
  // The grammar is read now, so that a mistake in it is an error with this path.
  const std::string place = in(path, "definition");
  if (const auto read = format::read_input_grammar(grammar); !read) {
    return fail("invalid_value", place, place + ": " + read.error().message);
  }
  return true;
}

// The name and the description say nothing that an answer depends on; local engines need neither.
bool RequestReader::answer_schema(const Value& value, const std::string& path) {
  if (!holds_text(path)) return false;
  for (const std::string_view key : {"name", "description"}) {
    const Value* text = present(value, key);
    if (text != nullptr && !kind(*text, Kind::string, in(path, key))) return false;
  }
  message::ResponseFormat& format = chat_.response_format;
  format.kind = message::ResponseFormat::Kind::json;
  if (const Value* strict = present(value, "strict")) {
    if (!boolean(*strict, in(path, "strict"), format.strict.emplace())) return false;
  }
  const Value* schema = required(value, path, "schema", Kind::object);
  if (schema == nullptr) return false;
  format.schema = *schema;
  return true;
}

// A misspelt type of a function is not a hosted tool, so this looks for members of functions. Some
// clients write a function of the server's own that has a name alone (`builtin_function`), and some
// a single member instead of a type (`{"google_search": {}}`).
bool RequestReader::is_hosted_tool(const Value& value) {
  const auto has = [&](std::string_view key) { return present(value, key) != nullptr; };
  const Value* type = present(value, "type");
  if (type == nullptr) {
    const json::Object* members = value.if_object();
    if (members == nullptr || members->size() != 1 || has("function") || has("custom")) {
      return false;
    }
    const Value& only = members->begin()->value;  // a function under a misspelt key has a name
    return only.if_object() != nullptr && present(only, "name") == nullptr &&
           present(only, "parameters") == nullptr && present(only, "input_schema") == nullptr;
  }
  const std::string* name = type->if_string();
  if (name == nullptr || *name == "function" || *name == "custom") return false;
  const bool is_flat = has("name") && (has("parameters") || has("input_schema"));
  const Value* function = present(value, "function");
  const bool is_own = function != nullptr && name->starts_with("builtin") &&
                      present(*function, "parameters") == nullptr;
  return !is_flat && (function == nullptr || is_own) && !has("custom");
}

// `{"type": "tool_search"}` and Anthropic's "tool_search_tool_regex_20251119" and the like. With
// `"execution": "client"` the client searches itself, which needs a tool of its own.
bool RequestReader::is_tool_search(const Value& value) {
  const Value* const type = present(value, "type");
  const Value* const execution = present(value, "execution");
  const bool is_ours = execution == nullptr || *execution != Value("client");
  return type != nullptr && type->if_string() != nullptr && is_ours &&
         type->if_string()->starts_with("tool_search");
}

// Two fields may each constrain the answer's text; only one of them can.
bool RequestReader::holds_text(const std::string& path) {
  const std::string field = path.substr(0, path.find('.'));
  // The parts of one field, such as response_format.type and response_format.schema, do not exclude
  // each other.
  if (held_by_.empty()) held_by_ = field;
  return held_by_ == field ||
         fail("invalid_value", path,
              path + " and " + held_by_ + " both say what the answer's text is: leave one out");
}

bool RequestReader::set_grammar(const std::string& path, message::TextGrammar grammar) {
  if (!holds_text(path)) return false;
  if (const auto read = format::read_text_grammar(grammar); !read) {
    return fail("invalid_value", path, path + ": " + read.error().message);
  }
  chat_.response_format = {.kind = ResponseFormat::Kind::grammar, .grammar = std::move(grammar)};
  return true;
}

bool RequestReader::answer_grammar(const Value& value, const std::string& path,
                                   message::TextGrammar::Syntax syntax) {
  message::TextGrammar grammar{.syntax = syntax};
  if (!string(value, path, grammar.definition)) return false;
  return grammar.definition.empty() || set_grammar(path, std::move(grammar));
}

bool RequestReader::ebnf_or_lark(const Value& value, const std::string& path) {
  using Syntax = message::TextGrammar::Syntax;
  const std::string* text = value.if_string();
  const bool is_ebnf = text == nullptr || text->find("::=") != std::string::npos;
  return answer_grammar(value, path, is_ebnf ? Syntax::gbnf : Syntax::lark);
}

// The list is kept as JSON text, which is the notation of Syntax::choice.
bool RequestReader::choice_of(const Value& value, const std::string& path) {
  constexpr std::size_t kMaxTexts = 4096;
  if (!kind(value, Kind::array, path)) return false;
  const json::Array& texts = *value.if_array();
  if (texts.empty()) return fail("invalid_value", path, path + " must not be empty");
  if (!at_most(kMaxTexts, texts.size(), path, "strings")) return false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!kind(texts[i], Kind::string, at(path, i))) return false;
  }
  return set_grammar(
      path, {.syntax = message::TextGrammar::Syntax::choice, .definition = json::to_string(value)});
}

bool RequestReader::structural_tag(const Value& value, const std::string& path) {
  using Syntax = message::TextGrammar::Syntax;
  if (value.if_string() != nullptr) return answer_grammar(value, path, Syntax::structural_tag);
  return kind(value, Kind::object, path) &&
         set_grammar(path,
                     {.syntax = Syntax::structural_tag, .definition = json::to_string(value)});
}

// vLLM's object: one member says the constraint, as in `{"regex": "[0-9]+"}`, and the others are
// options. Two constraints are an error; `"json_object": false` is not one.
bool RequestReader::structured_outputs(const Value& value) {
  using Syntax = message::TextGrammar::Syntax;
  const std::string path = "structured_outputs";
  if (!kind(value, Kind::object, path)) return false;
  std::string_view found;
  for (const json::Member& member : *value.if_object()) {
    const std::string where = in(path, member.key);
    if (member.value.is_null()) continue;
    const bool is_off = member.key == "json_object" && member.value == Value(false);
    constexpr std::string_view kKinds[] = {"json",    "regex",       "choice",
                                           "grammar", "json_object", "structural_tag"};
    const bool is_kind =
        !is_off && std::find(std::begin(kKinds), std::end(kKinds), member.key) != std::end(kKinds);
    if (is_kind && !std::exchange(found, member.key).empty()) {
      return fail("invalid_value", where, where + " stands beside another one: leave one out");
    }
    bool is_right = true;
    if (member.key == "json") {
      is_right = bare_schema(member.value, where);
    } else if (member.key == "regex") {
      is_right = answer_grammar(member.value, where, Syntax::regex);
    } else if (member.key == "choice") {
      is_right = choice_of(member.value, where);
    } else if (member.key == "grammar") {
      is_right = ebnf_or_lark(member.value, where);
    } else if (member.key == "structural_tag") {
      is_right = structural_tag(member.value, where);
    } else if (member.key == "json_object") {
      bool is_wanted = false;
      is_right = boolean(member.value, where, is_wanted) && (!is_wanted || any_json(where));
    } else {
      // Options for white space and the like, which the grammar itself decides here.
      is_right = leave_out(where, "what is asked for is held as it stands");
    }
    if (!is_right) return false;
  }
  return true;
}

// The schema as an object, or as a text of JSON.
bool RequestReader::bare_schema(const Value& value, const std::string& path) {
  if (!holds_text(path)) return false;
  message::ResponseFormat& format = chat_.response_format;
  format.kind = ResponseFormat::Kind::json;
  if (const std::string* text = value.if_string()) {
    auto parsed = json::parse(*text);
    if (!parsed)
      return fail("invalid_value", path, path + " is not JSON: " + parsed.error().message);
    format.schema = *std::move(parsed);
  } else {
    format.schema = value;
  }
  return kind(format.schema, Kind::object, path);
}

bool RequestReader::format(const Value& value) {
  if (value == Value("")) return true;
  return value == Value("json") ? any_json("format") : bare_schema(value, "format");
}

// The answer's text must be JSON, by any schema.
bool RequestReader::any_json(const std::string& path) {
  if (!holds_text(path)) return false;
  chat_.response_format.kind = ResponseFormat::Kind::json;
  return true;
}

bool RequestReader::enable_thinking(const Value& value, const std::string& path) {
  bool is_wanted = false;
  if (!boolean(value, path, is_wanted)) return false;
  chat_.template_kwargs.set("enable_thinking", is_wanted);
  return true;
}

bool RequestReader::choice_word(const std::string& word) {
  if (word == "auto") return true;
  if (word == "none") {
    chat_.tool_choice.mode = ToolMode::none;
  } else if (word == "required") {
    chat_.tool_choice.mode = ToolMode::required;
  } else {
    return fail("invalid_value", "tool_choice",
                "tool_choice must be auto, none, required or an object, not " + shown(word));
  }
  return true;
}

// A function and a custom tool may be asked for by their own kind only, as at OpenAI.
bool RequestReader::chosen_name(const Value& value, const std::string& path, bool is_custom,
                                const std::string& field) {
  std::string wanted;
  if (!required_string(value, path, "name", wanted)) return false;
  const bool is_known = std::ranges::any_of(chat_.tools, [&](const Tool& tool) {
    return tool.name == wanted && tool.is_custom == is_custom;
  });
  if (!is_known) {
    return fail("invalid_value", field,
                field + " names " + shown(wanted) + ", which is no " +
                    (is_custom ? "custom tool" : "function") + " among the tools");
  }
  chat_.tool_choice.allowed.push_back(std::move(wanted));
  return true;
}

// Tools of a server are known once it is asked, so a request with a server may demand a call.
bool RequestReader::choice_fits_tools() {
  if (chat_.tool_choice.mode != ToolMode::required || !chat_.tools.empty() ||
      !chat_.servers.empty() || chat_.code) {
    return true;
  }
  return fail("invalid_value", "tool_choice",
              "tool_choice demands a call, but the request has no tools");
}

bool RequestReader::usage_fits_stream(bool include_usage, bool is_stream) {
  if (!include_usage || is_stream) return true;
  return fail("invalid_value", "stream_options", "stream_options needs stream: true");
}

// The last message of the assistant becomes the beginning of the answer: it is no message any more,
// and the prompt ends with its text, open.
bool RequestReader::take_prefill(const std::string& param, const std::string& refusal) {
  if (chat_.response_format.kind == ResponseFormat::Kind::json) {
    return fail("invalid_value", param, refusal);
  }
  chat_.prefill = chat_.messages.back().text();
  chat_.messages.pop_back();
  return true;
}

// `include_obfuscation` pads OpenAI's chunks to hide their lengths; false is what we do anyway.
bool RequestReader::stream_options(const Value& value, bool& include_usage) {
  if (!kind(value, Kind::object, "stream_options")) return false;
  for (const json::Member& member : *value.if_object()) {
    const std::string path = in("stream_options", member.key);
    if (member.value.is_null()) continue;
    bool unused = false;
    if (member.key == "include_usage") {
      if (!boolean(member.value, path, include_usage)) return false;
    } else if (member.key == "include_obfuscation") {
      if (!boolean(member.value, path, unused)) return false;
      if (unused) return refuse(path, "chunks are not padded");
    } else {
      if (!unknown(path, path + " is not a field of stream_options")) return false;
    }
  }
  return true;
}

bool RequestReader::choices(const Value& value, std::string_view path, unsigned& out) {
  std::int64_t count = 0;
  if (!integer(value, path, 1, kMaxChoices, count)) return false;
  out = static_cast<unsigned>(count);
  return true;
}

// Any 64-bit number is a seed; a negative one becomes a large unsigned one.
bool RequestReader::seed(const Value& value) {
  std::int64_t seed = 0;
  if (!integer(value, "seed", std::numeric_limits<std::int64_t>::min(),
               std::numeric_limits<std::int64_t>::max(), seed)) {
    return false;
  }
  chat_.sampling.seed = static_cast<std::uint64_t>(seed);
  return true;
}

// `{"50256": -100}`: a token id as text, and what is added to its logit. Nine digits fit an int.
bool RequestReader::logit_bias(const Value& value) {
  if (!kind(value, Kind::object, "logit_bias")) return false;
  if (!at_most(kMaxBiases, value.if_object()->size(), "logit_bias", "entries")) return false;
  for (const json::Member& member : *value.if_object()) {
    const std::string path = in("logit_bias", member.key);
    const bool is_number = !member.key.empty() && member.key.size() <= 9 &&
                           member.key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) {
      return fail("invalid_value", "logit_bias",
                  "the keys of logit_bias are token ids, which " + shown(member.key) + " is not");
    }
    double bias = 0.0;
    if (!number(member.value, path, -100.0, 100.0, bias)) return false;
    chat_.sampling.logit_bias.emplace_back(std::stoi(member.key), bias);
  }
  return true;
}

bool RequestReader::top_logprobs(const Value& value) {
  return logprob_count(value, "top_logprobs");
}

bool RequestReader::logprob_count(const Value& value, std::string_view path) {
  std::int64_t count = 0;
  if (!integer(value, path, 0, 20, count)) return false;
  chat_.top_logprobs = static_cast<int>(count);
  return true;
}

// Reads OpenAI's `text`, `json_object` and `json_schema`, and the other types that local servers
// add. Each branch ends with only() or a reader of the type's own, so that unknown members are
// reported.
bool RequestReader::response_format(const Value& value) {
  if (!kind(value, Kind::object, "response_format")) return false;
  const std::string_view type = required_word(
      value, "response_format", "type",
      {"text", "json_object", "json_schema", "grammar", "structural_tag", "regex", "json"});
  if (type.empty()) return false;
  // As in Text Generation Inference and at providers that took it over.
  if (type == "regex" || type == "json") {
    const std::string_view key = present(value, "value") != nullptr ? "value"
                                 : type == "regex"                  ? "pattern"
                                                                    : "schema";
    const Value* wanted = required(value, "response_format", key);
    const std::string where = in("response_format", key);
    if (wanted == nullptr || !only(value, "response_format", {"type", key})) return false;
    return type == "json" ? bare_schema(*wanted, where)
                          : answer_grammar(*wanted, where, message::TextGrammar::Syntax::regex);
  }
  // As in llama.cpp, vLLM and SGLang.
  if (type == "structural_tag") return structural_tag(value, "response_format");
  if (type == "grammar") {
    const Value* grammar = required(value, "response_format", "grammar");
    return only(value, "response_format", {"type", "grammar"}) && grammar != nullptr &&
           ebnf_or_lark(*grammar, "response_format.grammar");
  }
  if (type != "text" && !holds_text("response_format")) return false;
  if (type != "text") chat_.response_format.kind = ResponseFormat::Kind::json;
  if (type == "json_schema") return json_schema(value);
  if (type == "text") return only(value, "response_format", {"type"});
  // As in local engines; OpenAI's json_object has no schema.
  if (!only(value, "response_format", {"type", "schema"})) return false;
  const Value* schema = present(value, "schema");
  return schema == nullptr || bare_schema(*schema, "response_format.schema");
}

bool RequestReader::json_schema(const Value& value) {
  const std::string path = "response_format.json_schema";
  // llama.cpp's clients write the schema beside the type.
  if (present(value, "schema") != nullptr) {
    return only(value, "response_format", {"type", "schema", "name", "strict"}) &&
           answer_schema(value, "response_format");
  }
  if (!only(value, "response_format", {"type", "json_schema"})) return false;
  const Value* wanted = required(value, "response_format", "json_schema");
  if (wanted == nullptr || !kind(*wanted, Kind::object, path)) return false;
  if (!only(*wanted, path, {"name", "description", "schema", "strict"})) return false;
  return answer_schema(*wanted, path);
}

// Variables for the template, as in vLLM and SGLang. They come after the fields that set the same
// variables, and win.
bool RequestReader::template_kwargs(const Value& value) {
  if (!kind(value, Kind::object, "chat_template_kwargs")) return false;
  for (const json::Member& member : *value.if_object()) {
    constexpr std::string_view kTaken[] = {"messages", "tools", "bos_token", "eos_token",
                                           "add_generation_prompt"};
    if (std::find(std::begin(kTaken), std::end(kTaken), member.key) != std::end(kTaken)) {
      const std::string path = in("chat_template_kwargs", member.key);
      return fail("invalid_value", path, path + " is set by the server");
    }
    chat_.template_kwargs.set(member.key, member.value);
  }
  return true;
}

bool RequestReader::tenon(const Value& value) {
  if (!kind(value, Kind::object, "tenon")) return false;
  for (const json::Member& member : *value.if_object()) {
    if (member.value.is_null()) continue;
    if (!member_of_tenon(member, in("tenon", member.key))) return false;
  }
  return true;
}

// The members are listed in docs/api.md. An unknown one is always an error: these are our own
// names, so it is a mistake and not another server's field.
bool RequestReader::member_of_tenon(const json::Member& member, const std::string& path) {
  const Value& value = member.value;
  if (member.key == "normalize") return boolean(value, path, chat_.normalize.emplace());
  if (member.key == "argument_order") return argument_order(value, path);
  if (member.key == "close_calls") return boolean(value, path, chat_.close_calls.emplace());
  if (member.key == "tokens") return boolean(value, path, chat_.tells_tokens);
  if (member.key == "previous_token_ids") return token_ids(value, path, chat_.previous_token_ids);
  if (member.key == "approvals") return approvals(value, path);
  if (member.key == "on_loop") {
    if (!one_of(value, path, {"tell", "stop"})) return false;
    chat_.on_loop = value == Value("stop") ? message::OnLoop::stop : message::OnLoop::tell;
    return true;
  }
  if (member.key == "bounds") {
    if (!one_of(value, path, {"default", "none"})) return false;
    chat_.bounds = value == Value("none") ? message::Bounds::none : message::Bounds::usual;
    return true;
  }
  if (member.key == "max_calls") {
    std::int64_t most = 0;
    if (!integer(value, path, 0, std::numeric_limits<std::int32_t>::max(), most)) return false;
    chat_.max_calls = static_cast<std::uint32_t>(most);
    return true;
  }
  return fail("unknown_parameter", path, path + " is not a field of tenon");
}

bool RequestReader::thinking_token_budget(const Value& value) {
  std::int64_t most = 0;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!integer(value, "thinking_token_budget", -1, kMost, most)) return false;
  if (most >= 0) chat_.max_reasoning_tokens = static_cast<std::uint32_t>(most);
  return true;
}

bool RequestReader::token_ids(const Value& value, const std::string& path,
                              std::vector<std::int32_t>& out) {
  if (!kind(value, Kind::array, path)) return false;
  const json::Array& items = *value.if_array();
  if (items.empty()) {
    return fail("invalid_value", path, path + " must have at least one token id");
  }
  if (!at_most(kMaxPromptTokens, items.size(), path, "token ids")) return false;
  out.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::int64_t id = 0;
    if (!integer(items[i], at(path, i), 0, std::numeric_limits<std::int32_t>::max(), id)) {
      return false;
    }
    out.push_back(static_cast<std::int32_t>(id));
  }
  return true;
}

bool RequestReader::rlm(const Value& value) {
  if (!kind(value, Kind::object, "rlm")) return false;
  chat_.rlm = value;
  return true;
}

bool RequestReader::argument_order(const Value& value, const std::string& path) {
  if (!one_of(value, path, {"schema", "any"})) return false;
  chat_.argument_order = value == Value("any") ? ArgumentOrder::any : ArgumentOrder::schema;
  return true;
}

bool RequestReader::callers(const Value& value, const std::string& path, bool& for_model,
                            bool& for_code) {
  const Value* const given = present(value, "allowed_callers");
  if (given == nullptr) return true;
  const std::string where = in(path, "allowed_callers");
  if (!kind(*given, Kind::array, where)) return false;
  for_model = for_code = false;
  for (const Value& caller : *given->if_array()) {
    const std::string* const word = caller.if_string();
    if (word != nullptr && *word == "direct") {
      for_model = true;
    } else if (word != nullptr &&
               (*word == "programmatic" || word->starts_with("code_execution_"))) {
      for_code = true;
    } else {
      return fail("invalid_value", where,
                  where +
                      " has words like \"direct\", \"code_execution_20260120\" and "
                      "\"programmatic\" only");
    }
  }
  return for_model || for_code ||
         fail("invalid_value", where, where + " must name who may call the tool");
}

bool RequestReader::code_tool(const std::string& path, std::string name, std::string type) {
  if (chat_.code) {
    return fail("invalid_value", path, path + " is a second tool that runs code: give one");
  }
  chat_.code = {.name = std::move(name), .type = std::move(type)};
  return true;
}

bool RequestReader::code_fits() {
  for (std::size_t i = 0; i < chat_.tools.size(); ++i) {
    const message::Tool& tool = chat_.tools[i];
    if (chat_.code && tool.name == chat_.code->name) {
      return fail("invalid_value", "tools",
                  "a tool is named " + shown(tool.name) + ", as the one that runs code is");
    }
    if (tool.for_model) continue;
    const std::string about = "only code may call the tool " + shown(tool.name);
    if (!chat_.code) {
      return fail("invalid_value", "tools",
                  about +
                      " (allowed_callers), but tools has none that runs code: add "
                      "\"direct\" there, or a tool of type code_execution_20260120 (Messages) "
                      "or programmatic_tool_calling (Responses)");
    }
    if (std::ranges::find(chat_.tool_choice.allowed, tool.name) !=
        chat_.tool_choice.allowed.end()) {
      return fail("invalid_value", "tool_choice",
                  about + " (allowed_callers), so tool_choice cannot name it");
    }
  }
  for (const message::HostedServer& server : chat_.servers) {
    if (server.for_model) continue;
    const std::string about =
        "only code may call the tools of " + shown(server.label) + " (allowed_callers), ";
    if (!chat_.code) {
      return fail("invalid_value", "tools", about + "but tools has none that runs code");
    }
    if (std::ranges::find(chat_.chosen_tools, server.label, &message::ServerTool::server) !=
        chat_.chosen_tools.end()) {
      return fail("invalid_value", "tool_choice", about + "so tool_choice cannot name them");
    }
  }
  add_late_results();  // one of them may be the code's
  if (chat_.code || !chat::goes_on_with_code(chat_)) return true;
  return fail("invalid_value", "tools",
              "code of an earlier answer waits for its calls, but tools has none that runs code: "
              "send the tools of that request again");
}

bool RequestReader::is_code_type(std::string_view type) {
  constexpr std::string_view kBegin = "code_execution_";
  constexpr std::size_t kDateBytes = 8;
  return type.size() == kBegin.size() + kDateBytes && type.starts_with(kBegin) &&
         type.find_first_not_of("0123456789", kBegin.size()) == type.npos;
}

bool RequestReader::add_code(const std::string& id, const std::string& path) {
  return codes_.insert(id).second ||
         fail("invalid_value", path,
              path + " has the id " + shown(id) + ", which other code before it has");
}

// Which code a call is of and which call a result is of is told by ids alone, so each must say it.
bool RequestReader::add_code_call(std::string code_id, message::ToolCall call,
                                  const std::string& path) {
  if (!codes_.contains(code_id)) {
    return fail("invalid_value", path,
                path + " was called by the code " + shown(code_id) +
                    ", which does not stand before it: send that code, too");
  }
  if (!at_most(kMaxCodeCalls, chat_.code_calls.size() + 1, path, "calls that code has made")) {
    return false;
  }
  if (!code_calls_.emplace(call.id, chat_.code_calls.size()).second) {
    return fail("invalid_value", path,
                path + " has the id " + shown(call.id) + ", which another call of code has");
  }
  chat_.code_calls.push_back(
      {.code_id = std::move(code_id), .call = std::move(call), .result = {}, .is_error = false});
  return true;
}

bool RequestReader::take_code_result(const message::Message& message) {
  const auto found = code_calls_.find(message.tool_call_id);
  if (found == code_calls_.end()) return false;
  message::CodeCall& call = chat_.code_calls[found->second];
  call.result = message.text();
  call.is_error = message.extra.contains("is_error");
  return true;
}

// Sorting keeps this fast for kMaxTools tools.
bool RequestReader::each_name_once() {
  std::vector<std::string_view> names;
  for (const message::Tool& tool : chat_.tools) names.push_back(tool.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return true;
  return fail("invalid_value", "tools", "tools has two tools named " + shown(*twice));
}

}  // namespace tenon::api
