#pragma once

#include <optional>
#include <span>
#include <string>

#include "tenon/format/format.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::format {

/// Calls and nothing else, for engines that hold answers to JSON Schemas alone: the answer is
/// `before`, JSON of this schema, and `behind`, without which a parser takes the calls for whole,
/// too.
struct CallsAsJson {
  std::string before;
  json::Value schema;
  std::string behind;
};

/// How calls of `tools`, at least one, are written so: one, or as many as there are where the
/// format writes a list of them and `parallel` is set. Nothing where it writes them otherwise than
/// as JSON (with ids say), or where a tool takes a text, or its schema refers to others.
[[nodiscard]] std::optional<CallsAsJson> calls_as_json(const Format& format,
                                                       std::span<const message::Tool* const> tools,
                                                       bool parallel);

}  // namespace tenon::format
