// Pictures in the IDX format of MNIST and Fashion-MNIST: a file of pictures and one of labels,
// each a header of sizes, then bytes (Y. LeCun, C. Cortes, C. Burges).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/data_file.h"
#include "data/picture_set.h"

namespace fourfold::data {

/// Unsigned bytes of one to four dims: 0, 0, 8, the number of dims, each dim as four bytes, the
/// largest first, and the values, the last dim fastest. Plain files are read at need, packed ones
/// are unpacked into memory, at most 2 GiB.
class IdxFile {
 public:
  /// Errors: UserError(bad_data) for a file that is none, claims more than it may, has more bytes
  /// than it claims, or is packed and damaged. One that has fewer is none: see size().
  explicit IdxFile(std::string path);
  /// By its first bytes, unpacked where it is gzip or zstd. False for what cannot be read.
  static bool is_idx(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  /// How many values the header claims, and how many there are, which is less where the file is cut
  /// off.
  std::int64_t claimed() const { return claimed_; }
  std::int64_t size() const { return size_; }
  /// Values that are there. Errors: as DataFile's.
  void read(std::int64_t first, std::span<std::uint8_t> into) const;
  /// A hash of what the file holds: of samples where it is plain, else of all.
  std::uint64_t hash() const;

 private:
  std::int64_t header_bytes() const { return 4 + 4 * std::ssize(dims_); }

  std::string path_;
  std::vector<std::int64_t> dims_;
  std::int64_t claimed_ = 0, size_ = 0;
  std::variant<std::vector<std::byte>, DataFile> values_;  // unpacked; or the file with its header
};

/// A file that begins as IDX does, once unpacked, or is named *idx3-ubyte* or *idx4-ubyte*; or a
/// folder with a file so named.
bool is_idx(const std::string& path);

/// The file of pictures has three dims (number, height, width: grey) or four (channels last, 1 or
/// 3). Its labels are a file of one dim in the same folder, whose name has "labels" in the place of
/// "images" and "idx1" in the place of "idx3": t10k-images-idx3-ubyte.gz has its labels in
/// t10k-labels-idx1-ubyte.gz. Each may be plain or packed. A folder must have one such pair.
///
/// There are as many classes as the largest label says, without names. A picture is bad where the
/// file ends before its end, whole as the file's compression may be. Errors: as `open_pictures`
/// says, always for labels that are not as many as the pictures and for damaged compression.
/// Memory: 4 bytes a picture, and all of a packed file, at most 2 GiB.
std::unique_ptr<PictureSet> open_idx(const std::string& path, BadPictures bad);

}  // namespace fourfold::data
