#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::format {

/// The definition (TOML, docs/formats.md) called `name` (in the letters of a format's) that says
/// what a `response_template` of Hugging Face's tokenizer_config.json says. Fails with `invalid`
/// where it is not one, and with `unsupported`, naming the key, where a definition cannot say it.
///
///     const auto definition = definition_of(*config.find("response_template"), "my-model");
///     if (definition) auto format = compile(*definition, "response_template");
[[nodiscard]] Expected<std::string> definition_of(const json::Value& response_template,
                                                  std::string_view name);

}  // namespace tenon::format
