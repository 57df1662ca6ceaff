#include "base/hash.h"

// Compiled here, for this machine's vectors: the library's own code is that of any x86-64.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold {

namespace {

struct Xxh3 {
  Xxh3() : xxh(XXH3_createState()) {
    require(xxh != nullptr, "a hash has memory for its state");
    XXH3_64bits_reset(xxh);
  }
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  ~Xxh3() { XXH3_freeState(xxh); }
  XXH3_state_t* xxh;
};

}  // namespace

struct RunningHash::State : Xxh3 {};
struct ChunkHashes::State : Xxh3 {};

RunningHash::RunningHash() : state_(std::make_unique<State>()) {}
RunningHash::RunningHash(RunningHash&&) noexcept = default;
RunningHash& RunningHash::operator=(RunningHash&&) noexcept = default;
RunningHash::~RunningHash() = default;

void RunningHash::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string RunningHash::text() const {
  return format("{:016x}", XXH3_64bits_digest(state_->xxh));
}

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
