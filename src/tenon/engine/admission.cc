#include "tenon/engine/admission.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace tenon::engine {
namespace {

// A field of the request, the value that counts if it is absent, and the bounds, which are allowed.
struct Range {
  const char* name;
  double value;
  double least;
  double most;
};

// 0.5 is "0.5", 100 is "100".
std::string number(double value) {
  std::string text = std::to_string(value);  // always has a decimal point
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// The field is named by the first word of the message.
Unexpected invalid_field(std::string_view field, std::string_view what) {
  std::string message(field);
  message.append(" ").append(what);
  return Unexpected(Error{Errc::invalid, std::move(message), std::string(field)});
}

Unexpected invalid_prompt(std::string message, Errc code = Errc::invalid) {
  return Unexpected(Error{code, std::move(message), "messages"});
}

Status check_sampling(const message::Sampling& sampling, std::size_t vocab_size) {
  // Values become floats for the sampler, and a larger double would become infinite.
  constexpr double kLargest = std::numeric_limits<float>::max();
  const Range ranges[] = {
      {"temperature", sampling.temperature.value_or(1.0), 0.0, kLargest},
      {"top_p", sampling.top_p.value_or(1.0), 0.0, 1.0},
      {"top_k", static_cast<double>(sampling.top_k.value_or(0)), 0.0, kLargest},
      {"min_p", sampling.min_p.value_or(0.0), 0.0, 1.0},
      {"presence_penalty", sampling.presence_penalty.value_or(0.0), -100.0, 100.0},
      {"frequency_penalty", sampling.frequency_penalty.value_or(0.0), -100.0, 100.0},
      {"repetition_penalty", sampling.repetition_penalty.value_or(1.0), 1e-3, 1e3},
  };
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;  // false for a NaN
    if (range.most == kLargest) {
      return invalid_field(range.name, "must be at least " + number(range.least));
    }
    return invalid_field(range.name,
                         "must be between " + number(range.least) + " and " + number(range.most));
  }
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
      return invalid_field("logit_bias", "names token " + std::to_string(id) +
                                             ", but the model has tokens 0 to " +
                                             std::to_string(vocab_size - 1));
    }
    if (!std::isfinite(bias)) return invalid_field("logit_bias", "must be finite numbers");
  }
  return {};
}

}  // namespace

Status check_request(const GenerateRequest& request, const Capabilities& capabilities,
                     const vocab::Tokenizer& tokenizer) {
  if (request.prompt.empty()) return invalid_prompt("the prompt has no tokens");
  // One place must be left for the answer.
  if (request.prompt.size() >= capabilities.context_tokens) {
    return invalid_prompt("the prompt has " + std::to_string(request.prompt.size()) +
                              " tokens, but the model's context holds " +
                              std::to_string(capabilities.context_tokens) +
                              " for prompt and answer together",
                          Errc::limit_exceeded);
  }
  for (const TokenId id : request.prompt) {
    if (id < 0 || static_cast<std::size_t>(id) >= tokenizer.size()) {
      return invalid_prompt("the prompt has token " + std::to_string(id) +
                            ", but the model has tokens 0 to " +
                            std::to_string(tokenizer.size() - 1));
    }
  }
  if (request.top_logprobs < 0 || request.top_logprobs > kMaxTopLogprobs) {
    return invalid_field("top_logprobs",
                         "must be between 0 and " + std::to_string(kMaxTopLogprobs));
  }
  // Engines with masks take compiled grammars, upstreams printed ones.
  const bool is_printed = capabilities.constrained_by != ConstrainedBy::none &&
                          capabilities.constrained_by != ConstrainedBy::masks;
  if ((request.grammar != nullptr && capabilities.constrained_by != ConstrainedBy::masks) ||
      (request.printed != nullptr && !is_printed)) {
    return invalid_field(
        "grammar", "is given, but a '" + capabilities.kind + "' engine cannot hold answers to one");
  }
  return check_sampling(request.sampling, tokenizer.size());
}

Error queue_is_full(std::uint32_t limit) {
  return {Errc::limit_exceeded,
          "the model is busy: " + std::to_string(limit) + " requests are waiting already"};
}

}  // namespace tenon::engine
