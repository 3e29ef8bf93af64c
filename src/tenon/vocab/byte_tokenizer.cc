#include "tenon/vocab/byte_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tenon::vocab {

ByteTokenizer::ByteTokenizer(std::vector<std::string> controls, const Roles& roles)
    : controls_(std::move(controls)), ends_(controls_.size()), adds_bos_(roles.adds_bos) {
  // bytes() returns views of this text.
  all_bytes_.reserve(kBytes);
  for (std::size_t byte = 0; byte < kBytes; ++byte) all_bytes_.push_back(static_cast<char>(byte));

  bos_ = control_token(roles.bos);
  eos_ = control_token(roles.eos);
  assert(bos_ || roles.bos.empty());
  assert(eos_ || roles.eos.empty());
  if (eos_) ends_[static_cast<std::size_t>(*eos_) - kBytes] = true;
  for (const std::string& text : roles.ends) {
    const auto id = control_token(text);
    assert(id);
    if (id) ends_[static_cast<std::size_t>(*id) - kBytes] = true;
  }
}

ByteTokenizer::ByteTokenizer(std::vector<std::string> controls)
    : ByteTokenizer(std::move(controls), Roles{}) {}

// Ids below 256 are bytes, those above are control tokens in the order in which they were given.
Status ByteTokenizer::encode(std::string_view text, Controls controls, bool /*at_start*/,
                             std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    std::size_t used = 1;
    TokenId id = static_cast<unsigned char>(text.front());
    if (controls == Controls::on) {
      if (const auto control = control_at(text)) {
        id = *control;
        used = bytes(id).size();
      }
    }
    ids.push_back(id);
    text.remove_prefix(used);
  }
  return {};
}

std::string_view ByteTokenizer::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size()) return {};
  const auto index = static_cast<std::size_t>(id);
  if (index < kBytes) return std::string_view(all_bytes_).substr(index, 1);
  return controls_[index - kBytes];
}

std::size_t ByteTokenizer::max_token_bytes() const {
  std::size_t longest = 1;
  for (const std::string& text : controls_) longest = std::max(longest, text.size());
  return longest;
}

bool ByteTokenizer::is_control(TokenId id) const {
  return id >= static_cast<TokenId>(kBytes) && static_cast<std::size_t>(id) < size();
}

bool ByteTokenizer::ends_generation(TokenId id) const {
  return is_control(id) && ends_[static_cast<std::size_t>(id) - kBytes];
}

std::optional<TokenId> ByteTokenizer::control_token(std::string_view text) const {
  for (std::size_t i = 0; i < controls_.size(); ++i) {
    if (controls_[i] == text) return static_cast<TokenId>(kBytes + i);
  }
  return std::nullopt;
}

// The longest control token that the text begins with.
std::optional<TokenId> ByteTokenizer::control_at(std::string_view text) const {
  std::optional<TokenId> longest;
  std::size_t length = 0;
  for (std::size_t i = 0; i < controls_.size(); ++i) {
    const std::string& control = controls_[i];
    if (control.size() <= length || !text.starts_with(control)) continue;
    longest = static_cast<TokenId>(kBytes + i);
    length = control.size();
  }
  return longest;
}

}  // namespace tenon::vocab
