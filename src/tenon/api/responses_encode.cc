#include "tenon/api/responses_encode.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tenon/api/responses_request.h"
#include "tenon/http/sse.h"
#include "tenon/message/build.h"

// An answer of this dialect is a list of items: a message, reasoning, a call, and what servers of
// tools list, run or ask to be allowed. One item is open at a time: add() opens one when an event
// of another kind comes, and closes it before the next, so that the item's end events stand between
// the two. Items of servers are known as a whole by their index, since they may run at the same
// time as others.
//
// Every function that takes `out` writes the events of a stream there; null means that the client
// wants one whole answer, and only the items are kept. Both ways go through the same items, so the
// last event of a stream repeats what the whole answer would be. Texts and arguments come token by
// token, and their events are written without a tree of JSON values.

namespace tenon::api {
namespace {

using json::Value;
using message::ChatEvent;
using message::FinishReason;
using message::TokenLogprob;

// The few error codes of this dialect.
std::string_view error_code(const ApiError& error) {
  if (error.status() == 429) return "rate_limit_exceeded";
  return error.status() < 500 ? "invalid_prompt" : "server_error";
}

// Writes an event's data up to its own members; end_event() writes their end. `data` is a buffer
// that keeps its memory from one event to the next.
void begin_event(std::string_view type, std::uint64_t sequence, std::string& data) {
  data = R"({"type":")";
  data += type;
  data += R"(","sequence_number":)";
  data += std::to_string(sequence);
}

void end_event(std::string_view type, std::string& data, std::string& out) {
  data += '}';
  http::append_sse(out, data, type);
}

// In the order of State.
constexpr std::string_view kStates[] = {"in_progress", "completed", "incomplete", "failed"};

void append_quoted_member(std::string& out, std::string_view key, std::string_view text) {
  out += ",\"";
  out += key;
  out += "\":";
  json::append_quoted(out, text);
}

}  // namespace

json::Object encode_response_usage(const message::Usage& usage) {
  const std::uint64_t input = usage.prompt_tokens;
  const std::uint64_t output = usage.completion_tokens;
  json::Object input_details{{"cached_tokens", std::uint64_t{usage.cached_tokens}},
                             {"cache_write_tokens", std::uint64_t{0}}};
  json::Object output_details{{"reasoning_tokens", std::uint64_t{usage.reasoning_tokens}}};
  return json::Object{{"input_tokens", input},
                      {"input_tokens_details", std::move(input_details)},
                      {"output_tokens", output},
                      {"output_tokens_details", std::move(output_details)},
                      {"total_tokens", input + output}};
}

// The names of one kind of item. kWordings is in the order of Kind.
struct ResponsesEncoder::Wording {
  std::string_view item;  // its type
  std::string_view part;  // the type of its only part; "": it has none
  std::string_view text;  // the member that has its text, in the part or in the item
  // The events of its text.
  std::string_view delta;
  std::string_view done;
};

const ResponsesEncoder::Wording& ResponsesEncoder::wording(Kind kind) {
  static constexpr Wording kWordings[] = {
      {"message", "output_text", "text", "response.output_text.delta", "response.output_text.done"},
      {"reasoning", "reasoning_text", "text", "response.reasoning_text.delta",
       "response.reasoning_text.done"},
      {"function_call", "", "arguments", "response.function_call_arguments.delta",
       "response.function_call_arguments.done"},
      {"custom_tool_call", "", "input", "response.custom_tool_call_input.delta",
       "response.custom_tool_call_input.done"},
      {"", "", "", "", ""},  // depends on its tool; it comes as a whole
      {"mcp_list_tools", "", "", "", ""},
      {"mcp_call", "", "arguments", "response.mcp_call_arguments.delta",
       "response.mcp_call_arguments.done"},
      {"mcp_approval_request", "", "arguments", "", ""},
      {"program", "", "code", "", ""},
      {"program_output", "", "result", "", ""},
  };
  return kWordings[static_cast<std::size_t>(kind)];
}

