// What tests of passes that fuse rows share: targets that fuse, programs into which something is
// put, and what the verifier says of them. Header only.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "program/text.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile {

inline machine::Target target_that_fuses(std::vector<std::string> fusions) {
  machine::Target target = GridSetup::target();
  target.fusions = std::move(fusions);
  return target;
}

inline program::Bundle bundle_for(const GridSetup& setup, const machine::Target& target,
                                  const PassOptions& options = {}) {
  const graph::ModelGraphs model = setup.graphs();
  return compile(model, setup.solved(model), target, options).classes[0];
}

/// A U-Net with a skip connection, attention and moving averages, in steps of three micro-batches.
inline GridSetup small_unet(const plan::Grid& grid) {
  GridSetup setup;
  setup.unet = model::UnetSpec{.picture = {4, 4, 3},
                               .channels = 8,
                               .channel_mult = {1, 2},
                               .layers_per_level = 1,
                               .attention_resolutions = {2},
                               .num_heads = 8,
                               .norm_groups = 4,
                               .num_classes = 5,
                               .diffusion = {.steps = 20, .learn_sigma = true, .sampling = {}}};
  setup.plan.seq_length = 1;
  setup.set_grid(grid, 3);
  return setup;
}

/// Where instructions of that row stand, chains left out.
template <class Row>
std::vector<std::size_t> places_of(const program::Program& program) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what);
        compute != nullptr && compute->op.is<Row>())
      places.push_back(i);
  return places;
}

/// Puts a computation in front of the instruction at `place`, into its task and on its stream.
inline void insert(program::Program& program, std::size_t place, program::Compute compute) {
  program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(place),
                              {program.instructions[place].stream, std::move(compute)});
  for (program::Task& task : program.tasks) {
    if (task.begin > place) ++task.begin;
    if (task.end > place) ++task.end;
  }
}

/// Something that writes a slice of float32.
inline void insert_fill(program::Program& program, std::size_t place, const program::Slice& slice) {
  insert(program, place, {op::Fill{0, {slice.bytes() / 4}}, DType::f32, {slice}, {}, "test"});
}

inline void expect_sound_and_read_back(const program::Bundle& bundle) {
  for (const verify::Fault& fault : verify::verify(bundle))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  EXPECT_EQ(program::parse_bundle(program::to_text(bundle), "printed"), bundle);
}

}  // namespace fourfold::compile
