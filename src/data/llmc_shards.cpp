#include "data/llmc_shards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "data/picture_folder.h"
#include "data/sampled_hash.h"

namespace fourfold::data {
namespace {

constexpr std::int64_t header_bytes = 1024;
constexpr std::int64_t any_id = std::numeric_limits<std::int32_t>::max();

struct Family {
  std::int32_t magic, version;
  TokenDtype dtype;
  std::int32_t end_of_text;
};
constexpr Family families[] = {{20240520, 1, TokenDtype::u16, 50256},
                               {20240801, 7, TokenDtype::u32, 128000}};

using ShardHeader = std::array<std::int32_t, 3>;  // magic, version, tokens

[[noreturn]] void fail_shard(const std::string& path, const std::string& what) {
  throw UserError(ExitCode::bad_data, format("{}: {}; bring the shard again", path, what));
}

ShardHeader read_shard_header(const DataFile& file) {
  ShardHeader header{};
  if (file.size() < header_bytes)
    fail_shard(file.path(), format("has {} bytes, expected at least the {} of a header",
                                   file.size(), header_bytes));
  file.read(0, std::as_writable_bytes(std::span(header)));
  return header;
}

const Family& checked_family(const DataFile& file, const ShardHeader& header) {
  const auto* family = std::find_if(std::begin(families), std::end(families),
                                    [&](const Family& f) { return f.magic == header[0]; });
  if (family == std::end(families))
    fail_shard(file.path(),
               format("begins with {}, expected 20240520 or 20240801 as token files of "
                      "llm.c do",
                      header[0]));
  if (header[1] != family->version)
    fail_shard(file.path(), format("is of version {}, expected {}", header[1], family->version));
  const std::int64_t described =
      header_bytes + std::int64_t{header[2]} * facts_of(family->dtype).size_bytes;
  if (header[2] < 0 || described != file.size())
    fail_shard(file.path(), format("has {} bytes, but its header says {} tokens, which take {}",
                                   file.size(), header[2], described));
  return *family;
}

/// "fineweb_val_000000.bin", but not "vale.bin": the word as its own.
bool is_for_validation(std::string_view name) {
  const auto is_letter = [&](std::size_t at) {
    return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at])) != 0;
  };
  for (const std::string_view word : {std::string_view("val"), std::string_view("validation")})
    for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1))
      if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

struct ShardNames {
  std::vector<std::string> training, validation;  // sorted
  LeftOut others;
};

ShardNames names_in(const std::string& folder) {
  FolderNames all = list_folder(folder);
  ShardNames names;
  names.others = std::move(all.hidden);
  for (const FolderEntry& entry : all.entries) {
    if (entry.is_folder || !entry.name.ends_with(".bin"))
      names.others.add(entry.name, entry.is_folder ? "is a folder" : "is no .bin file");
    else
      (is_for_validation(entry.name) ? names.validation : names.training).push_back(entry.name);
  }
  return names;
}

struct ShardPaths {
  std::vector<std::string> paths;
  LeftOut passed_over;
};

ShardPaths shard_paths(const std::string& path, LlmcShards::Part part) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {{path}, {}};
  ShardNames names = names_in(path);
  ShardPaths shards{{}, std::move(names.others)};
  const bool has_both = !names.training.empty() && !names.validation.empty();
  const bool trains = part != LlmcShards::Part::validation || !has_both;
  const bool validates = part != LlmcShards::Part::training || !has_both;
  for (const std::string& name : names.training)
    if (trains) shards.paths.push_back(join_path(path, name));
  for (const std::string& name : names.validation)
    if (validates)
      shards.paths.push_back(join_path(path, name));
    else
      shards.passed_over.add(name, "is a shard for validation by its name");
  std::sort(shards.paths.begin(), shards.paths.end());
  if (shards.paths.empty())
    throw UserError(ExitCode::bad_data,
                    format("{}: the folder has no .bin files, expected shards of llm.c; check the "
                           "path",
                           path));
  return shards;
}

}  // namespace

bool LlmcShards::has_both_parts(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return false;
  const ShardNames names = names_in(path);
  return !names.training.empty() && !names.validation.empty();
}