Value ResponsesEncoder::part_of(const Item& item) {
  const Wording& words = wording(item.kind);
  json::Object part{{"type", words.part}, {"text", item.text}};
  if (item.kind == Kind::message) {
    part.set("annotations", json::Array());
    part.set("logprobs", item.logprobs);
  }
  return part;
}

std::string_view ResponsesEncoder::item_type(const Item& item) {
  return item.kind == Kind::client_call ? item.tool->call_type : wording(item.kind).item;
}

// An item of a server of tools: what it lists, a call of one of its tools, or a call that waits for
// an approval. Members without a value are null, not absent, as OpenAI writes them.
json::Object ResponsesEncoder::encode_of_server(const Item& item) {
  json::Object out{{"id", item.id}, {"type", item_type(item)}, {"server_label", item.server}};
  if (item.kind == Kind::server_tools) {
    out.set("tools", item.result.is_null() ? Value(json::Array()) : item.result);
    out.set("error", item.text.empty() ? Value() : Value(item.text));
    return out;
  }
  out.set("name", item.name);
  out.set("arguments", item.text);
  if (item.kind == Kind::approval_request) return out;
  const bool has_failed = item.state == State::failed;
  out.set("status", kStates[static_cast<std::size_t>(item.state)]);
  out.set("approval_request_id", item.approval.empty() ? Value() : Value(item.approval));
  out.set("output", has_failed ? Value() : item.result);
  json::Object text{{"type", "text"}, {"text", item.result}};
  out.set("error", !has_failed ? Value()
                               : Value(json::Object{{"type", "mcp_tool_execution_error"},
                                                    {"content", json::Array{std::move(text)}}}));
  return out;
}

// Code, or what it printed. The fingerprint of code is checked nowhere: it runs anew when it goes
// on.
json::Object ResponsesEncoder::encode_of_code(const Item& item) {
  json::Object out{{"id", item.id}, {"type", item_type(item)}, {"call_id", item.call_id}};
  if (item.kind == Kind::program) {
    out.set("code", item.text);
    out.set("fingerprint", "tenon");
    return out;
  }
  out.set("result", item.text);
  out.set("status", "completed");
  return out;
}

// An item that has just been opened has no parts yet: in a stream `response.content_part.added`
// brings the part, and clients would have it twice.
Value ResponsesEncoder::encode(const Item& item) {
  if (item.kind >= Kind::program) return encode_of_code(item);
  if (item.kind >= Kind::server_tools) return encode_of_server(item);
  const Wording& words = wording(item.kind);
  json::Object out{{"id", item.id},
                   {"type", item_type(item)},
                   {"status", kStates[static_cast<std::size_t>(item.state)]}};
  if (item.kind == Kind::message) out.set("role", "assistant");
  if (item.kind == Kind::reasoning) out.set("summary", json::Array());
  if (!item.sealed.empty()) out.set("encrypted_content", item.sealed);
  if (item.kind == Kind::client_call) {
    out.set("call_id", item.call_id);
    out.set(std::string(item.tool->call_member), item_member(*item.tool, call_input(item.text)));
  } else if (words.part.empty()) {
    out.set("call_id", item.call_id);
    if (!item.name_space.empty()) out.set("namespace", item.name_space);
    out.set("name", item.name);
    out.set(std::string(words.text), item.text);
    if (!item.code_id.empty()) {
      out.set("caller", json::Object{{"type", "program"}, {"caller_id", item.code_id}});
    }
  } else {
    json::Array content;
    if (item.state != State::in_progress) content.push_back(part_of(item));
    out.set("content", std::move(content));
  }
  return out;
}

void ResponsesEncoder::append_event(std::string_view type,
                                    std::initializer_list<json::Member> members, std::string& out) {
  begin_event(type, sequence_++, data_);
  append_members(members, data_);
  end_event(type, data_, out);
}

