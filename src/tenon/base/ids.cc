#include "tenon/base/ids.h"

#include <algorithm>
#include <random>

#include <unistd.h>

namespace tenon {

void fill_random(unsigned char* bytes, std::size_t size) {
  constexpr std::size_t kMostPerCall = 256;  // getentropy refuses more
  while (size > 0) {
    const std::size_t step = std::min(size, kMostPerCall);
    if (::getentropy(bytes, step) != 0) {  // only kernels without the system call
      std::random_device device;
      std::generate_n(bytes, step, [&] { return static_cast<unsigned char>(device()); });
    }
    bytes += step;
    size -= step;
  }
}

std::string random_id(std::string_view prefix, std::size_t length) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  // Bytes from here on are not used, since 256 is no multiple of 62 and some characters would come
  // more often.
  constexpr unsigned kFair = 256 / kAlphabet.size() * kAlphabet.size();
  std::string id(prefix);
  const std::size_t whole = prefix.size() + length;
  id.reserve(whole);
  while (id.size() < whole) {
    unsigned char bytes[32];
    fill_random(bytes, sizeof bytes);
    for (const unsigned char byte : bytes) {
      if (byte < kFair && id.size() < whole) id.push_back(kAlphabet[byte % kAlphabet.size()]);
    }
  }
  return id;
}

}  // namespace tenon
