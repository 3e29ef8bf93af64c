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

/// A model's chat template, compiled once, with what it can and cannot take.
///
///     auto chat_template = ChatTemplate::compile(source, {.name = "qwen"});
///     if (!chat_template) return Unexpected(chat_template.error());
///     Expected<Prompt> prompt = (*chat_template)->render(request, {.bos_token = "<s>"});
///     Status done = tokenize(tokenizer, *prompt, ids);
///
/// Immutable: any number of threads may render from one at a time.
class ChatTemplate {
 public:
  struct Options {
    std::string name = "chat template";  ///< What errors call it.
    /// What GGUF files hold was written for engines that know more than Python's jinja2.
    bool superset = true;
    std::string bos_token;  ///< For the conversations that find out what the template takes.
    std::string eos_token;
    /// In which the model calls tools; null: detected.
    std::shared_ptr<const format::Format> format;
    /// What else is known of the model; only read where the template takes tools, since a model
    /// that is not told of them in its own way is better told in the fallback's.
    format::Clues clues;
    /// Where none is detected, format::fallback() is used: the prompt says how to call.
    bool generic_fallback = true;
  };

  /// Compiles `source` and finds out what it takes. Fails as jinja::Template::compile does.
  [[nodiscard]] static Expected<std::shared_ptr<const ChatTemplate>> compile(
      std::string_view source, const Options& options);
  [[nodiscard]] static Expected<std::shared_ptr<const ChatTemplate>> compile(
      std::string_view source) {
    return compile(source, Options{});
  }

  /// Renders messages, tools and template_kwargs of `request`, shaped for this template. What the
  /// template refuses all the same is tried with an empty user message in front, and then with
  /// calls and results as text, before it fails in the template's words. A pure function of its
  /// arguments. Fails as jinja::Template::render does.
  [[nodiscard]] Expected<Prompt> render(const message::ChatRequest& request,
                                        const PromptOptions& options) const;

  /// The same for OpenAI-shaped JSON as it came (unknown keys of messages reach the template).
  [[nodiscard]] Expected<Prompt> render_context(json::Object context,
                                                const PromptOptions& options) const;

  // The interface of RuvLLM's ADR-010 (docs/requirements.md, 003). `tools` are described, calls and
  // results written, by the template where it can (has_native_support), else by the format.

  /// The prompt for `messages`, generation prompt included. With ToolMode::none the model is not
  /// told of the tools.
  [[nodiscard]] Expected<Prompt> format_with_tools(
      const std::vector<message::Message>& messages, const std::vector<message::Tool>& tools,
      const message::ToolChoice& tool_choice = {}) const;
  /// The calls in a model's whole output, in order; without `tools` any name is a call's, but for
  /// formats whose calls only a name tells from text. Fails with `unsupported` where there is no
  /// format. format::ToolParser and format::StreamParser take it in pieces.
  [[nodiscard]] Expected<std::vector<message::ToolCall>> parse_tool_calls(
      std::string_view output, const std::vector<message::Tool>& tools = {}) const;

  [[nodiscard]] const Capabilities& capabilities() const { return capabilities_; }
  /// In which the model calls tools. Null: it cannot.
  [[nodiscard]] const std::shared_ptr<const format::Format>& format() const { return format_; }
  /// Whether the template itself tells the model of tools, in a format that is known; else the
  /// prompt is shaped so that it does, where there is a format.
  [[nodiscard]] bool has_native_support() const {
    return format_ != nullptr && !is_generic_ && capabilities_.tools;
  }
  [[nodiscard]] const std::string& source() const { return source_; }

  /// The turn of an assistant that makes `calls`, as the template writes it: see write_turn in
  /// call_probe.h.
  [[nodiscard]] std::optional<format::CallSample> write_turn(std::vector<message::ToolCall> calls,
                                                             std::string_view content = {}) const;
  /// format::detect, from what the template writes and from `clues`.
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
  std::string result_role_;  // for results that the format writes; "": it writes none
};

/// The template for a model that has none: `role: text` in paragraphs, and `assistant:` at the end.
/// It knows no control tokens and no tools.
[[nodiscard]] std::string_view plain_template();

}  // namespace tenon::prompt
