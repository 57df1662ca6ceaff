// A cluster as people read it, and as other programs do. Not the file that describes it:
// cluster_file.h.
#pragma once

#include <string>

#include "base/json.h"
#include "machine/cluster.h"

namespace fourfold::machine {

/// Its device, its levels of links, and what was measured of it, as tables of at most 100 columns;
/// figures have three digits.
std::string cluster_text(const Cluster& cluster);

/// All of it, in bytes and seconds; infinite rates are null.
Json cluster_json(const Cluster& cluster);

}  // namespace fourfold::machine
