#include "data/compare_sets.h"

#include <sys/stat.h>

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "data/data_file.h"
#include "data/left_out.h"
#include "data/sampled_hash.h"

namespace fourfold::data {
namespace {

using FileId = std::pair<dev_t, ino_t>;

std::optional<struct stat> look_at(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return facts;
}

std::optional<std::uint64_t> hash_of(const std::string& path) {
  try {
    return sampled_hash(DataFile(path));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> notes_on_common_files(const SetFiles& first, const SetFiles& second,
                                               const std::string& then) {
  std::map<FileId, const std::string*> by_id;
  std::multimap<off_t, const std::string*> by_size;
  for (const std::string& path : first.files)
    if (const auto facts = look_at(path)) {
      by_id.try_emplace(FileId(facts->st_dev, facts->st_ino), &path);
      by_size.emplace(facts->st_size, &path);
    }
  std::vector<std::string> notes;
  for (const std::string& path : second.files) {
    const auto facts = look_at(path);
    if (!facts || facts->st_size == 0 || notes.size() == LeftOut::most_named) continue;
    const std::string* same = nullptr;
    if (const auto found = by_id.find(FileId(facts->st_dev, facts->st_ino)); found != by_id.end())
      same = found->second;
    const auto [begin, end] = by_size.equal_range(facts->st_size);
    for (auto other = begin; same == nullptr && other != end; ++other)
      if (const auto hash = hash_of(path); hash && hash == hash_of(*other->second))
        same = other->second;
    if (same != nullptr)
      notes.push_back(format("{} of {} is {} of {}: {}", path, second.key,
                             *same == path ? std::string("also a file") : "the same as " + *same,
                             first.key, then));
  }
  return notes;
}

}  // namespace fourfold::data
