// Reads and writes safetensors files: named tensors, nothing that runs. Not which tensors a model
// has: model_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "checkpoint/safetensors_header.h"

namespace fourfold::checkpoint {

/// A tensor in the caller's memory: dense, row-major, in the machine's (little-endian) byte order.
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
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
