#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Tools as functions of Python, for code that calls them.
namespace tenon::chat {

/// A JSON Schema as a type of Python's, for people and models to read: "str", "list[int]",
/// `Literal["a", "b"]`; "Any" for what has no such name.
[[nodiscard]] std::string python_type(const json::Value& schema);

/// Whether the request goes on with code of an earlier answer: its calls are there, and the
/// assistant's last message has it without a result.
[[nodiscard]] bool goes_on_with_code(const message::ChatRequest& request);

/// The functions of one request.
class CodeFunctions {
 public:
  /// How many bytes of signatures and docstrings description() has; further functions are named
  /// only, and code finds them by `tool_docs`.
  static constexpr std::size_t kMostListed = 8'000;
  static constexpr std::size_t kMostNamed = 4'000;
  /// The tool that the code itself calls to read about functions. Its arguments are
  /// `{"query": ...}`. No client's tool can have this name.
  static constexpr std::string_view kDocs = "tool docs";

  explicit CodeFunctions(std::vector<message::Tool> tools);

  [[nodiscard]] const std::vector<message::Tool>& tools() const { return tools_; }
  /// Null: there is no such tool.
  [[nodiscard]] const message::Tool* find(std::string_view tool) const;
  /// The function's name: the tool's, or a like one that Python takes.
  [[nodiscard]] const std::string& name(std::size_t index) const { return names_[index]; }
  /// `def NAME(city: str, days: int = ...) -> Any:` and its docstring, for models.
  [[nodiscard]] std::string stub(std::size_t index) const;
  /// The stubs of the functions that fit the query best.
  [[nodiscard]] std::string docs(std::string_view query) const;

  /// What the tool that runs code says of itself. Tools with Tool::is_deferred are named only.
  [[nodiscard]] std::string description() const;
  /// The functions as Python code. It uses `call_tool(tool, arguments)`.
  [[nodiscard]] std::string source() const;

 private:
  struct Parameter {
    std::string name;  // as the schema has it
    std::string type;
    std::string description;
    bool is_required = false;
    bool is_plain = false;  // Python takes the name
  };
  struct Function {
    std::vector<Parameter> parameters;  // those that are required first
    bool takes_more = false;            // arguments that are no parameters of the function
  };
  [[nodiscard]] std::string signature(std::size_t index, bool has_types) const;
  [[nodiscard]] std::string doc(std::size_t index) const;

  std::vector<message::Tool> tools_;
  std::vector<std::string> names_;
  std::vector<Function> functions_;
};

}  // namespace tenon::chat
