#include "bench_model_set.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tenon/api/chat_request.h"
#include "tenon/chat/call_check.h"
#include "tenon/config/files.h"
#include "tenon/schema/schema.h"

// A set is a file of JSON lines. A line is a request (messages, tools) and what is right:
//
//     "expect": {"calls": [{"name", "arguments": {"city": ["Paris", "Paris, France"]}}],
//                "optional": [...], "mentions": [["18", "eighteen"]]}
//     "expected": [{"name", "arguments": {"city": "Paris"}}]
//
// The first form lists the accepted values of each argument ("" among them: it may be absent); the
// second has one value for each. `calls` is [] if no call is right, null if any valid call is. All
// lines are read and checked when the set is read, but only their places are kept: a row is parsed
// anew when it is asked, so a set of a million lines needs little more memory than its text.

namespace tenon::app::bench {
namespace {

Unexpected wrong(const std::string& path, const std::string& what) {
  return Unexpected(Error{Errc::invalid, path + ": " + what});
}

std::string quoted_name(std::string_view name) {
  return "'" + std::string(name) + "'";
}

// How arguments say what they accept.
enum class Values : std::uint8_t {
  lists,   // of accepted values; "" among them: the key may be absent
  single,  // as they are to come
};

Expected<WantedArgument> read_argument(const json::Member& member, Values values,
                                       const std::string& path) {
  WantedArgument wanted{.key = member.key};
  if (values == Values::single) {
    wanted.accepted.push_back(member.value);
    return wanted;
  }
  const json::Array* const accepted = member.value.if_array();
  if (accepted == nullptr || accepted->empty()) {
    return wrong(path, "must be a list of the values that are accepted");
  }
  if (accepted->size() > kMostAccepted) {
    return wrong(path, "has more than " + std::to_string(kMostAccepted) + " values");
  }
  wanted.accepted = *accepted;
  wanted.may_be_absent = std::ranges::find(*accepted, json::Value("")) != accepted->end();
  return wanted;
}

// The arguments of a call with the values accepted at `place` for each key, the last one where
// there are fewer.
json::Value arguments_of(const WantedCall& call, std::size_t place) {
  json::Object arguments;
  for (const WantedArgument& argument : call.arguments) {
    const json::Value& value = argument.accepted[std::min(place, argument.accepted.size() - 1)];
    if (argument.may_be_absent && value == json::Value("")) continue;
    arguments.set(argument.key, value);
  }
  return arguments;
}

// Checks that an answer can be right: some of the accepted values must fit the tool. Not all
// combinations are tried, only the first values together, the second ones, and so on.
Status check_fits(const WantedCall& call, const message::ChatRequest& request,
                  const std::string& path) {
  const auto tool = std::ranges::find(request.tools, call.name, &message::Tool::name);
  if (tool->parameters.is_null()) {
    if (call.arguments.empty()) return {};
    return wrong(path, "the tool takes no arguments");
  }
  const auto schema = schema::Schema::compile(tool->parameters);
  if (!schema) return {};  // the request itself will report what is wrong with the tool
  std::size_t most = 1;
  for (const WantedArgument& argument : call.arguments) {
    most = std::max(most, argument.accepted.size());
  }
  std::string fault;
  for (std::size_t place = 0; place < most; ++place) {
    const std::string wrong_here =
        chat::fault_of(json::to_string(arguments_of(call, place)), **schema);
    if (wrong_here.empty()) return {};
    if (place == 0) fault = wrong_here;
  }
  return wrong(path, "no call with these arguments fits the tool: " + fault);
}

// Whether leaving `argument` out says the same: the tool does not require it, and its schema has
// the wanted value as the default. Rows of the leaderboard name such values, and the leaderboard
// accepts calls without them.
bool is_default(const WantedArgument& argument, const message::Tool& tool) {
  const json::Value* const required = tool.parameters.find("required");
  const json::Array* const names = required == nullptr ? nullptr : required->if_array();
  if (names != nullptr && std::ranges::find(*names, json::Value(argument.key)) != names->end()) {
    return false;
  }
  const json::Value* schema = tool.parameters.find("properties");
  for (const std::string_view key : {std::string_view(argument.key), std::string_view("default")}) {
    if (schema != nullptr) schema = schema->find(key);
  }
  return schema != nullptr && *schema == argument.accepted.front();
}

// A call of a row, checked against the row's tools: a misspelt name would make every model look
// wrong.
Expected<WantedCall> read_call(const json::Value& value, const message::ChatRequest& request,
                               Values values, const std::string& path) {
  if (value.if_object() == nullptr) return wrong(path, "must be an object");
  const json::Value* const name = value.find("name");
  if (name == nullptr || name->if_string() == nullptr) {
    return wrong(path + ".name", "must be the name of a tool");
  }
  WantedCall call{.name = *name->if_string()};
  const auto tool = std::ranges::find(request.tools, call.name, &message::Tool::name);
  if (tool == request.tools.end()) {
    return wrong(path + ".name", quoted_name(call.name) + " is not one of the tools");
  }
  for (const json::Member& member : *value.if_object()) {
    if (values == Values::lists && member.key != "name" && member.key != "arguments") {
      return wrong(path + "." + member.key, "is not known: there are name and arguments");
    }
  }
  if (const json::Value* const arguments = value.find("arguments")) {
    if (arguments->if_object() == nullptr) return wrong(path + ".arguments", "must be an object");
    for (const json::Member& member : *arguments->if_object()) {
      auto argument = read_argument(member, values, path + ".arguments." + member.key);
      if (!argument) return Unexpected(std::move(argument.error()));
      if (values == Values::single && is_default(*argument, *tool)) argument->may_be_absent = true;
      call.arguments.push_back(*std::move(argument));
    }
  }
  if (values == Values::lists) {
    if (Status fits = check_fits(call, request, path); !fits) {
      return Unexpected(std::move(fits.error()));
    }
  }
  return call;
}

Expected<std::vector<WantedCall>> read_calls(const json::Value& value,
                                             const message::ChatRequest& request, Values values,
                                             const std::string& path) {
  const json::Array* const list = value.if_array();
  if (list == nullptr) return wrong(path, "must be a list of calls");
  std::vector<WantedCall> calls;
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto call = read_call((*list)[i], request, values, path + "[" + std::to_string(i) + "]");
    if (!call) return Unexpected(std::move(call.error()));
    calls.push_back(*std::move(call));
  }
  return calls;
}

// `[["18", "eighteen"], ["Paris"]]`: the text must have one of each group.
Expected<std::vector<std::vector<std::string>>> read_mentions(const json::Value& value) {
  const std::string path = "expect.mentions";
  const auto what = "must be a list of lists of texts";
  if (value.if_array() == nullptr) return wrong(path, what);
  std::vector<std::vector<std::string>> groups;
  for (const json::Value& group : *value.if_array()) {
    if (group.if_array() == nullptr || group.if_array()->empty()) return wrong(path, what);
    std::vector<std::string>& texts = groups.emplace_back();
    for (const json::Value& text : *group.if_array()) {
      if (text.if_string() == nullptr || text.if_string()->empty()) return wrong(path, what);
      texts.push_back(*text.if_string());
    }
  }
  return groups;
}

// `null` stands for any valid call, `[]` for none.
Status take_calls(const json::Value& value, const message::ChatRequest& request, Values values,
                  const std::string& path, Wanted& wanted) {
  if (value.is_null()) {
    wanted.kind = Wanted::Kind::any_call;
    return {};
  }
  auto calls = read_calls(value, request, values, path);
  if (!calls) return Unexpected(std::move(calls.error()));
  wanted.kind = calls->empty() ? Wanted::Kind::none : Wanted::Kind::calls;
  wanted.calls = *std::move(calls);
  return {};
}

Expected<Wanted> read_expect(const json::Value& expect, const message::ChatRequest& request) {
  if (expect.if_object() == nullptr) return wrong("expect", "must be an object");
  // A misspelt key would be ignored, and every answer would be right.
  for (const json::Member& member : *expect.if_object()) {
    if (member.key != "calls" && member.key != "optional" && member.key != "mentions") {
      return wrong("expect." + member.key, "is not known: there are calls, optional and mentions");
    }
  }
  const json::Value* const calls = expect.find("calls");
  if (calls == nullptr) return wrong("expect.calls", "is missing");
  Wanted wanted;
  if (Status done = take_calls(*calls, request, Values::lists, "expect.calls", wanted); !done) {
    return Unexpected(std::move(done.error()));
  }
  if (const json::Value* const optional = expect.find("optional")) {
    auto read = read_calls(*optional, request, Values::lists, "expect.optional");
    if (!read) return Unexpected(std::move(read.error()));
    wanted.optional = *std::move(read);
  }
  if (const json::Value* const mentions = expect.find("mentions")) {
    auto read = read_mentions(*mentions);
    if (!read) return Unexpected(std::move(read.error()));
    wanted.mentions = *std::move(read);
  }
  return wanted;
}

// `expect` or `expected`, not both: they would contradict each other.
Expected<Wanted> read_wanted(const json::Value& line, const message::ChatRequest& request) {
  const json::Value* const expect = line.find("expect");
  const json::Value* const expected = line.find("expected");
  if ((expect == nullptr) == (expected == nullptr)) {
    return wrong("expect", expect == nullptr ? "is missing" : "and expected stand both");
  }
  Wanted wanted;
  if (expect != nullptr) {
    auto read = read_expect(*expect, request);
    if (!read) return read;
    wanted = *std::move(read);
  } else if (Status done = take_calls(*expected, request, Values::single, "expected", wanted);
             !done) {
    return Unexpected(std::move(done.error()));
  }
  if (wanted.calls.size() + wanted.optional.size() > kMostCalls) {
    return wrong(expect != nullptr ? "expect" : "expected",
                 "has more than " + std::to_string(kMostCalls) + " calls");
  }
  return wanted;
}

// Checks the request as the server checks those of clients.
Expected<message::ChatRequest> read_request(const json::Value& line) {
  json::Object body{{"model", "local"}};
  const json::Value* const messages = line.find("messages");
  if (messages == nullptr) return wrong("messages", "is missing");
  body.set("messages", *messages);
  const json::Value* const tools = line.find("tools");
  // The decoder refuses an empty list of tools; rows without a tool have one.
  const bool has_none =
      tools != nullptr && tools->if_array() != nullptr && tools->if_array()->empty();
  if (tools != nullptr && !has_none) body.set("tools", *tools);
  auto decoded = api::decode_chat_completion(body);
  if (!decoded) return Unexpected(Error{Errc::invalid, decoded.error().message});
  return std::move(decoded->chat);
}

// A member that is a text; "" if it is absent.
Expected<std::string> read_text(const json::Value& line, const std::string& key) {
  const json::Value* const value = line.find(key);
  if (value == nullptr) return std::string();
  if (value->if_string() != nullptr) return *value->if_string();
  if (value->if_number() != nullptr) return value->if_number()->text;
  return wrong(key, "must be a text");
}

Expected<Row> read_row(const json::Value& line) {
  Row row;
  auto id = read_text(line, "id");
  if (!id) return Unexpected(std::move(id.error()));
  auto category = read_text(line, "category");
  if (!category) return Unexpected(std::move(category.error()));
  auto request = read_request(line);
  if (!request) return Unexpected(std::move(request.error()));
  auto wanted = read_wanted(line, *request);
  if (!wanted) return Unexpected(std::move(wanted.error()));
  return Row{.id = *std::move(id),
             .category = category->empty() ? "all" : *std::move(category),
             .request = *std::move(request),
             .wanted = *std::move(wanted)};
}

Expected<json::Value> read_line(std::string_view line) {
  if (line.size() > kMostLineBytes) {
    return Unexpected(Error{Errc::limit_exceeded,
                            "has more than " + std::to_string(kMostLineBytes >> 20U) + " MiB"});
  }
  const Unexpected no_object(
      Error{Errc::invalid, "must be a JSON object; of a list, jq -c '.[]' makes one on each line"});
  // Tested before parsing: a JSON list may continue on the next line.
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin != std::string_view::npos && line[begin] == '[') return no_object;
  auto value = json::parse(line);
  if (value && value->if_object() == nullptr) return no_object;
  return value;
}

