#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/prompt/chat_template.h"

namespace tenon::prompt {

/// Proposes a definition (TOML, docs/formats.md) of the format in which `chat_template` writes
/// calls. Its name is `name` in the letters that a format's name may have. The definition is found
/// by comparing the text of one call and of two, and of other names, arguments and types of values.
/// It is checked: it must read back each of these texts, and comments in it say where it would
/// write another one. Fails with `unsupported`, naming what cannot be found or expressed.
///
///     const auto definition = propose(**chat_template, "my-model");
///     if (definition) std::cout << *definition;
[[nodiscard]] Expected<std::string> propose(const ChatTemplate& chat_template,
                                            std::string_view name);

}  // namespace tenon::prompt
