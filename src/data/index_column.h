// An array inside a file, read in order by blocks. For the index of a Megatron set.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "data/data_file.h"

namespace fourfold::data {

/// Allocates nothing. The file must outlive it.
template <class T>
class IndexColumn {
 public:
  /// `size` elements from byte `offset` on, which the file holds.
  IndexColumn(const DataFile& file, std::int64_t offset, std::int64_t size)
      : file_(&file), offset_(offset), left_(size) {}

  T next() {
    if (at_ == filled_) fill();
    return buffer_[at_++];
  }

 private:
  void fill() {
    require(left_ > 0, "an index is not read beyond its arrays");
    filled_ = static_cast<std::size_t>(std::min(left_, static_cast<std::int64_t>(buffer_.size())));
    file_->read(offset_, std::as_writable_bytes(std::span(buffer_).first(filled_)));
    offset_ += static_cast<std::int64_t>(filled_ * sizeof(T));
    left_ -= static_cast<std::int64_t>(filled_);
    at_ = 0;
  }

  const DataFile* file_;
  std::int64_t offset_, left_;
  std::array<T, 1024> buffer_;
  std::size_t filled_ = 0, at_ = 0;
};

}  // namespace fourfold::data
