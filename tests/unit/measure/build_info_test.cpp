#include "measure/build_info.h"

#include <gtest/gtest.h>

namespace fourfold::measure {
namespace {

TEST(BuildInfo, its_record_names_the_commit_and_every_library) {
  const Json build = build_json();
  EXPECT_NE(build.find("commit")->as_string(), "");
  const Json libraries = libraries_json();
  for (const char* name : {"OpenBLAS", "oneDNN", "MPI", "yaml-cpp", "fmt", "CLI11"})
    EXPECT_NE(libraries.find(name), nullptr) << name;
}

}  // namespace
}  // namespace fourfold::measure
