#include "data/png_folder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/units.h"
#include "data/data_file.h"
#include "data/picture_folder.h"
#include "data/png.h"

namespace fourfold::data {
namespace {

constexpr const char* advice_on_png =
    "mend or remove it, or leave bad ones out with bad_images skip:N";

/// What a file of a picture may have beside the picture itself: comments, profiles. One that is
/// stored without compression is hardly larger than its bytes.
constexpr std::int64_t most_beside = std::int64_t{16} << 20;

/// What the ends of a file say.
struct Ends {
  std::variant<PictureShape, std::string> header;  // its shape, or what is wrong with it
  bool is_whole = false;                           // false: only decoding tells
};

struct Picture {
  std::string name;  // of the file
  std::int32_t label = 0;
  Ends ends;
};

[[noreturn]] void fail_folder(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::bad_data, format("{}: {}", path, what));
}

std::vector<std::string> labels_of(const std::string& folder, LeftOut& passed_over) {
  std::vector<std::string> labels;
  FolderNames all = list_folder(folder);
  passed_over = std::move(all.hidden);
  for (const FolderEntry& entry : all.entries) {
    if (entry.is_folder)
      labels.push_back(entry.name);
    else if (has_ending(entry.name, ".png"))
      fail_folder(
          join_path(folder, entry.name),
          "has no label, expected it in a subfolder, whose name is the label; move it there");
    else
      passed_over.add(entry.name, "is in no subfolder, so that it has no label");
  }
  return labels;
}

std::vector<std::string> files_of(const std::string& set, const std::string& label,
                                  LeftOut& passed_over) {
  const std::string folder = join_path(set, label);
  std::vector<std::string> files;
  const FolderNames all = list_folder(folder);
  passed_over.add_within(label, all.hidden);
  for (const FolderEntry& entry : all.entries) {
    if (entry.is_folder)
      fail_folder(
          join_path(folder, entry.name),
          "is a folder, expected a picture of the label that the folder around it names; move its "
          "files, or name the folder of labels itself");
    files.push_back(entry.name);
  }
  if (files.empty())
    fail_folder(folder,
                "has no pictures, expected at least one of each label; remove it, or bring them");
  return files;
}

/// Reads the ends of the file, also into the hash.
Ends look_at(const DataFile& file, RunningHash& hash) {
  constexpr std::int64_t last_bytes = 64;
  std::array<std::byte, png_header_bytes + last_bytes> ends{};
  const std::size_t first = file.read_some(0, std::span(ends).first(png_header_bytes));
  const std::size_t last = file.read_some(std::max(file.size() - last_bytes, std::int64_t{0}),
                                          std::span(ends).subspan(png_header_bytes));
  const std::int64_t size = file.size();
  hash.add(std::as_bytes(std::span(&size, 1)));
  hash.add(std::span(ends).first(png_header_bytes + last));
  auto shape = png_shape(std::span(ends).first(first));
  if (const auto* known = std::get_if<PictureShape>(&shape))
    // A pixel has at most four channels of two bytes; a filter byte a row, and more for blocks.
    if (size > 9 * known->size_bytes() + most_beside)
      shape = format("has {}, too many for a picture of {}", format_bytes(size), known->text());
  return {std::move(shape), is_png_end(std::span(ends).subspan(png_header_bytes, last))};
}

PictureShape usual_shape(const std::vector<Picture>& pictures) {
  struct Count {
    std::int64_t number = 0;
    std::size_t first = 0;
  };
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Count> counts;
  const PictureShape* best = nullptr;
  Count most;
  for (std::size_t i = 0; i < pictures.size(); ++i)
    if (const auto* shape = std::get_if<PictureShape>(&pictures[i].ends.header)) {
      Count& count = counts[{shape->height, shape->width, shape->channels}];
      if (count.number++ == 0) count.first = i;
    }
  for (const auto& [shape, count] : counts)
    if (count.number > most.number || (count.number == most.number && count.first < most.first)) {
      most = count;
      best = std::get_if<PictureShape>(&pictures[count.first].ends.header);
    }
  return best != nullptr ? *best : PictureShape{};
}

std::optional<std::string> decode_file(const DataFile& file, const PictureShape& shape,
                                       std::span<std::uint8_t> into) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  file.read(0, bytes);
  return decode_png(bytes, shape, into);
}

class PngFolder final : public PictureSet {
 public:
  PngFolder(PictureFacts facts, std::vector<std::string> files)
      : PictureSet(std::move(facts)), files_(std::move(files)) {}

