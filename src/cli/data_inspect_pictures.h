// The part of `data inspect` that shows pictures.
#pragma once

#include <string>

#include "data/bad_pictures.h"

namespace fourfold::cli {

/// Prints what a set of pictures is: shape, classes with their counts, mean and deviation of each
/// channel, the first pictures. Reads every picture.
void inspect_pictures(const std::string& path, data::BadPictures bad);

}  // namespace fourfold::cli
