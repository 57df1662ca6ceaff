#include "data/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "data/idx_file.h"
#include "data/picture_folder.h"

namespace fourfold::data {
namespace {

namespace fs = std::filesystem;

bool has_name_of_pictures(std::string_view name) {
  return name.find("idx3-ubyte") != name.npos || name.find("idx4-ubyte") != name.npos;
}

std::string place_of(const std::string& file, std::int64_t picture) {
  return format("{}, picture {}", file, picture);
}

class IdxPictures final : public PictureSet {
 public:
  IdxPictures(PictureFacts facts, IdxFile pictures)
      : PictureSet(std::move(facts)), pictures_(std::move(pictures)) {}

  void read(std::int64_t picture, std::span<std::uint8_t> into) const override {
    require(std::ssize(into) == shape().size_bytes(), "there is room for a picture");
    pictures_.read(picture * shape().size_bytes(), into);
  }
  std::string place(std::int64_t picture) const override {
    return place_of(pictures_.path(), picture);
  }

 private:
  IdxFile pictures_;
};

ChosenFiles files_of_folder(const std::string& folder) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : list_folder(folder))
    if (!entry.is_folder && has_name_of_pictures(entry.name)) names.push_back(entry.name);
  return choose_files(names);
}

/// The names that the labels of a file of pictures may have; none where it has no such name itself.
std::vector<std::string> names_of_labels(std::string name) {
  constexpr std::string_view images = "images", gz = ".gz";
  const std::size_t at = name.rfind(images);
  if (at == name.npos) return {};
  name.replace(at, images.size(), "labels");
  for (const std::string_view idx : {"idx3", "idx4"})
    if (const std::size_t mark = name.rfind(idx); mark != name.npos)
      name.replace(mark, idx.size(), "idx1");
  const bool is_packed = name.ends_with(gz);
  return {name, is_packed ? name.substr(0, name.size() - gz.size()) : name + std::string(gz)};
}

std::string path_of_labels(const std::string& pictures) {
  const fs::path path(pictures);
  const auto names = names_of_labels(path.filename().string());
  if (names.empty())
    throw UserError(ExitCode::bad_data,
                    format("{}: has no labels, which are found by its name; rename both files as "
                           "train-images-idx3-ubyte and train-labels-idx1-ubyte",
                           pictures));
  for (const std::string& name : names)
    if (file_exists((path.parent_path() / name).string()))
      return (path.parent_path() / name).string();
  throw UserError(ExitCode::bad_data,
                  format("{}: has no labels beside it, expected them in {} or {}; bring that file",
                         pictures, names[0], names[1]));
}

/// The shape of pictures, from the dims after their number.
PictureShape shape_of(const IdxFile& pictures) {
  const auto& dims = pictures.dims();
  if (dims.size() < 3)
    throw UserError(ExitCode::bad_data,
                    format("{}: has {}, expected 3 or 4 for pictures; name the file of pictures",
                           pictures.path(), counted(std::ssize(dims), "dim")));
  const PictureShape shape = {dims[1], dims[2], dims.size() == 4 ? dims[3] : 1};
  if (const auto fault = fault_of(shape))
    throw UserError(ExitCode::bad_data,
                    format("{}: each picture {}; bring the file again", pictures.path(), *fault));
  return shape;
}

std::vector<std::uint8_t> read_labels(const std::string& path, const IdxFile& pictures) {
  const IdxFile file(path);
  const auto fail = [&](const std::string& what) {
    throw UserError(ExitCode::bad_data, format("{}: {}; bring both files again", path, what));
  };
  if (file.dims().size() != 1)
    fail(format("has {} dims, expected 1 for labels", file.dims().size()));
  if (file.dims()[0] != pictures.dims()[0])
    fail(format("has {}, expected one for each of the {} of {}", counted(file.dims()[0], "label"),
                counted(pictures.dims()[0], "picture"), pictures.path()));
  if (file.size() < file.claimed())
    fail(format("is cut off: has {} of its {} labels", format_grouped(file.size()),
                format_grouped(file.claimed())));
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(file.size()));
  file.read(0, labels);
  return labels;
}

/// How many pictures are whole: the first ones.
std::int64_t count_whole(const IdxFile& pictures, std::int64_t picture_bytes, BadPictureList& bad) {
  const std::int64_t whole = pictures.size() / picture_bytes;
  for (std::int64_t picture = whole; picture < pictures.dims()[0]; ++picture) {
    const std::int64_t there = std::max(pictures.size() - picture * picture_bytes, std::int64_t{0});
    bad.add(place_of(pictures.path(), picture),
            format("is cut off: the file has {} of its {} bytes", there, picture_bytes),
            "bring the file again, or leave bad pictures out with skip:N");
  }
  return whole;
}

std::string picture_file_of(const std::string& path, PictureFacts& facts) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  ChosenFiles files = files_of_folder(path);
  if (files.chosen.size() != 1)
    throw UserError(
        ExitCode::bad_data,
        format("{}: has {} of pictures ({}), expected one; name the file that you mean", path,
               counted(std::ssize(files.chosen), "file"), join(files.chosen, ", ")));
  facts.other_files = std::move(files.others);
  return join_path(path, files.chosen[0]);
}

}  // namespace

bool is_idx(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) try {
      return !files_of_folder(path).chosen.empty();
    } catch (const UserError&) {
      return false;
    }
  return fs::is_regular_file(path, ignored) &&
         (has_name_of_pictures(fs::path(path).filename().string()) || IdxFile::is_idx(path));
}

std::unique_ptr<PictureSet> open_idx(const std::string& path, BadPictures policy) {
  PictureFacts facts;
  facts.path = path;
  IdxFile pictures(picture_file_of(path, facts));
  facts.kind = "IDX pictures";
  facts.shape = shape_of(pictures);
  const auto labels = read_labels(path_of_labels(pictures.path()), pictures);
  BadPictureList bad(policy, path);
  const std::int64_t whole = count_whole(pictures, facts.shape.size_bytes(), bad);
  facts.labels.assign(labels.begin(), labels.begin() + whole);
  if (whole > 0) facts.num_classes = 1 + *std::max_element(labels.begin(), labels.end());
  facts.left_out = bad.left_out();
  const std::uint64_t hashes[] = {pictures.hash(), hash64(std::as_bytes(std::span(labels))),
                                  static_cast<std::uint64_t>(whole)};
  RunningHash hash;
  hash.add(std::as_bytes(std::span(hashes)));
  facts.hash = hash.text();
  return std::make_unique<IdxPictures>(std::move(facts), std::move(pictures));
}

}  // namespace fourfold::data
