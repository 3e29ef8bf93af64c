#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// A tokenizer that asks a llama-server: POST /tokenize and /detokenize. What was asked once is
/// kept, up to a bound, so the texts of a chat template cost one request each. Blocks while it
/// asks. Thread-safe.
class RemoteTokenizer final : public vocab::Tokenizer {
 public:
  using TokenId = vocab::TokenId;
  /// Posts a JSON body to a path of the server and waits for its JSON answer.
  using Post = std::function<Expected<json::Value>(std::string_view path, const json::Value& body)>;

  struct Options {
    std::string bos;  ///< Text of the token; "": the model has none.
    std::string eos;
    std::size_t size = 0;  ///< Of the vocabulary; 0: unknown, every id passes.
  };

  /// Looks the ids of bos and eos up.
  [[nodiscard]] static Expected<std::unique_ptr<RemoteTokenizer>> create(Options options,
                                                                         Post post);

  [[nodiscard]] std::size_t size() const override { return options_.size; }
  [[nodiscard]] Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const override;
  /// Asks for the text of a token that was not seen before; "" where the server cannot say.
  [[nodiscard]] std::string_view bytes(TokenId id) const override;
  /// Known of bos and eos only: the server does not tell control tokens from others.
  [[nodiscard]] bool is_control(TokenId id) const override { return id == bos_ || id == eos_; }
  [[nodiscard]] bool ends_generation(TokenId id) const override { return id == eos_; }
  /// Nothing: in this server's answers control tokens are text like any other.
  [[nodiscard]] std::optional<TokenId> control_token(std::string_view) const override { return {}; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return eos_; }
  /// The server adds none to prompts of ids, and templates write it themselves where it is wanted.
  [[nodiscard]] bool adds_bos() const override { return false; }

 private:
  RemoteTokenizer(Options options, Post post)
      : options_(std::move(options)), post_(std::move(post)) {}

  [[nodiscard]] Expected<std::vector<TokenId>> ask(std::string_view text,
                                                   vocab::Controls controls) const;
  [[nodiscard]] Expected<std::optional<TokenId>> id_of(const std::string& text) const;

  Options options_;
  const Post post_;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;

  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<TokenId>> known_;  // guarded by mutex_
  mutable std::map<TokenId, std::string>
      texts_;  // guarded by mutex_; never shrinks, as views do not
};

}  // namespace tenon::engine
