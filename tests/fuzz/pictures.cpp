// Bytes as files of pictures. The first byte chooses the format: 'c' records of CIFAR, 'i' IDX (the
// labels are made to fit), 'g' the same, packed by gzip, 'p' a PNG, 'q' one whose checksums are
// mended. Any bytes give pictures that can be read, with labels that are classes, or an error about
// data; and what is left out is no longer found.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/picture_set.h"
#include "data/png_folder.h"
#include "fuzz/folder.h"
#include "fuzz/target.h"

namespace fourfold {
namespace {

using Open = std::unique_ptr<data::PictureSet> (*)(const std::string&, data::BadPictures);

/// False where a picture cannot be read.
bool read_all(const data::PictureSet& set) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set.shape().size_bytes()));
  constexpr std::int64_t most_pictures = 64;
  bool is_fine = true;
  for (std::int64_t i = 0; i < std::min(set.num_pictures(), most_pictures); ++i) {
    require(set.label(i) >= 0 && set.label(i) < set.num_classes(), "a label is a class");
    try {
      set.read(i, bytes);
    } catch (const UserError& error) {
      require(error.code() == ExitCode::bad_data, "a bad picture ends with the code of data");
      is_fine = false;
    }
  }
  return is_fine;
}

void try_opening(Open open, const std::string& path, data::BadPictures bad) {
  try {
    const auto set = open(path, bad);
    require(read_all(*set) || !bad.skip, "bad pictures are left out when the set is opened");
    require(set->fingerprint() == open(path, bad)->fingerprint(), "what is opened is the same");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::bad_data, "a bad set ends with the code of data");
  }
}

/// As many labels as the header of the pictures claims, if those are few.
std::string labels_for(std::string_view pictures) {
  constexpr std::size_t few = 1000;
  std::size_t count = 0;
  for (std::size_t i = 4; i < 8 && i < pictures.size(); ++i)
    count = count * 256 + static_cast<unsigned char>(pictures[i]);
  std::string labels = {0, 0, 8, 1};
  for (int shift = 24; shift >= 0; shift -= 8) labels += static_cast<char>(count >> shift & 0xff);
  return labels + std::string(std::min(count, few), '\2');
}

/// The PNG with the right checksum after each chunk that is whole.
std::string with_checksums(std::string png) {
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(png[i])};
  };
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t size = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    const std::size_t end = at + 8 + size;
    if (end + 4 > png.size()) break;
    std::uint32_t crc = 0xffffffff;
    for (std::size_t i = at + 4; i < end; ++i) {
      crc ^= byte(i);
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    for (std::size_t i = 0; i < 4; ++i)
      png[end + i] = static_cast<char>(~crc >> (24 - 8 * i) & 0xff);
    at = end + 4;
  }
  return png;
}

}  // namespace
}  // namespace fourfold

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  static const fuzz::Folder folder;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  std::string path;
  Open open = nullptr;
  folder.clear();
  if (bytes[0] == 'c') {
    path = folder.path("a.bin");
    fuzz::write(path, rest);
    open = data::open_cifar;
  } else if (bytes[0] == 'i' || bytes[0] == 'g') {
    path = folder.path("a-images-idx3-ubyte");
    fuzz::write(path, rest);
    fuzz::write(folder.path("a-labels-idx1-ubyte"),
                bytes[0] == 'i' ? labels_for(rest) : labels_for({"\0\0\0\0\0\0\0\3", 8}));
    open = data::open_idx;
  } else if (bytes[0] == 'p' || bytes[0] == 'q') {
    path = folder.path("");
    fuzz::write(folder.path("label/a.png"),
                bytes[0] == 'p' ? std::string(rest) : with_checksums(std::string(rest)));
    open = data::open_png_folder;
  } else {
    return 0;
  }
  data::is_picture_set(path);
  try_opening(open, path, {});
  try_opening(open, path, {5000});
  return 0;
}
