// The index of a Megatron IndexedDataset, PREFIX.idx: where each sequence of tokens lies in
// PREFIX.bin, and which sequences are one document. Nothing of it is believed before it is checked.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/data_file.h"
#include "data/token_dtype.h"

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

/// Layout (Megatron-LM, core/datasets/indexed_dataset.py), little-endian and unaligned:
///   9 bytes "MMIDIDX\0\0", u64 version 1, u8 dtype, u64 S sequences, u64 D = documents + 1,
///   S i32 lengths in tokens, S i64 offsets in bytes of PREFIX.bin, D i64: the sequences before
///   each document.
class MegatronIndex {
 public:
  static constexpr std::int64_t header_bytes = 34;

  /// A stretch of the stream that lies in one piece in PREFIX.bin: a set that was written in one go
  /// is a single run.
  struct Run {
    std::int64_t token = 0, byte = 0;  // the first of it: in the stream, in the file
  };

  /// Reads the whole index once, in pieces. `bin_bytes` is the size of PREFIX.bin, `bin_path` names
  /// it in messages. Memory: 16 bytes a run and 16 bytes for each `stride` documents. Errors:
  /// UserError(bad_data) for any index that is cut short, damaged, of another version, not of whole
  /// numbers, or that does not describe exactly the bytes of PREFIX.bin.
  MegatronIndex(std::string path, std::int64_t bin_bytes, const std::string& bin_path);

  TokenDtype dtype() const { return dtype_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_sequences() const { return num_sequences_; }
  std::int64_t num_documents() const { return num_documents_; }
  const std::vector<Run>& runs() const { return runs_; }
  const DataFile& file() const { return file_; }

  struct Document {
    std::int64_t first = 0, tokens = 0;
  };
  class Documents;
  /// From one at or before the document that holds the token on, empty ones too. At most `stride`
  /// documents come before it. Allocates nothing.
  Documents documents_before(std::int64_t token) const;

 private:
  static constexpr std::int64_t stride = 1024;
  /// What is kept of every `stride`th document.
  struct Mark {
    std::int64_t token = 0, sequence = 0;
  };

  class Scan;

  DataFile file_;
  TokenDtype dtype_ = TokenDtype::u16;
  std::int64_t num_sequences_ = 0, num_documents_ = 0, num_tokens_ = 0;
  std::vector<Run> runs_;
  std::vector<Mark> marks_;
};

/// Documents in order, read as they are asked for. The index must outlive it.
class MegatronIndex::Documents {
 public:
  std::optional<Document> next();

 private:
  friend class MegatronIndex;
  Documents(const MegatronIndex& index, const Mark& mark, std::int64_t number);

  IndexColumn<std::int32_t> length_;
  IndexColumn<std::int64_t> bound_;
  Document next_;
  std::int64_t sequence_, left_;
};

/// The byte of an index for a dtype; u32 has none.
std::uint8_t megatron_code(TokenDtype dtype);

}  // namespace fourfold::data
