#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/detect.h"
#include "tenon/format/format.h"
#include "tenon/jinja/template.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"
#include "tenon/prompt/capabilities.h"
#include "tenon/prompt/prompt.h"

namespace tenon::prompt {

/// A model's chat template, compiled once, and what it can express.
///
///     auto chat_template = ChatTemplate::compile(source, {.name = "qwen"});
///     if (!chat_template) return Unexpected(chat_template.error());
///     Expected<Prompt> prompt = (*chat_template)->render(request, {.bos_token = "<s>"});
///     Status done = tokenize(tokenizer, *prompt, ids);
///
/// Immutable: any number of threads may render at the same time.
class ChatTemplate {
 public:
  struct Options {
    std::string name = "chat template";  ///< The name of the template in errors.
    /// Templates in GGUF files were written for engines that know more than Python's jinja2.
    bool superset = true;
    std::string bos_token;  ///< For the conversations that find out what the template can express.
    std::string eos_token;
    /// The format in which the model calls tools; null: it is detected.
    std::shared_ptr<const format::Format> format;
    /// What else is known of the model. Read only if the template writes tools; otherwise the
    /// prompt describes them, and the fallback's way to do so works better.
    format::Clues clues;
    /// If no format is detected, format::fallback() is used, and the prompt says how to call.
    bool generic_fallback = true;
  };

  /// Compiles `source` and finds out what it can express. Fails as jinja::Template::compile does.
  [[nodiscard]] static Expected<std::shared_ptr<const ChatTemplate>> compile(
      std::string_view source, const Options& options);
  [[nodiscard]] static Expected<std::shared_ptr<const ChatTemplate>> compile(
      std::string_view source) {
    return compile(source, Options{});
  }

  /// Renders messages, tools and template_kwargs of `request`, shaped for this template. If the
  /// template refuses them anyway, it is tried again with an empty user message in front, and then
  /// with calls and results as text; if that fails too, the template's first error is returned. A
  /// pure function of its arguments. Fails as jinja::Template::render does.
  [[nodiscard]] Expected<Prompt> render(const message::ChatRequest& request,
                                        const PromptOptions& options) const;

  /// The same for OpenAI-shaped JSON as it came (unknown keys of messages reach the template).
  [[nodiscard]] Expected<Prompt> render_context(json::Object context,
                                                const PromptOptions& options) const;

  // The interface of RuvLLM's ADR-010 (docs/requirements.md, 003). The template describes `tools`
  // and writes calls and results if it can (has_native_support), else the format does.

  /// The prompt for `messages`, with the generation prompt. With ToolMode::none it has no tools.
  [[nodiscard]] Expected<Prompt> format_with_tools(
      const std::vector<message::Message>& messages, const std::vector<message::Tool>& tools,
      const message::ToolChoice& tool_choice = {}) const;
  /// The calls in a whole model output, in order. Without `tools` a call may have any name, except
  /// in formats whose calls are told from text only by a known name. Fails with `unsupported` if
  /// there is no format. format::ToolParser and format::StreamParser read output in pieces.
  [[nodiscard]] Expected<std::vector<message::ToolCall>> parse_tool_calls(
      std::string_view output, const std::vector<message::Tool>& tools = {}) const;

  [[nodiscard]] const Capabilities& capabilities() const { return capabilities_; }
  /// The format in which the model calls tools. Null: it cannot call tools.
  [[nodiscard]] const std::shared_ptr<const format::Format>& format() const { return format_; }
  /// Whether the template itself describes tools to the model, in a known format. If not, and there
  /// is a format, shaping describes them.
  [[nodiscard]] bool has_native_support() const {
    return format_ != nullptr && !is_generic_ && capabilities_.tools;
  }
  [[nodiscard]] const std::string& source() const { return source_; }

  /// The text of an assistant's turn with `calls`: see write_turn in call_probe.h.
  [[nodiscard]] std::optional<format::CallSample> write_turn(std::vector<message::ToolCall> calls,
                                                             std::string_view content = {}) const;
  /// Calls format::detect with what the template writes and with `clues`.
  [[nodiscard]] format::Detection detect(format::Clues clues = {}) const;

 private:
  ChatTemplate(std::string source, std::shared_ptr<const jinja::Template> compiled,
               const Options& options);
  [[nodiscard]] Capabilities capabilities_for(const json::Object& context) const;
  [[nodiscard]] Expected<Prompt> render_shaped(json::Object context, const PromptOptions& options,
                                               const Capabilities& capabilities) const;
  [[nodiscard]] std::optional<Prompt> render_otherwise(const json::Object& context,
                                                       const PromptOptions& options) const;

  const std::string source_;
  const std::shared_ptr<const jinja::Template> compiled_;
  const PromptOptions tokens_;  // bos and eos
  const Capabilities capabilities_;
  std::shared_ptr<const format::Format> format_;
  bool is_generic_ = false;  // format_ is the fallback
  std::string result_role_;  // for results that the format writes; "": it does not write them
};

/// The template for a model that comes without one: `role: text` in paragraphs, and `assistant:` at
/// the end. It knows no control tokens and no tools.
[[nodiscard]] std::string_view plain_template();
/// What begins the next turn in that template. A model without a token for the end of a turn goes
/// on with the user's next question, so an answer ends before one of these.
[[nodiscard]] std::vector<std::string> plain_template_turns();

}  // namespace tenon::prompt
