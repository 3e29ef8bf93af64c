#pragma once

#include <utility>

namespace tenon {

/// An open file of the system, which is closed at the end. Closing keeps errno.
///
///     const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
///     if (!file.is_open()) return failed(errno);
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over `number`; -1: what should have opened it has failed.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

}  // namespace tenon
