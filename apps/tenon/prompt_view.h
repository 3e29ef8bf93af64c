#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/jinja/template.h"

namespace tenon::app {

/// A prompt for a person's terminal: what the template wrote in blue, data as it is, and the
/// control tokens among the template's text in boxes (reversed). Nothing of it is obeyed by the
/// terminal. `controls` are the texts of the vocabulary's control tokens; where it is empty, what
/// looks like one (`<...>`, `[INST]`) is taken for one.
[[nodiscard]] std::string coloured(std::string_view text, const std::vector<jinja::Span>& spans,
                                   const std::vector<std::string>& controls);

}  // namespace tenon::app
