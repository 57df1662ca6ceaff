// What this binary is and what it was built with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace fourfold::measure {

/// The commit, "-dirty" after it where the sources differed; "unknown" outside a repository.
/// Written by the build (scripts/write_commit.cmake).
extern const char* const build_commit;

struct BuildInfo {
  std::string version, commit, compiler, type, flags;
  std::string sanitizers;  // empty: none
};
BuildInfo build_info();

using NamedVersions = std::vector<std::pair<std::string, std::string>>;
/// Those that the CPU's kernels take products from, as they are loaded.
NamedVersions product_libraries();
/// The version of every library: of those under the kernels and of MPI as they are loaded, of the
/// others as they were at build time. Starts nothing.
NamedVersions library_versions();

/// Both for a record: what the binary is, with the instruction sets of its kernels; and versions by
/// name.
Json build_json();
Json libraries_json();

/// "fourfold 0.1.0, commit 5e234c5", the compiler it was built with, a line for each library.
std::string version_text();

}  // namespace fourfold::measure
