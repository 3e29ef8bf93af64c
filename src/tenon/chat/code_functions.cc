#include "tenon/chat/code_functions.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "tenon/chat/tool_search.h"

// A function's parameters are the properties of the tool's schema, the required ones first, because
// Python wants it so. The default of the others is `...`, which is not sent. A property whose name
// Python does not take goes into `**more`. All names and texts are a client's or a server's: names
// are made of letters, digits and '_' here, and texts become string literals.

namespace tenon::chat {
namespace {

using message::Tool;

constexpr std::size_t kMostDocs = 10;  // functions that one query finds
constexpr std::size_t kMostLiterals = 20;
constexpr unsigned kMostDepth = 4;

// Python's keywords, and what code could not do without.
constexpr std::array<std::string_view, 40> kTaken = {
    "False",   "None",     "True",     "and",    "as",        "assert",    "async",     "await",
    "break",   "class",    "continue", "def",    "del",       "elif",      "else",      "except",
    "finally", "for",      "from",     "global", "if",        "import",    "in",        "is",
    "lambda",  "nonlocal", "not",      "or",     "pass",      "raise",     "return",    "try",
    "while",   "with",     "yield",    "print",  "call_tool", "tool_docs", "ToolError", "more"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) && !name.starts_with("__") &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c); }) &&
         std::ranges::find(kTaken, name) == kTaken.end();
}

std::string plain_name(std::string_view name, const std::set<std::string>& used) {
  std::string plain;
  for (const char c : name) plain += is_letter(c) || is_digit(c) ? c : '_';
  if (!is_plain_name(plain)) plain = "tool_" + plain;
  std::string unique = plain;
  for (int number = 2; used.contains(unique); ++number) {
    unique = plain + "_" + std::to_string(number);
  }
  return unique;
}

std::string text_member(const json::Value& value, std::string_view key) {
  const json::Value* const found = value.find(key);
  return found != nullptr && found->if_string() != nullptr ? *found->if_string() : "";
}

// One line of a docstring: line breaks of a description would look like other lines of it.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  return line;
}

std::string literal(const json::Value& value) {
  if (value.is_null()) return "None";
  if (const bool* const flag = value.if_bool()) return *flag ? "True" : "False";
  if (value.if_string() != nullptr || value.if_number() != nullptr) return json::to_string(value);
  return "Any";
}

std::string type_of(const json::Value& schema, unsigned depth);

std::string joined(const json::Array& schemas, unsigned depth) {
  std::vector<std::string> types;
  for (const json::Value& one : schemas) {
    std::string type = type_of(one, depth);
    if (type == "Any") return type;
    if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
  }
  std::string all;
  for (const std::string& type : types) all += (all.empty() ? "" : " | ") + type;
  return all.empty() ? "Any" : all;
}

std::string type_named(const json::Value& schema, std::string_view name, unsigned depth) {
  if (name == "string") return "str";
  if (name == "integer") return "int";
  if (name == "number") return "float";
  if (name == "boolean") return "bool";
  if (name == "null") return "None";
  if (name == "object") return "dict";
  if (name != "array") return "Any";
  const json::Value* const items = schema.find("items");
  return items == nullptr ? "list" : "list[" + type_of(*items, depth + 1) + "]";
}

std::string type_of(const json::Value& schema, unsigned depth) {
  if (depth >= kMostDepth || schema.if_object() == nullptr) return "Any";
  if (const json::Value* const only = schema.find("const"))
    return "Literal[" + literal(*only) + "]";
  if (const json::Value* const words = schema.find("enum");
      words != nullptr && words->if_array() != nullptr && !words->if_array()->empty() &&
      words->if_array()->size() <= kMostLiterals) {
    std::string all;
    for (const json::Value& word : *words->if_array()) {
      all += (all.empty() ? "" : ", ") + literal(word);
    }
    return "Literal[" + all + "]";
  }
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    const json::Value* const choices = schema.find(key);
    if (choices != nullptr && choices->if_array() != nullptr) {
      return joined(*choices->if_array(), depth + 1);
    }
  }
  const json::Value* const type = schema.find("type");
  if (type == nullptr) return schema.find("properties") == nullptr ? "Any" : "dict";
  if (const std::string* const name = type->if_string()) return type_named(schema, *name, depth);
  if (type->if_array() == nullptr) return "Any";
  std::string all;
  for (const json::Value& one : *type->if_array()) {
    if (one.if_string() == nullptr) return "Any";
    all += (all.empty() ? "" : " | ") + type_named(schema, *one.if_string(), depth);
  }
  return all.empty() ? "Any" : all;
}

}  // namespace

std::string python_type(const json::Value& schema) {
  return type_of(schema, 0);
}

bool goes_on_with_code(const message::ChatRequest& request) {
  std::set<std::string_view> waiting;
  for (const message::CodeCall& call : request.code_calls) waiting.insert(call.code_id);
  if (waiting.empty()) return false;
  const message::Message* last = nullptr;  // of the assistant
  for (const message::Message& message : request.messages) {
    if (message.role == message::Role::assistant) last = &message;
    if (message.role == message::Role::tool) waiting.erase(message.tool_call_id);
  }
  return last != nullptr && std::ranges::any_of(last->tool_calls, [&waiting](const auto& call) {
           return waiting.contains(call.id);
         });
}