// It may be called while another thread writes the end, so it reads only the head, and counts its
// two events itself; sequence_ begins behind them.
void ResponsesEncoder::begin(std::string& out) {
  const json::Value begun = response("in_progress", {});
  std::uint64_t sequence = 0;
  std::string data;
  for (const std::string_view type : {"response.created", "response.in_progress"}) {
    begin_event(type, sequence++, data);
    data += R"(,"response":)";
    json::append(data, begun);
    end_event(type, data, out);
  }
}

void ResponsesEncoder::add(unsigned, const ChatEvent& event,
                           const std::vector<TokenLogprob>& logprobs, std::string& out) {
  add_event(event, logprobs, &out);
}

void ResponsesEncoder::keep(unsigned, const ChatEvent& event,
                            const std::vector<TokenLogprob>& logprobs) {
  add_event(event, logprobs, nullptr);
}

// `out` is null for a whole answer.
void ResponsesEncoder::add_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs,
                                 std::string* out) {
  note_.add(event);
  if (add_code_event(event, out) || add_server_event(event, out)) return;
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
    add_text(Kind::message, content->text, logprobs, out);
  } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
    add_text(Kind::reasoning, reasoning->text, {}, out);
  } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    const bool is_custom =
        std::ranges::find(head_.custom_tools, begin->name) != head_.custom_tools.end();
    open(is_custom ? Kind::custom_tool_call : Kind::function_call, begin, out);
  } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
    add_arguments(arguments->text, out);
  } else if (const auto* end = std::get_if<message::CallEnd>(&event)) {
    close(end->incomplete ? State::incomplete : State::completed, out);
  } else if (const auto* finish = std::get_if<message::Finish>(&event)) {
    finish_ = *finish;
    const bool is_whole =
        finish->reason == FinishReason::stop || finish->reason == FinishReason::tool_calls;
    close(is_whole ? State::completed : State::incomplete, out);
    // The answer is over, and calls of servers that have no result yet will not get one.
    for (Item& item : items_) {
      if (item.kind != Kind::server_call || item.state != State::in_progress) continue;
      item.state = State::incomplete;
      end_server_call(item, out);
    }
  }
}

// ---- servers of tools

// Adds an item of a server of tools. It is not the open one: is_open_ stays false, and its events
// name it by its index, since other items may come before its end. The reference is valid until the
// next item.
ResponsesEncoder::Item& ResponsesEncoder::add_item(Kind kind, std::string* out) {
  close(State::completed, out);
  const std::size_t index = items_.size();
  Item& item = items_.emplace_back();
  item.kind = kind;
  item.id = item_id(item_type(item), head_.id, std::to_string(index));
  return item;
}

// Writes an event about `item`, which must be an element of items_: its place there is
// output_index.
void ResponsesEncoder::append_of(const Item& item, std::string_view type,
                                 std::initializer_list<json::Member> more, std::string* out) {
  if (out == nullptr) return;
  begin_event(type, sequence_++, data_);
  append_members(
      {{"item_id", item.id}, {"output_index", static_cast<std::uint64_t>(&item - items_.data())}},
      data_);
  append_members(more, data_);
  end_event(type, data_, *out);
}

void ResponsesEncoder::begin_item(const Item& item, std::string* out) {
  if (out == nullptr) return;
  append_event(
      "response.output_item.added",
      {{"output_index", static_cast<std::uint64_t>(&item - items_.data())}, {"item", encode(item)}},
      *out);
}

void ResponsesEncoder::end_item(const Item& item, std::string* out) {
  if (out == nullptr) return;
  append_event(
      "response.output_item.done",
      {{"output_index", static_cast<std::uint64_t>(&item - items_.data())}, {"item", encode(item)}},
      *out);
}

void ResponsesEncoder::end_server_call(Item& item, std::string* out) {
  const bool is_done = item.state == State::completed;
  append_of(item, "response.mcp_call_arguments.done", {{"arguments", item.text}}, out);
  append_of(item, is_done ? "response.mcp_call.completed" : "response.mcp_call.failed", {}, out);
  end_item(item, out);
}

