// Pictures with labels, wherever they lie: all of one size, in an order that follows from the
// files. Not what becomes of them on the way to a model (normalisation, flips), and not batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/bad_pictures.h"
#include "data/picture_shape.h"

namespace fourfold::data {

/// What is known of a set once it is open.
struct PictureFacts {
  std::string path;  // as it was given
  std::string kind;  // "CIFAR-10 pictures": for people
  PictureShape shape;
  std::vector<std::int32_t> labels;      // of each picture, in [0, num_classes)
  std::int64_t num_classes = 0;          // some may have no picture
  std::vector<std::string> class_names;  // by label; empty where they are not known
  /// Files of a folder that belong to another set, by their names: "test_batch.bin".
  std::vector<std::string> other_files;
  LeftOut passed_over;  // names of a folder that belong to no set of its format
  LeftOut left_out;     // bad pictures
  std::string hash;     // 16 hexadecimal digits, of the files and of which pictures were left out
};

/// Which pictures a set has, and in which order, follows from the files (and the policy for bad
/// ones) alone: it is the same on all ranks and after any resume. For several threads at once.
class PictureSet {
 public:
  virtual ~PictureSet() = default;
  PictureSet(const PictureSet&) = delete;
  PictureSet& operator=(const PictureSet&) = delete;

  const PictureFacts& facts() const { return facts_; }
  std::int64_t num_pictures() const { return static_cast<std::int64_t>(facts_.labels.size()); }
  const PictureShape& shape() const { return facts_.shape; }
  std::int64_t num_classes() const { return facts_.num_classes; }
  /// Requires 0 <= picture < num_pictures(), as all functions of a picture do.
  std::int32_t label(std::int64_t picture) const {
    return facts_.labels[static_cast<std::size_t>(picture)];
  }
  /// "cat", or "3" where names are not known. Requires 0 <= label < num_classes().
  std::string class_name(std::int64_t label) const;
  /// "5,000 pictures of 32x32x3 0123456789abcdef": changes when the data do (see `hash`).
  std::string fingerprint() const;

  /// The bytes of a picture, in [0, 255], order height, width, channel; `into` has
  /// shape().size_bytes() of them. Errors: UserError(bad_data) with the picture's place for one
  /// that cannot be decoded, is cut off or is no longer what it was when the set was opened.
  /// Cost: one read of a file; nothing is allocated but for PNGs.
  virtual void read(std::int64_t picture, std::span<std::uint8_t> into) const = 0;
  /// "train.bin, picture 17", "shapes/star/03.png": for messages.
  virtual std::string place(std::int64_t picture) const = 0;
  /// The paths of the files that hold the pictures; none where they are made up.
  virtual std::vector<std::string> files() const = 0;

 protected:
  /// Requires labels within the classes. Errors: UserError(bad_data) for a set without pictures.
  explicit PictureSet(PictureFacts facts);

 private:
  PictureFacts facts_;
};

/// True if a file or folder looks like pictures in one of the formats of `open_pictures`. Damaged
/// ones do too, so that opening says what is wrong. Reads the first bytes of some files. Folders
/// that cannot be listed and files that cannot be read are no pictures.
bool is_picture_set(const std::string& path);

/// Opens pictures in any of these formats, told apart by what the files hold:
/// - CIFAR-10 and CIFAR-100 in their binary form: a file, or a folder of them (cifar.h);
/// - IDX, plain or gzip: a file of pictures with its labels beside it, or a folder (idx.h);
/// - a folder with a subfolder of PNGs for each label (png_folder.h). Here a single file named
/// *.png
///   makes it one, so that all others in it are found to be bad.
///
/// In a folder of CIFAR or IDX, files whose names have the word "test" or "t10k" belong to another
/// set where there are others too (facts().other_files): name such a file alone.
///
/// Errors: UserError(bad_data) with the place for files that are missing, damaged or contradict
/// each other, and for bad pictures as `bad` says. A file that the system fails to read is an error
/// whatever `bad` is: other ranks may be able to read it.
std::unique_ptr<PictureSet> open_pictures(const std::string& path, BadPictures bad = {});

}  // namespace fourfold::data
