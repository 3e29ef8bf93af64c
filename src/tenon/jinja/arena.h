#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/base/expected.h"

/// How this layer fails, and the memory of one rendering.
namespace tenon::jinja {

/// A failure of compiling or rendering inside this layer. It is thrown where it happens, and the
/// functions of Template turn it into an Error with line and column.
struct Fault {
  static constexpr std::uint32_t kNoPosition = ~0U;

  Errc code;
  std::string message;
  std::uint32_t position = kNoPosition;  // byte in the source
  std::string values = {};               // of the operands, described for a person
  bool is_raised = false;                // raised by the template itself, with its own message
  std::string_view kind = {};            // the error's name in Python, which lives forever
};

/// Bump allocation with a cap. Never runs destructors.
class Arena {
 public:
  explicit Arena(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    while (chunks_ != nullptr) {
      Chunk* next = chunks_->next;
      std::free(chunks_);
      chunks_ = next;
    }
  }

  /// Memory aligned to 8 bytes. Throws Fault(limit_exceeded) before the cap is passed.
  void* allocate(std::size_t bytes) {
    if (bytes <= static_cast<std::size_t>(end_ - at_)) {
      char* result = at_;
      at_ += (bytes + 7) & ~std::size_t{7};
      if (at_ > end_) at_ = end_;
      return result;
    }
    return allocate_slow(bytes);
  }
  template <class T, class... A>
  T* make(A&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T{std::forward<A>(arguments)...};
  }
  template <class T>
  T* array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count > max_bytes_ / sizeof(T)) spent();
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* bytes = static_cast<char*>(allocate(text.size()));
    std::memcpy(bytes, text.data(), text.size());
    return {bytes, text.size()};
  }
  /// Fails at once if `bytes` more would exceed the cap.
  void foresee(std::size_t bytes) const {
    if (bytes > max_bytes_ - used_) spent();
  }
  /// The same for `times` as many bytes; the product may be larger than 64 bits.
  void foresee_times(std::size_t bytes, std::uint64_t times) const {
    if (bytes != 0 && times > (max_bytes_ - used_) / bytes) spent();
  }

 private:
  struct Chunk {
    Chunk* next;
  };
  [[noreturn]] void spent() const;
  void* allocate_slow(std::size_t bytes);

  std::size_t max_bytes_;
  std::size_t used_ = 0;  // in whole chunks
  std::size_t next_chunk_ = 4096;
  Chunk* chunks_ = nullptr;
  alignas(8) char first_[4096];
  char* at_ = first_;
  char* end_ = first_ + sizeof(first_);
};

}  // namespace tenon::jinja
