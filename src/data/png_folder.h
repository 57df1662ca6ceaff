// Pictures as PNG files in folders that are their labels. Not how a PNG is decoded (png.h).
#pragma once

#include <memory>
#include <string>

#include "data/picture_set.h"

namespace fourfold::data {

/// A folder with subfolders in which more than half of the files are named *.png. Reads no file.
bool is_png_folder(const std::string& path);
/// A folder with any file named *.png in it or in its subfolders: one that may be meant.
bool has_pngs(const std::string& path);

/// Each subfolder of `path` is a label, in the order of their names' bytes, and each file directly
/// in it a picture, in the same order; both may be links. Hidden names (".x") count nothing, nor do
/// files beside the subfolders unless they are named *.png. A folder within a label's folder, a
/// label without files, and a PNG beside the subfolders are errors.
///
/// All pictures have the size and the number of channels that most of them have (of several such
/// shapes, the one that comes first). A picture is bad where it has another shape or cannot be
/// decoded.
///
/// When a set is opened, the first and last bytes of each file are read: files that are no PNG, of
/// another shape, cut off, or too large are found then. What only decoding finds (damage) is found
/// when the picture is read if the policy is to stop, and when the set is opened, which then
/// decodes every file once, if bad pictures are left out.
///
/// The hash has each file's name, size and those bytes, which include checksums of its content.
/// Errors: as `open_pictures` says. Memory: the names, and 12 bytes a picture.
std::unique_ptr<PictureSet> open_png_folder(const std::string& path, BadPictures bad);

}  // namespace fourfold::data
