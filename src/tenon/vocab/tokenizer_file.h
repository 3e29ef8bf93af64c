#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/vocab/gguf.h"
#include "tenon/vocab/tokenizer.h"

/// Tokenizers from the files that come with models. No engine is needed.
///
///     auto tokenizer = load_tokenizer("model/tokenizer.json");
///     if (!tokenizer) return Unexpected(tokenizer.error());
///     auto vocab = Vocab::of(**tokenizer);
///
/// A feature of a file that Tenon does not know is refused with `unsupported`, which names the
/// feature and its place; a file that is inconsistent is refused with `invalid`. Files are not
/// trusted: their size bounds memory and time.
namespace tenon::vocab {

/// Reads the vocabulary of a GGUF file, or a Hugging Face `tokenizer.json` (with the
/// `tokenizer_config.json` beside it, if there is one). It looks at the file to see which of the
/// two it is, and checks the result with check_tokenizer().
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> load_tokenizer(
    const std::filesystem::path& path);

/// Checks that difficult texts, with every byte that UTF-8 uses, are the same after encoding and
/// decoding (rare control characters only if the vocabulary has them), and that neither these texts
/// nor the name of a control token give a control token with Controls::off. Fails with
/// `unsupported`, naming the text. (Vocab checks which bytes must be tokens by themselves.)
[[nodiscard]] Status check_tokenizer(const Tokenizer& tokenizer);

/// A `tokenizer.json` of the `tokenizers` package. Models: BPE and Unigram. `config` is a
/// `tokenizer_config.json`, of which bos_token, eos_token and add_bos_token are read; "": no such
/// file.
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(
    std::string_view text, std::string_view config = {});

/// The vocabulary (`tokenizer.ggml.*`) of a GGUF file: models gpt2, gemma4, llama, t5.
[[nodiscard]] Expected<std::shared_ptr<const Tokenizer>> read_gguf_tokenizer(const GgufFile& file);

/// tiktoken: one line per token, with its bytes in base64 and its rank, which is its id. The file
/// has neither the pattern that cuts the text nor the special tokens.
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
