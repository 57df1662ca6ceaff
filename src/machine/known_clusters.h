// The clusters that the binary knows by name, which are the files of configs/machines, and the
// reading of one by name or path. Not what their texts mean (cluster_file.h).
#pragma once

#include <string>
#include <vector>

#include "machine/cluster.h"

namespace fourfold::machine {

struct KnownCluster {
  std::string name;  // "perlmutter-40gb"
  std::string text;  // of configs/machines/perlmutter-40gb.yaml
};

/// In the order of their names. The build makes it of the files.
const std::vector<KnownCluster>& known_clusters();

/// `machine`: a known name, or the path of a file, which has a '/' or ends in ".yaml". Errors:
/// UserError(bad_config) with the nearest names where there is no such one, and for a faulty file.
Cluster load_cluster(const std::string& machine);

}  // namespace fourfold::machine
