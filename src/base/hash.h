// Hashes of bytes, for finding damage. Not proof against an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

/// XXH3 (xxhash.com), 64 bits. Cost: memory speed.
std::uint64_t hash64(std::span<const std::byte> bytes);
/// XXH3, 128 bits, as 32 hexadecimal digits.
std::string hash128_text(std::string_view text);

/// XXH3, 64 bits, of a stream that is still growing.
class RunningHash {
 public:
  RunningHash();
  RunningHash(RunningHash&&) noexcept;
  RunningHash& operator=(RunningHash&&) noexcept;
  ~RunningHash();

  void add(std::span<const std::byte> bytes);
  /// The hash of all that was added so far, as 16 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 64-bit hashes of consecutive chunks of a stream, the last one shorter.
class ChunkHashes {
 public:
  explicit ChunkHashes(std::int64_t chunk_bytes);
  ChunkHashes(ChunkHashes&&) noexcept;
  ChunkHashes& operator=(ChunkHashes&&) noexcept;
  ~ChunkHashes();

  void add(std::span<const std::byte> bytes);
  /// The hashes of all that was added; ends the stream.
  std::vector<std::uint64_t> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::int64_t chunk_bytes_, filled_ = 0;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace fourfold
