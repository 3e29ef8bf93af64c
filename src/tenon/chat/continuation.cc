#include "tenon/chat/continuation.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::chat {
namespace {

using vocab::Controls;
using vocab::TokenId;
using TokenIds = std::vector<TokenId>;

// The control tokens with which a vocabulary marks the text before a gap, the text after it, and
// the gap. Without a marker for the gap the suffix comes first, so that the answer follows the
// prefix.
struct Gap {
  std::string_view prefix;
  std::string_view suffix;
  std::string_view middle;
};
constexpr Gap kGaps[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"[PREFIX]", "[SUFFIX]", ""},
};

// The token whose text is `text`; also for a tokenizer that does not tell its control tokens.
Expected<std::optional<TokenId>> token_of(std::string_view text,
                                          const vocab::Tokenizer& tokenizer) {
  if (const auto id = tokenizer.control_token(text)) return id;
  TokenIds ids;
  Status done = tokenizer.encode(text, Controls::on, /*at_start=*/false, ids);
  if (!done) return Unexpected(std::move(done.error()));
  if (ids.size() != 1 || tokenizer.bytes(ids[0]) != text) return std::nullopt;
  return ids[0];
}

// The markers of one row as tokens; without `middle` for a vocabulary that has none.
struct GapTokens {
  TokenId prefix = 0;
  TokenId suffix = 0;
  std::optional<TokenId> middle;
};

// The first row whose markers are all in the vocabulary.
Expected<std::optional<GapTokens>> gap_tokens(const vocab::Tokenizer& tokenizer) {
  for (const Gap& gap : kGaps) {
    std::optional<TokenId> found[3];
    bool is_whole = true;
    const std::string_view texts[] = {gap.prefix, gap.suffix, gap.middle};
    for (std::size_t i = 0; i < 3 && is_whole; ++i) {
      if (texts[i].empty()) continue;
      auto id = token_of(texts[i], tokenizer);
      if (!id) return Unexpected(std::move(id.error()));
      is_whole = id->has_value();
      found[i] = *id;
    }
    if (is_whole) return GapTokens{*found[0], *found[1], found[2]};
  }
  return std::nullopt;
}

Failure<Refusal> unreadable(Error error) {
  return Failure<Refusal>(refusal_of(std::move(error), "messages"));
}

}  // namespace

// Without a suffix the text's control tokens count, as its author wrote them. With one, the markers
// come from us, and the two texts are data.
Result<TokenIds, Refusal> tokens_of(const message::Continuation& asked,
                                    const vocab::Tokenizer& tokenizer) {
  if (!asked.tokens.empty()) return TokenIds(asked.tokens.begin(), asked.tokens.end());
  TokenIds ids;
  if (!asked.suffix) {
    Status done = tokenizer.encode(asked.text, Controls::on, /*at_start=*/true, ids);
    if (!done) return unreadable(std::move(done.error()));
  } else {
    auto gap = gap_tokens(tokenizer);
    if (!gap) return unreadable(std::move(gap.error()));
    if (!*gap) {
      return Failure<Refusal>(
          {.error = {Errc::unsupported,
                     "suffix is not supported: the model has no control tokens for text that "
                     "stands behind its answer"},
           .param = "suffix",
           .code = "unsupported_parameter"});
    }
    const GapTokens& tokens = **gap;
    std::pair<TokenId, std::string_view> pieces[] = {{tokens.prefix, asked.text},
                                                     {tokens.suffix, *asked.suffix}};
    if (!tokens.middle) std::swap(pieces[0], pieces[1]);
    for (const auto& [marker, text] : pieces) {
      ids.push_back(marker);
      Status done = tokenizer.encode(text, Controls::off, /*at_start=*/false, ids);
      if (!done) return unreadable(std::move(done.error()));
    }
    if (tokens.middle) ids.push_back(*tokens.middle);
  }
  const std::optional<TokenId> bos = tokenizer.bos();
  const bool wants_bos = tokenizer.adds_bos() || ids.empty();
  if (bos && wants_bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  // An empty text in a vocabulary without a first token: an engine needs one token at least.
  if (ids.empty() && tokenizer.eos()) ids.push_back(*tokenizer.eos());
  return ids;
}

}  // namespace tenon::chat
