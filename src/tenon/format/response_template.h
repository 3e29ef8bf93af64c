#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::format {

/// The definition (TOML, docs/formats.md), with the name `name` in a format's letters, that means
/// the same as a `response_template` of Hugging Face's tokenizer_config.json. Fails with `invalid`
/// if it is not one, and with `unsupported`, naming the key, if a definition cannot express it.
///
///     const auto definition = definition_of(*config.find("response_template"), "my-model");
///     if (definition) auto format = compile(*definition, "response_template");
[[nodiscard]] Expected<std::string> definition_of(const json::Value& response_template,
                                                  std::string_view name);

}  // namespace tenon::format
