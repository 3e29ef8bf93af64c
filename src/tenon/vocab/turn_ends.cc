#include "tenon/vocab/turn_ends.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace tenon::vocab {
namespace {

/// A text that ends a turn, unless the vocabulary has all texts of `unless`.
struct Row {
  std::string_view text;
  std::array<std::string_view, 2> unless = {};
};

// The list of libllama, so that a model ends its turn in the same way in every engine.
// Source: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp (special_eog_ids)
constexpr Row kRows[] = {
    {"<|eot_id|>"},
    {"<|eom_id|>"},
    {"<|im_end|>"},
    {"<|end|>", {"<|return|>", "<|call|>"}},  // in those models it ends a message, not the turn
    {"<|return|>"},
    {"<|call|>"},
    {"<|flush|>"},
    {"<|calls|>"},
    {"<end_of_turn>"},
    {"<|endoftext|>"},
    {"<|end_of_text|>"},
    {"</s>", {"<|tool_response>", "<|tool_response>"}},  // in those models it is markup
    {"<EOT>"},
    {"_<EOT>"},
    {"[EOT]"},
    {"[EOS]"},
    {"<end_of_utterance>"},
    {"<eos>"},
    {"<turn|>"},
    {"<|tool_response>"},
    {"<｜end▁of▁sentence｜>"},
    {"[e~["},
    {"<|fim_pad|>"},
    {"<fim-pad>"},
    {"<fim_pad>"},
    {"<PAD>"},
    {"[PAD]"},
    {"<|fim_repo|>"},
    {"<|repo_name|>"},
    {"<fim-repo>"},
    {"<REPO>"},
    {"<reponame>"},
    {"<|file_sep|>"},
};

}  // namespace

std::vector<TokenId> turn_ends(const std::vector<std::string_view>& texts) {
  // One pass over the vocabulary, which may have 260,000 texts.
  std::unordered_map<std::string_view, TokenId> known;
  for (const Row& row : kRows) known.emplace(row.text, -1);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto found = known.find(texts[i]);
    // Among equal texts the first one.
    if (found != known.end() && found->second < 0) found->second = static_cast<TokenId>(i);
  }
  const auto id_of = [&](std::string_view text) { return known.find(text)->second; };
  std::vector<TokenId> ends;
  for (const Row& row : kRows) {
    const bool is_other =
        !row.unless[0].empty() && id_of(row.unless[0]) >= 0 && id_of(row.unless[1]) >= 0;
    if (id_of(row.text) >= 0 && !is_other) ends.push_back(id_of(row.text));
  }
  return ends;
}

}  // namespace tenon::vocab
