// The one piece of memory that holds both regions of a bundle on the CPU. Not an allocator:
// addresses were decided by compile/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "program/program.h"
#include "run/regions.h"

namespace fourfold::run {

class Arena {
 public:
  static constexpr std::int64_t page_bytes = 4096;
  /// Reads as a NaN in f32 and f64 and as a negative id in i32, so that whoever reads unwritten
  /// memory shows.
  static constexpr std::uint64_t paint_word = 0xfff7a5a5'fff7a5a5U;

  Arena() = default;
  /// Maps zeroed memory, each region from a page on. Errors: UserError(out_of_memory).
  Arena(std::int64_t persistent_bytes, std::int64_t transient_bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  Regions regions() const;
  std::span<std::byte> region(program::Region region) const { return regions().of(region); }
  /// As of Regions.
  std::span<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) const {
    return regions().bytes(buffer, parity);
  }

  void paint();
  /// Pages of a region that still hold nothing but paint, and how many it has.
  struct Pages {
    std::int64_t total = 0;
    std::int64_t untouched = 0;
  };
  Pages pages(program::Region region) const;

 private:
  std::byte* base_ = nullptr;
  std::int64_t persistent_bytes_ = 0, transient_bytes_ = 0;
};

}  // namespace fourfold::run
