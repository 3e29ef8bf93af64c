#include "tenon/prompt/call_probe.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "tenon/json/value.h"
#include "tenon/prompt/shape.h"

// Makes samples of what a template writes for known calls: a turn is cut out of a rendered
// conversation. The conversation without the turn, with the prompt for an answer behind it, shows
// where the turn begins (turn_begin); a turn with a plain answer shows what ends every turn
// (shared_end). Formats are detected by these samples, and proposed from them.
namespace tenon::prompt {
namespace {

// Words that no template contains, and ids that every template accepts.
constexpr std::string_view kProbeUser = "probeuser";
constexpr std::string_view kProbeAnswer = "probeanswer";
constexpr std::string_view kProbeResult = "proberesult";
constexpr std::string_view kIds[] = {"probeid01", "probeid02", "probeid03", "probeid04"};

// Every format reads the turn, and proposing one looks at it from each of its braces.
constexpr std::size_t kMaxTurn = std::size_t{16} << 10;

json::Object probe_message(std::string_view role, json::Value content) {
  return {{"role", role}, {"content", std::move(content)}};
}

// The JSON Schema type.
std::string_view type_of(const json::Value& value) {
  if (value.if_string() != nullptr) return "string";
  if (value.if_bool() != nullptr) return "boolean";
  if (value.if_array() != nullptr) return "array";
  if (value.if_object() != nullptr) return "object";
  if (value.is_null()) return "null";
  return value.if_number()->to_int64() ? "integer" : "number";
}

// A tool whose parameters fit the arguments of `call`.
json::Value tool_of(const message::ToolCall& call) {
  json::Object properties;
  json::Array required;
  const auto arguments = json::parse(call.arguments);
  if (arguments && arguments->if_object() != nullptr) {
    for (const json::Member& member : *arguments->if_object()) {
      properties.set(member.key,
                     json::Object{{"type", type_of(member.value)}, {"description", "what"}});
      required.emplace_back(member.key);
    }
  }
  json::Object parameters{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  return json::Object{{"type", "function"},
                      {"function", json::Object{{"name", call.name},
                                                {"description", "probes"},
                                                {"parameters", std::move(parameters)}}}};
}

// Where a template takes arguments as text and as an object, only the object shows how it writes
// them.
json::Value probe_call_json(const message::ToolCall& call) {
  auto arguments = json::parse(call.arguments);
  return json::Object{
      {"id", call.id},
      {"type", "function"},
      {"function", json::Object{{"name", call.name},
                                {"arguments", arguments ? *std::move(arguments) : json::Value()}}}};
}

// Where the turn begins in `text`: behind the prompt if the text continues it, else at a border
// before the first difference, because a difference may lie inside a marker (`<think>`,
// `<tool_call>`). The text before the question is not compared, because some templates declare
// tools only beside the last message.
std::size_t turn_begin(std::string_view text, std::string_view prompt) {
  const std::size_t question = text.find(kProbeUser);
  const std::size_t asked = prompt.find(kProbeUser);
  if (question != std::string_view::npos && asked != std::string_view::npos &&
      question + asked > 0) {
    const std::size_t begin = turn_begin(text.substr(question), prompt.substr(asked));
    return question + std::max(begin, kProbeUser.size());
  }
  const std::size_t same =
      static_cast<std::size_t>(std::ranges::mismatch(text, prompt).in1 - text.begin());
  if (same == prompt.size() || same == 0) return same;
  // Back to where a word, a line or a marker ends.
  const std::size_t border = text.find_last_of(" \n>]", same - 1);
  return border == std::string_view::npos ? 0 : border + 1;
}

// How many bytes of `end`, with which a turn without calls ends, `text` ends with too. That is all
// of them, or those from a marker on, because some templates repeat the instructions there.
std::size_t shared_end(std::string_view text, std::string_view end) {
  if (text.ends_with(end)) return end.size();
  const std::size_t same = static_cast<std::size_t>(
      std::ranges::mismatch(text.rbegin(), text.rend(), end.rbegin(), end.rend()).in1 -
      text.rbegin());
  const std::size_t marker = end.find("<|", end.size() - same);
  return marker == std::string_view::npos ? 0 : end.size() - marker;
}

class Writing {
 public:
  Writing(const jinja::Template& chat_template, const Capabilities& can,
          const PromptOptions& tokens, json::Value tools)
      : template_(chat_template), can_(can), tokens_(tokens), tools_(std::move(tools)) {}

  [[nodiscard]] std::optional<std::string> render(json::Array messages,
                                                  bool add_generation_prompt) const {
    json::Object context{{"messages", std::move(messages)},
                         {"tools", tools_},
                         {"add_generation_prompt", add_generation_prompt}};
    if (!tokens_.bos_token.empty()) context.set("bos_token", tokens_.bos_token);
    if (!tokens_.eos_token.empty()) context.set("eos_token", tokens_.eos_token);
    std::ignore =
        shape(context, can_, {});  // ids and arguments in the form that the template needs
    jinja::RenderOptions limits;
    limits.max_steps = 100'000;
    limits.max_output_bytes = std::size_t{1} << 20;
    limits.max_allocated_bytes = std::size_t{4} << 20;
    limits.now_unix_s = 1;
    auto prompt = render_context(template_, std::move(context), limits);
    if (!prompt) return std::nullopt;
    return std::move(prompt->text);
  }

 private:
  const jinja::Template& template_;
  const Capabilities& can_;
  const PromptOptions& tokens_;
  const json::Value tools_;
};

}  // namespace

std::optional<format::CallSample> write_turn(const jinja::Template& chat_template,
                                             const Capabilities& capabilities,
                                             const PromptOptions& tokens,
                                             std::vector<message::ToolCall> calls,
                                             std::string_view content) {
  if (!capabilities.calls || (calls.size() > 1 && !capabilities.parallel_calls)) {
    return std::nullopt;
  }
  json::Array tools;
  json::Array made;
  for (message::ToolCall& call : calls) {
    if (call.id.empty()) call.id = kIds[made.size() % std::size(kIds)];
    json::Value tool = tool_of(call);
    // Calls of one tool with the same arguments need it once.
    if (std::ranges::find(tools, tool) == tools.end()) tools.push_back(std::move(tool));
    made.push_back(probe_call_json(call));
  }
  const Writing writing(chat_template, capabilities, tokens, std::move(tools));
  json::Object turn = probe_message("assistant", std::string(content));
  turn.set("tool_calls", std::move(made));

  json::Array messages{probe_message("user", kProbeUser), turn};
  auto text = writing.render(messages, false);
  if (!text) {  // some templates write calls only if their results follow
    for (const message::ToolCall& call : calls) {
      json::Object result = probe_message("tool", kProbeResult);
      result.set("tool_call_id", call.id);
      result.set("name", call.name);
      messages.emplace_back(std::move(result));
    }
    text = writing.render(std::move(messages), false);
  }
  if (!text) return std::nullopt;
  const auto prompt = writing.render({probe_message("user", kProbeUser)}, true);
  const std::size_t begin = turn_begin(*text, prompt.value_or(""));
  format::CallSample sample{text->substr(0, begin), text->substr(begin), calls};

  // The text that ends every turn does not belong to the call.
  const auto plain = writing.render(
      {probe_message("user", kProbeUser), probe_message("assistant", kProbeAnswer)}, false);
  const std::size_t answer = plain ? plain->rfind(kProbeAnswer) : std::string::npos;
  if (answer != std::string::npos) {
    const std::string_view end = std::string_view(*plain).substr(answer + kProbeAnswer.size());
    sample.text.resize(sample.text.size() - shared_end(sample.text, end));
  }
  if (sample.text.size() > kMaxTurn) return std::nullopt;
  // A template that leaves out a call without failing gives no sample.
  for (const message::ToolCall& call : calls) {
    if (sample.text.find(call.name) == std::string::npos) return std::nullopt;
  }
  return sample;
}

std::vector<format::CallSample> form_samples(const jinja::Template& chat_template,
                                             const Capabilities& capabilities,
                                             const PromptOptions& tokens) {
  const message::ToolCall first{.name = "probetool",
                                .arguments = R"({"probekey": "probevalue", "probelast": 17})"};
  const message::ToolCall second{
      .name = "probeother",
      .arguments = R"({"probekey": "probesecond", "probelast": "probethird"})"};
  // Shows how values inside values and letters beyond ASCII are written.
  const message::ToolCall nested{
      .name = "probetool",
      .arguments =
          R"({"probekey": "probevälue", "probelast": {"probeflag": true, "probelist": ["probe ü"]}})"};
  std::vector<format::CallSample> samples;
  for (const auto& calls : {std::vector{first, second}, std::vector{first}, std::vector{nested}}) {
    if (auto sample = write_turn(chat_template, capabilities, tokens, calls)) {
      samples.push_back(*std::move(sample));
    }
  }
  return samples;
}

std::vector<format::CallSample> call_samples(const jinja::Template& chat_template,
                                             const Capabilities& capabilities,
                                             const PromptOptions& tokens) {
  const message::ToolCall first{.name = "probetool", .arguments = R"({"probekey": "probevalue"})"};
  const message::ToolCall second{
      .name = "probeother",
      .arguments = R"({"probekey": "probesecond", "probelast": "probe third"})"};
  std::vector<format::CallSample> samples;
  for (const auto& calls : {std::vector{first}, std::vector{first, second}}) {
    if (auto sample = write_turn(chat_template, capabilities, tokens, calls)) {
      samples.push_back(*std::move(sample));
    }
  }
  return samples;
}

}  // namespace tenon::prompt
