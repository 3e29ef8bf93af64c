// `tenon mcp`: what this program can do, as a server of the Model Context Protocol.
//
// The protocol itself is mcp::ToolServer, which is given tools and answers one message with
// another; the two transports are in mcp_serving.cc. Here are the tools. Most of them answer a line
// of a command's `--batch`; ask_about_files is FileQuestions.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "file_questions.h"
#include "mcp_servers.h"
#include "mcp_serving.h"

#include "tenon/batch/parse.h"
#include "tenon/batch/render.h"
#include "tenon/batch/validate.h"
#include "tenon/config/model_template.h"
#include "tenon/format/json_filter.h"
#include "tenon/json/value.h"
#include "tenon/mcp/tool_server.h"
#include "tenon/repair/argument_repairer.h"
#include "tenon/schema/schema.h"

namespace tenon::app {
namespace {

using json::Object;
using json::Value;

struct McpOptions {
  std::optional<int> port;
  FileQuestionOptions questions;
};

// ---- tools

Value schema_of(std::string_view json) {
  return json::parse(json).value_or(Value());  // a constant of this file
}

// A call's arguments as a line of `--batch`: the members that the tool has, and no others.
Expected<Object> line_of(const Object& arguments, const Value& schema) {
  const Value* properties = schema.find("properties");
  for (const json::Member& member : arguments) {
    if (properties->find(member.key) == nullptr) {
      return Unexpected(
          Error{Errc::invalid, "this tool has no argument " + member.key.substr(0, 64)});
    }
  }
  const Value* required = schema.find("required");
  for (const Value& name : *required->if_array()) {
    if (!arguments.contains(*name.if_string())) {
      return Unexpected(Error{Errc::invalid, "the argument " + *name.if_string() + " is missing"});
    }
  }
  return arguments;
}

template <class Answer>
mcp::OfferedTool tool(std::string name, std::string title, std::string description,
                      std::string_view schema, Answer answer) {
  Value parameters = schema_of(schema);
  return {.name = std::move(name),
          .title = std::move(title),
          .description = std::move(description),
          .input_schema = parameters,
          .run = [parameters, answer = std::move(answer)](const Object& arguments,
                                                          const mcp::CallWatch&) {
            return line_of(arguments, parameters).and_then(answer).map(mcp::structured);
          }};
}

std::string text_member(const Object& object, std::string_view key) {
  const Value* member = object.find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

// Arguments as a model wrote them, first made JSON and then fitted to the schema.
Expected<Object> repair(const Object& line) {
  const Value* source = line.find("schema");
  const auto schema = schema::Schema::compile(*source);
  if (!schema) return Unexpected(schema.error());
  const Value* given = line.find("arguments");
  const std::string* text = given->if_string();
  const std::string written = text == nullptr ? json::to_string(*given) : *text;
  std::string copy;
  format::JsonFilter filter(format::JsonFilter::Want::object);
  // The filter stops behind the object. What it skipped inside of it and what comes after it are
  // told as `left_out`.
  const std::size_t used = filter.feed(written, copy);
  const std::string left_out = filter.left_out() + written.substr(used);
  // What close() adds is the end of a text that broke off.
  const std::size_t read = copy.size();
  filter.close(copy);
  const bool is_closed_here = copy.size() > read;
  if (copy.empty()) {
    return Unexpected(Error{Errc::invalid, "arguments do not begin as an object of JSON"});
  }
  repair::ArgumentRepairer repairer(
      {.name = text_member(line, "tool"), .schema = *schema, .source = source});
  std::string repaired;
  repairer.feed(copy, repaired);
  repairer.finish(/*incomplete=*/false, repaired);
  const auto value = json::parse(repaired);
  if (!value) return Unexpected(value.error());
  const auto violations = (*schema)->validate(*value);
  if (!violations) return Unexpected(violations.error());
  json::Array repairs;
  if (filter.is_repaired()) {
    repairs.emplace_back(Object{{"kind", "mended_arguments"},
                                {"path", ""},
                                {"message", "the text was not JSON and could be made so"}});
  }
  if (is_closed_here) {
    repairs.emplace_back(Object{
        {"kind", "completed"}, {"path", ""}, {"message", "the text broke off; its end was added"}});
  }
  for (const repair::Repair& each : repairer.repairs()) {
    repairs.emplace_back(
        Object{{"kind", each.kind}, {"path", each.path}, {"message", each.message}});
  }
  return Object{{"arguments", *value},
                {"valid", violations->empty()},
                {"errors", batch::violations_json(*violations)},
                {"repairs", std::move(repairs)},
                {"left_out", left_out}};
}

mcp::OfferedTool question_tool(const std::shared_ptr<FileQuestions>& questions) {
  const Value parameters = schema_of(R"({"type": "object", "properties": {
      "question": {"type": "string", "description": "What to find out"},
      "files": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 16,
                "description": "Names of text files, relative to a folder that may be read, or absolute"}},
      "required": ["question", "files"], "additionalProperties": false})");
  return {.name = "ask_about_files",
          .title = "Ask about files",
          .description =
              "Answers a question about text files of any length. A recursive model reads "
              "them with code, so that they need not be in your context. The question may speak "
              "of a file by its name. It may take minutes.",
          .input_schema = parameters,
          .run =
              [parameters, questions](const Object& arguments, const mcp::CallWatch& watch) {
                return line_of(arguments, parameters)
                    .and_then([&](const Object& line) { return questions->answer(line, watch); })
                    .map(mcp::structured);
              },
          .takes_long = true};
}

