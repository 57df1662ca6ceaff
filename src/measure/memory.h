// Memory to measure in: zeroed, on large pages where the system gives them, as a run's arena is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fourfold::measure {

class Memory {
 public:
  /// Throws UserError(out_of_memory) when the system does not give it.
  explicit Memory(std::int64_t size_bytes);

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(base_.get());
  }

 private:
  struct Unmap {
    std::int64_t size_bytes;
    void operator()(std::byte* base) const;
  };
  std::unique_ptr<std::byte, Unmap> base_;
};

}  // namespace fourfold::measure
