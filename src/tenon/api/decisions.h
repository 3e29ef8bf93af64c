#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/api/answer_encoder.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

/// Decisions: questions whose answers are one of some options, with the probability of each. The
/// model writes nothing: each option is read by it as if it were its answer. OpenAI's form
/// (`POST /v1/decisions`) and System One's (`POST /v1/systemone`) differ in their names alone.
namespace tenon::api {

/// In all questions of a request, since each option is an answer that runs beside the others.
inline constexpr std::size_t kMaxDecisionOptions = 64;
/// In the input and all questions, since each option has a request of its own.
inline constexpr std::size_t kMaxDecisionBytes = std::size_t{1} << 20;

struct DecisionOption {
  json::Value value;        ///< As the answer names it; null: none of the others.
  std::string text;         ///< What the model would write.
  std::string description;  ///< "": it has no description.
};

struct DecisionQuestion {
  enum class Kind : std::uint8_t { predicate, choice, score };
  Kind kind = Kind::choice;
  json::Value name;  ///< Null: it has none.
  std::string instructions;
  std::vector<DecisionOption>
      options;  ///< For a predicate yes and no; for a score from low to high.
};

enum class DecisionForm : std::uint8_t { openai, system_one };

struct DecisionRequest {
  message::ChatRequest chat;  ///< The model, and what is the same for all questions.
  DecisionForm form = DecisionForm::openai;
  std::string input;  ///< What the questions are about.
  std::vector<DecisionQuestion> questions;
  double temperature = 1;  ///< Above 1 the probabilities are flatter.
  std::vector<message::Diagnostic> left_out;
};

/// Fails as decode_chat_completion() does.
[[nodiscard]] Result<DecisionRequest, ApiError> decode_decisions(const json::Value& body,
                                                                 const DecodeOptions& options = {});
[[nodiscard]] Result<DecisionRequest, ApiError> decode_system_one(
    const json::Value& body, const DecodeOptions& options = {});

/// The fields of either form, for openapi.json.
[[nodiscard]] std::span<const FieldInfo> decision_fields();
[[nodiscard]] std::span<const FieldInfo> system_one_fields();

/// One request for each option of each question, in order: the answer can only be that option, in
/// the tokens that `tokenizer`, the model's, writes it with, and tells the log probability of each.
[[nodiscard]] std::vector<message::ChatRequest> requests_of(const DecisionRequest& request,
                                                            const vocab::Tokenizer& tokenizer);

/// Writes the answers from the tokens of those requests. The probability of an option is that of
/// all its tokens, and of the one that ends the turn, divided by the sum over the question's
/// options. A question of which an option could not be read to its end is refused in OpenAI's form
/// and left out in System One's.
class DecisionEncoder final : public AnswerEncoder {
 public:
  explicit DecisionEncoder(const DecisionRequest& request);

  [[nodiscard]] Dialect dialect() const override { return Dialect::openai; }
  [[nodiscard]] std::span<const FieldName> field_names() const override;
  void begin(std::string& /*out*/) override {}
  void add(unsigned /*choice*/, const message::ChatEvent& /*event*/,
           const std::vector<message::TokenLogprob>& /*logprobs*/, std::string& /*out*/) override {}
  void end(const message::Usage& /*usage*/, std::string& /*out*/) override {}
  void fail(const ApiError& /*error*/, std::string& /*out*/) override {}
  void keep_alive(std::string& /*out*/) override {}
  void keep(unsigned choice, const message::ChatEvent& event,
            const std::vector<message::TokenLogprob>& logprobs) override;
  [[nodiscard]] json::Value whole(const message::Usage& usage) override;

 private:
  struct Read {
    bool is_whole = false;
    double logprob = 0;  // of the whole option
    message::Usage usage;
  };
  [[nodiscard]] bool is_read(std::size_t first, std::size_t count) const;
  [[nodiscard]] std::vector<double> shares(std::size_t first, std::size_t count) const;

  const std::string model_;
  const DecisionForm form_;
  const double temperature_;
  const std::vector<DecisionQuestion> questions_;
  std::vector<Read> read_;  // by option, as requests_of() has them
};

}  // namespace tenon::api
