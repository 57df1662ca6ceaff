#include "data/cifar.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/small_file.h"
#include "base/text.h"
#include "base/units.h"
#include "data/data_file.h"
#include "data/llmc_shards.h"
#include "data/picture_folder.h"
#include "data/sampled_hash.h"

namespace fourfold::data {
namespace {

namespace fs = std::filesystem;

constexpr PictureShape shape = {32, 32, 3};
constexpr std::int64_t pixels = 32 * 32, picture_bytes = 3 * pixels;
constexpr const char* advice_on_cifar =
    "bring the file again, or leave bad ones out with bad_images skip:N";

struct CifarKind {
  const char* name;
  std::int64_t label_bytes;
  std::array<int, 2> classes;  // of each label byte; the last one counts
  const char* names_file;
  std::int64_t record_bytes() const { return label_bytes + picture_bytes; }
  int num_classes() const { return classes[static_cast<std::size_t>(label_bytes - 1)]; }
};
constexpr CifarKind cifar10 = {"CIFAR-10", 1, {10, 0}, "batches.meta.txt"};
constexpr CifarKind cifar100 = {"CIFAR-100", 2, {20, 100}, "fine_label_names.txt"};

std::string beside(const std::string& file, const char* name) {
  return (fs::path(file).parent_path() / name).string();
}

/// The first of the label bytes that is no class.
struct BadLabel {
  int value = 0, classes = 0;
};

class Labels {
 public:
  Labels(const DataFile& file, const CifarKind& kind, std::int64_t record) : kind_(kind) {
    file.read(record * kind.record_bytes(),
              std::span(bytes_).first(static_cast<std::size_t>(kind.label_bytes)));
  }
  std::optional<BadLabel> bad(std::int64_t num_classes) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(kind_.label_bytes); ++i) {
      const bool counts = i + 1 == static_cast<std::size_t>(kind_.label_bytes);
      const int classes = counts ? static_cast<int>(num_classes) : kind_.classes[i];
      const int value = std::to_integer<int>(bytes_[i]);
      if (value >= classes) return BadLabel{value, classes};
    }
    return std::nullopt;
  }
  int value() const {
    return std::to_integer<int>(bytes_[static_cast<std::size_t>(kind_.label_bytes - 1)]);
  }

 private:
  const CifarKind& kind_;
  std::array<std::byte, 2> bytes_{};
};

bool labels_fit(const std::vector<DataFile>& files, const CifarKind& kind) {
  for (const DataFile& file : files)
    for (std::int64_t record = 0; record < file.size() / kind.record_bytes(); ++record)
      if (Labels(file, kind, record).bad(kind.num_classes())) return false;
  return true;
}

/// What is said of a file whose kind nothing tells.
std::string doubt(const DataFile& file) {
  const auto as = [&](const CifarKind& kind) {
    return format("{} of {} and {} more", counted(file.size() / kind.record_bytes(), "picture"),
                  kind.name, counted(file.size() % kind.record_bytes(), "byte"));
  };
  return format("its {} bytes are {}, or {}", format_grouped(file.size()), as(cifar10),
                as(cifar100));
}

[[noreturn]] void fail_cifar(const std::string& path, const std::string& what,
                             const std::string& remedy) {
  throw UserError(ExitCode::bad_data, format("{}: {}; {}", path, what, remedy));
}

const CifarKind& kind_of(const std::vector<DataFile>& files) {
  for (const CifarKind* kind : {&cifar10, &cifar100})
    if (file_exists(beside(files.front().path(), kind->names_file))) return *kind;
  const DataFile *only_10 = nullptr, *only_100 = nullptr, *neither = nullptr;
  for (const DataFile& file : files) {
    const bool is_10 = file.size() % cifar10.record_bytes() == 0;
    const bool is_100 = file.size() % cifar100.record_bytes() == 0;
    if (is_10 && is_100) continue;
    const DataFile*& first = is_10 ? only_10 : is_100 ? only_100 : neither;
    if (first == nullptr) first = &file;
  }
  if (only_10 != nullptr && only_100 != nullptr)
    fail_cifar(only_100->path(),
               format("is CIFAR-100 by its size, and {} CIFAR-10", only_10->path()),
               "keep them in folders of their own");
  if (only_10 != nullptr) return cifar10;
  if (only_100 != nullptr) return cifar100;
  const bool fits_10 = labels_fit(files, cifar10), fits_100 = labels_fit(files, cifar100);
  if (fits_10 != fits_100) return fits_10 ? cifar10 : cifar100;
  const DataFile& file = neither != nullptr ? *neither : files.front();
  fail_cifar(file.path(), doubt(file),
             format("{}put {} (CIFAR-10) or {} (CIFAR-100) beside it",
                    neither != nullptr ? "bring the file again, or " : "", cifar10.names_file,
                    cifar100.names_file));
}

