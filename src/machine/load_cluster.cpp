#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "machine/cluster_file.h"
#include "machine/known_clusters.h"

namespace fourfold::machine {
namespace {

constexpr std::string_view yaml_ending = ".yaml";

/// "perlmutter" from "clusters/perlmutter.yaml".
std::string name_of_file(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(yaml_ending)) name.resize(name.size() - yaml_ending.size());
  return name;
}

/// Names that begin alike or are near misses; else all.
std::string meant_by(const std::string& name) {
  std::vector<std::string> all, alike;
  for (const KnownCluster& known : known_clusters()) all.push_back(known.name);
  const std::string beginning = name.substr(0, 4);
  std::copy_if(all.begin(), all.end(), std::back_inserter(alike), [&](const std::string& other) {
    return !name.empty() && other.starts_with(beginning);
  });
  if (alike.empty())
    if (const auto near = nearest(name, all)) alike.push_back(*near);
  if (alike.empty()) return format("known are: {}; or give the path of a file", join(all, ", "));
  return format("did you mean {}? `fourfold machines` lists all; or give the path of a file",
                join(alike, " or "));
}

}  // namespace

Cluster load_cluster(const std::string& machine) {
  if (machine.find('/') != machine.npos || machine.ends_with(yaml_ending))
    return read_cluster(read_file(machine, ExitCode::bad_config), machine, name_of_file(machine));
  for (const KnownCluster& known : known_clusters())
    if (known.name == machine)
      return read_cluster(known.text, format("configs/machines/{}{}", machine, yaml_ending),
                          machine);
  throw UserError(ExitCode::bad_config,
                  format("no machine is called '{}'; {}", machine, meant_by(machine)));
}

}  // namespace fourfold::machine
