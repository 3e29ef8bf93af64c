#include "tenon/api/completion_request.h"

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

// How a request is decoded
//
// As in chat_request.cc, with a table of fields. A request has several prompts, each with `best_of`
// answers of which `n` are given back, so the number of runs is the product; finish() bounds it.
// The prompts are continued and not answered: no template, no tools.

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;
using message::Continuation;

constexpr std::uint32_t kDefaultMaxTokens = 16;  // OpenAI's

/// Reads one request.
class CompletionDecoder : public RequestReader {
 public:
  using RequestReader::RequestReader;
  Result<CompletionRequest, ApiError> run(const Value& body);

  // One handler per field of the request, called for values that are not null.
  bool prompt(const Value& value);
  bool suffix(const Value& value) { return string(value, "suffix", suffix_); }
  bool n(const Value& value) { return choices(value, "n", out_.choices); }
  bool best_of(const Value& value) { return choices(value, "best_of", best_of_.emplace()); }
  bool echo(const Value& value) { return boolean(value, "echo", out_.echo); }
  bool stream(const Value& value) { return boolean(value, "stream", out_.stream); }
  bool stream_options(const Value& value) {
    return RequestReader::stream_options(value, out_.include_usage);
  }
  bool max_tokens(const Value& value) { return token_limit(value, "max_tokens"); }
  bool stop(const Value& value) { return stops(value, "stop"); }
  bool logprobs(const Value& value);
  bool return_token_ids(const Value& value) {
    return boolean(value, "return_token_ids", out_.token_ids);
  }

 private:
  bool one_prompt(const Value& value, const std::string& path);
  bool finish();

  CompletionRequest out_;
  std::string suffix_;  // "": the request has no suffix
  std::optional<unsigned> best_of_;
};

using enum Effect;

constexpr auto kOwnCompletionFields = std::to_array<Field<CompletionDecoder>>({
    {{"model", honoured, false, "#ModelName"}, &CompletionDecoder::model},
    {{"prompt", honoured, false, "#Prompt"}, &CompletionDecoder::prompt},
    {{"suffix", honoured, false, "#String"}, &CompletionDecoder::suffix},
    {{"echo", honoured, false, "#Boolean"}, &CompletionDecoder::echo},
    {{"n", honoured, false, "#Choices"}, &CompletionDecoder::n},
    {{"best_of", honoured, false, "#Choices"}, &CompletionDecoder::best_of},
    {{"stream", honoured, false, "#Boolean"}, &CompletionDecoder::stream},
    {{"stream_options", honoured, false, "#StreamOptions"}, &CompletionDecoder::stream_options},
    {{"max_tokens", honoured, false, "#TokenLimit"}, &CompletionDecoder::max_tokens},
    {{"stop", honoured, false, "#Stop"}, &CompletionDecoder::stop},
    {{"logprobs", honoured, false, "#TopLogprobs"}, &CompletionDecoder::logprobs},
    {{"temperature", honoured, false, "#Temperature"}, &CompletionDecoder::temperature},
    {{"top_p", honoured, false, "#Probability"}, &CompletionDecoder::top_p},
    {{"top_k", honoured, false, "#TopK"}, &CompletionDecoder::top_k},
    {{"min_p", honoured, false, "#Probability"}, &CompletionDecoder::min_p},
    {{"presence_penalty", honoured, false, "#Penalty"}, &CompletionDecoder::presence_penalty},
    {{"frequency_penalty", honoured, false, "#Penalty"}, &CompletionDecoder::frequency_penalty},
    {{"repetition_penalty", honoured, false, "#RepetitionPenalty"},
     &CompletionDecoder::repetition_penalty},
    {{"seed", honoured, false, "#Seed"}, &CompletionDecoder::seed},
    {{"logit_bias", honoured, false, "#LogitBias"}, &CompletionDecoder::logit_bias},
    {{"response_format", honoured, false, "#ResponseFormat"}, &CompletionDecoder::response_format},
    {{"return_token_ids", honoured, false, "#Boolean"}, &CompletionDecoder::return_token_ids},
    {{"user", without_effect}, nullptr, Kind::string},
});
constexpr auto kCompletionFields = joined(kOwnCompletionFields, kTextFields<CompletionDecoder>);

// A text, token ids, or a list of texts or of lists of ids; all items are of the first one's kind.
bool CompletionDecoder::prompt(const Value& value) {
  const json::Array* items = value.if_array();
  const bool is_list = items != nullptr && !items->empty() && items->front().if_number() == nullptr;
  if (!is_list) return one_prompt(value, "prompt");
  if (!at_most(kMaxAnswers, items->size(), "prompt", "prompts")) return false;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::string path = at("prompt", i);
    if (!kind((*items)[i], items->front().kind(), path)) return false;
    if (!one_prompt((*items)[i], path)) return false;
  }
  return true;
}

bool CompletionDecoder::one_prompt(const Value& value, const std::string& path) {
  if (const std::string* text = value.if_string()) {
    out_.prompts.push_back({.text = *text});
    return true;
  }
  if (value.if_array() != nullptr) {
    return token_ids(value, path, out_.prompts.emplace_back().tokens);
  }
  return fail("invalid_type", path,
              path + " must be a string, an array of token ids, or an array of such prompts, not " +
                  std::string(json::kind_name(value.kind())));
}

// Completions have a number where Chat Completions have a flag and a number: 0 is the chosen token
// alone.
bool CompletionDecoder::logprobs(const Value& value) {
  chat_.logprobs = true;
  return logprob_count(value, "logprobs");
}

// Checks what depends on several fields.
bool CompletionDecoder::finish() {
  if (out_.prompts.empty()) out_.prompts.emplace_back();  // the beginning of a document
  for (Continuation& prompt : out_.prompts) {
    if (suffix_.empty()) break;
    if (!prompt.tokens.empty()) {
      return fail("invalid_value", "suffix", "suffix needs a prompt that is text");
    }
    prompt.suffix = suffix_;
  }
  out_.candidates = best_of_.value_or(out_.choices);
  if (out_.candidates < out_.choices) {
    return fail("invalid_value", "best_of", "best_of must be at least n");
  }
  if (out_.candidates > out_.choices && out_.stream) {
    return fail("invalid_value", "best_of",
                "best_of cannot be streamed: which answers are the best is known at the end");
  }
  if (out_.prompts.size() * out_.candidates > kMaxAnswers) {
    return fail(
        "invalid_value", "prompt",
        "prompt, n and best_of ask for more than " + std::to_string(kMaxAnswers) + " answers");
  }
  if (out_.echo && chat_.logprobs) {
    return refuse("echo", "beside logprobs: those of the prompt are not known");
  }
  if (!usage_fits_stream(out_.include_usage, out_.stream)) return false;
  if (!chat_.max_tokens) chat_.max_tokens = kDefaultMaxTokens;
  chat_.tells_tokens = out_.token_ids;
  return true;
}

Result<CompletionRequest, ApiError> CompletionDecoder::run(const Value& body) {
  return outcome(read(body, kCompletionFields) && finish(), out_);
}

}  // namespace

std::span<const FieldInfo> completion_fields() {
  return infos_of<kCompletionFields>();
}

Result<CompletionRequest, ApiError> decode_completion(const Value& body,
                                                      const DecodeOptions& options) {
  return CompletionDecoder(options).run(body);
}

}  // namespace tenon::api
