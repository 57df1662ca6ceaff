// CIFAR-10 and CIFAR-100 in their binary form (A. Krizhevsky, Learning Multiple Layers of Features
// from Tiny Images, 2009): records of labels and a picture of 32x32x3. Reads only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/picture_set.h"

namespace fourfold::data {

/// True if a file named *.bin, or one in a folder, may hold such records: its first bytes are no
/// text, it is no shard of llm.c and does not belong to a Megatron set.
bool is_cifar(const std::string& path);

/// A record is a label (CIFAR-10), or a coarse label and a fine one, which counts (CIFAR-100), then
/// 1,024 bytes each of red, green and blue, row by row. Records of several files follow each other,
/// those of a folder sorted by name.
///
/// Which of both it is: batches.meta.txt or fine_label_names.txt beside the files says so; else
/// their sizes, whole numbers of records of 3,073 or 3,074 bytes; else the labels, where the ones
/// of one kind are in range and those of the other are not. Those files also name the classes, a
/// line each, and say how many there are: 10 and 100 without them.
///
/// A picture is bad where its label is no class, or the file ends within it. Errors: as
/// `open_pictures` says. Memory: 24 bytes a picture. Cost: reads all labels.
std::unique_ptr<PictureSet> open_cifar(const std::string& path, BadPictures bad);
/// Files in the order in which they are given; `name` is that of the set.
std::unique_ptr<PictureSet> open_cifar(const std::string& name,
                                       const std::vector<std::string>& files, BadPictures bad);

}  // namespace fourfold::data
