#include "tenon/message/message.h"

#include <array>
#include <utility>

namespace tenon::message {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 5> kRoleNames = {"system", "developer", "user", "assistant",
                                                        "tool"};

}  // namespace

std::string_view role_name(Role role) {
  return kRoleNames.at(static_cast<std::size_t>(role));
}

std::optional<Role> role_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kRoleNames.size(); ++i) {
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

std::string Message::text() const {
  if (content) return *content;
  std::string joined;
  for (const ContentPart& part : parts) {
    if (part.type == "text") joined += part.text;
  }
  return joined;
}

Tool custom_tool(std::string name, std::string description, std::optional<TextGrammar> grammar) {
  // A tool that takes text becomes a function with one string, since that is what models know. Its
  // grammar is told in words.
  json::Object input{{"type", "string"}};
  if (grammar) {
    const bool is_lark = grammar->syntax == TextGrammar::Syntax::lark;
    input["description"] = std::string("A text of this ") +
                           (is_lark ? "Lark grammar" : "regular expression") + ":\n" +
                           grammar->definition;
  }
  Tool tool{.name = std::move(name), .description = std::move(description)};
  tool.parameters = json::Object{
      {"type", "object"},
      {"properties", json::Object{{std::string(kInput), std::move(input)}}},
      {"required", json::Array{std::string(kInput)}},
      {"additionalProperties", false},
  };
  json::Object function{{"name", tool.name}};
  if (!tool.description.empty()) function["description"] = tool.description;
  function["parameters"] = tool.parameters;
  tool.raw = json::Object{{"type", "function"}, {"function", std::move(function)}};
  tool.is_custom = true;
  tool.grammar = std::move(grammar);
  return tool;
}

std::string arguments_of(std::string_view input) {
  return "{" + json::quoted(kInput) + ": " + json::quoted(input) + "}";
}

}  // namespace tenon::message
