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
  /// What the hub names large files by.
  [[nodiscard]] static Digest sha256();
  /// What git, and so the hub, names small files by: SHA-1 over "blob SIZE", a zero byte, the
  /// bytes.
  [[nodiscard]] static Digest git_blob(std::uint64_t size);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::string_view bytes);
  /// In lower case; "" where this system's OpenSSL refuses the function.
  [[nodiscard]] std::string hex();

 private:
  struct State;
  explicit Digest(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tenon::hub