/// A line a class; nothing where there is no such file.
std::vector<std::string> class_names(const std::string& path, const CifarKind& kind) {
  if (!file_exists(path)) return {};
  constexpr std::size_t most_bytes = 65536;
  const auto text = read_small_file(path, most_bytes);
  if (const auto* fault = std::get_if<FileFault>(&text))
    fail_cifar(path, fault->reason, fault->advice);
  std::vector<std::string> names;
  for (const std::string& line : split(std::get<std::string>(text), '\n'))
    if (!trim(line).empty()) names.emplace_back(trim(line));
  if (names.empty() || std::ssize(names) > kind.num_classes())
    fail_cifar(
        path,
        format("has {} names, expected 1 to {}, a line each", names.size(), kind.num_classes()),
        "mend or remove it");
  return names;
}

struct Record {
  std::int32_t file = 0;
  std::int64_t number = 0;  // in the file
};

std::string place_of(const DataFile& file, std::int64_t record) {
  return format("{}, picture {}", file.path(), record);
}

class CifarPictures final : public PictureSet {
 public:
  CifarPictures(PictureFacts facts, const CifarKind& kind, std::vector<DataFile> files,
                std::vector<Record> records)
      : PictureSet(std::move(facts)),
        kind_(kind),
        files_(std::move(files)),
        records_(std::move(records)) {}

  void read(std::int64_t picture, std::span<std::uint8_t> into) const override {
    require(std::ssize(into) == picture_bytes, "there is room for a picture");
    const Record& record = records_[static_cast<std::size_t>(picture)];
    std::array<std::uint8_t, picture_bytes> planes;
    file_of(record).read(record.number * kind_.record_bytes() + kind_.label_bytes,
                         std::as_writable_bytes(std::span(planes)));
    for (std::size_t pixel = 0; pixel < pixels; ++pixel)
      for (std::size_t channel = 0; channel < 3; ++channel)
        into[pixel * 3 + channel] = planes[channel * pixels + pixel];
  }
  std::string place(std::int64_t picture) const override {
    const Record& record = records_[static_cast<std::size_t>(picture)];
    return place_of(file_of(record), record.number);
  }
  std::vector<std::string> files() const override {
    std::vector<std::string> paths;
    for (const DataFile& file : files_) paths.push_back(file.path());
    return paths;
  }

 private:
  const DataFile& file_of(const Record& record) const {
    return files_[static_cast<std::size_t>(record.file)];
  }

  const CifarKind& kind_;
  std::vector<DataFile> files_;
  std::vector<Record> records_;
};

/// Adds the good records of a file to labels and records.
void add_records(const DataFile& file, std::int32_t number, const CifarKind& kind,
                 PictureFacts& facts, std::vector<Record>& records, BadPictureList& bad) {
  const std::int64_t whole = file.size() / kind.record_bytes();
  for (std::int64_t record = 0; record < whole; ++record) {
    const Labels labels(file, kind, record);
    if (const auto fault = labels.bad(facts.num_classes)) {
      bad.add(place_of(file, record),
              format("has the label {}, expected 0 to {}", fault->value, fault->classes - 1),
              advice_on_cifar);
      continue;
    }
    facts.labels.push_back(labels.value());
    records.push_back({number, record});
  }
  const std::int64_t rest = file.size() % kind.record_bytes();
  if (rest > 0 || whole == 0)
    bad.add(place_of(file, whole),
            format("is cut off: the file ends after {} of its {} bytes ({} in all)", rest,
                   kind.record_bytes(), format_grouped(file.size())),
            advice_on_cifar);
}

