#include "tokenizer/chunk_cache.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace fourfold::tokenizer {

ChunkCache::ChunkCache() : slots_(num_slots) {
  static_assert(sizeof(Slot) == 64, "a slot is one cache line");
}

std::size_t ChunkCache::place_of(std::string_view chunk) {
  return static_cast<std::size_t>(hash64(std::as_bytes(std::span(chunk)))) % num_slots;
}

std::optional<std::span<const std::int32_t>> ChunkCache::find(std::string_view chunk) const {
  if (chunk.empty() || chunk.size() > most_bytes) return std::nullopt;
  const Slot& slot = slots_[place_of(chunk)];
  if (std::string_view(slot.text.data(), slot.num_bytes) != chunk) return std::nullopt;
  return std::span(slot.ids).first(slot.num_ids);
}

void ChunkCache::keep(std::string_view chunk, std::span<const std::int32_t> ids) {
  if (chunk.empty() || chunk.size() > most_bytes || ids.size() > most_ids) return;
  Slot& slot = slots_[place_of(chunk)];
  std::memcpy(slot.text.data(), chunk.data(), chunk.size());
  std::copy(ids.begin(), ids.end(), slot.ids.begin());
  slot.num_bytes = static_cast<std::uint8_t>(chunk.size());
  slot.num_ids = static_cast<std::uint8_t>(ids.size());
}

std::unique_ptr<ChunkCache> ChunkCaches::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto cache = std::move(free_.back());
      free_.pop_back();
      return cache;
    }
  }
  return std::make_unique<ChunkCache>();
}

void ChunkCaches::give_back(std::unique_ptr<ChunkCache> cache) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(cache));
}

}  // namespace fourfold::tokenizer
