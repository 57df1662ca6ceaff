// Which thread serves which stream, where streams have threads of their own.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/world.h"
#include "run/prepared_program.h"

namespace fourfold::run {

struct WorkerPlan {
  std::string name;         // of its stream
  std::size_t longest = 0;  // the most instructions that it has in any of the programs
};

/// One worker for each stream, known by its name, that has instructions in any program; where only
/// one thread may communicate (World::concurrent), one for all streams that do. Sets `worker` of
/// all instructions. `world` may be null.
std::vector<WorkerPlan> assign_workers(std::span<PreparedProgram* const> programs,
                                       const comm::World* world);

}  // namespace fourfold::run
