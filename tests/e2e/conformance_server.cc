// conformance_server [PORT]: the tools, prompts and resources that the protocol's conformance
// runner asks a server for, offered by the classes and the transports of `tenon mcp`. Without a
// port it speaks over pipes. test_mcp_conformance.py runs it.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mcp_serving.h"

#include "tenon/json/value.h"
#include "tenon/mcp/tool_server.h"

namespace {

using namespace tenon;
using json::Array;
using json::Object;
using json::Value;
using mcp::CallWatch;
using mcp::Outcome;

constexpr std::string_view kWatched = "test://watched-resource";

// One red pixel, and a sound of no samples.
constexpr std::string_view kPicture =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg==";
constexpr std::string_view kSound = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

Value parsed(std::string_view text) {
  return json::parse(text).value_or(Value());  // a constant of this file
}

Value no_arguments() {
  return parsed(R"({"type": "object", "properties": {}})");
}

Object block(std::string_view type, std::string_view data, std::string_view mime_type) {
  return {{"type", type}, {"data", data}, {"mimeType", mime_type}};
}

Object embedded(std::string_view uri, std::string_view mime_type, std::string_view text) {
  return {{"type", "resource"},
          {"resource", Object{{"uri", uri}, {"mimeType", mime_type}, {"text", text}}}};
}

Outcome says(std::string_view text) {
  return mcp::content({mcp::text_block(text)});
}

std::string text_of(const Object& object, std::string_view key) {
  const Value* const member = object.find(key);
  const std::string* const text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

using Run = std::function<Expected<Outcome>(const Object& arguments, const CallWatch& watch)>;

mcp::OfferedTool tool(std::string name, Run run, Value schema = no_arguments(),
                      bool takes_long = false) {
  return {.name = name,
          .title = name,
          .description = "For the conformance runner: " + name,
          .input_schema = std::move(schema),
          .run = std::move(run),
          .takes_long = takes_long};
}

mcp::OfferedTool long_tool(std::string name, Run run, Value schema = no_arguments()) {
  return tool(std::move(name), std::move(run), std::move(schema), /*takes_long=*/true);
}

void wait_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// ---- what is asked of the client

mcp::InputRequest form(std::string key, std::string_view message, std::string_view properties,
                       std::vector<std::string> required) {
  Array names;
  for (std::string& name : required) names.emplace_back(std::move(name));
  Object schema{{"type", "object"}, {"properties", parsed(properties)}};
  if (!names.empty()) schema.set("required", std::move(names));
  return {.key = std::move(key),
          .method = "elicitation/create",
          .params = {{"message", message}, {"requestedSchema", std::move(schema)}}};
}

mcp::InputRequest sampling(std::string key, std::string_view prompt) {
  const Object message{{"role", "user"}, {"content", mcp::text_block(prompt)}};
  return {.key = std::move(key),
          .method = "sampling/createMessage",
          .params = {{"messages", Array{message}}, {"maxTokens", 100}}};
}

mcp::InputRequest roots(std::string key) {
  return {.key = std::move(key), .method = "roots/list", .params = {}};
}

mcp::InputRequest name_form(std::string key) {
  return form(std::move(key), "What is your name?", R"({"name": {"type": "string"}})", {"name"});
}

mcp::InputRequest confirmation() {
  return form("confirm", "Please confirm", R"({"ok": {"type": "boolean"}})", {"ok"});
}

bool has_all(const std::vector<mcp::InputRequest>& needs, const Object& answers) {
  for (const mcp::InputRequest& need : needs) {
    if (!answers.contains(need.key)) return false;
  }
  return true;
}

// Asks `needs`, then says `done` and what was answered.
Run asking(std::vector<mcp::InputRequest> needs, std::string done, Value state = {}) {
  return [needs = std::move(needs), done = std::move(done), state = std::move(state)](
             const Object&, const CallWatch& watch) -> Expected<Outcome> {
    if (!has_all(needs, watch.answers) || watch.state != state) {
      return Outcome{.needs = needs, .state = state};
    }
    return says(done + json::to_string(Value(watch.answers)));
  };
}

// ---- tools

void add_tools_of_content(std::vector<mcp::OfferedTool>& tools) {
  tools.push_back(tool("test_simple_text", [](const Object&, const CallWatch&) {
    return says("This is a simple text response for testing.");
  }));
  tools.push_back(tool("test_image_content", [](const Object&, const CallWatch&) {
    return mcp::content({block("image", kPicture, "image/png")});
  }));
  tools.push_back(tool("test_audio_content", [](const Object&, const CallWatch&) {
    return mcp::content({block("audio", kSound, "audio/wav")});
  }));
  tools.push_back(tool("test_embedded_resource", [](const Object&, const CallWatch&) {
    return mcp::content({embedded("test://embedded-resource", "text/plain",
                                  "This is an embedded resource content.")});
  }));
  tools.push_back(tool("test_multiple_content_types", [](const Object&, const CallWatch&) {
    return mcp::content({mcp::text_block("Multiple content types test:"),
                         block("image", kPicture, "image/png"),
                         embedded("test://mixed-content-resource", "application/json",
                                  R"({"test":"data","value":123})")});
  }));
  tools.push_back(
      tool("test_error_handling", [](const Object&, const CallWatch&) -> Expected<Outcome> {
        return Unexpected(
            Error{Errc::invalid, "This tool intentionally returns an error for testing"});
      }));
  tools.push_back(tool(
      "json_schema_2020_12_tool", [](const Object&, const CallWatch&) { return says("fits"); },
      parsed(R"({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object",
          "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
          "contactMethod": {"type": "string", "enum": ["phone", "email"]},
          "phone": {"type": "string"}, "email": {"type": "string"}},
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]}, "else": {"required": ["email"]},
        "additionalProperties": false})")));
}

