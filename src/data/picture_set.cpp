#include "data/picture_set.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "data/cifar.h"
#include "data/data_file.h"
#include "data/idx.h"
#include "data/png_folder.h"

namespace fourfold::data {

PictureSet::PictureSet(PictureFacts facts) : facts_(std::move(facts)) {
  if (facts_.labels.empty())
    throw UserError(
        ExitCode::bad_data,
        format("{}: has no pictures, expected at least one; check the path", facts_.path));
  for (const std::int32_t label : facts_.labels)
    require(label >= 0 && label < facts_.num_classes, "each label is one of the classes");
  require(facts_.class_names.empty() || std::ssize(facts_.class_names) == facts_.num_classes,
          "each class has a name, or none has");
}

std::string PictureSet::class_name(std::int64_t label) const {
  return facts_.class_names.empty() ? format("{}", label)
                                    : facts_.class_names[static_cast<std::size_t>(label)];
}

std::string PictureSet::fingerprint() const {
  return format("{} of {} {}", counted(num_pictures(), "picture"), shape().text(), facts_.hash);
}

bool is_picture_set(const std::string& path) {
  return is_idx(path) || is_cifar(path) || is_png_folder(path);
}

std::unique_ptr<PictureSet> open_pictures(const std::string& path, BadPictures bad) {
  if (is_idx(path)) return open_idx(path, bad);
  if (is_cifar(path)) return open_cifar(path, bad);
  if (has_pngs(path)) return open_png_folder(path, bad);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) DataFile file(path);  // says if it is missing
  throw UserError(ExitCode::bad_data,
                  format("{}: has no pictures, expected .bin files of CIFAR, IDX files (gzip or "
                         "plain), or a folder with a subfolder of PNGs for each label; check the "
                         "path",
                         path));
}

}  // namespace fourfold::data
