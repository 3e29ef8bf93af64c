#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/answer_parts.h"

/// Encodes Completions. Source: the types of the Python package `openai` 3.52.0.
namespace tenon::api {

inline constexpr FieldName kCompletionNames[] = {{"messages", "prompt"},
                                                 {"top_logprobs", "logprobs"}};

/// What is known of a completion before it is written.
struct CompletionHead {
  std::string id;  ///< "cmpl-..."
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;
  std::size_t prompts = 1;
  unsigned choices = 1;             ///< For each prompt.
  unsigned candidates = 1;          ///< Answers for each prompt; the likeliest become choices.
  std::vector<std::string> echoes;  ///< The text before the choices of each prompt; empty: none.
  bool logprobs = false;
  bool token_ids = false;  ///< The ids of the tokens are told as vLLM tells them.
  bool is_json = false;    ///< Text is in a response format, which the guarantee covers.
  /// A last chunk has the usage, and all others have `"usage": null`.
  bool include_usage = false;
};

/// The choices of prompt p begin at p * choices. A chunk has the shape of the whole answer, with
/// the new text and tokens of one choice; all chunks add up to the whole. Events are those of
/// `prompts * candidates` answers.
///
/// Tokens that are not text by themselves are written as `bytes:\xe2\x80`. The offset of a token is
/// the number of characters of the choice's text before it.
class CompletionEncoder final : public AnswerEncoder {
 public:
  explicit CompletionEncoder(CompletionHead head);

  [[nodiscard]] Dialect dialect() const override { return Dialect::openai; }
  [[nodiscard]] std::span<const FieldName> field_names() const override { return kCompletionNames; }
  void begin(std::string& out) override;
  void add(unsigned answer, const message::ChatEvent& event,
           const std::vector<message::TokenLogprob>& logprobs, std::string& out) override;
  void end(const message::Usage& usage, std::string& out) override;
  void fail(const ApiError& error, std::string& out) override;
  void keep_alive(std::string& out) override;
  void keep(unsigned answer, const message::ChatEvent& event,
            const std::vector<message::TokenLogprob>& logprobs) override;
  [[nodiscard]] json::Value whole(const message::Usage& usage) override;

 private:
  struct Answer {
    AnswerNote note;
    std::string text;  // empty for a stream
    message::Finish finish;
    std::vector<message::TokenLogprob> logprobs;
    std::size_t offset = 0;  // of the next token, in characters
    double likelihood = 0.0;
  };

  [[nodiscard]] std::string_view echo_of(std::size_t answer) const;
  [[nodiscard]] json::Object document(json::Array choices) const;
  [[nodiscard]] json::Value choice(std::size_t index, std::string_view text, json::Value logprobs,
                                   const message::Finish* finish) const;
  [[nodiscard]] json::Value encode_logprobs(const std::vector<message::TokenLogprob>& logprobs,
                                            std::size_t& offset) const;
  [[nodiscard]] std::vector<std::size_t> chosen() const;
  void append_chunk(json::Value choice, const Answer* finished, std::string& out) const;

  const CompletionHead head_;
  std::vector<Answer> answers_;
};

}  // namespace tenon::api
