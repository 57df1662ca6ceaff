#include "base/hash.h"

// Compiled here, for this machine's vectors: the library's own code is that of any x86-64.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold {

struct ChunkHashes::State {
  State() : xxh(XXH3_createState()) { require(xxh != nullptr, "a hash has memory for its state"); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
  XXH3_state_t* xxh;
};

std::uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash128_text(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return format("{:016x}{:016x}", hash.high64, hash.low64);
}

ChunkHashes::ChunkHashes(std::int64_t chunk_bytes)
    : state_(std::make_unique<State>()), chunk_bytes_(chunk_bytes) {
  require(chunk_bytes > 0, "a chunk has bytes");
  XXH3_64bits_reset(state_->xxh);
}
ChunkHashes::ChunkHashes(ChunkHashes&&) noexcept = default;
ChunkHashes& ChunkHashes::operator=(ChunkHashes&&) noexcept = default;
ChunkHashes::~ChunkHashes() = default;

void ChunkHashes::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto room = static_cast<std::size_t>(chunk_bytes_ - filled_);
    const std::size_t count = std::min(room, bytes.size());
    XXH3_64bits_update(state_->xxh, bytes.data(), count);
    filled_ += static_cast<std::int64_t>(count);
    bytes = bytes.subspan(count);
    if (filled_ < chunk_bytes_) continue;
    hashes_.push_back(XXH3_64bits_digest(state_->xxh));
    XXH3_64bits_reset(state_->xxh);
    filled_ = 0;
  }
}

std::vector<std::uint64_t> ChunkHashes::finish() {
  if (filled_ > 0) hashes_.push_back(XXH3_64bits_digest(state_->xxh));
  filled_ = 0;
  return std::exchange(hashes_, {});
}

}  // namespace fourfold