CodeFunctions::CodeFunctions(std::vector<Tool> tools) : tools_(std::move(tools)) {
  std::set<std::string> used;
  for (const Tool& tool : tools_) {
    names_.push_back(plain_name(tool.name, used));
    used.insert(names_.back());
    Function function;
    std::set<std::string> required;
    if (const json::Value* const names = tool.parameters.find("required");
        names != nullptr && names->if_array() != nullptr) {
      for (const json::Value& name : *names->if_array()) {
        if (name.if_string() != nullptr) required.insert(*name.if_string());
      }
    }
    const json::Value* const properties = tool.parameters.find("properties");
    if (properties != nullptr && properties->if_object() != nullptr) {
      for (const json::Member& member : *properties->if_object()) {
        function.parameters.push_back(
            {.name = member.key,
             .type = python_type(member.value),
             .description = on_one_line(text_member(member.value, "description")),
             .is_required = required.contains(member.key),
             .is_plain = is_plain_name(member.key)});
      }
    }
    std::ranges::stable_partition(function.parameters, &Parameter::is_required);
    const json::Value* const others = tool.parameters.find("additionalProperties");
    function.takes_more = (others != nullptr && *others != json::Value(false)) ||
                          !std::ranges::all_of(function.parameters, &Parameter::is_plain);
    functions_.push_back(std::move(function));
  }
}

const Tool* CodeFunctions::find(std::string_view tool) const {
  const auto found = std::ranges::find(tools_, tool, &Tool::name);
  return found == tools_.end() ? nullptr : &*found;
}

// Without types it is the same for Python, whatever a schema says: a text that is no type there, in
// one function, would end all code of the request.
std::string CodeFunctions::signature(std::size_t index, bool has_types) const {
  std::string text = names_[index] + "(";
  bool is_first = true;
  const auto add = [&](const std::string& parameter) {
    if (!std::exchange(is_first, false)) text += ", ";
    text += parameter;
  };
  for (const Parameter& one : functions_[index].parameters) {
    if (!one.is_plain) continue;
    add(one.name + (has_types ? ": " + one.type : "") + (one.is_required ? "" : " = ..."));
  }
  if (functions_[index].takes_more) add("**more");
  return text + (has_types ? ") -> Any" : ")");
}

std::string CodeFunctions::doc(std::size_t index) const {
  std::string text = tools_[index].description;
  for (const Parameter& one : functions_[index].parameters) {
    if (one.description.empty() && one.is_plain) continue;
    text += (text.empty() ? "" : "\n") + one.name + ": ";
    if (!one.is_plain) text += "(in **more, " + one.type + ") ";
    text += one.description;
  }
  return text;
}

std::string CodeFunctions::stub(std::size_t index) const {
  std::string text = "def " + signature(index, /*has_types=*/true) + ":";
  std::string about = doc(index);
  if (about.empty()) return text + " ...";
  text += "\n    \"\"\"";
  for (const char c : about) {
    text += c;
    if (c == '\n') text += "    ";
  }
  return text + "\"\"\"";
}

std::string CodeFunctions::docs(std::string_view query) const {
  std::string text;
  for (const std::size_t index : ToolIndex(tools_).search(query, kMostDocs)) {
    text += stub(index) + "\n";
  }
  return text.empty() ? "No function has these words. Try words of the functions' names." : text;
}

std::string CodeFunctions::description() const {
  std::string text =
      "Runs Python code and returns what it prints; nothing else of it is seen, so print what "
      "matters. It has the standard library, no files and no network. Each run begins without the "
      "variables of earlier ones.";
  if (tools_.empty()) return text;
  text +=
      "\nThe code can call the functions below, which are defined already. Their results stay in "
      "the code: a JSON object or list is returned as dict or list, anything else as str. A call "
      "that fails raises ToolError. Do in one run what can be done in one, with loops and "
      "conditions. `await` is only needed to call several at the same time, with "
      "asyncio.gather.\n";
  std::string listed;
  std::vector<Tool> named;
  for (std::size_t i = 0; i < tools_.size(); ++i) {
    const std::string one = tools_[i].is_deferred ? "" : stub(i) + "\n";
    if (one.empty() || listed.size() + one.size() > kMostListed) {
      named.push_back(tools_[i]);
      named.back().name = names_[i];
    } else {
      listed += one;
    }
  }
  text += listed;
  if (named.empty()) return text;
  return text +
         "These functions can be called, too. print(tool_docs(\"words\")) in a run of its own "
         "shows "
         "how those are called that have these words:\n" +
         families_of(named, kMostNamed);
}

std::string CodeFunctions::source() const {
  std::string text;
  for (std::size_t i = 0; i < tools_.size(); ++i) {
    text += "def " + signature(i, /*has_types=*/false) + ":\n    " + json::quoted(doc(i)) +
            "\n    return call_tool(" + json::quoted(tools_[i].name) + ", {";
    for (const Parameter& one : functions_[i].parameters) {
      if (one.is_plain) text += json::quoted(one.name) + ": " + one.name + ", ";
    }
    text += functions_[i].takes_more ? "**more})\n" : "})\n";
  }
  return text;
}

}  // namespace tenon::chat
