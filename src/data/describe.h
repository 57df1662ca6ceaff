// What data is, for people: its kind, its sizes, its beginning. Not how it is read for training:
// source.h.
#pragma once

#include <string>

#include "base/rows.h"
#include "data/bad_pictures.h"

namespace fourfold::data {

struct Description {
  std::string title;  // the path, as the data itself is named
  Rows rows;
  std::string text;  // stands below the rows, whole lines: a histogram, pictures
};

/// The description of whatever the path names: data of one of the formats (format.h), or a
/// tokenizer. `field`: of JSON lines, which one is the text. Reads all of a text and every
/// picture. Errors: UserError(bad_data) as its reader has them.
Description describe(const std::string& path, const std::string& field, BadPictures bad);

Description describe_text(const std::string& path, const std::string& field);
Description describe_megatron(const std::string& path);
Description describe_shards(const std::string& path);
/// Shape, classes with their counts, mean and deviation of each channel, and the first pictures of
/// a set. Reads every picture.
Description describe_pictures(const std::string& path, BadPictures bad);

}  // namespace fourfold::data
