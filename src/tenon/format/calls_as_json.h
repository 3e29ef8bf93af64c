#pragma once

#include <optional>
#include <span>
#include <string>

#include "tenon/format/format.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::format {

/// Answers with calls only, for engines that constrain answers with JSON Schemas only: the answer
/// is `before`, JSON of this schema, and `behind`, without which a parser also accepts the calls as
/// complete.
struct CallsAsJson {
  std::string before;
  json::Value schema;
  std::string behind;
};

/// How calls of `tools` (at least one) are written in this way: one call, or any number if the
/// format writes a list of calls and `parallel` is set. Nothing if the format writes them in
/// another way than JSON (with ids, for example), if a tool takes a text, or if its schema refers
/// to others.
[[nodiscard]] std::optional<CallsAsJson> calls_as_json(const Format& format,
                                                       std::span<const message::Tool* const> tools,
                                                       bool parallel);

}  // namespace tenon::format
