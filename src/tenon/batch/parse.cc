#include "tenon/batch/parse.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tenon/batch/line.h"
#include "tenon/config/model_template.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/lines.h"
#include "tenon/message/event.h"

// Lines of `tenon parse --batch`: a model's output and the format that it is in become a message,
// and with `events` all that the parser says on the way. The output is one text, cut as the line
// asks (`chunk`, `cuts`) to show that cuts do not matter, or a list of `chunks`. Without a token's
// kind control markers match by their text.

namespace tenon::batch {
namespace {

using message::ChatEvent;

// What a model without a call format may still write.
constexpr std::string_view kNoCalls = R"(
name = "none"
[reasoning]
open = ["<think>"]
close = ["</think>"]
)";

Expected<std::string> string_of(const json::Object& request, std::string_view key) {
  const json::Value* value = request.find(key);
  if (value == nullptr || value->is_null()) return std::string();
  if (const std::string* text = value->if_string()) return *text;
  return Unexpected(wrong_member(key, "must be a string"));
}

// The format by its name, or by what the template says. A template without calls still may have
// reasoning, so the output is read with kNoCalls.
Expected<std::shared_ptr<const format::Format>> format_of(const json::Object& request) {
  const auto name = string_of(request, "format");
  if (!name) return Unexpected(name.error());
  if (!name->empty()) return format::named(*name);
  const auto chat_template = string_of(request, "template");
  if (!chat_template) return Unexpected(chat_template.error());
  if (chat_template->empty())
    return Unexpected(wrong_member("format", "must be given, or template"));
  auto detected = config::format_of_template(*chat_template);
  if (!detected || *detected != nullptr) return detected;
  static const auto no_calls = format::compile(kNoCalls, "no calls");
  return no_calls;
}

// `"chunk": 3` cuts every three bytes, `"cuts": [5, 9]` at these offsets; either may cut a
// character.
Expected<std::vector<std::string>> pieces_of(const json::Object& request) {
  std::vector<std::string> pieces;
  if (const json::Value* chunks = request.find("chunks")) {
    const json::Array* items = chunks->if_array();
    if (items == nullptr) return Unexpected(wrong_member("chunks", "must be a list of strings"));
    for (const json::Value& item : *items) {
      const std::string* piece = item.if_string();
      if (piece == nullptr) return Unexpected(wrong_member("chunks", "must be a list of strings"));
      pieces.push_back(*piece);
    }
    return pieces;
  }
  const json::Value* value = request.find("text");
  const std::string* text = value != nullptr ? value->if_string() : nullptr;
  if (text == nullptr) return Unexpected(wrong_member("text", "must be a string"));
  std::vector<std::size_t> ends;
  if (const json::Value* chunk = request.find("chunk")) {
    const auto size = chunk->if_number() != nullptr ? chunk->if_number()->to_int64() : std::nullopt;
    if (!size || *size < 1) return Unexpected(wrong_member("chunk", "must be a positive integer"));
    for (auto end = static_cast<std::size_t>(*size); end < text->size();
         end += static_cast<std::size_t>(*size)) {
      ends.push_back(end);
    }
  } else if (const json::Value* cuts = request.find("cuts")) {
    const json::Array* items = cuts->if_array();
    if (items == nullptr) return Unexpected(wrong_member("cuts", "must be a list of byte offsets"));
    for (const json::Value& item : *items) {
      const auto at = item.if_number() != nullptr ? item.if_number()->to_int64() : std::nullopt;
      if (!at || *at < 0) return Unexpected(wrong_member("cuts", "must be a list of byte offsets"));
      ends.push_back(std::min(static_cast<std::size_t>(*at), text->size()));
    }
    std::sort(ends.begin(), ends.end());
  }
  ends.push_back(text->size());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    pieces.push_back(text->substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

// Tools with their names and schemas; descriptions have no part in parsing. A tool may be the
// function alone.
Expected<std::vector<message::Tool>> tools_of_line(const json::Object& request) {
  std::vector<message::Tool> tools;
  const json::Value* list = request.find("tools");
  if (list == nullptr || list->is_null()) return tools;
  const json::Array* items = list->if_array();
  if (items == nullptr) return Unexpected(wrong_member("tools", "must be a list"));
  for (const json::Value& item : *items) {
    const json::Value* function = item.find("function");
    const json::Value& of = function != nullptr ? *function : item;
    const json::Value* name = of.find("name");
    if (name == nullptr || name->if_string() == nullptr) {
      return Unexpected(wrong_member("tools", "must hold functions with names"));
    }
    const json::Value* schema = of.find("parameters");
    tools.push_back(
        {.name = *name->if_string(), .parameters = schema != nullptr ? *schema : json::Value()});
  }
  return tools;
}

/// The names of the request's tools, limited to those that `tool_choice` allows.
Expected<format::ParseOptions> options_of(const json::Object& request) {
  auto tools = tools_of_line(request);
  if (!tools) return Unexpected(tools.error());
  format::ParseOptions options;
  for (message::Tool& tool : *tools) {
    options.tools.push_back(std::move(tool.name));
    options.schemas.push_back(std::move(tool.parameters));
  }
  options.any_tool = options.tools.empty();
  const json::Value* choice = request.find("tool_choice");
  if (choice != nullptr && choice->if_string() != nullptr && *choice->if_string() == "none") {
    options.tools.clear();
    options.any_tool = false;
  } else if (choice != nullptr) {
    const json::Value* name = json::at_pointer(*choice, "/function/name");
    if (name != nullptr && name->if_string() != nullptr) {
      const auto found = std::find(options.tools.begin(), options.tools.end(), *name->if_string());
      if (found == options.tools.end())
        return Unexpected(wrong_member("tool_choice", "names no tool"));
      options.schemas = {options.schemas[static_cast<std::size_t>(found - options.tools.begin())]};
      options.tools = {*name->if_string()};
    }
  }
  auto tail = string_of(request, "prompt_tail");
  if (!tail) return Unexpected(tail.error());
  options.prompt_tail = *std::move(tail);
  return options;
}

// An event as a line shows it: `{"type": "call_arguments", "index": 0, "text": "{\"ci"}`. Events of
// engines and servers of tools do not come out of a parser.
json::Value event_json(const ChatEvent& event) {
  json::Object o;
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
    o["type"] = "content";
    o["text"] = content->text;
  } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
    o["type"] = "reasoning";
    o["text"] = reasoning->text;
  } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    o["type"] = "call_begin";
    o["index"] = std::int64_t{begin->index};
    o["call_id"] = begin->id;
    o["name"] = begin->name;
  } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
    o["type"] = "call_arguments";
    o["index"] = std::int64_t{arguments->index};
    o["text"] = arguments->text;
  } else if (const auto* end = std::get_if<message::CallEnd>(&event)) {
    o["type"] = "call_end";
    o["index"] = std::int64_t{end->index};
    o["incomplete"] = end->incomplete;
  } else if (const auto* diagnostic = std::get_if<message::Diagnostic>(&event)) {
    o["type"] = "diagnostic";
    o["code"] = diagnostic->code;
    o["message"] = diagnostic->message;
  }
  return o;
}

