// The bytes of a file from its beginning to its end, unpacked if it is compressed. Not text
// (text_source.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace fourfold::data {

/// Errors of all functions: UserError(bad_data) with the file and the place in it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// The next bytes, as many as fit; fewer only at the end, where it is 0.
  virtual std::size_t read(std::span<std::byte> into) = 0;
  /// Passes over so many bytes, or all that there are.
  virtual void skip(std::int64_t bytes) = 0;
  /// How far it is in the file as it lies on the disk.
  virtual std::int64_t position_in_file() const = 0;
};

/// Plain, gzip or zstd, by its first bytes, whatever its name.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// Unpackers; `file` names the packed file in messages. Several members one after another are one
/// text.
std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed, std::string file);
std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource> packed, std::string file);

}  // namespace fourfold::data
