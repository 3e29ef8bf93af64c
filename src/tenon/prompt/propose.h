#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/prompt/chat_template.h"

namespace tenon::prompt {

/// A definition (TOML, docs/formats.md) of the format in which `chat_template` writes calls, called
/// `name` in the letters of a format's name. It is found by comparing what is written for one call
/// and for two, for other names, arguments and kinds of values, and it is checked: it reads back
/// each of these, and writes the same text. Fails with `unsupported` and what it is that cannot be
/// seen or said.
///
///     const auto definition = propose(**chat_template, "my-model");
///     if (definition) std::cout << *definition;
[[nodiscard]] Expected<std::string> propose(const ChatTemplate& chat_template,
                                            std::string_view name);

}  // namespace tenon::prompt
