// Whatever is pinned, the function that is computed is the same: a run with pinned parameters
// equals the serial one, and the verifier finds no fault in its programs.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "compile/compile.h"
#include "plan/pin_spec.h"
#include "plan/plan.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "verify/verify_job.h"

namespace fourfold::pins_test {
namespace {

using test::GridRun;
using test::RunSetup;

struct Case {
  std::string pattern, sharding;
};

/// Kinds of parameters cut the other way, by fewer axes, by z alone, not at all. Every third one
/// each time; all with FOURFOLD_LONG.
const std::vector<Case> of_gpt = {
    {"blocks.*.mlp.up.weight", "[* (x,z), * (y)]"},
    {"blocks.*.mlp.up.weight", "[*, * (x)]"},
    {"blocks.*.mlp.up.weight", "[* (z), *]"},
    {"blocks.*.mlp.up.weight", "[* (x,y), *]"},
    {"blocks.*.mlp.down.weight", "[*, *]"},
    {"blocks.*.mlp.down.weight", "[* (z), * (x,y)]"},
    {"blocks.*.attn.qkv.weight", "[* (x), *, * (y), *]"},
    {"blocks.*.attn.qkv.weight", "[*, *, *, * (x)]"},
    {"blocks.*.attn.out.weight", "[*, * (x), * (y)]"},
    {"blocks.*.attn.out.weight", "[* (y), *, * (x,z)]"},
    {"blocks.*.mlp.up.bias", "[* (x)]"},
    {"blocks.*.ln1.gain", "[* (z)]"},
    {"wte.weight", "[*, * (x)]"},
    {"wpe.weight", "[*, *]"},
};

/// The same for convolutions, which have width, two sides of a kernel and channels, and for what is
/// told of time and class.
const std::vector<Case> of_unet = {
    {"down.*.conv1.weight", "[* (y), *, *, * (x,z)]"},
    {"*.conv2.weight", "[*, *, *, *]"},
    {"*.conv2.weight", "[* (x,y), *, *, * (z)]"},
    {"up.*.conv1.weight.*", "[* (x), *, *, * (y)]"},
    {"up.*.conv1.weight.1", "[*, *, *, * (x)]"},
    {"*.shortcut.weight.0", "[* (z), *, *, *]"},
    {"*.attention.qkv.weight", "[* (x), *, * (y), *]"},
    {"*.attention.out.weight", "[*, *, * (x)]"},
    {"down.0.half.weight", "[* (x,z), *, *, * (y)]"},
    {"time.0.weight", "[* (x), * (y)]"},
    {"class.weight", "[*, * (x)]"},
    {"*.norm1.gain", "[* (z)]"},
    {"*.time.bias", "[*, * (x)]"},
    {"out.weight", "[*, *, *, * (x,y)]"},
};

program::Job job_of(const RunSetup& setup) {
  if (setup.plan.pipeline.stages == 1) return GridRun::compile_job(setup);
  const plan::Grid& grid = setup.plan.grid;
  const std::int64_t samples = setup.plan.micro_batch_size * grid.z * grid.data;
  const auto planned = plan::plan_model(
      model::build(setup.model(), {samples, setup.plan.seq_length, setup.plan.global_batch_size},
                   setup.optimizer),
      setup.plan);
  if (std::holds_alternative<plan::Infeasible>(planned))
    throw std::runtime_error("there is no plan with this pin");
  const auto& [model, plan] = std::get<plan::PlannedModel>(planned);
  return compile::compile(model, plan, kernels::cpu::target(1));
}

/// How many buffers of the rank 0 of each mesh lie as pinned, of those of the pattern.
std::int64_t lie_as_pinned(const program::Job& job, const plan::Pin& pin) {
  std::int64_t count = 0;
  for (const program::Bundle& bundle : job.classes) {
    const program::Program& train = bundle.at(op::ProgramKind::train);
    for (const program::Buffer& buffer : train.buffers) {
      if (buffer.role != program::BufferRole::parameter || !plan::matches(pin.pattern, buffer.name))
        continue;
      ++count;
      for (std::size_t dim = 0; dim < pin.dims.size(); ++dim) {
        std::vector<std::string> axes;
        if (dim < buffer.sharding.dims.size())
          for (const op::Cut& cut : buffer.sharding.dims[dim])
            axes.push_back(train.meshes[buffer.sharding.mesh.index()].axes[cut.axis.index()].name);
        EXPECT_EQ(axes, pin.dims[dim].axes) << buffer.name << ", dim " << dim;
      }
    }
  }
  return count;
}

void expect_same_function(RunSetup setup, const plan::Grid& grid, const std::vector<Case>& cases,
                          const std::string& what) {
  RunSetup serial = setup;
  test::set_grid(serial, {});
  serial.plan.pipeline = {};
  const auto gradients = setup.plan.pipeline.stages == 1 ? test::Gradients::in_the_step
                                                         : test::Gradients::in_the_moments;
  const test::Tensors weights = test::rough_weights(serial);
  const test::TrainingOutcome alone =
      test::run_job(serial, GridRun::compile_job(serial), weights, gradients);
  test::set_grid(setup, grid);
  test::Worst worst;
  std::size_t count = 0;
  for (const Case& one : cases) {
    if (count++ % 3 != 0 && !is_long_run()) continue;
    SCOPED_TRACE(one.pattern + ": " + one.sharding);
    RunSetup pinned = setup;
    pinned.plan.pins = {{one.pattern, plan::parse_pinned(one.sharding).value()}};
    try {
      const program::Job job = job_of(pinned);
      EXPECT_GT(lie_as_pinned(job, pinned.plan.pins[0]), 0);
      for (const verify::Fault& fault : verify::verify(job))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
      compare(test::run_job(pinned, job, weights, gradients), alone, 1e-12, worst);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  test::print(worst, what);
}

TEST(Pins, a_gpt_computes_the_same_with_any_parameter_pinned) {
  expect_same_function(test::first_model(), {.x = 2, .y = 2, .z = 2, .data = 1}, of_gpt,
                       "gpt, pins");
}

TEST(Pins, a_unet_computes_the_same_with_any_parameter_pinned) {
  expect_same_function(test::diffusion_model(), {.x = 2, .y = 2, .z = 2, .data = 1}, of_unet,
                       "unet, pins");
}

/// The tied table is pinned on the stage that has it and on the one that receives it.
TEST(Pins, stages_of_a_gpt_compute_the_same_with_any_parameter_pinned) {
  RunSetup setup = test::first_model();
  setup.plan.pipeline = {.stages = 2};
  expect_same_function(setup, {.x = 2, .y = 2, .z = 1, .data = 1},
                       {{"blocks.0.mlp.up.weight", "[* (x), * (y)]"},
                        {"blocks.1.attn.qkv.weight", "[*, *, *, * (x)]"},
                        {"blocks.*.mlp.down.weight", "[*, *]"},
                        {"wte.weight", "[*, * (x)]"},
                        {"blocks.*.mlp.up.bias", "[* (x)]"},
                        {"blocks.*.ln1.gain", "[* (y)]"},
                        {"wte.weight", "[* (x,y), *]"},
                        {"wpe.weight", "[* (x), *]"},
                        {"ln_f.gain", "[* (x)]"},
                        {"wte.weight", "[*, *]"}},
                       "gpt, pins on stages");
}

TEST(Pins, stages_of_a_unet_compute_the_same_with_any_parameter_pinned) {
  RunSetup setup = test::diffusion_model();
  setup.plan.pipeline = {.stages = 2};
  expect_same_function(setup, {.x = 2, .y = 2, .z = 1, .data = 1},
                       {{"down.*.conv1.weight", "[* (y), *, *, * (x)]"},
                        {"up.*.conv1.weight.1", "[*, *, *, * (x)]"},
                        {"*.time.bias", "[*, * (x)]"},
                        {"time.0.weight", "[* (x), * (y)]"},
                        {"*.attention.qkv.weight", "[* (x), *, * (y), *]"},
                        {"*.shortcut.weight.0", "[* (x), *, *, *]"},
                        {"*.conv2.weight", "[*, *, *, *]"},
                        {"class.weight", "[*, * (x)]"},
                        {"*.norm1.gain", "[* (y)]"}},
                       "unet, pins on stages");
}

}  // namespace
}  // namespace fourfold::pins_test
