#include "data/idx.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "data/byte_source.h"
#include "data/picture_folder.h"
#include "data/sampled_hash.h"

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
  std::vector<std::string> files() const override { return {pictures_.path()}; }

 private:
  IdxFile pictures_;
};

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

struct PictureFiles {
  ChosenFiles files;
  LeftOut passed_over;  // neither pictures nor labels of any
};

PictureFiles picture_files_of(const std::string& folder) {
  FolderNames all = list_folder(folder);
  PictureFiles pictures;
  pictures.passed_over = std::move(all.hidden);
  std::vector<std::string> names;
  std::set<std::string> labels;
  for (const FolderEntry& entry : all.entries)
    if (!entry.is_folder && has_name_of_pictures(entry.name)) {
      names.push_back(entry.name);
      for (std::string& name : names_of_labels(entry.name)) labels.insert(std::move(name));
    }
  for (const FolderEntry& entry : all.entries) {
    if (entry.is_folder)
      pictures.passed_over.add(entry.name, "is a folder");
    else if (!has_name_of_pictures(entry.name) && !labels.contains(entry.name))
      pictures.passed_over.add(entry.name, "is no file of pictures or of their labels by its name");
  }
  pictures.files = choose_files(names);
  return pictures;
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
            "bring the file again, or leave bad ones out with bad_images skip:N");
  }
  return whole;
}

std::string picture_file_of(const std::string& path, PictureFacts& facts) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  PictureFiles pictures = picture_files_of(path);
  ChosenFiles& files = pictures.files;
  if (files.chosen.size() != 1)
    throw UserError(
        ExitCode::bad_data,
        format("{}: has {} of pictures ({}), expected one; name the file that you mean", path,
               counted(std::ssize(files.chosen), "file"), join(files.chosen, ", ")));
  facts.other_files = std::move(files.others);
  facts.passed_over = std::move(pictures.passed_over);
  return join_path(path, files.chosen[0]);
}

}  // namespace

bool is_idx(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) try {
      return !picture_files_of(path).files.chosen.empty();
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

namespace {

constexpr std::size_t most_dims = 4;
constexpr std::int64_t most_unpacked = std::int64_t{2} << 30;

[[noreturn]] void fail_idx(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::bad_data, format("{}: {}; bring the file again", path, what));
}

bool begins_as_idx(std::span<const std::byte> bytes) {
  constexpr std::byte unsigned_bytes{8};
  return bytes.size() >= 4 && bytes[0] == std::byte{0} && bytes[1] == std::byte{0} &&
         bytes[2] == unsigned_bytes;
}

std::vector<std::int64_t> read_dims(const std::string& path, ByteSource& source) {
  std::array<std::byte, 4 + 4 * most_dims> header{};
  if (source.read(std::span(header).first(4)) < 4 || !begins_as_idx(header))
    fail_idx(path, "does not begin as an IDX file of bytes does, with 0, 0, 8");
  const auto num_dims = std::to_integer<std::size_t>(header[3]);
  if (num_dims < 1 || num_dims > most_dims)
    fail_idx(path, format("has {} dims, expected 1 to {}", num_dims, most_dims));
  if (source.read(std::span(header).subspan(4, 4 * num_dims)) < 4 * num_dims)
    fail_idx(path, format("is cut off within its header of {} bytes", 4 + 4 * num_dims));
  std::vector<std::int64_t> dims(num_dims);
  for (std::size_t i = 0; i < 4 * num_dims; ++i)
    dims[i / 4] = dims[i / 4] * 256 + std::to_integer<int>(header[4 + i]);
  return dims;
}

std::int64_t product(const std::string& path, const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    const auto larger = checked_multiply(count, dim);
    if (!larger) fail_idx(path, "claims more values than 63 bits can count");
    count = *larger;
  }
  return count;
}

/// As many values as there are, up to the claim. Memory grows with what is there.
std::vector<std::byte> unpack(const std::string& path, ByteSource& source, std::int64_t claimed) {
  if (claimed > most_unpacked)
    throw UserError(ExitCode::bad_data,
                    format("{}: claims {} once it is unpacked, expected at most {}; unpack it: "
                           "plain files are read from the disk",
                           path, format_bytes(claimed), format_bytes(most_unpacked)));
  constexpr std::int64_t stretch = 1 << 20;
  std::vector<std::byte> values;
  while (std::ssize(values) < claimed) {
    const std::size_t before = values.size();
    values.resize(before +
                  static_cast<std::size_t>(std::min(stretch, claimed - std::ssize(values))));
    const std::size_t got = source.read(std::span(values).subspan(before));
    values.resize(before + got);
    if (got == 0) break;
  }
  return values;
}

}  // namespace

IdxFile::IdxFile(std::string path) : path_(std::move(path)) {
  DataFile file(path_);
  std::array<std::byte, 4> first{};
  const std::size_t got = file.read_some(0, first);
  const auto source = open_bytes(path_);
  dims_ = read_dims(path_, *source);
  claimed_ = product(path_, dims_);
  bool has_more = false;
  if (begins_as_idx(std::span(first).first(got))) {
    size_ = std::min(file.size() - header_bytes(), claimed_);
    has_more = file.size() - header_bytes() > claimed_;
    values_ = std::move(file);
  } else {
    auto values = unpack(path_, *source, claimed_);
    size_ = std::ssize(values);
    has_more = source->read(std::span(first).first(1)) > 0;
    values_ = std::move(values);
  }
  if (has_more)
    fail_idx(path_, format("has more bytes than the {} values that its header claims",
                           format_grouped(claimed_)));
}

bool IdxFile::is_idx(const std::string& path) {
  try {
    std::array<std::byte, 4> first{};
    return open_bytes(path)->read(first) == first.size() && begins_as_idx(first);
  } catch (const UserError&) {
    return false;
  }
}

void IdxFile::read(std::int64_t first, std::span<std::uint8_t> into) const {
  require(first >= 0 && first <= size_ - std::ssize(into), "only values that are there are read");
  if (const auto* file = std::get_if<DataFile>(&values_)) {
    file->read(header_bytes() + first, std::as_writable_bytes(into));
    return;
  }
  const auto from =
      std::span(std::get<0>(values_)).subspan(static_cast<std::size_t>(first), into.size());
  std::transform(from.begin(), from.end(), into.begin(),
                 [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
}

std::uint64_t IdxFile::hash() const {
  if (const auto* file = std::get_if<DataFile>(&values_)) return sampled_hash(*file);
  return hash64(std::get<0>(values_));
}

}  // namespace fourfold::data
