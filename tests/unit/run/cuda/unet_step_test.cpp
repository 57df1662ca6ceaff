// What a training step of the U-Net of configs/unet-cifar10-50m.yaml asks of a GPU, counted from
// its program without one: 52.5 million parameters, 128 pictures at once, bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/norm_chains.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::run::cuda {
namespace {

test::RunSetup unet_of_50m() {
  test::RunSetup setup;
  setup.unet = model::UnetSpec{.picture = {32, 32, 3},
                               .channels = 128,
                               .channel_mult = {1, 2, 2, 2},
                               .layers_per_level = 3,
                               .attention_resolutions = {16, 8},
                               .num_heads = 4,
                               .dropout = 0.3,
                               .num_classes = 10,
                               .diffusion = {.steps = 4000, .learn_sigma = true, .sampling = {}}};
  setup.plan = {.global_batch_size = 128, .micro_batch_size = 128, .seq_length = 1};
  setup.plan.compute = DType::bf16;
  return setup;
}

/// What a step has to do.
struct Work {
  std::int64_t instructions = 0, launches = 0;
  double bytes = 0;  // op::traffic_bytes
};

/// How many kernels an instruction launches, operands having no memory: nobody runs them.
std::int64_t count_launches(const program::Program& program, const program::Compute& compute) {
  std::int64_t launches = 0;
  cuda_emulation::set_streams({[&](void*, const std::function<void()>&) { ++launches; }, {}});
  const kernels::Problem problem{compute.op, compute.dtype, program.operand_shapes(compute), 1};
  const op::Operands operands = op::operands(compute.op);
  std::vector<kernels::Tensor> tensors;
  for (std::size_t i = 0; i < operands.size(); ++i)
    tensors.push_back(
        {nullptr, problem.shapes[i], op::element_dtype(operands[i].element, compute.dtype)});
  kernels::cuda::prepare_own(problem)(tensors, {}, nullptr);
  cuda_emulation::set_streams({});
  return launches;
}

/// The work of all instructions that compute.
Work work_of(const program::Program& program) {
  Work work;
  for (const program::Instruction& instruction : program.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    ++work.instructions;
    work.launches += count_launches(program, *compute);
    work.bytes += op::traffic_bytes(compute->op, program.operand_shapes(*compute), compute->dtype);
  }
  return work;
}

Work work_for(const machine::Target& target) {
  return work_of(test::SmallRun::compile_bundle(unet_of_50m(), target).at(op::ProgramKind::train));
}

/// A step of the U-Net without chains around its norms and products, and without lists of its
/// averages.
machine::Target without_chains(machine::Target target) {
  std::erase_if(target.fusions, [](const std::string& name) {
    return name == "moving_average_list" || name == "group_norm_sums" ||
           name.ends_with("+add_bias") ||
           std::ranges::find(kernels::norm_chains, name) != kernels::norm_chains.end();
  });
  target.repeated.clear();
  return target;
}

TEST(UnetStep, has_few_launches_and_moves_few_bytes) {
  const machine::Target target = kernels::cuda::own_target();
  const Work before = work_for(without_chains(target)), now = work_for(target);
  std::printf("instructions %lld -> %lld, launches %lld -> %lld, %.2f -> %.2f GB\n",
              static_cast<long long>(before.instructions), static_cast<long long>(now.instructions),
              static_cast<long long>(before.launches), static_cast<long long>(now.launches),
              before.bytes / 1e9, now.bytes / 1e9);
  EXPECT_LE(now.instructions, 1064);
  EXPECT_LE(now.launches, 1484);
  EXPECT_LE(now.bytes, 0.593 * before.bytes);
}

}  // namespace
}  // namespace fourfold::run::cuda
