#include "data/picture_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::data {

FolderNames list_folder(const std::string& path) {
  namespace fs = std::filesystem;
  FolderNames names;
  std::vector<FolderEntry>& entries = names.entries;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code leads_nowhere;
    entries.push_back({entry->path().filename().string(), entry->is_directory(leads_nowhere)});
  }
  if (error)
    throw UserError(ExitCode::bad_data,
                    format("{}: cannot be listed: {}; check the folder", path, error.message()));
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  const auto is_hidden = [](const FolderEntry& entry) { return entry.name.starts_with('.'); };
  for (const FolderEntry& entry : entries)
    if (is_hidden(entry)) names.hidden.add(entry.name, "is hidden");
  std::erase_if(entries, is_hidden);
  return names;
}

namespace {

/// "test_batch.bin", "cifar10-test.bin", "t10k-images-idx3-ubyte", but not "contest.bin".
bool is_for_tests(std::string_view name) {
  const auto is_letter = [&](std::size_t at) {
    return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at])) != 0;
  };
  for (const std::string_view word : {std::string_view("test"), std::string_view("t10k")})
    for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1))
      if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

}  // namespace

ChosenFiles choose_files(const std::vector<std::string>& names) {
  ChosenFiles files;
  for (const std::string& name : names)
    (is_for_tests(name) ? files.others : files.chosen).push_back(name);
  if (files.chosen.empty()) std::swap(files.chosen, files.others);
  return files;
}

bool has_ending(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  name.remove_prefix(name.size() - ending.size());
  return std::equal(name.begin(), name.end(), ending.begin(), [](char letter, char small) {
    return std::tolower(static_cast<unsigned char>(letter)) == small;
  });
}

}  // namespace fourfold::data
