// Cuts a kernel's workspace into typed pieces. The same calls that cut it also count its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fourfold::kernels::cpu {

/// Hands out pieces of a block of memory one after another; on a null block it only counts.
class Scratch {
 public:
  explicit Scratch(std::byte* memory) : memory_(memory) {}

  template <class T>
  T* take(std::int64_t count) {
    T* piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + alignment - 1) / alignment * alignment;
    return piece;
  }
  std::int64_t used_bytes() const { return used_; }

 private:
  static constexpr std::int64_t alignment = 64;  // a cache line: threads do not share one
  std::byte* memory_;
  std::int64_t used_ = 0;
};

}  // namespace fourfold::kernels::cpu
