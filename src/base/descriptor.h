// Owns an open file of the operating system. Does not read or write.
#pragma once

#include <unistd.h>

#include <utility>

namespace fourfold {

/// Move-only; closes on destruction. Holds nothing when the number is negative.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// True when the system reports that all writes arrived; network file systems tell lost ones
  /// here, in errno.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_ = -1;
};

}  // namespace fourfold