void add_tools_that_tell(std::vector<mcp::OfferedTool>& tools) {
  const Run logging = [](const Object&, const CallWatch& watch) {
    watch.log("info", "Tool execution started");
    wait_a_little();
    watch.log("info", "Tool processing data");
    wait_a_little();
    watch.log("info", "Tool execution completed");
    return says("Three lines were logged.");
  };
  tools.push_back(long_tool("test_tool_with_logging", logging));
  tools.push_back(long_tool("test_logging_tool", logging));
  tools.push_back(long_tool("test_tool_with_progress", [](const Object&, const CallWatch& watch) {
    for (const int progress : {0, 50, 100}) {
      watch.tell(progress, std::to_string(progress) + " of 100");
      wait_a_little();
    }
    return says("Progress was told.");
  }));
}

void add_tools_that_ask(std::vector<mcp::OfferedTool>& tools) {
  tools.push_back(long_tool(
      "test_sampling",
      [](const Object& arguments, const CallWatch& watch) {
        return asking({sampling("answer", text_of(arguments, "prompt"))}, "LLM response: ")(
            arguments, watch);
      },
      parsed(R"({"type": "object", "properties": {"prompt": {"type": "string"}},
                 "required": ["prompt"]})")));
  tools.push_back(long_tool(
      "test_elicitation",
      [](const Object& arguments, const CallWatch& watch) {
        return asking({form("answer", text_of(arguments, "message"),
                            R"({"username": {"type": "string", "description": "User's response"},
                                "email": {"type": "string", "description": "User's email address"}})",
                            {"username", "email"})},
                      "User response: ")(arguments, watch);
      },
      parsed(R"({"type": "object", "properties": {"message": {"type": "string"}},
                 "required": ["message"]})")));
  tools.push_back(long_tool("test_elicitation_sep1034_defaults",
                            asking({form("answer", "Please check these values", R"({
          "name": {"type": "string", "default": "John Doe"},
          "age": {"type": "integer", "default": 30},
          "score": {"type": "number", "default": 95.5},
          "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
          "verified": {"type": "boolean", "default": true}})",
                                         {})},
                                   "Elicitation completed: ")));
  tools.push_back(
      long_tool("test_elicitation_sep1330_enums", asking({form("answer", "Please choose", R"({
          "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
          "titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"},
            {"const": "value2", "title": "Second Option"}]},
          "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
          "untitledMulti": {"type": "array", "items": {"type": "string",
            "enum": ["option1", "option2", "option3"]}},
          "titledMulti": {"type": "array", "items": {"anyOf": [
            {"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}]}}})",
                                                               {})},
                                                         "Elicitation completed: ")));
}

