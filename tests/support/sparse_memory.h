// Gigabytes of address space of which only the pages that are touched are there, so that tests may
// use offsets beyond 32 bits. Header only.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace fourfold::test {

/// Zeros.
class SparseMemory {
 public:
  explicit SparseMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(memory);
    // A page that is touched must not become one of 2 MiB.
    madvise(memory, bytes_, MADV_NOHUGEPAGE);
  }
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  /// Not where the machine grants no more address space than it has memory.
  bool is_there() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace fourfold::test
