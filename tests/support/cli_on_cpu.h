// What commands ask of CUDA (measure/cuda_parts.h, measure/cuda_run.h), of a GPU that is not there:
// its memory is as small, and it is lost as early, as a test wants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fourfold::test {

struct FakeCuda {
  std::string name = "a fake GPU", library_version = "1.2.3";
  std::int64_t free_bytes = std::int64_t{1} << 31;
  int devices = 1;
  bool are_slices = false;  // of one board (MIG)
  /// A backend's device: how much it does before it is lost, and what the last one has done.
  std::optional<std::int64_t> lost_behind_works = {};
  std::int64_t works = 0;
};

/// As commands find it. A test puts back what it has changed.
FakeCuda& fake_cuda();

}  // namespace fourfold::test
