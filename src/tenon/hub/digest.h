#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::hub {

/// The hash of bytes that come in pieces, by OpenSSL.
///
///     Digest digest = Digest::sha256();
///     while (...) digest.add(piece);
///     if (digest.hex() != wanted) ...
///
/// Movable. After hex() nothing more can be added.
class Digest {
 public:
  /// The hash by which the hub names large files.
  [[nodiscard]] static Digest sha256();
  /// The hash by which git, and so the hub, names small files: SHA-1 over "blob SIZE", a zero byte
  /// and the bytes.
  [[nodiscard]] static Digest git_blob(std::uint64_t size);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::string_view bytes);
  /// In lower case; "" if this system's OpenSSL does not offer the hash.
  [[nodiscard]] std::string hex();

 private:
  struct State;
  explicit Digest(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tenon::hub