// The schemas are what an agent sees. line_of() checks the names against them; the lines' own
// readers check the values.
std::vector<mcp::OfferedTool> offered_tools() {
  std::vector<mcp::OfferedTool> tools;
  tools.push_back(tool("validate_json", "Validate JSON",
                       "Says whether a value fits a JSON Schema, and each place where it does not.",
                       R"({"type": "object", "properties": {
          "schema": {"type": ["object", "boolean"], "description": "The JSON Schema"},
          "instance": {"description": "The value"},
          "instance_text": {"type": "string", "description": "The value as text, instead of instance"},
          "draft": {"type": "string", "description": "draft4 to draft2020-12, if $schema is absent"},
          "assert_format": {"type": "boolean", "description": "Whether format constrains"}},
          "required": ["schema"], "additionalProperties": false})",
                       [](const Object& line) { return batch::validate_line(line); }));
  tools.push_back(tool(
      "repair_arguments", "Repair arguments",
      "Makes the arguments of a tool call valid: slips of JSON, wrong types and misspelt fields "
      "are repaired where there is one meaning, and each change is told.",
      R"({"type": "object", "properties": {
          "arguments": {"type": ["string", "object"], "description": "As the model wrote them"},
          "schema": {"type": "object", "description": "The tool's parameters, a JSON Schema"},
          "tool": {"type": "string", "description": "The tool's name, for rules about it"}},
          "required": ["arguments", "schema"], "additionalProperties": false})",
      repair));
  tools.push_back(
      tool("parse_tool_calls", "Parse tool calls",
           "Reads text, reasoning and tool calls out of a model's output.",
           R"({"type": "object", "properties": {
          "text": {"type": "string", "description": "The model's output"},
          "format": {"type": "string", "description": "Name of the tool-call format, as tenon formats lists it"},
          "template": {"type": "string", "description": "The model's chat template, instead of format"},
          "tools": {"type": "array", "description": "The tools of the request, as in Chat Completions"}},
          "required": ["text"], "additionalProperties": false})",
           [](const Object& line) { return batch::parse_line(line, /*events=*/false); }));
  tools.push_back(
      tool("render_prompt", "Render a prompt",
           "Renders a conversation by a chat template, and says which bytes of the prompt are the "
           "template's and which are data.",
           R"({"type": "object", "properties": {
          "template": {"type": "string", "description": "The chat template, in Jinja"},
          "messages": {"type": "array", "description": "As in Chat Completions"},
          "tools": {"type": "array", "description": "As in Chat Completions"},
          "add_generation_prompt": {"type": "boolean"},
          "bos_token": {"type": "string"}, "eos_token": {"type": "string"},
          "kwargs": {"type": "object", "description": "Further variables of the template"}},
          "required": ["template", "messages"], "additionalProperties": false})",
           [](const Object& line) { return batch::render_line(line, {.spans = true}); }));
  return tools;
}

// ---- the server

// Options of ask_about_files, which is offered only with --folder.
OrComplaint<void> refuse_useless_options(App app, const McpOptions& options) {
  if (!options.questions.folders.empty()) return {};
  return refuse_options(app, {"--config", "--model", "--root", "--ask-timeout"},
                        "without --folder");
}

// The signals are blocked before a thread exists, so that all threads inherit that.
int run_mcp(App app, const McpOptions& options) {
  if (auto told = refuse_useless_options(app, options); !told) return complain(told.error());
  if (options.port) block_ending_signals();
  std::vector<mcp::OfferedTool> tools = offered_tools();
  if (!options.questions.folders.empty()) {
    const auto questions = FileQuestions::open(options.questions);
    if (!questions) return complain(questions.error());
    tools.push_back(question_tool(*questions));
  }
  const mcp::ToolServer server(
      {.name = "tenon",
       .title = "Tenon",
       .version = std::string(kVersion),
       .instructions = "Tools about tool calls: check and repair their JSON, read them out of a "
                       "model's output, and see the prompt that a model reads."},
      {.tools = std::move(tools)});
  return options.port ? serve_mcp_http(server, static_cast<std::uint16_t>(*options.port))
                      : serve_mcp_pipes(server);
}

}  // namespace

Command add_mcp(App tenon) {
  const App app = tenon.add_subcommand(
      "mcp", "Offers validation, repair, parsing and rendering to agents (Model Context Protocol)");
  const auto run_servers = add_mcp_servers(app);
  auto options = std::make_shared<McpOptions>();
  app.add_option(
         "--http", options->port,
         "Serves at http://127.0.0.1:PORT/mcp, instead of over stdin and stdout; 0: any port")
      .between(0, 65'535);
  app.add_option("--folder", options->questions.folders,
                 "Folder whose files agents may ask a recursive model about; may be repeated")
      .allow_extra_args(false);
  add_recursive_choice(app, options->questions.choice);
  app.add_option("--ask-timeout", options->questions.timeout_s,
                 "Seconds until the model must answer a question about files")
      .between(1.0, 86'400.0);
  app.footer(
      "Example: an entry of an agent's mcpServers\n"
      "  {\"mcpServers\": {\"tenon\": {\"command\": \"tenon\", \"args\": [\"mcp\"]}}}");
  return {app, [app, options, run_servers] {
            const int status = run_servers();
            return status >= 0 ? status : run_mcp(app, *options);
          }};
}

}  // namespace tenon::app
