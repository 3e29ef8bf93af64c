#include "tenon/hub/digest.h"

#include <array>
#include <utility>

#include <openssl/evp.h>

#include "tenon/base/hex.h"

namespace tenon::hub {

struct Digest::State {
  explicit State(const EVP_MD* function)
      : context(EVP_MD_CTX_new()),
        is_good(context != nullptr && EVP_DigestInit_ex(context, function, nullptr) == 1) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }

  EVP_MD_CTX* context;
  // False once OpenSSL has failed, for example because its configuration forbids SHA-1.
  bool is_good;
};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

Digest Digest::sha256() {
  return Digest(std::make_unique<State>(EVP_sha256()));
}

Digest Digest::git_blob(std::uint64_t size) {
  Digest digest(std::make_unique<State>(EVP_sha1()));
  std::string head = "blob " + std::to_string(size);
  head.push_back('\0');
  digest.add(head);
  return digest;
}

void Digest::add(std::string_view bytes) {
  state_->is_good =
      state_->is_good && EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1;
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  std::string text;
  if (!state_->is_good || EVP_DigestFinal_ex(state_->context, bytes.data(), &size) != 1)
    return text;
  for (unsigned i = 0; i < size; ++i) append_hex(text, bytes[i]);
  return text;
}

}  // namespace tenon::hub
