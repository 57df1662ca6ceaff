#include "checkpoint/shard.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "checkpoint/store.h"

namespace fourfold::checkpoint {

StoredFile write_shard(FileSystem& files, const std::string& folder, const std::string& name,
                       std::span<const TensorView> tensors, double patience_s) {
  const std::string path = format("{}/{}", folder, name);
  StoredFile stored{name, 0, {}};
  ChunkHashes hashes(chunk_bytes);
  // The folder was made by rank 0, maybe on another host.
  const auto file = with_patience(patience_s, [&] { return files.create(path); });
  emit_safetensors(path, tensors, default_metadata(), [&](std::span<const std::byte> bytes) {
    // In pieces, so that what was hashed is still in the cache when it is written.
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), std::size_t{1} << 20));
      hashes.add(piece);
      file->write(piece);
      stored.size_bytes += static_cast<std::int64_t>(piece.size());
      bytes = bytes.subspan(piece.size());
    }
  });
  file->sync();
  file->close();
  stored.chunk_hashes = hashes.finish();
  return stored;
}

namespace {

std::unique_ptr<FileSystem::Reader> open_shard(FileSystem& files, const std::string& path,
                                               const StoredFile& stored) {
  auto file = files.open(path);
  if (file->size() != stored.size_bytes)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: has {} bytes, its manifest says {}; the checkpoint is damaged",
                           path, file->size(), stored.size_bytes));
  return file;
}

void read_and_check(const FileSystem::Reader& file, const std::string& path,
                    const StoredFile& stored, std::size_t chunk, std::span<std::byte> into) {
  // In pieces, so that what was read is still in the core's own cache when it is hashed.
  constexpr std::size_t piece_bytes = std::size_t{256} << 10;
  ChunkHashes hashes(chunk_bytes);
  for (std::size_t done = 0; done < into.size(); done += piece_bytes) {
    const auto piece = into.subspan(done, std::min(piece_bytes, into.size() - done));
    file.read(static_cast<std::int64_t>(chunk) * chunk_bytes + static_cast<std::int64_t>(done),
              piece);
    hashes.add(piece);
  }
  const std::uint64_t found = hashes.finish().at(0), wanted = stored.chunk_hashes.at(chunk);
  if (found != wanted)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: chunk {} of {} has the hash {:016x}, expected {:016x}; the file is "
                           "damaged",
                           path, chunk, stored.chunk_hashes.size(), found, wanted));
}

}  // namespace

void check_shard(FileSystem& files, const std::string& folder, const StoredFile& stored) {
  const std::string path = format("{}/{}", folder, stored.name);
  const auto file = open_shard(files, path, stored);
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(chunk_bytes, stored.size_bytes)));
  for (std::size_t chunk = 0; chunk < stored.chunk_hashes.size(); ++chunk) {
    const std::int64_t left = stored.size_bytes - static_cast<std::int64_t>(chunk) * chunk_bytes;
    const auto size = static_cast<std::size_t>(std::min(chunk_bytes, left));
    read_and_check(*file, path, stored, chunk, std::span(bytes).first(size));
  }
}

ShardReader::ShardReader(FileSystem& files, const std::string& folder, const StoredFile& stored,
                         double patience_s)
    : path_(format("{}/{}", folder, stored.name)), stored_(stored) {
  file_ = with_patience(patience_s, [&] { return open_shard(files, path_, stored); });
  placed_ = read_safetensors_header(
      [this](std::int64_t offset, std::span<std::byte> into) { read_file(offset, into); },
      stored.size_bytes, path_);
}

std::int64_t ShardReader::left_of_chunk(std::int64_t begin) const {
  return chunk_bytes - (placed_->data_begin + begin) % chunk_bytes;
}

void ShardReader::read(std::int64_t begin, std::span<std::byte> into) {
  read_file(placed_->data_begin + begin, into);
}

void ShardReader::read_file(std::int64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const auto chunk = static_cast<std::size_t>(offset / chunk_bytes);
    const std::int64_t first = static_cast<std::int64_t>(chunk) * chunk_bytes;
    const auto size = static_cast<std::size_t>(std::min(chunk_bytes, stored_.size_bytes - first));
    const auto skipped = static_cast<std::size_t>(offset - first);
    const std::size_t count = std::min(into.size(), size - skipped);
    if (count == size && loaded_ != chunk) {
      read_chunk(chunk, into.first(count));
    } else {
      if (loaded_ != chunk) {
        loaded_.reset();
        chunk_.resize(size);
        read_chunk(chunk, chunk_);
        loaded_ = chunk;
      }
      std::memcpy(into.data(), chunk_.data() + skipped, count);
    }
    into = into.subspan(count);
    offset += static_cast<std::int64_t>(count);
  }
}

void ShardReader::read_chunk(std::size_t chunk, std::span<std::byte> into) const {
  read_and_check(*file_, path_, stored_, chunk, into);
}

}  // namespace fourfold::checkpoint
