#pragma once

#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/detect.h"
#include "tenon/prompt/chat_template.h"

namespace tenon::config {

/// A chat template and the control tokens that it may name.
struct ModelTemplate {
  std::string source;
  std::string where;      ///< Where it was found, for a person.
  std::string bos_token;  ///< "" if it is not known.
  std::string eos_token;
  std::string model_name;  ///< The name in its file, or its makers' name; "" if not known.
  /// The format that the model's response_template describes; null without one.
  std::shared_ptr<const format::Format> imported;
  bool has_tool_template = false;  ///< `source` is the model's template for tools; it has another.
  /// Texts of the vocabulary's control tokens; empty if they are not known.
  std::vector<std::string> controls;
};

/// The template of `path`. That may be a GGUF file, whose weights are not read; a folder of a model
/// with chat_template.jinja, chat_template.json or tokenizer_config.json; or such a
/// tokenizer_config.json. Any other file is taken as a template itself.
[[nodiscard]] Expected<ModelTemplate> template_of(const std::string& path);

/// The model's template, compiled, with its format: `declared`, or if that is null the format that
/// is detected. If no tokens are known, stand-ins are used while the template is probed.
[[nodiscard]] Expected<std::shared_ptr<const prompt::ChatTemplate>> compiled(
    const ModelTemplate& model, std::shared_ptr<const format::Format> declared = nullptr);

/// Detects the format from `compiled`, the template of `model`, and from all else that is known.
[[nodiscard]] format::Detection detect_format(const ModelTemplate& model,
                                              const prompt::ChatTemplate& compiled);

/// Detects the format of a model without a template, from all else that is known.
[[nodiscard]] format::Detection detect_format(const ModelTemplate& model);

/// Detects the format from a template alone.
[[nodiscard]] Expected<std::shared_ptr<const format::Format>> format_of_template(
    std::string_view source);

}  // namespace tenon::config
