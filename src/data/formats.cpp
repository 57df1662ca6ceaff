#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "data/describe.h"
#include "data/format.h"
#include "data/llmc_shards.h"
#include "data/megatron_set.h"
#include "data/picture_set.h"
#include "data/synthetic.h"
#include "data/token_sets.h"

namespace fourfold::data {
namespace {

std::string index_of_set(const std::string& path) {
  return megatron_prefix(path) + ".idx";
}

bool is_folder_of_shards(const std::string& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.path().extension() == ".bin") return LlmcShards::is_shard(entry.path().string());
  return false;
}

Match match_shards(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const bool is_own =
      is_folder ? is_folder_of_shards(path) : file_exists(path) && LlmcShards::is_shard(path);
  return is_own ? Match::bytes : Match::none;
}

constexpr std::array format_rows = {
    FormatRow{.format = Format::text,
              .name = "text",
              .holds = "a text file, or a folder of them",
              .path_hint = "a text file",
              .open_tokens = make_texts,
              .has_words = true,
              .describe = [](const std::string& path, const std::string& field,
                             BadPictures) { return describe_text(path, field); }},
    FormatRow{
        .format = Format::megatron,
        .name = "megatron",
        .holds = "a set of tokens, PREFIX.bin and PREFIX.idx, as `fourfold data tokenize` writes",
        .path_hint = "the PREFIX of a set",
        .open_tokens = open_megatron_sets,
        .is_of_sets = true,
        .file_of = index_of_set,
        .match =
            [](const std::string& path) {
              return file_exists(index_of_set(path)) ? Match::names : Match::none;
            },
        .describe = [](const std::string& path, const std::string&,
                       BadPictures) { return describe_megatron(path); }},
    FormatRow{.format = Format::llmc,
              .name = "llmc",
              .holds = "shards of tokens as llm.c has them",
              .path_hint = "a shard, or a folder of shards",
              .open_tokens = open_llmc_shards,
              .is_of_sets = true,
              .counts_documents = false,
              .match = match_shards,
              .describe = [](const std::string& path, const std::string&,
                             BadPictures) { return describe_shards(path); }},
    FormatRow{.format = Format::pictures,
              .name = "pictures",
              .holds = "CIFAR, IDX or a folder of PNGs for each class",
              .path_hint = "a file or a folder of pictures",
              .open_pictures = [](const DataSpec& spec,
                                  const std::string& path) -> std::unique_ptr<const PictureSet> {
                return open_pictures(path, spec.bad_images);
              },
              .match =
                  [](const std::string& path) {
                    return is_picture_set(path) ? Match::looks : Match::none;
                  },
              .describe = [](const std::string& path, const std::string&,
                             BadPictures bad) { return describe_pictures(path, bad); }},
    FormatRow{.format = Format::synthetic,
              .name = "synthetic",
              .holds = "made-up tokens or pictures, for tests and timing",
              .open_tokens = make_synthetic,
              .open_pictures = [](const DataSpec& spec,
                                  const std::string&) -> std::unique_ptr<const PictureSet> {
                return std::make_unique<SyntheticPictures>(spec.picture, spec.num_classes);
              },
              .is_made_up = true},
};

}  // namespace

std::span<const FormatRow> formats() {
  return format_rows;
}

const FormatRow& row_of(Format format) {
  for (const FormatRow& row : format_rows)
    if (row.format == format) return row;
  fail_internal("every format of data has its row");
}

}  // namespace fourfold::data
