// Pictures in the IDX format of MNIST and Fashion-MNIST: a file of pictures and one of labels.
#pragma once

#include <memory>
#include <string>

#include "data/picture_set.h"

namespace fourfold::data {

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
