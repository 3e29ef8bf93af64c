#include "tenon/prompt/shape.h"

#include <cstddef>
#include <utility>

namespace tenon::prompt {
namespace {

// Calls come as {"type": "function", "function": {...}} or bare.
bool open_arguments(json::Value& call) {
  json::Value* function = call.find("function");
  json::Value* arguments = (function != nullptr ? function : &call)->find("arguments");
  if (arguments == nullptr || arguments->if_string() == nullptr) return false;
  Expected<json::Value> parsed = json::parse(*arguments->if_string());
  if (!parsed || parsed->if_object() == nullptr) return false;
  *arguments = *std::move(parsed);
  return true;
}

std::string counted(std::size_t count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace

void shape(json::Object& context, std::vector<std::string>& log) {
  json::Value* messages = context.find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) return;
  std::size_t contents = 0;
  std::size_t arguments = 0;
  for (json::Value& message : *messages->if_array()) {
    if (json::Value* content = message.find("content"); content != nullptr && content->is_null()) {
      *content = "";
      ++contents;
    }
    json::Value* calls = message.find("tool_calls");
    if (calls == nullptr || calls->if_array() == nullptr) continue;
    for (json::Value& call : *calls->if_array()) arguments += open_arguments(call);
  }
  if (contents != 0) log.push_back("content null made empty in " + counted(contents, "message"));
  if (arguments != 0) log.push_back("JSON text made an object in " + counted(arguments, "call"));
}

}  // namespace tenon::prompt
