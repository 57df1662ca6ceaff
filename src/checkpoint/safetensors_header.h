// What a safetensors file says about itself, checked. Not its tensors' bytes: safetensors.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "checkpoint/element_type.h"

namespace fourfold::checkpoint {

struct TensorInfo {
  std::string name;
  ElementType dtype = DType::f32;
  Shape shape;
  std::int64_t begin = 0, end = 0;  // bytes, counted from the start of the data
  bool operator==(const TensorInfo&) const = default;

  std::int64_t size_bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

/// The longest header that is read or written. The format allows 100,000,000 bytes.
inline constexpr std::int64_t max_header_bytes = std::int64_t{64} << 20;

/// Only `parse` and `lay_out` make one, so whoever holds one may rely on: names are unique; every
/// tensor's bytes are those of its shape and dtype; together they cover the data exactly, in the
/// order of the list.
class SafetensorsHeader {
 public:
  /// `text`: the JSON with its padding; `data_bytes`: what follows it in the file. Errors:
  /// UserError(no_checkpoint) naming `file` and what is wrong.
  static SafetensorsHeader parse(std::string_view text, std::int64_t data_bytes,
                                 std::string_view file);

  /// Places tensors (begin and end are ignored) in the order of the format's reference writer, by
  /// falling size of the element, then by name, so that equal models give equal files. Requires
  /// unique names other than "__metadata__".
  static SafetensorsHeader lay_out(std::vector<TensorInfo> tensors, Metadata metadata);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  std::int64_t data_bytes() const { return tensors_.empty() ? 0 : tensors_.back().end; }
  /// Null when there is none of that name. Cost: linear.
  const TensorInfo* find(std::string_view name) const;

  /// The JSON, padded with spaces to a multiple of 8 bytes.
  std::string text() const;

 private:
  SafetensorsHeader(std::vector<TensorInfo> tensors, Metadata metadata)
      : tensors_(std::move(tensors)), metadata_(std::move(metadata)) {}

  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
};

}  // namespace fourfold::checkpoint
