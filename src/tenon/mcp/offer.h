#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::mcp {

/// Something that the client is asked for while it waits for an answer.
struct InputRequest {
  std::string key;     ///< The answer has this name in CallWatch::answers.
  std::string method;  ///< elicitation/create, sampling/createMessage or roots/list.
  json::Object params;
};

/// What a tool, a prompt or a resource gives: a result, or what it needs to know first.
struct Outcome {
  json::Object result{};              ///< The members that the protocol gives such a result.
  std::vector<InputRequest> needs{};  ///< Not empty: no result yet. It runs again with the answers.
  json::Value state{};                ///< Given to that run, as CallWatch::state.
};

/// The result of a tool whose answer is an object: as text, and as structured content.
[[nodiscard]] Outcome structured(json::Object value);
/// The result of a tool as blocks of content.
[[nodiscard]] Outcome content(json::Array blocks);
/// A block of content.
[[nodiscard]] json::Object text_block(std::string_view text);

/// What a tool, a prompt or a resource has beside its arguments.
struct CallWatch {
  CancelToken cancel;  ///< The client does not want the result any more.
  /// Tells the client that there is progress; `progress` grows. Any thread may call. Never empty.
  std::function<void(double progress, std::string_view message)> tell;
  /// A line for the client's log, at a level of the protocol ("debug" to "emergency"). It is sent
  /// if the client asked for that level. Any thread may call. Never empty.
  std::function<void(std::string_view level, json::Value data)> log;
  json::Object able{};  ///< The client's capabilities: what it may be asked for.
  json::Object
      answers{};        ///< By key, what the client answered to Outcome::needs of the run before.
  json::Value state{};  ///< Outcome::state of the run before. No client can have changed it.
};

/// A tool that this process offers to others. It only computes: clients are told that it changes
/// nothing and reaches no other system.
struct OfferedTool {
  std::string name;
  std::string title;
  std::string description;
  json::Value input_schema;
  /// An error of it is told to the model, which may call again.
  std::function<Expected<Outcome>(const json::Object& arguments, const CallWatch& watch)> run;
  /// Calls may take minutes, tell progress, log, or ask clients that begin with `initialize`: they
  /// need a thread and a stream of their own.
  bool takes_long = false;
};

/// A prompt that users may choose.
struct OfferedPrompt {
  struct Argument {
    std::string name;
    std::string description;
    bool is_required = true;
  };
  std::string name;
  std::string title;
  std::string description;
  std::vector<Argument> arguments{};
  /// Gives `messages`. The required arguments are there, and all are texts.
  std::function<Expected<Outcome>(const json::Object& arguments, const CallWatch& watch)> run;
  bool takes_long = false;  ///< As for tools.
};

/// A resource, or a template of resources.
struct OfferedResource {
  std::string uri;  ///< A template has names in braces: "test://template/{id}/data".
  std::string name;
  std::string description;
  std::string mime_type;
  /// Gives `contents`. `values` has the text that stands in the place of each name of a template.
  std::function<Expected<Outcome>(const std::string& uri, const json::Object& values,
                                  const CallWatch& watch)>
      read;

  [[nodiscard]] bool is_template() const { return uri.find('{') != std::string::npos; }
};

/// What an argument of a prompt or of a template may be, given what was typed of it.
using Completion = std::function<std::vector<std::string>(
    const json::Value& ref, std::string_view argument, std::string_view typed)>;

/// All that a server offers.
struct Offer {
  std::vector<OfferedTool> tools{};
  std::vector<OfferedPrompt> prompts{};
  std::vector<OfferedResource> resources{};
  Completion complete{};  ///< Empty: nothing is completed.
  bool logs = false;      ///< Something of this offer calls CallWatch::log.
  /// Clients that begin with `initialize` get sessions over HTTP. Only with sessions can they be
  /// asked, choose a level of the log, and watch resources.
  bool keeps_sessions = false;
};

/// The values of the names of a template in `uri`, each a text without '/'. No value: `uri` is not
/// of this template.
[[nodiscard]] std::optional<json::Object> template_values(std::string_view pattern,
                                                          std::string_view uri);

}  // namespace tenon::mcp
