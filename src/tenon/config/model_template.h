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
  std::string where;      ///< For a person: where it was found.
  std::string bos_token;  ///< "": not known.
  std::string eos_token;
  std::string model_name;  ///< As its file or its makers call it; "": not known.
  /// What the model's response_template says; null: there is none.
  std::shared_ptr<const format::Format> imported;
  bool has_tool_template = false;  ///< `source` is the model's own for tools, beside another one.
  /// Texts of the vocabulary's control tokens; empty: not known.
  std::vector<std::string> controls;
};

/// The template of `path`: a GGUF file, whose weights are not touched; a folder of a model with
/// chat_template.jinja, chat_template.json or tokenizer_config.json; such a tokenizer_config.json;
/// any other file is a template itself.
[[nodiscard]] Expected<ModelTemplate> template_of(const std::string& path);

/// The model's template, compiled, with its format: `declared`, or (null) what is told by all that
/// is known of the model. Where no tokens are known, others stand for them as it is probed.
[[nodiscard]] Expected<std::shared_ptr<const prompt::ChatTemplate>> compiled(
    const ModelTemplate& model, std::shared_ptr<const format::Format> declared = nullptr);

/// The format that `compiled`, the template of `model`, and all else that is known of it tell.
[[nodiscard]] format::Detection detect_format(const ModelTemplate& model,
                                              const prompt::ChatTemplate& compiled);

/// The format of a model without a template, from what else is known of it.
[[nodiscard]] format::Detection detect_format(const ModelTemplate& model);

/// The format of a template of which nothing else is known.
[[nodiscard]] Expected<std::shared_ptr<const format::Format>> format_of_template(
    std::string_view source);

}  // namespace tenon::config