// Reads the events of code; false for all others. The arguments of its call are `{"code": ...}`, of
// which the item has the code, once they are whole: the stream has no pieces of it.
bool ResponsesEncoder::add_code_event(const ChatEvent& event, std::string* out) {
  const auto* const begin = std::get_if<message::ServerCallBegin>(&event);
  const auto* const arguments = std::get_if<message::ServerCallArguments>(&event);
  const auto* const result = std::get_if<message::ServerCallResult>(&event);
  const bool is_open = !items_.empty() && items_.back().kind == Kind::program &&
                       items_.back().state == State::in_progress;
  if (begin != nullptr && begin->tool.server == message::kCodeServer) {
    end_program(out);
    Item& item = add_item(Kind::program, out);
    item.call_id = begin->id;
    begin_item(item, out);
    return true;
  }
  if (arguments != nullptr && is_open && items_.back().call_id == arguments->id) {
    items_.back().text += arguments->text;
    return true;
  }
  const bool is_note = std::holds_alternative<message::Diagnostic>(event);
  if (is_open && !is_note) end_program(out);
  if (result == nullptr || !result->error_output) return false;
  Item& item = add_item(Kind::program_output, out);
  item.call_id = result->id;
  item.text = message::code_output(result->output, *result->error_output);
  item.state = State::completed;
  begin_item(item, out);
  end_item(item, out);
  return true;
}

// Ends the code that is being written, if there is such.
void ResponsesEncoder::end_program(std::string* out) {
  if (items_.empty() || items_.back().kind != Kind::program ||
      items_.back().state != State::in_progress) {
    return;
  }
  Item& item = items_.back();
  const auto arguments = json::parse(item.text);
  const Value* const code = arguments ? arguments->find("code") : nullptr;
  if (code != nullptr && code->if_string() != nullptr) item.text = std::string(*code->if_string());
  item.state = State::completed;
  end_item(item, out);
}

// Reads the events of servers of tools; false for all others. A result or piece whose call is
// unknown or over is dropped, because its item has ended already.
bool ResponsesEncoder::add_server_event(const ChatEvent& event, std::string* out) {
  const auto call_of = [this](const std::string& id) -> Item* {
    const auto found = std::ranges::find_if(items_, [&](const Item& item) {
      return item.kind == Kind::server_call && item.call_id == id &&
             item.state == State::in_progress;
    });
    return found == items_.end() ? nullptr : &*found;
  };
  if (const auto* told = std::get_if<message::ServerTools>(&event)) {
    Item& item = add_item(Kind::server_tools, out);
    item.server = told->server;
    begin_item(item, out);
    append_of(item, "response.mcp_list_tools.in_progress", {}, out);
    item.result = told->tools;
    item.text = told->error;
    item.state = told->error.empty() ? State::completed : State::failed;
    append_of(item,
              told->error.empty() ? "response.mcp_list_tools.completed"
                                  : "response.mcp_list_tools.failed",
              {}, out);
    end_item(item, out);
  } else if (const auto* begin = std::get_if<message::ServerCallBegin>(&event)) {
    Item& item = add_item(Kind::server_call, out);
    item.call_id = begin->id;
    item.server = begin->tool.server;
    item.name = begin->tool.tool;
    if (begin->was_approved) item.approval = begin->id;
    begin_item(item, out);
    append_of(item, "response.mcp_call.in_progress", {}, out);
  } else if (const auto* arguments = std::get_if<message::ServerCallArguments>(&event)) {
    Item* const item = call_of(arguments->id);
    if (item == nullptr) return true;
    item->text += arguments->text;
    append_of(*item, "response.mcp_call_arguments.delta", {{"delta", arguments->text}}, out);
  } else if (const auto* result = std::get_if<message::ServerCallResult>(&event)) {
    Item* const item = call_of(result->id);
    if (item == nullptr) return true;
    item->result = result->output;
    item->state = result->is_error ? State::failed : State::completed;
    end_server_call(*item, out);
  } else if (const auto* wanted = std::get_if<message::ApprovalsWanted>(&event)) {
    for (const auto& one : wanted->calls) {
      Item& item = add_item(Kind::approval_request, out);
      item.server = one.tool.server;
      item.name = one.tool.tool;
      item.text = one.call.arguments;
      item.state = State::completed;
      begin_item(item, out);
      end_item(item, out);
    }
  } else {
    return false;
  }
  return true;
}

