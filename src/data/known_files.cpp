#include "data/known_files.h"

#include <sys/stat.h>

#include "base/error.h"
#include "data/data_file.h"
#include "data/sampled_hash.h"

namespace fourfold::data {
namespace {

std::optional<struct stat> facts_of_file(const std::string& path) {
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

void KnownFiles::add(const std::string& path) {
  const auto facts = facts_of_file(path);
  if (!facts) return;
  by_id_.try_emplace({facts->st_dev, facts->st_ino}, path);
  if (facts->st_size > 0) by_size_[facts->st_size].unhashed.push_back(path);
}

std::optional<KnownFiles::Same> KnownFiles::find(const std::string& path) {
  const auto facts = facts_of_file(path);
  if (!facts) return std::nullopt;
  if (const auto found = by_id_.find({facts->st_dev, facts->st_ino}); found != by_id_.end())
    return Same{found->second, false};
  const auto of_size = by_size_.find(facts->st_size);
  if (of_size == by_size_.end()) return std::nullopt;
  OfOneSize& others = of_size->second;
  for (const std::string& other : others.unhashed)
    if (const auto hash = hash_of(other)) others.by_hash.try_emplace(*hash, other);
  others.unhashed.clear();
  const auto hash = hash_of(path);
  const auto same = hash ? others.by_hash.find(*hash) : others.by_hash.end();
  if (same == others.by_hash.end()) return std::nullopt;
  return Same{same->second, true};
}

}  // namespace fourfold::data
