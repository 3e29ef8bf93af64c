#include "tenon/api/compaction.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tenon/base/utf8.h"

namespace tenon::api {
namespace {

using json::Value;
using message::ChatRequest;
using message::Message;
using message::Role;

// Bytes of the result of one call; the call itself says what it was for.
constexpr std::size_t kMostOfResult = 2000;

constexpr std::string_view kSummarize =
    "You sum up conversations between a user and an assistant that calls tools. Another assistant "
    "goes on from your summary alone, without the conversation.";
constexpr std::string_view kHow =
    "Sum up the conversation above. Say what the user wants, what was done and found out, with the "
    "names of files, functions and values that matter, what is decided, and what is still to do. "
    "Write the summary only.";

// At most about `most` bytes: the beginning, and a larger part of the end.
std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::size_t head = most / 4;
  const std::size_t tail = most - head;
  return utf8::sanitized(std::string(text.substr(0, head)) + "\n[...]\n" +
                         std::string(text.substr(text.size() - tail)));
}

// The conversation as one text for the model that sums it up:
//   User: Find the bug.
//
//   Call: grep {"pattern": "x"}
//
//   Result: src/a.cc:7
// Reasoning is left out; what it led to is said in the messages.
std::string transcript_of(const ChatRequest& history) {
  std::string text;
  const auto say = [&](std::string_view who, std::string_view what) {
    if (!what.empty()) text.append(who).append(": ").append(what).append("\n\n");
  };
  for (const Message& message : history.messages) {
    const std::string said = message.text();
    switch (message.role) {
      case Role::tool:
        say("Result", shortened(said, kMostOfResult));
        break;
      case Role::assistant:
        say("Assistant", said);
        for (const message::ToolCall& call : message.tool_calls) {
          say("Call", call.name + " " + shortened(call.arguments, kMostOfResult));
        }
        break;
      case Role::user:
        say("User", said);
        break;
      default:  // each request has its own instructions
        break;
    }
  }
  say("Assistant", history.prefill);
  return text;
}

}  // namespace

// Tools are not offered, so the model can only write text.
ChatRequest summary_request(const ChatRequest& history, std::size_t max_bytes,
                            std::uint32_t max_tokens) {
  ChatRequest request;
  request.model = history.model;
  request.sampling = history.sampling;
  request.max_tokens = max_tokens;
  request.owner = history.owner;
  request.template_kwargs = history.template_kwargs;
  std::string how(kSummarize);
  // The request's own instructions say how the client wants the summary.
  for (const Message& message : history.messages) {
    if (message.role != Role::system) break;
    how += "\n\n" + shortened(message.text(), kMostOfResult);
  }
  request.messages.push_back({.role = Role::system, .content = std::move(how)});
  request.messages.push_back(
      {.role = Role::user,
       .content = shortened(transcript_of(history), max_bytes) + std::string(kHow)});
  return request;
}

void CompactionEncoder::add(unsigned choice, const message::ChatEvent& event,
                            const std::vector<message::TokenLogprob>& logprobs, std::string&) {
  keep(choice, event, logprobs);
}

void CompactionEncoder::keep(unsigned, const message::ChatEvent& event,
                             const std::vector<message::TokenLogprob>&) {
  note_.add(event);
  if (const auto* text = std::get_if<message::ContentDelta>(&event)) summary_ += text->text;
}

// The answer's items are the user's messages and the summary, encrypted, which the client sends
// back as the beginning of its next input.
Value CompactionEncoder::whole(const message::Usage& usage) {
  json::Array output = head_.kept_items;
  output.emplace_back(
      json::Object{{"id", item_id("compaction", head_.id, std::to_string(output.size()))},
                   {"type", "compaction"},
                   {"encrypted_content", head_.seal(summary_)}});
  return json::Object{{"id", head_.id},
                      {"object", "response.compaction"},
                      {"created_at", head_.created_at},
                      {"output", std::move(output)},
                      {"usage", encode_response_usage(usage)},
                      {"tenon", note_.encode()}};
}

std::string text_of_summary(std::string_view summary) {
  return "Summary of the conversation so far:\n" + std::string(summary);
}

}  // namespace tenon::api
