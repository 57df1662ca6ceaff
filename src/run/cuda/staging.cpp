#include "run/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace fourfold::run::cuda {
Staging::Staging(Device& device, std::int64_t block_bytes)
    : device_(device), block_bytes_(static_cast<std::size_t>(block_bytes)) {
  for (const std::size_t i : {0U, 1U}) {
    blocks_[i] = make_pinned(device, block_bytes);
    copied_[i] = make_event(device, Device::Timing::off);
  }
}

std::size_t Staging::size_of(std::size_t block, std::size_t total) const {
  return std::min(block_bytes_, total - block * block_bytes_);
}

void Staging::read(const std::byte* from, std::span<std::byte> into, Stream stream) {
  const std::size_t count = (into.size() + block_bytes_ - 1) / block_bytes_;
  // One block is under way while the one before is taken out.
  for (std::size_t i = 0; i < count + 1; ++i) {
    if (i < count) {
      device_.copy(dense(blocks_[i % 2].get(), from + i * block_bytes_, size_of(i, into.size())),
                   stream);
      device_.record(copied_[i % 2].get(), stream);
    }
    if (i == 0) continue;
    const std::size_t done = i - 1;
    device_.synchronize(copied_[done % 2].get());
    std::memcpy(into.data() + done * block_bytes_, blocks_[done % 2].get(),
                size_of(done, into.size()));
  }
}

void Staging::write(std::span<const std::byte> from, std::byte* into, Stream stream) {
  const std::size_t count = (from.size() + block_bytes_ - 1) / block_bytes_;
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= 2) device_.synchronize(copied_[i % 2].get());
    const std::size_t bytes = size_of(i, from.size());
    std::memcpy(blocks_[i % 2].get(), from.data() + i * block_bytes_, bytes);
    device_.copy(dense(into + i * block_bytes_, blocks_[i % 2].get(), bytes), stream);
    device_.record(copied_[i % 2].get(), stream);
  }
  device_.synchronize(stream);
}

}  // namespace fourfold::run::cuda
