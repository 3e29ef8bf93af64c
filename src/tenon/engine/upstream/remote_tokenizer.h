#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// A tokenizer that asks a llama-server's POST /tokenize. The texts of all tokens are read once, so
/// bytes() never asks; the exception is a server that refuses lists of ids (the log says so), which
/// is asked for each by POST /detokenize. encode() asks for a text that it does not know. The
/// caller blocks meanwhile, as long as its patience::Scope allows. The texts of a chat template and
/// of earlier turns come again with every request, so short ones are kept. Thread-safe.
///
/// The server does not say which tokens are control tokens, so it is asked what becomes of their
/// texts, once for each that encode() meets. A control token is one that a text becomes only with
/// controls on, or a marker (`<tool_call>`) that is one token. Data never becomes one: its ids are
/// checked, and such texts in it are cut. If the texts of all tokens are not known, each text that
/// may be a marker (in angles or brackets, on one line, up to 64 bytes) is asked for first.
///
/// `at_start` has no effect: a server whose tokenizer prepends a space does so for every text.
class RemoteTokenizer final : public vocab::Tokenizer {
 public:
  using TokenId = vocab::TokenId;
  /// Posts a JSON body to a path of the server and waits for its JSON answer.
  using Post = std::function<Expected<json::Value>(std::string_view path, const json::Value& body)>;

  struct Options {
    std::string bos;  ///< Text of the token; "": the model has none.
    std::string eos;
    std::size_t size = 0;                                ///< How many tokens there are.
    std::size_t max_known_bytes = std::size_t{8} << 20;  ///< Limit for the texts that are kept.
  };

  /// Reads the vocabulary, in the time that patience::current() allows. Fails with `unavailable` at
  /// an answer that is malformed or too large (a token of 4 KiB, 64 MiB together), or as `post`
  /// does.
  [[nodiscard]] static Expected<std::unique_ptr<RemoteTokenizer>> create(Options options,
                                                                         Post post);

  [[nodiscard]] std::size_t size() const override { return options_.size; }
  [[nodiscard]] Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const override;
  [[nodiscard]] std::string_view bytes(TokenId id) const override;
  /// False if the server refuses lists of ids.
  [[nodiscard]] bool knows_all_texts() const { return !pieces_.empty(); }
  [[nodiscard]] std::size_t max_token_bytes() const override { return max_token_bytes_; }
  /// Known for bos, for eos, and for tokens that encode() has returned.
  [[nodiscard]] bool is_control(TokenId id) const override;
  [[nodiscard]] bool ends_generation(TokenId id) const override { return id == eos_; }
  /// No value: in this server's answers control tokens are text like any other.
  [[nodiscard]] std::optional<TokenId> control_token(std::string_view) const override { return {}; }
  [[nodiscard]] std::optional<TokenId> bos() const override { return bos_; }
  [[nodiscard]] std::optional<TokenId> eos() const override { return eos_; }
  /// The server adds none to prompts of ids, and templates write it themselves if they need it.
  [[nodiscard]] bool adds_bos() const override { return false; }

 private:
  RemoteTokenizer(Options options, Post post)
      : options_(std::move(options)), post_(std::move(post)) {}

  using Ids = std::vector<TokenId>;

  Status read_pieces();
  [[nodiscard]] Expected<Ids> ask(json::Value content, vocab::Controls controls) const;
  [[nodiscard]] Expected<std::optional<TokenId>> id_of(std::string_view text) const;
  [[nodiscard]] bool knows_kind(TokenId id) const;
  void set_kind(TokenId id, bool is_control) const;
  [[nodiscard]] Expected<Ids> encode_template(std::string_view text) const;
  [[nodiscard]] Expected<Ids> encode_data(std::string_view text) const;
  [[nodiscard]] Expected<Ids> ask_parts(const std::vector<std::string_view>& parts) const;
  Status learn_kinds(const Ids& ids, const Ids& spelled) const;
  Status learn_markers(std::string_view text) const;
  void keep(const std::string& key, const Ids& ids, std::uint64_t controls) const;
  [[nodiscard]] std::uint64_t controls() const;
  [[nodiscard]] Expected<std::vector<std::string_view>> controls_among(const Ids& ids) const;

  const Options options_;
  const Post post_;
  std::vector<std::string> pieces_;  // by id; empty: the server refuses lists
  std::size_t max_token_bytes_ = 0;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;

  mutable std::mutex mutex_;  // guards the members below; not held while the server is asked
  mutable std::unordered_map<std::string, std::vector<TokenId>> known_;
  mutable std::size_t known_bytes_ = 0;
  mutable std::unordered_map<TokenId, std::string> asked_pieces_;  // if no lists; never erased
  mutable std::size_t asked_bytes_ = 0;
  mutable std::unordered_map<TokenId, bool> is_control_;  // tokens that encode() has met
  mutable std::uint64_t controls_ = 0;                    // how many of them are control tokens
};

}  // namespace tenon::engine
