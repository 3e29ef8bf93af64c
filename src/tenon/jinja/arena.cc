#include "tenon/jinja/arena.h"

#include <algorithm>

namespace tenon::jinja {

void Arena::spent() const {
  throw Fault{Errc::limit_exceeded,
              "the template needs more than " + std::to_string(max_bytes_) + " bytes of memory"};
}

void* Arena::allocate_slow(std::size_t bytes) {
  foresee(bytes);
  // Chunks grow to 1 MiB, so that small renderings take little and large ones call malloc() seldom.
  // The last one is cut to what the cap still allows.
  std::size_t size = std::max(next_chunk_, bytes + 8);
  size = std::min(size, std::max(bytes + 8, max_bytes_ - used_));
  auto* chunk = static_cast<Chunk*>(std::malloc(sizeof(Chunk) + size));
  if (chunk == nullptr) throw Fault{Errc::unavailable, "out of memory"};
  used_ += size;
  next_chunk_ = std::min(next_chunk_ * 2, std::size_t{1} << 20);
  chunk->next = chunks_;
  chunks_ = chunk;
  char* begin = reinterpret_cast<char*>(chunk + 1);
  if (bytes >= size / 2 && end_ - at_ > 1024) return begin;  // keep the room that is left
  at_ = begin + ((bytes + 7) & ~std::size_t{7});
  end_ = begin + size;
  return begin;
}

}  // namespace tenon::jinja
