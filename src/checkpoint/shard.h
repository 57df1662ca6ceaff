// One rank's file of a checkpoint: written once with its hashes, read in chunks that are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace fourfold::checkpoint {

/// Writes a safetensors file of these tensors; it is on the disk when this returns. A folder that
/// is not seen yet is waited for. Errors: UserError(storage).
StoredFile write_shard(FileSystem& files, const std::string& folder, const std::string& name,
                       std::span<const TensorView> tensors, double patience_s = 0);

/// Reads all of the file and compares every hash. Errors: UserError(no_checkpoint) for the first
/// that differs. Memory: one chunk.
void check_shard(FileSystem& files, const std::string& folder, const StoredFile& stored);

/// Whatever it returns was hashed, and had the hash of the manifest.
class ShardReader {
 public:
  /// `stored` must outlive the reader. Errors: UserError(no_checkpoint), also where the size or the
  /// header is wrong.
  ShardReader(FileSystem& files, const std::string& folder, const StoredFile& stored,
              double patience_s = 0);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return placed_->header; }
  /// How many bytes of the data stand from there to the end of a chunk: read from chunk to chunk,
  /// they go straight into the caller's memory.
  std::int64_t left_of_chunk(std::int64_t begin) const;
  /// These bytes of the data, which follows the header. Reads each chunk once for calls in rising
  /// order. Errors: UserError(no_checkpoint) that names the file and the chunk.
  void read(std::int64_t begin, std::span<std::byte> into);

 private:
  void read_file(std::int64_t offset, std::span<std::byte> into);
  /// Reads and checks a chunk; `into` has its size.
  void read_chunk(std::size_t chunk, std::span<std::byte> into) const;

  std::string path_;
  const StoredFile& stored_;
  std::unique_ptr<FileSystem::Reader> file_;
  std::vector<std::byte> chunk_;
  std::optional<std::size_t> loaded_;  // the chunk that stands there
  std::optional<PlacedHeader> placed_;
};

}  // namespace fourfold::checkpoint