// Appends to the open item, or opens one if the last one is of another kind. Reasoning and text may
// take turns; each change begins a new item.
void ResponsesEncoder::add_text(Kind kind, std::string_view text,
                                const std::vector<TokenLogprob>& logprobs, std::string* out) {
  if (text.empty()) return;
  if (!is_open_ || items_.back().kind != kind) open(kind, nullptr, out);
  Item& item = items_.back();
  item.text += text;
  json::Array tokens;
  if (head_.logprobs && !logprobs.empty()) tokens = encode_token_logprobs(logprobs);
  item.logprobs.insert(item.logprobs.end(), tokens.begin(), tokens.end());
  if (out != nullptr) append_delta(text, tokens, *out);
}

// A custom tool's arguments are `{"input": "..."}`, of which the client gets only the input,
// decoded. Calls of client tools are encoded at their end, from all arguments.
void ResponsesEncoder::add_arguments(std::string_view arguments, std::string* out) {
  if (!is_open_ || !wording(items_.back().kind).part.empty()) return;
  Item& item = items_.back();
  const std::size_t begin = item.text.size();
  if (item.kind == Kind::custom_tool_call) {
    item.reader.feed(arguments, item.text);
  } else {
    item.text += arguments;
  }
  if (out != nullptr && item.text.size() > begin && item.kind != Kind::client_call) {
    append_delta(std::string_view(item.text).substr(begin), {}, *out);
  }
}

// `call` is set for kinds that are calls. A tool of a namespace, or of the client, gets back the
// name that the request had for it.
void ResponsesEncoder::open(Kind kind, const message::CallBegin* call, std::string* out) {
  close(State::completed, out);
  is_open_ = true;
  const std::size_t index = items_.size();
  Item& item = items_.emplace_back();
  item.kind = kind;
  if (call != nullptr) {
    item.call_id = call->id;
    item.code_id = call->code_id;
    item.name = call->name;
    const auto known = head_.called_as.find(call->name);
    if (known != head_.called_as.end()) {
      item.name_space = known->second.name_space;
      item.name = known->second.name;
      item.tool = known->second.tool;
      if (item.tool != nullptr) item.kind = Kind::client_call;
    }
  }
  const Wording& words = wording(item.kind);
  item.id = item_id(item_type(item), head_.id, std::to_string(index));
  if (out == nullptr) return;
  append_event("response.output_item.added",
               {{"output_index", std::uint64_t{index}}, {"item", encode(item)}}, *out);
  if (words.part.empty()) return;
  append_event("response.content_part.added",
               {{"item_id", item.id},
                {"output_index", std::uint64_t{index}},
                {"content_index", 0},
                {"part", part_of(item)}},
               *out);
}

// Ends the open item, if there is one, in three steps as OpenAI does: the whole text, the whole
// part, the whole item. Items without a part lack the second; calls of client tools have the last
// alone.
void ResponsesEncoder::close(State state, std::string* out) {
  if (!is_open_) return;
  is_open_ = false;
  Item& item = items_.back();
  // Input that is not a JSON string is only known as such at the end.
  if (item.kind == Kind::custom_tool_call) {
    const std::size_t begin = item.text.size();
    item.reader.finish(item.text);
    if (out != nullptr && item.text.size() > begin) {
      append_delta(std::string_view(item.text).substr(begin), {}, *out);
    }
  }
  item.state = state;
  if (item.kind == Kind::reasoning && head_.seal) item.sealed = head_.seal(item.text);
  if (out == nullptr) return;
  const Wording& words = wording(item.kind);
  const std::uint64_t index = items_.size() - 1;
  if (item.kind != Kind::client_call) {
    begin_event(words.done, sequence_++, data_);
    append_members({{"item_id", item.id}, {"output_index", index}}, data_);
    if (!words.part.empty()) append_members({{"content_index", 0}}, data_);
    if (item.kind == Kind::function_call) append_members({{"name", item.name}}, data_);
    append_members({{std::string(words.text), item.text}}, data_);
    if (item.kind == Kind::message) append_members({{"logprobs", item.logprobs}}, data_);
    end_event(words.done, data_, *out);
  }
  if (!words.part.empty()) {
    append_event("response.content_part.done",
                 {{"item_id", item.id},
                  {"output_index", index},
                  {"content_index", 0},
                  {"part", part_of(item)}},
                 *out);
  }
  append_event("response.output_item.done", {{"output_index", index}, {"item", encode(item)}},
               *out);
}

