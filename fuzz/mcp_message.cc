// Messages of servers of tools: what is read is as deep as it may be, and the same when it is
// written.
#include <algorithm>
#include <cstddef>

#include "fuzz.h"

#include "tenon/json/value.h"
#include "tenon/mcp/transport.h"

using tenon::fuzz::promise;

namespace {

std::size_t depth_of(const tenon::json::Value& value) {
  std::size_t inner = 0;
  if (const auto* const array = value.if_array()) {
    for (const auto& one : *array) inner = std::max(inner, depth_of(one));
  } else if (const auto* const object = value.if_object()) {
    for (const auto& member : *object) inner = std::max(inner, depth_of(member.value));
  } else {
    return 0;
  }
  return inner + 1;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = tenon::mcp::parse_message(tenon::fuzz::text_of(data, size));
  if (!message) {
    promise(!message.error().message.empty(), "what is wrong is said");
    return 0;
  }
  promise(depth_of(*message) <= 128, "the depth is bounded");
  const auto again = tenon::mcp::parse_message(tenon::json::to_string(*message));
  promise(again.has_value() && *again == *message, "it is the same when it is written");
  return 0;
}