// Those of 2026-07-28, where a call that needs an answer ends and comes again.
void add_tools_that_come_again(std::vector<mcp::OfferedTool>& tools) {
  tools.push_back(
      tool("test_input_required_result_elicitation", asking({name_form("user_name")}, "Hello: ")));
  tools.push_back(
      tool("test_input_required_result_sampling",
           asking({sampling("capital_question", "What is the capital of France?")}, "Said: ")));
  tools.push_back(
      tool("test_input_required_result_list_roots", asking({roots("client_roots")}, "Roots: ")));
  tools.push_back(tool("test_input_required_result_request_state",
                       asking({confirmation()}, "state-ok ", "first")));
  tools.push_back(tool("test_input_required_result_tampered_state",
                       asking({confirmation()}, "state-ok ", "first")));
  tools.push_back(tool("test_input_required_result_multiple_inputs",
                       asking({name_form("user_name"), sampling("greeting", "Generate a greeting"),
                               roots("client_roots")},
                              "All: ", "first")));
  tools.push_back(tool("test_missing_capability", asking({sampling("answer", "hello")}, "Said: ")));
  tools.push_back(tool("test_streaming_elicitation", asking({name_form("user_name")}, "Hello: ")));
  tools.push_back(tool("test_input_required_result_multi_round",
                       [](const Object&, const CallWatch& watch) -> Expected<Outcome> {
                         if (watch.state == Value("named") && watch.answers.contains("step2")) {
                           return says("Both steps are done.");
                         }
                         if (watch.state == Value("begun") && watch.answers.contains("step1")) {
                           return Outcome{
                               .needs = {form("step2", "Step 2: What is your favorite color?",
                                              R"({"color": {"type": "string"}})", {"color"})},
                               .state = "named"};
                         }
                         return Outcome{.needs = {name_form("step1")}, .state = "begun"};
                       }));
  tools.push_back(tool("test_input_required_result_capabilities",
                       [](const Object&, const CallWatch& watch) -> Expected<Outcome> {
                         if (!watch.answers.empty()) return says("Answered.");
                         Outcome outcome;
                         if (watch.able.contains("elicitation")) {
                           outcome.needs.push_back(name_form("user_name"));
                         }
                         if (watch.able.contains("sampling")) {
                           outcome.needs.push_back(sampling("greeting", "Generate a greeting"));
                         }
                         if (outcome.needs.empty()) return says("No user can be asked.");
                         return outcome;
                       }));
}

// ---- prompts and resources

Object message(Value content) {
  return {{"role", "user"}, {"content", std::move(content)}};
}

Outcome messages(Array list) {
  return {.result = {{"messages", std::move(list)}}};
}

