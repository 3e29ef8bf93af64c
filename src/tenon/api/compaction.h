#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/answer_parts.h"
#include "tenon/api/responses_encode.h"
#include "tenon/message/message.h"

/// The summary of a conversation's history by the model itself: POST /v1/responses/compact.
namespace tenon::api {

/// The request that asks for the summary: the history as one text of at most about `max_bytes`, of
/// which the middle is left out if it is longer. Sampling and model are those of `history`.
[[nodiscard]] message::ChatRequest summary_request(const message::ChatRequest& history,
                                                   std::size_t max_bytes, std::uint32_t max_tokens);

struct CompactionHead {
  std::string id;  ///< "resp_..."
  std::int64_t created_at = 0;
  std::string format;      ///< As in ResponseHead.
  json::Array kept_items;  ///< Before the summary: the users' messages.
  /// Encrypts the summary, which the client keeps.
  std::function<std::string(std::string_view)> seal;
};

/// Writes the summary as the item `compaction` of a `response.compaction`. It is never a stream.
class CompactionEncoder final : public AnswerEncoder {
 public:
  explicit CompactionEncoder(CompactionHead head)
      : head_(std::move(head)), note_(head_.format, /*is_json=*/false) {}

  [[nodiscard]] Dialect dialect() const override { return Dialect::openai; }
  [[nodiscard]] std::span<const FieldName> field_names() const override { return kResponsesNames; }
  void begin(std::string&) override {}
  void add(unsigned choice, const message::ChatEvent& event,
           const std::vector<message::TokenLogprob>& logprobs, std::string& out) override;
  void end(const message::Usage&, std::string&) override {}
  void fail(const ApiError&, std::string&) override {}
  void keep_alive(std::string&) override {}
  void keep(unsigned choice, const message::ChatEvent& event,
            const std::vector<message::TokenLogprob>& logprobs) override;
  [[nodiscard]] json::Value whole(const message::Usage& usage) override;

 private:
  const CompactionHead head_;
  std::string summary_;
  AnswerNote note_;
};

/// The text that the model reads in place of a summary that a client sends back.
[[nodiscard]] std::string text_of_summary(std::string_view summary);

}  // namespace tenon::api
