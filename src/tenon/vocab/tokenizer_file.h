#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/gguf.h"
#include "tenon/vocab/tokenizer.h"

/// Tokenizers from the files that models come with, without an engine.
///
///     auto tokenizer = load_tokenizer("model/tokenizer.json");
///     if (!tokenizer) return Unexpected(tokenizer.error());
///     auto vocab = Vocab::of(**tokenizer);
///
/// What a file asks for and Tenon does not know is refused with `unsupported`, naming it and its
/// place; a file that breaks its own rules with `invalid`. A file is not trusted: memory and time
/// are bounded by its size.
namespace tenon::vocab {

/// Reads a GGUF file's vocabulary, a Hugging Face `tokenizer.json` (with `tokenizer_config.json`
/// beside it, if there is one), by what the file is, and checks it as check_tokenizer() does.
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> load_tokenizer(
    const std::filesystem::path& path);

/// That awkward texts, with every byte that UTF-8 uses, come back as they were (rare control
/// characters only if the vocabulary has them), and that none of
/// them and no control token's name becomes a control token with Controls::off. Fails with
/// `unsupported`, naming the text. (Which bytes must be tokens by themselves is Vocab's to check.)
[[nodiscard]] Status check_tokenizer(const Tokenizer& tokenizer);

/// A `tokenizer.json` of the `tokenizers` package. Models: BPE and Unigram. `config` is a
/// `tokenizer_config.json`, of which bos_token, eos_token and add_bos_token are read; "" for none.
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(
    std::string_view text, std::string_view config = {});

/// The vocabulary (`tokenizer.ggml.*`) of a GGUF file: models gpt2, gemma4, llama, t5.
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> read_gguf_tokenizer(const GgufFile& file);

/// tiktoken: a line per token, its bytes in base64 and its rank, which is its id. The file knows
/// neither the pattern that cuts the text nor the special tokens.
struct TiktokenOptions {
  struct Special {
    std::string text;
    TokenId id;
  };
  std::string pattern;
  std::vector<Special> special;
  std::string bos;  ///< One of the special tokens, or "".
  std::string eos;
  bool adds_bos = false;
};
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> parse_tiktoken(
    std::string_view text, const TiktokenOptions& options);

}  // namespace tenon::vocab
