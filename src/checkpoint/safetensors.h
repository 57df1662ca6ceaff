// Reads and writes safetensors files: named tensors, nothing that runs. Not which tensors a model
// has: save_model.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "checkpoint/safetensors_header.h"

namespace fourfold::checkpoint {

/// Throws UserError(no_checkpoint): the file, and what is wrong with it.
[[noreturn]] void fail_file(const std::string& path, const std::string& what);

/// A tensor in the caller's memory: dense, row-major, in the machine's (little-endian) byte order.
struct TensorView {
  std::string name;
  ElementType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// Readers of other tools refuse files without it.
inline Metadata default_metadata() {
  return {{"format", "pt"}};
}

/// Writes all tensors, whole or not at all: after a crash `path` holds the old file or the new one.
/// Equal tensors give equal bytes, whatever their order. Errors: UserError(storage).
void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const Metadata& metadata = default_metadata());

/// The same for tensors too large to hold together: each is asked for when its turn comes, in the
/// order of the file, and its bytes are used before the next one is.
using TensorBytes = std::function<std::span<const std::byte>(const TensorInfo&)>;
void write_safetensors(const std::string& path, std::vector<TensorInfo> tensors,
                       const Metadata& metadata, const TensorBytes& bytes_of);

/// What stands in a file before the data of its tensors. `path` is for errors: UserError(storage)
/// where the header is longer than the format allows.
std::string safetensors_header_bytes(const SafetensorsHeader& header, const std::string& path);

/// The bytes of such a file, handed to `sink` piece by piece and in order. `path` is for errors.
using Sink = std::function<void(std::span<const std::byte>)>;
void emit_safetensors(const std::string& path, std::vector<TensorInfo> tensors,
                      const Metadata& metadata, const TensorBytes& bytes_of, const Sink& sink);
void emit_safetensors(const std::string& path, std::span<const TensorView> tensors,
                      const Metadata& metadata, const Sink& sink);

/// Fills the bytes from this place of a file on, or throws.
using ReadAt = std::function<void(std::int64_t offset_bytes, std::span<std::byte> into)>;
struct PlacedHeader {
  SafetensorsHeader header;
  std::int64_t data_begin = 0;  // in the file
};
/// Reads it from a file of `size` bytes. Errors: UserError(no_checkpoint) naming the file and what
/// is wrong.
PlacedHeader read_safetensors_header(const ReadAt& read, std::int64_t size,
                                     const std::string& path);

/// An open file whose header is checked. Reads with pread, so that a file that shrinks is an error
/// and no signal.
class SafetensorsFile {
 public:
  /// Errors: UserError(no_checkpoint) naming the file and what is wrong with it.
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }

  /// Fills `into`, of exactly the tensor's size, with the tensor's bytes. `tensor` is one of
  /// header().tensors(). Errors: UserError(no_checkpoint) when the file has shrunk or cannot be
  /// read.
  void read(const TensorInfo& tensor, std::span<std::byte> into) const;

 private:
  SafetensorsFile(std::string path, Descriptor descriptor, std::int64_t data_begin,
                  SafetensorsHeader header)
      : path_(std::move(path)),
        descriptor_(std::move(descriptor)),
        data_begin_(data_begin),
        header_(std::move(header)) {}

  std::string path_;
  Descriptor descriptor_;
  std::int64_t data_begin_ = 0;  // in the file
  SafetensorsHeader header_;
};

}  // namespace fourfold::checkpoint
