#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Whether a text that the model reads shows a call, which the model's answer may then quote.
namespace tenon::chat {

/// True if `text` holds what looks like a call of one of the tools `names`: in any form that
/// format::Fallbacks reads, or as an object with a name and arguments at any depth of JSON, also of
/// JSON that stands in a string. Time is bounded in the text's length; of JSON with more or larger
/// objects than a few megabytes some may be missed.
[[nodiscard]] bool shows_call(std::string_view text, const std::vector<std::string>& names);

}  // namespace tenon::chat
