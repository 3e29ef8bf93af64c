#include "tenon/batch/tool_request.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/batch/grammar.h"
#include "tenon/batch/grammar_request.h"
#include "tenon/batch/line.h"
#include "tenon/format/registry.h"
#include "tenon/format/tool_grammar.h"
#include "tenon/json/lines.h"
#include "tenon/message/message.h"

namespace tenon::batch {
namespace {

using message::Tool;
using message::ToolChoice;
using message::ToolMode;

// `{"type": "function", "function": {"name", "parameters"}}`, or the function alone.
Expected<std::vector<Tool>> tools_of_request(const json::Object& request) {
  const json::Value* const list = request.find("tools");
  if (list == nullptr || list->if_array() == nullptr)
    return Unexpected(wrong_member("tools", "must be a list"));
  std::vector<Tool> tools;
  for (const json::Value& item : *list->if_array()) {
    const json::Value* const inner = item.find("function");
    const json::Value& function = inner != nullptr ? *inner : item;
    const json::Value* const name = function.find("name");
    if (name == nullptr || name->if_string() == nullptr) {
      return Unexpected(wrong_member("tools", "must hold functions with names"));
    }
    Tool& tool = tools.emplace_back();
    tool.name = *name->if_string();
    if (const json::Value* const schema = function.find("parameters")) tool.parameters = *schema;
  }
  return tools;
}

// "auto", "none", "required", or `{"function": {"name": "f"}}`, as Chat Completions have it.
Expected<ToolChoice> choice_of(const json::Object& request, const std::vector<Tool>& tools) {
  const json::Value* const choice = request.find("tool_choice");
  if (choice == nullptr || choice->is_null()) return ToolChoice{};
  const std::string* const word = choice->if_string();
  if (word != nullptr && *word == "auto") return ToolChoice{};
  if (word != nullptr && *word == "none") return ToolChoice{.mode = ToolMode::none};
  if (word != nullptr && *word == "required") return ToolChoice{.mode = ToolMode::required};
  const json::Value* const name = json::at_pointer(*choice, "/function/name");
  if (name == nullptr || name->if_string() == nullptr) {
    return Unexpected(
        wrong_member("tool_choice", "must be auto, none, required or {\"function\": {\"name\"}}"));
  }
  if (std::ranges::find(tools, *name->if_string(), &Tool::name) == tools.end()) {
    return Unexpected(wrong_member("tool_choice", "there is no tool '" + *name->if_string() + "'"));
  }
  return ToolChoice{.mode = ToolMode::required, .allowed = {*name->if_string()}};
}

// The grammar of calls in a format. `tokenizer` is null if markers are text: a printed grammar
// cannot say control tokens.
Expected<grammar::Rules> rules_of(const json::Object& request, const grammar::JsonOptions& options,
                                  const vocab::Tokenizer* tokenizer) {
  const json::Value* const name = request.find("format");
  if (name == nullptr || name->if_string() == nullptr) {
    return Unexpected(
        wrong_member("format", "must be the name of a format; `tenon formats` lists them"));
  }
  const auto format = format::named(*name->if_string());
  if (!format) return Unexpected(format.error());
  const auto tools = tools_of_request(request);
  if (!tools) return Unexpected(tools.error());
  const auto choice = choice_of(request, *tools);
  if (!choice) return Unexpected(choice.error());
  format::ToolGrammarOptions grammar_options{.json = options, .tokenizer = tokenizer};
  const auto parallel = flag(request, "parallel_tool_calls", grammar_options.parallel);
  if (!parallel) return Unexpected(parallel.error());
  grammar_options.parallel = *parallel;
  if (const json::Value* const tail = request.find("prompt_tail")) {
    if (tail->if_string() == nullptr)
      return Unexpected(wrong_member("prompt_tail", "must be a string"));
    grammar_options.prompt_tail = *tail->if_string();
  }
  return format::tool_grammar(**format, *tools, *choice, grammar_options);
}

}  // namespace

Expected<grammar::Rules> requested_calls(const json::Object& request,
                                         const grammar::JsonOptions& options,
                                         const vocab::Tokenizer& tokenizer) {
  return rules_of(request, options, &tokenizer);
}

// The printed grammar of calls, whose arguments come in the order of the schema.
Expected<json::Object> print_calls(const json::Object& request) {
  const Status known = json::check_members(
      request,
      {"tools", "format", "tool_choice", "parallel_tool_calls", "prompt_tail", "whitespace", "to"});
  if (!known) return Unexpected(known.error());
  const auto options =
      requested_options(request, {.property_order = grammar::JsonOptions::PropertyOrder::schema});
  if (!options) return Unexpected(options.error());
  const auto rules = rules_of(request, *options, nullptr);
  if (!rules) return Unexpected(rules.error());
  return print_rules(*rules, request);
}

}  // namespace tenon::batch
