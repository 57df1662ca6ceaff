#include "comm/siblings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "comm/launcher.h"

namespace fourfold::comm {
namespace {

namespace fs = std::filesystem;

/// Also of a file that has no size, or whose process ends meanwhile: empty then.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct ProcessState {
  char letter = 0;  // as ps shows it
  std::int64_t parent = 0;
};

/// "12 (a name) S 7 ...": a name may hold anything, so the last parenthesis counts.
std::optional<ProcessState> state_of(const std::string& folder) {
  const std::string text = text_of(folder + "/stat");
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(end + 1));
  ProcessState state;
  if (!(rest >> state.letter >> state.parent)) return std::nullopt;
  return state;
}

/// A variable of the environment that a process began with.
std::optional<std::string> variable_of(const std::string& environment, const std::string& name) {
  const std::string before = '\0' + name + "=";
  const std::size_t place = environment.find(before);
  if (place == std::string::npos) return std::nullopt;
  return environment.substr(place + before.size()).c_str();
}

}  // namespace

std::vector<Sibling> siblings(const std::string& proc) {
  std::vector<Sibling> found;
  const auto own = state_of(join_path(proc, std::to_string(getpid())));
  if (!own) return found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(proc, ignored)) {
    const std::string name = entry.path().filename().string();
    std::int64_t pid = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || stop != name.data() + name.size()) continue;
    const auto state = state_of(entry.path().string());
    if (!state || state->parent != own->parent) continue;
    const std::string environment = '\0' + text_of(entry.path().string() + "/environ");
    const LauncherFacts facts = launcher_facts(
        [&](const std::string& variable) { return variable_of(environment, variable); });
    if (facts.kind == LauncherFacts::Kind::none) continue;
    found.push_back({facts.rank, pid, state->letter == 'T'});
  }
  std::ranges::sort(found, {}, &Sibling::rank);
  return found;
}

}  // namespace fourfold::comm