LlmcShards::LlmcShards(const std::string& path, Part part) : name_(path) {
  const Family* first = nullptr;
  ShardPaths shards = shard_paths(path, part);
  passed_over_ = std::move(shards.passed_over);
  const bool stay_open = shards.paths.size() <= most_open;
  for (const std::string& shard : shards.paths) {
    DataFile file(shard);
    const ShardHeader header = read_shard_header(file);
    const Family& family = checked_family(file, header);
    if (first != nullptr && first != &family)
      fail_shard(shard,
                 format("is of the family {}, the shards before it are of {}; keep them apart",
                        family.magic, first->magic));
    first = &family;
    const SeenFile seen(file);
    shards_.push_back(
        {seen, stay_open ? std::optional(std::move(file)) : std::nullopt, num_tokens_});
    num_tokens_ += header[2];
  }
  dtype_ = first->dtype;
  end_of_text_ = first->end_of_text;
}

std::vector<std::string> LlmcShards::files() const {
  std::vector<std::string> files;
  for (const Shard& shard : shards_) files.push_back(shard.file.path());
  return files;
}

bool LlmcShards::is_shard(const std::string& path) {
  const DataFile file(path);
  std::int32_t magic = 0;
  const std::size_t got = file.read_some(0, std::as_writable_bytes(std::span(&magic, 1)));
  return got == sizeof(magic) && std::any_of(std::begin(families), std::end(families),
                                             [&](const Family& f) { return f.magic == magic; });
}

const LlmcShards::Shard& LlmcShards::shard_of(std::int64_t token) const {
  require(token >= 0 && token < num_tokens_, "a token of the shards");
  const auto behind =
      std::upper_bound(shards_.begin(), shards_.end(), token,
                       [](std::int64_t t, const Shard& shard) { return t < shard.first_token; });
  return *(behind - 1);
}

std::int64_t LlmcShards::byte_of(const Shard& shard, std::int64_t token) const {
  return header_bytes + (token - shard.first_token) * facts_of(dtype_).size_bytes;
}

std::optional<BadToken> LlmcShards::read(std::int64_t first, std::int64_t vocab_size,
                                         std::span<std::int32_t> into) const {
  const std::int64_t size = facts_of(dtype_).size_bytes;
  while (!into.empty()) {
    const Shard& shard = shard_of(first);
    const std::int64_t byte = byte_of(shard, first), there = (shard.file.size() - byte) / size;
    const auto part = into.first(
        static_cast<std::size_t>(std::min(there, static_cast<std::int64_t>(into.size()))));
    const auto bad = shard.open
                         ? read_tokens(*shard.open, byte, dtype_, first, vocab_size, part)
                         : read_tokens(shard.file.open(), byte, dtype_, first, vocab_size, part);
    if (bad) return bad;
    into = into.subspan(part.size());
    first += static_cast<std::int64_t>(part.size());
  }
  return std::nullopt;
}

std::int64_t LlmcShards::begin_of_document(std::int64_t token) const {
  constexpr std::int64_t block = 4096;
  std::array<std::int32_t, block> buffer{};
  for (std::int64_t end = token + 1; end > 0;) {
    const std::int64_t begin = std::max(end - block, std::int64_t{0});
    const auto ids = std::span(buffer).first(static_cast<std::size_t>(end - begin));
    read(begin, any_id, ids);
    const auto found = std::find(ids.rbegin(), ids.rend(), end_of_text_);
    if (found != ids.rend()) return end - 1 - (found - ids.rbegin());
    end = begin;
  }
  return 0;
}

void LlmcShards::document_begins(std::int64_t first, std::span<std::int64_t> begins) const {
  std::int64_t begin = begin_of_document(first);
  std::array<std::int32_t, 1024> buffer{};
  for (std::size_t at = 0; at < begins.size(); at += buffer.size()) {
    const auto ids = std::span(buffer).first(std::min(buffer.size(), begins.size() - at));
    read(first, any_id, ids);
    for (std::size_t i = 0; i < ids.size(); ++i, ++first) {
      if (ids[i] == end_of_text_) begin = first;
      begins[at + i] = begin;
    }
  }
}

std::string LlmcShards::place(std::int64_t position) const {
  const Shard& shard = shard_of(position);
  return format("{}, token {} at byte {}", shard.file.path(), position - shard.first_token,
                byte_of(shard, position));
}

std::uint64_t LlmcShards::fingerprint() const {
  std::vector<std::uint64_t> hashes;
  for (const Shard& shard : shards_) hashes.push_back(sampled_hash(shard.file.open()));
  return hash64(std::as_bytes(std::span(hashes)));
}

}  // namespace fourfold::data
