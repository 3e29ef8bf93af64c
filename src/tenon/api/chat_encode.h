#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/answer_parts.h"
#include "tenon/api/error.h"
#include "tenon/api/input_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// Encodes Chat Completions: one event log as a stream of chunks, or folded into one document.
namespace tenon::api {

/// What is the same in every chunk of an answer.
struct ChatCompletionHead {
  std::string id;            ///< "chatcmpl-..."
  std::int64_t created = 0;  ///< Unix time in seconds.
  std::string model;
  std::string fingerprint;
  std::string format;  ///< Name of the tool-call format; "" if the model has none.
  std::vector<std::string> custom_tools;  ///< Names of the tools whose calls have an input.
  /// The request had `functions`, so its call is a `function_call`; there is at most one.
  bool has_functions = false;
  bool is_json = false;    ///< Text is in a response format, which the guarantee covers.
  bool token_ids = false;  ///< The ids of the tokens are told as vLLM tells them.
  /// Chunks have `"usage": null`, because a chunk with the usage will follow.
  bool usage_field = false;
};

/// Writes the chunks of one choice. One encoder serves one choice, from one thread at a time.
///
///     ChunkEncoder encoder(head, index);
///     encoder.begin(out);                             // the role
///     encoder.add(event, logprobs, out);              // zero or one chunk per event
///     append_usage_chunk(head, usage, out); append_done(out);
///
/// A chunk is one SSE event. Each costs one copy of the head, which is encoded once.
class ChunkEncoder {
 public:
  ChunkEncoder(const ChatCompletionHead& head, unsigned choice);

  void begin(std::string& out);
  /// Without logprobs, events that this dialect has no chunk for write nothing: diagnostics, the
  /// end of a call, arguments of a custom tool around its input, and a Finish that is an error or a
  /// cancellation, for which there is no finish reason.
  void add(const message::ChatEvent& event, const std::vector<message::TokenLogprob>& logprobs,
           std::string& out);

 private:
  void append_call_begin(const message::CallBegin& event);
  void append_arguments(std::uint32_t index, std::string_view text);
  void append_end(std::uint32_t index);
  void append_call_delta(std::uint32_t index, std::string_view kind, std::string_view key,
                         std::string_view text);
  void append_chunk(const std::vector<message::TokenLogprob>& logprobs,
                    const message::Finish* finish, std::string& out);

  std::string prefix_;  // up to the choice's delta
  std::string suffix_;  // after the choice
  std::vector<std::string> custom_tools_;
  bool has_functions_;
  bool has_token_ids_;
  std::map<std::uint32_t, InputReader> inputs_;  // for calls of custom tools, by their index
  AnswerNote note_;
  std::string delta_;      // of the present chunk
  json::Value approvals_;  // encode_approvals(); null: none are wanted
};

void append_usage_chunk(const ChatCompletionHead& head, const message::Usage& usage,
                        std::string& out);

/// The encoder of a whole answer, with all its choices.
class ChatCompletionEncoder final : public AnswerEncoder {
 public:
  struct Options {
    unsigned choices = 1;
    bool include_usage = false;  ///< Adds a last chunk with the usage.
    bool logprobs = false;
  };
  ChatCompletionEncoder(ChatCompletionHead head, Options options);

  [[nodiscard]] Dialect dialect() const override { return Dialect::openai; }
  [[nodiscard]] std::span<const FieldName> field_names() const override;
  void begin(std::string& out) override;
  void add(unsigned choice, const message::ChatEvent& event,
           const std::vector<message::TokenLogprob>& logprobs, std::string& out) override {
    encoders_[choice].add(event, logprobs, out);
  }
  void end(const message::Usage& usage, std::string& out) override;
  void fail(const ApiError& error, std::string& out) override;
  void keep_alive(std::string& out) override { append_keep_alive(out); }
  void keep(unsigned choice, const message::ChatEvent& event,
            const std::vector<message::TokenLogprob>& logprobs) override;
  [[nodiscard]] json::Value whole(const message::Usage& usage) override;

 private:
  // One choice of a whole answer.
  struct Kept {
    message::Fold fold;
    AnswerNote note;
    std::vector<message::TokenLogprob> logprobs;
    json::Value approvals{};  // encode_approvals(); null: none are wanted
  };

  const ChatCompletionHead head_;
  const Options options_;
  std::vector<ChunkEncoder> encoders_;
  std::vector<Kept> kept_;  // empty for a stream
};

}  // namespace tenon::api
