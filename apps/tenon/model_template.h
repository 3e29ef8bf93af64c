#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace tenon::app {

/// A chat template and the control tokens that it may name.
struct ModelTemplate {
  std::string source;
  std::string where;      ///< For a person: where it was found.
  std::string bos_token;  ///< "": not known.
  std::string eos_token;
  /// Texts of the vocabulary's control tokens; empty: not known.
  std::vector<std::string> controls;
};

/// The template of `path`: a GGUF file, whose weights are not touched; a folder of a model with
/// chat_template.jinja, chat_template.json or tokenizer_config.json; such a tokenizer_config.json;
/// any other file is a template itself.
[[nodiscard]] OrComplaint<ModelTemplate> template_of(const std::string& path);

}  // namespace tenon::app