bool is_file_of_records(const std::string& path) {
  std::error_code ignored;
  if (!has_ending(path, ".bin") || !fs::is_regular_file(path, ignored)) return false;
  if (file_exists(path.substr(0, path.size() - 4) + ".idx")) return false;  // a Megatron set
  try {
    if (LlmcShards::is_shard(path)) return false;
    std::array<std::byte, 4096> first{};
    const DataFile file(path);
    const std::size_t size = file.read_some(0, first);
    // Control characters that no text has. Labels are such, and so are dark pixels.
    return size == 0 || std::any_of(first.begin(), first.begin() + size, [](std::byte byte) {
             const int value = std::to_integer<int>(byte);
             return value < '\t' || (value > '\r' && value < ' ');
           });
  } catch (const UserError&) {
    return false;
  }
}

/// What the sets have beside their records as they are distributed.
bool comes_with_records(std::string_view name) {
  constexpr std::string_view known[] = {"batches.meta.txt", "coarse_label_names.txt",
                                        "fine_label_names.txt", "readme.html"};
  return std::ranges::find(known, name) != std::end(known);
}

struct RecordFiles {
  ChosenFiles files;
  LeftOut passed_over;
};

RecordFiles record_files_of(const std::string& folder) {
  FolderNames all = list_folder(folder);
  RecordFiles records;
  records.passed_over = std::move(all.hidden);
  std::vector<std::string> names;
  for (const FolderEntry& entry : all.entries) {
    if (entry.is_folder)
      records.passed_over.add(entry.name, "is a folder");
    else if (is_file_of_records(join_path(folder, entry.name)))
      names.push_back(entry.name);
    else if (!comes_with_records(entry.name))
      records.passed_over.add(entry.name, "is no .bin file of pictures");
  }
  records.files = choose_files(names);
  return records;
}

std::unique_ptr<PictureSet> open_files(PictureFacts facts, const std::vector<std::string>& paths,
                                       BadPictures policy) {
  std::vector<DataFile> files;
  for (const std::string& path : paths) files.emplace_back(path);
  const CifarKind& kind = kind_of(files);
  facts.class_names = class_names(beside(paths.front(), kind.names_file), kind);
  facts.kind = format("{} pictures", kind.name);
  facts.shape = shape;
  facts.num_classes =
      facts.class_names.empty() ? kind.num_classes() : std::ssize(facts.class_names);
  BadPictureList bad(policy, facts.path);
  std::vector<Record> records;
  RunningHash hash;
  for (std::size_t i = 0; i < files.size(); ++i) {
    add_records(files[i], static_cast<std::int32_t>(i), kind, facts, records, bad);
    const std::uint64_t sampled = sampled_hash(files[i]);
    hash.add(std::as_bytes(std::span(&sampled, 1)));
  }
  for (const Record& record : records) hash.add(std::as_bytes(std::span(&record.number, 1)));
  hash.add(std::as_bytes(std::span(facts.labels)));
  facts.hash = hash.text();
  facts.left_out = bad.left_out();
  return std::make_unique<CifarPictures>(std::move(facts), kind, std::move(files),
                                         std::move(records));
}

}  // namespace

bool is_cifar(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return is_file_of_records(path);
  try {
    return !record_files_of(path).files.chosen.empty();
  } catch (const UserError&) {
    return false;
  }
}

std::unique_ptr<PictureSet> open_cifar(const std::string& path, BadPictures bad) {
  PictureFacts facts;
  facts.path = path;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return open_files(std::move(facts), {path}, bad);
  RecordFiles records = record_files_of(path);
  ChosenFiles& files = records.files;
  facts.passed_over = std::move(records.passed_over);
  if (files.chosen.empty()) fail_cifar(path, "has no .bin files with pictures", "check the path");
  facts.other_files = files.others;
  for (std::string& name : files.chosen) name = join_path(path, name);
  return open_files(std::move(facts), files.chosen, bad);
}

std::unique_ptr<PictureSet> open_cifar(const std::string& name,
                                       const std::vector<std::string>& files, BadPictures bad) {
  require(!files.empty(), "a set has files");
  PictureFacts facts;
  facts.path = name;
  return open_files(std::move(facts), files, bad);
}

}  // namespace fourfold::data
