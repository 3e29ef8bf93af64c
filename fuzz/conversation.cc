// Saved conversations: what is read is written as it was, and read again.
#include "tenon/chat/conversation.h"

#include "fuzz.h"

#include "tenon/json/value.h"

using tenon::chat::Conversation;
using tenon::fuzz::promise;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto saved = tenon::json::parse(tenon::fuzz::text_of(data, size));
  if (!saved) return 0;
  const Conversation::Options options{.max_messages = 100, .max_bytes = 10'000};
  const auto read = Conversation::from_json(*saved, nullptr, options);
  if (!read) {
    promise(read.error().message.starts_with("the conversation: "), "what is wrong has a place");
    return 0;
  }
  const auto written = read->to_json();
  const auto again = Conversation::from_json(written, nullptr, options);
  promise(again.has_value(), "what is written can be read");
  promise(again->to_json() == written, "it is the same then");
  promise(again->pending_calls() == read->pending_calls(), "the same calls wait");
  return 0;
}