// This event comes for each token, so it is written without a tree of values.
void ResponsesEncoder::append_delta(std::string_view text, const json::Array& logprobs,
                                    std::string& out) {
  const Item& item = items_.back();
  const Wording& words = wording(item.kind);
  begin_event(words.delta, sequence_++, data_);
  append_quoted_member(data_, "item_id", item.id);
  data_ += R"(,"output_index":)";
  data_ += std::to_string(items_.size() - 1);
  if (!words.part.empty()) data_ += R"(,"content_index":0)";
  append_quoted_member(data_, "delta", text);
  if (item.kind == Kind::message) {
    data_ += R"(,"logprobs":)";
    if (logprobs.empty()) {
      data_ += "[]";
    } else {
      json::append(data_, logprobs);
    }
  }
  end_event(words.delta, data_, out);
}

// finished() stores the response, so the last event is sent once it is kept.
void ResponsesEncoder::end(const message::Usage& usage, std::string& out) {
  const bool is_cut = finish_.reason == FinishReason::length;
  append_event(is_cut ? "response.incomplete" : "response.completed",
               {{"response", finished(usage)}}, out);
  append_done(out);
}

// The items stay in a failed response, so the client sees what came before the failure. It is not
// stored, whatever the request said.
void ResponsesEncoder::fail(const ApiError& error, std::string& out) {
  json::Array output;
  for (const Item& item : items_) output.push_back(encode(item));
  json::Object failed = response("failed", std::move(output));
  failed.set("error", json::Object{{"code", error_code(error)}, {"message", error.message}});
  failed.set("store", false);
  append_event("response.failed", {{"response", std::move(failed)}}, out);
  append_done(out);
}

void ResponsesEncoder::keep_alive(std::string& out) {
  append_keep_alive(out);
}

Value ResponsesEncoder::whole(const message::Usage& usage) {
  return finished(usage);
}

// The echo comes last and may replace a member, for example `store`.
json::Object ResponsesEncoder::response(std::string_view status, json::Array output) const {
  json::Object out{{"id", head_.id},
                   {"object", "response"},
                   {"created_at", head_.created_at},
                   {"status", status},
                   {"completed_at", nullptr},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"output", std::move(output)},
                   {"usage", nullptr}};
  for (const json::Member& member : head_.echo.members()) out.set(member.key, member.value);
  return out;
}

json::Object ResponsesEncoder::finished(const message::Usage& usage) {
  const bool is_cut = finish_.reason == FinishReason::length;
  json::Array output;
  for (const Item& item : items_) output.push_back(encode(item));
  json::Object out = response(is_cut ? "incomplete" : "completed", std::move(output));
  if (is_cut) {
    out.set("incomplete_details", json::Object{{"reason", "max_output_tokens"}});
  } else if (head_.now) {
    out.set("completed_at", head_.now());
  }
  out.set("usage", encode_response_usage(usage));
  out.set("tenon", note_.encode());
  // `store` says what became of it: a store that is full or broken does not fail the answer.
  if (!head_.keep) return out;
  Value value(std::move(out));
  const bool is_kept = head_.keep(value);
  value.if_object()->set("store", is_kept);
  return std::move(*value.if_object());
}

}  // namespace tenon::api
