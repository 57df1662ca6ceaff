// What the memory of a rank is made of, by class, where most of it is alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"

namespace fourfold::show {

struct MemoryClass {
  std::string name;
  std::int64_t bytes = 0;
};

struct RankMemory {
  /// Kept between steps: parameters, moments of the optimizer, keys and values of texts, blocks and
  /// counters.
  std::vector<MemoryClass> persistent;
  /// At the fullest instruction of the training step, and what no class accounts for ("gaps"). All
  /// of them together are the transient region.
  std::vector<MemoryClass> transient;
  /// Taken by the run beside both regions.
  std::vector<MemoryClass> beside;
  std::size_t fullest_instruction = 0;
};

/// The memory of the first rank. Classes of no bytes are left out.
RankMemory rank_memory(const job::Job& job);

}  // namespace fourfold::show