  void read(std::int64_t picture, std::span<std::uint8_t> into) const override {
    RunningHash unused;
    const DataFile file(place(picture));
    const auto now = look_at(file, unused).header;
    if (const auto* fault = std::get_if<std::string>(&now))
      fail_folder(place(picture), format("{}; {}", *fault, advice_on_png));
    if (std::get<PictureShape>(now) != shape())
      fail_folder(place(picture), format("is {}, but was {} when the set was opened; start again",
                                         std::get<PictureShape>(now).text(), shape().text()));
    if (const auto fault = decode_file(file, shape(), into))
      fail_folder(place(picture), format("{}; {}", *fault, advice_on_png));
  }
  std::string place(std::int64_t picture) const override {
    return join_path(
        join_path(facts().path, facts().class_names[static_cast<std::size_t>(label(picture))]),
        files_[static_cast<std::size_t>(picture)]);
  }

  std::vector<std::string> files() const override {
    std::vector<std::string> paths;
    for (std::int64_t picture = 0; picture < num_pictures(); ++picture)
      paths.push_back(place(picture));
    return paths;
  }

 private:
  std::vector<std::string> files_;  // names without their folders
};

/// All files with what their ends say.
std::vector<Picture> list_pictures(const std::string& path, const std::vector<std::string>& labels,
                                   RunningHash& hash, LeftOut& passed_over) {
  std::vector<Picture> pictures;
  for (std::size_t label = 0; label < labels.size(); ++label) {
    const std::string folder = join_path(path, labels[label]);
    for (std::string& name : files_of(path, labels[label], passed_over)) {
      const std::string in_set = labels[label] + "/" + name;
      hash.add(std::as_bytes(std::span(in_set.c_str(), in_set.size() + 1)));
      const DataFile file(join_path(folder, name));
      Ends ends = look_at(file, hash);
      pictures.push_back({std::move(name), static_cast<std::int32_t>(label), std::move(ends)});
    }
  }
  return pictures;
}

/// What is wrong with a picture of a set of this shape. Decodes it too, into `scratch`, if
/// `decodes` or if its ends leave open whether it is cut off.
std::optional<std::string> fault_in(const Picture& picture, const std::string& file,
                                    const PictureShape& shape, bool decodes,
                                    std::span<std::uint8_t> scratch) {
  if (const auto* fault = std::get_if<std::string>(&picture.ends.header)) return *fault;
  const auto& own = std::get<PictureShape>(picture.ends.header);
  if (own != shape)
    return format("is {}, expected {} as most of the pictures are (height, width, channels)",
                  own.text(), shape.text());
  if (decodes || !picture.ends.is_whole) return decode_file(DataFile(file), shape, scratch);
  return std::nullopt;
}

/// Files by their names: in subfolders, and beside them. None where a folder cannot be listed.
struct Count {
  std::int64_t labelled = 0, labelled_pngs = 0, loose_pngs = 0;
};
Count count_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {};
  Count count;
  try {
    for (const FolderEntry& label : list_folder(path).entries) {
      if (!label.is_folder && has_ending(label.name, ".png")) ++count.loose_pngs;
      if (!label.is_folder) continue;
      for (const FolderEntry& entry : list_folder(join_path(path, label.name)).entries) {
        if (entry.is_folder) continue;
        ++count.labelled;
        if (has_ending(entry.name, ".png")) ++count.labelled_pngs;
      }
    }
  } catch (const UserError&) {
    return {};
  }
  return count;
}

}  // namespace

bool is_png_folder(const std::string& path) {
  const Count count = count_files(path);
  return 2 * count.labelled_pngs > count.labelled;
}

bool has_pngs(const std::string& path) {
  const Count count = count_files(path);
  return count.labelled_pngs + count.loose_pngs > 0;
}

std::unique_ptr<PictureSet> open_png_folder(const std::string& path, BadPictures policy) {
  PictureFacts facts;
  facts.path = path;
  facts.kind = "a folder of PNGs, a subfolder a label";
  facts.class_names = labels_of(path, facts.passed_over);
  facts.num_classes = std::ssize(facts.class_names);
  RunningHash hash;
  const std::vector<Picture> pictures =
      list_pictures(path, facts.class_names, hash, facts.passed_over);
  facts.shape = usual_shape(pictures);
  BadPictureList bad(policy, path);
  std::vector<std::string> files;
  std::vector<std::uint8_t> scratch(static_cast<std::size_t>(facts.shape.size_bytes()));
  for (const Picture& picture : pictures) {
    const std::string file = join_path(
        join_path(path, facts.class_names[static_cast<std::size_t>(picture.label)]), picture.name);
    if (const auto fault = fault_in(picture, file, facts.shape, bad.skips(), scratch)) {
      bad.add(file, *fault, advice_on_png);
      continue;
    }
    facts.labels.push_back(picture.label);
    files.push_back(picture.name);
    hash.add(std::as_bytes(std::span(picture.name)));
  }
  facts.left_out = bad.left_out();
  facts.hash = hash.text();
  return std::make_unique<PngFolder>(std::move(facts), std::move(files));
}

}  // namespace fourfold::data
