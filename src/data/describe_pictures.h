// The part of describe.h that shows pictures.
#pragma once

#include <string>

#include "data/bad_pictures.h"
#include "data/describe.h"

namespace fourfold::data {

/// Shape, classes with their counts, mean and deviation of each channel, and the first pictures of
/// a set. Reads every picture.
Description describe_pictures(const std::string& path, BadPictures bad);

}  // namespace fourfold::data
