// A model compiled for a grid, without kernels. Header only.
#pragma once

#include <string>
#include <vector>

#include "base/format.h"
#include "support/job_setup.h"

namespace fourfold::compile {

struct GridSetup : test::JobSetup {
  GridSetup() {
    gpt = test::eight_heads();
    plan = {.global_batch_size = 8, .micro_batch_size = 1, .seq_length = 8};
  }
  std::int64_t x() const { return plan.grid.x; }
  std::int64_t y() const { return plan.grid.y; }
  std::int64_t z() const { return plan.grid.z; }
  std::int64_t data() const { return plan.grid.data; }

  /// A grid of this size, with a step of `accumulation` micro-batches.
  void set_grid(const plan::Grid& grid, std::int64_t accumulation = 2) {
    plan.grid = grid;
    plan.global_batch_size = plan.micro_batch_size * accumulation * grid.z * grid.data;
  }

  static machine::Target target() {
    machine::Target target{
        "cpu", 1, {{.op = "*", .dtype = std::nullopt, .implementation = "test"}}, {}};
    target.workspace_bytes = [](const std::string&, const op::Op&, op::Shapes, DType) {
      return std::int64_t{0};
    };
    return target;
  }
  program::Job job() const { return JobSetup::job(target()); }
  program::Bundle bundle() const { return job().classes[0]; }
  program::Program train() const { return bundle().at(op::ProgramKind::train); }
};

inline std::string text_of(const plan::Grid& grid) {
  return format("x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data);
}

/// All grids with degrees from the list and at most so many ranks.
inline std::vector<plan::Grid> grids_of(const std::vector<std::int64_t>& degrees,
                                        std::int64_t max_ranks) {
  std::vector<plan::Grid> grids;
  for (const std::int64_t x : degrees)
    for (const std::int64_t y : degrees)
      for (const std::int64_t z : degrees)
        for (const std::int64_t data : degrees)
          if (x * y * z * data <= max_ranks)
            grids.push_back({.x = x, .y = y, .z = z, .data = data});
  return grids;
}

}  // namespace fourfold::compile