json::Value message_json(const message::Message& said) {
  json::Object o;
  o["role"] = "assistant";
  o["content"] = said.content ? json::Value(*said.content) : json::Value();
  if (!said.reasoning.empty()) o["reasoning_content"] = said.reasoning;
  if (said.tool_calls.empty()) return o;
  json::Array calls;
  for (const message::ToolCall& call : said.tool_calls) {
    json::Object function{{"name", call.name}, {"arguments", call.arguments}};
    calls.emplace_back(json::Object{{"id", call.id}, {"type", "function"}, {"function", function}});
  }
  o["tool_calls"] = std::move(calls);
  return o;
}

}  // namespace

// `{"message", "finish_reason"}` as Chat Completions would have them. The reason is guessed from
// the text: `truncated` says that it was cut.
Expected<json::Object> parse_line(const json::Object& request, bool with_events) {
  auto format = format_of(request);
  if (!format) return Unexpected(format.error());
  const auto pieces = pieces_of(request);
  if (!pieces) return Unexpected(pieces.error());
  auto options = options_of(request);
  if (!options) return Unexpected(options.error());
  const json::Value* cut = request.find("truncated");
  const bool truncated = cut != nullptr && cut->if_bool() != nullptr && *cut->if_bool();

  format::StreamParser parser(*std::move(format), *std::move(options));
  std::vector<ChatEvent> events;
  for (const std::string& piece : *pieces) parser.feed(piece, false, events);
  parser.finish(truncated, events);
  message::Fold fold;
  json::Array listed;
  for (const ChatEvent& event : events) {
    fold.add(event);
    if (with_events) listed.push_back(event_json(event));
  }
  const auto reason = truncated                           ? message::FinishReason::length
                      : fold.message().tool_calls.empty() ? message::FinishReason::stop
                                                          : message::FinishReason::tool_calls;
  json::Object answer;
  answer["message"] = message_json(fold.message());
  answer["finish_reason"] = finish_reason_name(reason);
  if (with_events) answer["events"] = std::move(listed);
  return answer;
}

// The other way round: calls become the text that a model would write in the format.
Expected<json::Value> render_calls_line(const json::Object& request) {
  const auto name = string_of(request, "format");
  if (!name) return Unexpected(name.error());
  const auto format = format::named(*name);
  if (!format) return Unexpected(format.error());
  const json::Value* list = request.find("tool_calls");
  const json::Array* items = list != nullptr ? list->if_array() : nullptr;
  if (items == nullptr) return Unexpected(wrong_member("tool_calls", "must be a list"));
  std::vector<message::ToolCall> calls;
  for (const json::Value& item : *items) {
    const json::Value* called = json::at_pointer(item, "/function/name");
    const json::Value* arguments = json::at_pointer(item, "/function/arguments");
    if (called == nullptr || called->if_string() == nullptr || arguments == nullptr) {
      return Unexpected(wrong_member("tool_calls", "must hold functions with name and arguments"));
    }
    const json::Value* id = item.find("id");
    calls.push_back({id != nullptr && id->if_string() != nullptr ? *id->if_string() : "",
                     *called->if_string(),
                     arguments->if_string() != nullptr
                         ? *arguments->if_string()
                         : json::dumps(*arguments, {.ensure_ascii = false, .keep_numbers = true})});
  }
  const auto tools = tools_of_line(request);
  if (!tools) return Unexpected(tools.error());
  auto output = format::render_calls(**format, calls, {.tools = *tools});
  if (!output) return Unexpected(output.error());
  return json::Value(*std::move(output));
}

void parse_batch(std::istream& in, std::ostream& out, bool events) {
  json::answer_lines(in, out,
                     [events](const json::Object& request) { return parse_line(request, events); });
}

json::Value formats_json() {
  json::Array list;
  for (const auto& format : format::all()) {
    json::Array aliases;
    for (const std::string& alias : format->info.aliases) aliases.emplace_back(alias);
    list.emplace_back(json::Object{{"name", format->info.name},
                                   {"aliases", std::move(aliases)},
                                   {"parallel", format->info.parallel},
                                   {"reasoning", !format->reasoning_open.empty()},
                                   {"summary", format->summary}});
  }
  return list;
}

}  // namespace tenon::batch
