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
/// that bytes() never asks, but of servers that refuse lists of ids (the log says so), which are
/// asked for each by POST /detokenize; encode() asks for a text that it does not know. Whoever asks
/// blocks meanwhile, as long as its patience::Scope lets it. The texts of a chat template and of
/// earlier turns come again with every request, so short ones are kept. Thread-safe.
///
/// The server does not tell control tokens from others, so that it is asked what becomes of their
/// texts, once for each that encode() meets: a control token is what a text becomes with controls
/// only, and a marker (`<tool_call>`) that is one token. Data never becomes one: what is made of it
/// is looked at, and such texts in it are cut. Where the texts of all tokens are not known, what
/// may be a marker (in angles or brackets, in one line of 64 bytes) is asked for by itself first.
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
    std::size_t size = 0;                                ///< Of the vocabulary.
    std::size_t max_known_bytes = std::size_t{8} << 20;  ///< Of texts and their ids, kept.
  };

  /// Reads the vocabulary, in as much time as patience::current() has. Fails with `unavailable` at
  /// an answer that is none or too large (a token of 4 KiB, 64 MiB together), or as `post` does.
  [[nodiscard]] static Expected<std::unique_ptr<RemoteTokenizer>> create(Options options,
                                                                         Post post);

  [[nodiscard]] std::size_t size() const override { return options_.size; }
  [[nodiscard]] Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                              std::vector<TokenId>& ids) const override;
  [[nodiscard]] std::string_view bytes(TokenId id) const override;
  /// False of a server that refuses lists of ids.
  [[nodiscard]] bool knows_all_texts() const { return !pieces_.empty(); }
  [[nodiscard]] std::size_t max_token_bytes() const override { return max_token_bytes_; }
  /// Known of bos, eos, and of what encode() has written.
  [[nodiscard]] bool is_control(TokenId id) const override;
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
  std::vector<std::string> pieces_;  // by id; none: the server refuses lists
  std::size_t max_token_bytes_ = 0;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;

  mutable std::mutex mutex_;  // guards what follows; not held while the server is asked
  mutable std::unordered_map<std::string, std::vector<TokenId>> known_;
  mutable std::size_t known_bytes_ = 0;
  mutable std::unordered_map<TokenId, std::string> asked_pieces_;  // without lists; never erased
  mutable std::size_t asked_bytes_ = 0;
  mutable std::unordered_map<TokenId, bool> is_control_;  // of those that encode() has met
  mutable std::uint64_t controls_ = 0;                    // how many of them are
};

}  // namespace tenon::engine
