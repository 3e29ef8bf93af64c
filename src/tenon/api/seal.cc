#include "tenon/api/seal.h"

#include <cstddef>
#include <memory>
#include <utility>

#include <openssl/evp.h>

#include "tenon/base/ids.h"
#include "tenon/base/log.h"
#include "tenon/vocab/spelling.h"

// What clients carry for us
//
// Reasoning and summaries that a client keeps are encrypted with AES-256-GCM under a key that the
// store keeps:
//
//     tenon1. base64( nonce, 12 bytes | ciphertext | tag, 16 bytes )
//
// The name of the key's owner is authenticated with the text and not part of it, so a text that
// another client has copied does not open. Nonces are random: 2^32 texts under one key are safe
// (NIST SP 800-38D, section 8.3).

namespace tenon::api {
namespace {

constexpr std::string_view kVersion = "tenon1.";
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
// No client's id has a '/' (see KeptResponses), and no owner's name is empty.
constexpr std::string_view kPlace = "/seal";

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Feeds data to a cipher; OpenSSL has one function for both ways. With `to` null the data are only
// authenticated.
bool update(EVP_CIPHER_CTX* context, std::string_view from, std::string* to) {
  int size = static_cast<int>(from.size());
  unsigned char* const out = to == nullptr ? nullptr : bytes_of(*to);
  return from.empty() ||
         EVP_CipherUpdate(context, out, &size, bytes_of(from), static_cast<int>(from.size())) == 1;
}

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  fill_random(bytes_of(bytes), size);
  return bytes;
}

// At most `most` bytes, without a part of a character at the end.
std::string_view cut_to(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return text.substr(0, most);
}

// If the store has dropped the key for lack of room, a new one is made; texts under the old key
// stay closed.
std::string key_of(store::ResponseStore* store) {
  if (store != nullptr) {
    const auto kept = store->get(kPlace);
    auto bytes = kept && *kept ? vocab::from_base64(**kept) : std::nullopt;
    if (bytes && bytes->size() == kKeyBytes) return *std::move(bytes);
  }
  std::string made = random_bytes(kKeyBytes);
  if (store == nullptr) return made;
  const Status put = store->put(kPlace, to_base64(made));
  if (!put) log::error("the key of what clients carry is not kept: " + put.error().message);
  return made;
}

}  // namespace

Seal::Seal(std::shared_ptr<store::ResponseStore> store)
    : store_(std::move(store)), key_(key_of(store_.get())) {}

std::string Seal::close(std::string_view owner, std::string_view text) const {
  text = cut_to(text, kMaxBytes);
  const std::string nonce = random_bytes(kNonceBytes);
  std::string closed(text.size(), '\0');
  std::string tag(kTagBytes, '\0');
  const Cipher context(EVP_CIPHER_CTX_new());
  int rest = 0;
  const bool is_done =
      context != nullptr &&
      EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(std::string_view(key_)),
                        bytes_of(std::string_view(nonce)), /*enc=*/1) == 1 &&
      update(context.get(), owner, nullptr) && update(context.get(), text, &closed) &&
      EVP_CipherFinal_ex(context.get(), bytes_of(tag), &rest) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1;
  if (!is_done) {
    log::error("what clients carry cannot be closed");
    return {};
  }
  return std::string(kVersion) + to_base64(nonce + closed + tag);
}

std::optional<std::string> Seal::open(std::string_view owner, std::string_view sealed) const {
  // Base64 takes 4/3 of the size; the rest is room for nonce, tag and version.
  if (!sealed.starts_with(kVersion) || sealed.size() > 2 * kMaxBytes) return std::nullopt;
  const auto bytes = vocab::from_base64(sealed.substr(kVersion.size()));
  if (!bytes || bytes->size() < kNonceBytes + kTagBytes) return std::nullopt;
  const std::string_view all = *bytes;
  const std::string_view nonce = all.substr(0, kNonceBytes);
  const std::string_view closed = all.substr(kNonceBytes, all.size() - kNonceBytes - kTagBytes);
  std::string tag(all.substr(all.size() - kTagBytes));
  // The store drops the oldest documents first, so the key is touched.
  if (store_ != nullptr) static_cast<void>(store_->touch(kPlace));
  std::string text(closed.size(), '\0');
  std::string end(kTagBytes, '\0');
  const Cipher context(EVP_CIPHER_CTX_new());
  int rest = 0;
  const bool is_ours =
      context != nullptr &&
      EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(std::string_view(key_)),
                        bytes_of(nonce), /*enc=*/0) == 1 &&
      update(context.get(), owner, nullptr) && update(context.get(), closed, &text) &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_CipherFinal_ex(context.get(), bytes_of(end), &rest) == 1;
  // The text is returned only after the tag has been checked, by EVP_CipherFinal_ex().
  if (!is_ours) return std::nullopt;
  return text;
}

}  // namespace tenon::api
