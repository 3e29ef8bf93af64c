// Clients that merged two calls into one, or lost one of them. Each row is named after the thread
// that reported it (`smolagents#1569`: its number in that project). The clients cannot be changed;
// a stream that keeps to the protocol's rules reaches all of them whole. docs/threads.md lists the
// rows.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/chat_encode.h"
#include "tenon/http/sse.h"

namespace tenon::api {
namespace {

struct Delta {
  std::size_t index = 0;
  std::string id;  ///< "": absent.
  std::string name;
  std::string arguments;
};

/// Two calls of one tool, as they are streamed.
std::vector<Delta> streamed() {
  ChunkEncoder encoder(
      {.id = "chatcmpl-1", .created = 7, .model = "m", .fingerprint = "", .format = "hermes"}, 0);
  std::string wire;
  encoder.begin(wire);
  using message::CallArguments;
  using message::CallBegin;
  using message::CallEnd;
  for (const message::ChatEvent& event : std::vector<message::ChatEvent>{
           CallBegin{0, "call_a", "search"}, CallArguments{0, "{\"q\": "},
           CallArguments{0, "\"Bull\"}"}, CallEnd{0}, message::ContentDelta{"\n"},
           CallBegin{1, "call_b", "search"}, CallArguments{1, "{\"q\": "},
           CallArguments{1, "\"Woolf\"}"}, CallEnd{1},
           message::Finish{.reason = message::FinishReason::tool_calls}}) {
    encoder.add(event, {}, wire);
  }
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(wire, events));
  std::vector<Delta> deltas;
  for (const http::SseEvent& event : events) {
    const auto chunk = json::parse(event.data);
    EXPECT_TRUE(chunk) << event.data;
    const json::Value* call = json::at_pointer(*chunk, "/choices/0/delta/tool_calls/0");
    if (call == nullptr) continue;
    const auto text_at = [call](std::string_view pointer) {
      const json::Value* value = json::at_pointer(*call, pointer);
      return value != nullptr && value->if_string() != nullptr ? *value->if_string()
                                                               : std::string();
    };
    deltas.push_back({.index = json::to_string(*call->find("index")) == "0" ? 0U : 1U,
                      .id = text_at("/id"),
                      .name = text_at("/function/name"),
                      .arguments = text_at("/function/arguments")});
  }
  return deltas;
}

using Calls = std::vector<std::pair<std::string, std::string>>;  // (name, arguments)

void append(Calls& calls, std::size_t at, const Delta& delta) {
  if (calls.size() <= at) calls.resize(at + 1);
  calls[at].first += delta.name;
  calls[at].second += delta.arguments;
}

Calls by_index(const std::vector<Delta>& deltas) {
  Calls calls;
  for (const Delta& delta : deltas) append(calls, delta.index, delta);
  return calls;
}

/// This client adds a delta without an id to the call that it saw last.
Calls by_last_id(const std::vector<Delta>& deltas) {
  Calls calls;
  for (const Delta& delta : deltas) {
    if (!delta.id.empty()) calls.emplace_back();
    if (!calls.empty()) append(calls, calls.size() - 1, delta);
  }
  return calls;
}

/// This client begins a call at a delta with a name.
Calls by_name(const std::vector<Delta>& deltas) {
  Calls calls;
  for (const Delta& delta : deltas) {
    if (!delta.name.empty()) calls.emplace_back();
    if (!calls.empty()) append(calls, calls.size() - 1, delta);
  }
  return calls;
}

/// For this client a call is its index and, if a delta has one, its id.
Calls by_index_and_id(const std::vector<Delta>& deltas) {
  Calls calls;
  std::vector<std::pair<std::size_t, std::string>> keys;
  for (const Delta& delta : deltas) {
    auto key = std::find_if(keys.begin(), keys.end(), [&](const auto& known) {
      return known.first == delta.index && (delta.id.empty() || delta.id == known.second);
    });
    if (key == keys.end()) key = keys.insert(key, {delta.index, delta.id});
    append(calls, static_cast<std::size_t>(key - keys.begin()), delta);
  }
  return calls;
}

struct ThreadsRow {
  const char* thread;
  const char* what;  ///< What was reported.
  Calls (*client)(const std::vector<Delta>& deltas);
};

const ThreadsRow kThreadsRows[] = {
    {"smolagents#1569", "calls with one index are one call with both arguments", by_index},
    {"langchain#34807", "names and arguments of two calls are joined", by_index},
    {"langchain#35281", "calls of one index and two ids are joined", by_index_and_id},
    {"dynamo#4723", "every call has the index 0", by_index},
    {"Qwen-Agent#943", "deltas without an id go to the call seen last", by_last_id},
    {"langchain-oracle#254", "deltas without an id are lost: all calls but the first are empty",
     by_last_id},
    {"lmdeploy#3412", "the second call comes as a part of the first", by_name},
};

TEST(Threads, TwoCallsReachEachClientWhole) {
  const std::vector<Delta> deltas = streamed();
  for (const ThreadsRow& row : kThreadsRows) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    EXPECT_EQ(row.client(deltas),
              (Calls{{"search", R"({"q": "Bull"})"}, {"search", R"({"q": "Woolf"})"}}));
  }
}

}  // namespace
}  // namespace tenon::api