std::vector<mcp::OfferedPrompt> prompts() {
  const auto prompt = [](std::string name, std::vector<mcp::OfferedPrompt::Argument> arguments,
                         Run run) {
    return mcp::OfferedPrompt{.name = name,
                              .title = name,
                              .description = "For the conformance runner: " + name,
                              .arguments = std::move(arguments),
                              .run = std::move(run)};
  };
  return {
      prompt("test_simple_prompt", {},
             [](const Object&, const CallWatch&) {
               return messages({message(mcp::text_block("This is a simple prompt for testing."))});
             }),
      prompt("test_prompt_with_arguments",
             {{.name = "arg1", .description = "First"}, {.name = "arg2", .description = "Second"}},
             [](const Object& arguments, const CallWatch&) {
               return messages({message(mcp::text_block("Prompt with arguments: arg1='" +
                                                        text_of(arguments, "arg1") + "', arg2='" +
                                                        text_of(arguments, "arg2") + "'"))});
             }),
      prompt("test_prompt_with_embedded_resource",
             {{.name = "resourceUri", .description = "What to embed"}},
             [](const Object& arguments, const CallWatch&) {
               return messages(
                   {message(embedded(text_of(arguments, "resourceUri"), "text/plain",
                                     "Embedded resource content for testing.")),
                    message(mcp::text_block("Please process the embedded resource above."))});
             }),
      prompt("test_prompt_with_image", {},
             [](const Object&, const CallWatch&) {
               return messages({message(block("image", kPicture, "image/png")),
                                message(mcp::text_block("Please analyze the image above."))});
             }),
      prompt("test_input_required_result_prompt", {},
             [](const Object&, const CallWatch& watch) -> Expected<Outcome> {
               const Value* const given = watch.answers.find("user_context");
               if (given == nullptr) {
                 return Outcome{
                     .needs = {form("user_context", "What context should the prompt use?",
                                    R"({"context": {"type": "string"}})", {"context"})}};
               }
               return messages({message(mcp::text_block("Context: " + json::to_string(*given)))});
             }),
  };
}

std::vector<mcp::OfferedResource> resources() {
  const auto resource = [](std::string uri, std::string mime_type, auto member, auto text) {
    return mcp::OfferedResource{.uri = uri,
                                .name = uri,
                                .description = "For the conformance runner",
                                .mime_type = mime_type,
                                .read = [=](const std::string& read, const Object& values,
                                            const CallWatch&) -> Expected<Outcome> {
                                  const Object content{{"uri", read},
                                                       {"mimeType", mime_type},
                                                       {std::string(member), text(values)}};
                                  return Outcome{.result = {{"contents", Array{content}}}};
                                }};
  };
  const auto always = [](std::string_view text) {
    return [text](const Object&) { return std::string(text); };
  };
  return {
      resource("test://static-text", "text/plain", "text",
               always("This is the content of the static text resource.")),
      resource("test://static-binary", "image/png", "blob", always(kPicture)),
      resource(std::string(kWatched), "text/plain", "text", always("It may change.")),
      resource("test://template/{id}/data", "application/json", "text", [](const Object& values) {
        const std::string id = text_of(values, "id");
        return json::to_string(
            Object{{"id", id}, {"templateTest", true}, {"data", "Data for ID: " + id}});
      })};
}

std::vector<std::string> complete(const Value& ref, std::string_view argument,
                                  std::string_view typed) {
  std::vector<std::string> fitting;
  if (ref.find("name") == nullptr || argument != "arg1") return fitting;
  for (const std::string_view one : {"paris", "park", "party", "test"}) {
    if (one.starts_with(typed)) fitting.emplace_back(one);
  }
  return fitting;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) app::block_ending_signals();
  mcp::Offer offer{.prompts = prompts(),
                   .resources = resources(),
                   .complete = complete,
                   .logs = true,
                   .keeps_sessions = true};
  const mcp::ToolServer* told = nullptr;
  add_tools_of_content(offer.tools);
  add_tools_that_tell(offer.tools);
  add_tools_that_ask(offer.tools);
  add_tools_that_come_again(offer.tools);
  offer.tools.push_back(
      tool("test_trigger_resource_update", [&told](const Object&, const CallWatch&) {
        told->resource_updated(std::string(kWatched));
        return says("Clients that watch it were told.");
      }));
  const mcp::ToolServer server({.name = "conformance", .title = "Conformance", .version = "1"},
                               std::move(offer));
  told = &server;
  if (argc <= 1) return app::serve_mcp_pipes(server);
  return app::serve_mcp_http(server,
                             static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10)));
}
