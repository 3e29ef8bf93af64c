#include "tenon/engine/upstream/remote_tokenizer.h"

#include <limits>
#include <utility>

namespace tenon::engine {
namespace {

using vocab::Controls;
using vocab::TokenId;

// Texts of templates are short and come again; a user's text seldom does.
constexpr std::size_t kMaxKnownBytes = 2048;
constexpr std::size_t kMaxKnown = 4096;

std::string key_of(std::string_view text, Controls controls) {
  return (controls == Controls::on ? '+' : '-') + std::string(text);
}

}  // namespace

Expected<std::unique_ptr<RemoteTokenizer>> RemoteTokenizer::create(Options options, Post post) {
  if (options.size == 0) {
    options.size = static_cast<std::size_t>(std::numeric_limits<TokenId>::max());
  }
  std::unique_ptr<RemoteTokenizer> made(new RemoteTokenizer(std::move(options), std::move(post)));
  auto bos = made->id_of(made->options_.bos);
  if (!bos) return Unexpected(std::move(bos.error()));
  auto eos = made->id_of(made->options_.eos);
  if (!eos) return Unexpected(std::move(eos.error()));
  made->bos_ = *bos;
  made->eos_ = *eos;
  return made;
}

Expected<std::optional<TokenId>> RemoteTokenizer::id_of(const std::string& text) const {
  if (text.empty()) return std::nullopt;
  auto ids = ask(text, Controls::on);
  if (!ids) return Unexpected(std::move(ids.error()));
  if (ids->size() != 1) return std::nullopt;  // not one token after all
  texts_.emplace(ids->front(), text);
  return ids->front();
}

Expected<std::vector<TokenId>> RemoteTokenizer::ask(std::string_view text,
                                                    Controls controls) const {
  const json::Object body{
      {"content", text}, {"add_special", false}, {"parse_special", controls == Controls::on}};
  auto answer = post_("/tokenize", body);
  if (!answer) return Unexpected(std::move(answer.error()));
  const json::Value* tokens = answer->find("tokens");
  if (tokens == nullptr || tokens->if_array() == nullptr) {
    return Unexpected(Error{Errc::unavailable, "/tokenize answered without tokens"});
  }
  std::vector<TokenId> ids;
  for (const json::Value& token : *tokens->if_array()) {
    const auto id = token.if_number() == nullptr ? std::nullopt : token.if_number()->to_int64();
    if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= size()) {
      return Unexpected(Error{Errc::unavailable, "/tokenize answered with a token that is no id"});
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Status RemoteTokenizer::encode(std::string_view text, Controls controls, bool,
                               std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  const std::string key = key_of(text, controls);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) {
      ids.insert(ids.end(), found->second.begin(), found->second.end());
      return {};
    }
  }
  auto asked = ask(text, controls);
  if (!asked) return Unexpected(std::move(asked.error()));
  ids.insert(ids.end(), asked->begin(), asked->end());
  if (text.size() > kMaxKnownBytes) return {};
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.emplace(key, *std::move(asked));
  return {};
}

std::string_view RemoteTokenizer::bytes(TokenId id) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = texts_.find(id); found != texts_.end()) return found->second;
  }
  const auto answer = post_("/detokenize", json::Object{{"tokens", json::Array{json::Value(id)}}});
  const json::Value* content = answer ? answer->find("content") : nullptr;
  if (content == nullptr || content->if_string() == nullptr) return {};
  const std::lock_guard lock(mutex_);
  return texts_.emplace(id, *content->if_string()).first->second;
}

}  // namespace tenon::engine
