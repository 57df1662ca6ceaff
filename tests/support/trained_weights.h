// The weights that a short training leaves, gathered from all ranks. Header only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/grid_run.h"
#include "support/grids.h"

namespace fourfold::test {

/// What some steps made of the initial weights, and how many instructions each step has; `without`
/// names passes that are left out.
struct Trained {
  Tensors weights;
  std::size_t instructions = 0;
};
inline Trained trained(const RunSetup& setup, std::int64_t steps,
                       const std::vector<std::string>& without = {}) {
  GridRun run(setup, GridRun::compile_job(setup, {without, {}}));
  Tensors weights;
  run.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    auto feeder = random_batch(setup);
    for (std::int64_t step = 0; step < steps; ++step)
      rank.executor.run(op::ProgramKind::train, SmallRun::block(step, 1e-2, 1), &feeder);
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
      if (buffer.role == program::BufferRole::parameter)
        run.collect(rank, buffer, buffer.name, weights);
  });
  return {std::move(weights), run.bundle().at(op::ProgramKind::train).instructions.size()};
}

}  // namespace fourfold::test