// Whether the line says that its own right answer does not fit the tools.
bool is_left_out(const json::Value& line) {
  const json::Value* const valid = line.find("valid");
  return valid != nullptr && *valid == json::Value(false);
}

}  // namespace

Expected<Row> parse_row(std::string_view line) {
  const auto value = read_line(line);
  if (!value) return Unexpected(value.error());
  return read_row(*value);
}

// Reads every line once, so that a mistake in the last one is told before the first is asked.
Expected<Set> Set::parse(std::string text, std::string name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  Set set;
  set.name_ = std::move(name);
  set.text_ = std::move(text);
  std::size_t begin = set.text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  for (std::size_t number = 1; begin < set.text_.size(); ++number) {
    const std::size_t end = std::min(set.text_.find('\n', begin), set.text_.size());
    const Line line{begin, end - begin, number};
    begin = end + 1;
    const std::string_view bytes = std::string_view(set.text_).substr(line.begin, line.bytes);
    if (bytes.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto failed = [&](const Error& error) {
      return Unexpected(
          Error{error.code, set.name_ + ", line " + std::to_string(number) + ": " + error.message});
    };
    const auto value = read_line(bytes);
    if (!value) return failed(value.error());
    if (is_left_out(*value)) {
      ++set.left_out_;
      continue;
    }
    if (const auto row = read_row(*value); !row) return failed(row.error());
    set.lines_.push_back(line);
  }
  if (set.lines_.empty()) return wrong(set.name_, "there is no request in it");
  return set;
}

// The line was checked when the set was read, so it can be read again.
Row Set::row(std::size_t index) const {
  const Line& line = lines_[index];
  auto row = parse_row(std::string_view(text_).substr(line.begin, line.bytes));
  if (row->id.empty()) row->id = name_ + ", line " + std::to_string(line.number);
  return *std::move(row);
}

Expected<Set> read_set(const std::string& path) {
  auto text = config::read_input(path);
  if (!text) return Unexpected(std::move(text.error()));
  return Set::parse(*std::move(text), config::input_name(path));
}

}  // namespace tenon::app::bench
