#include "kernels/cpu/places.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>

namespace fourfold::kernels::cpu {

std::vector<int> openmp_cores() {
  std::vector<int> all;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> cores(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, cores.data());
    all.insert(all.end(), cores.begin(), cores.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace fourfold::kernels::cpu
