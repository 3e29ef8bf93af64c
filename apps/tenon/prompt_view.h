#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/jinja/template.h"

namespace tenon::app {

/// A prompt for a person's terminal: the template's text in blue, data as it is, and control tokens
/// in the template's text reversed. Escape sequences in it have no effect. `controls` are the texts
/// of the vocabulary's control tokens; if it is empty, texts that look like one (`<...>`, `[INST]`)
/// are shown as such.
[[nodiscard]] std::string coloured(std::string_view text, const std::vector<jinja::Span>& spans,
                                   const std::vector<std::string>& controls);

}  // namespace tenon::app
