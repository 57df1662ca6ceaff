// What a training step of the U-Net of configs/unet-cifar10-50m.yaml asks of a GPU, counted from
// its program without one: 52.5 million parameters, 128 pictures at once, bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/kernels.h"
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

/// One row, or one chain, of a step.
struct Share {
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

std::map<std::string, Share> shares_of(const program::Program& program) {
  std::map<std::string, Share> shares;
  for (const program::Instruction& instruction : program.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    Share& share = shares[std::string(op::name(compute->op))];
    ++share.instructions;
    share.launches += count_launches(program, *compute);
    share.bytes += op::traffic_bytes(compute->op, program.operand_shapes(*compute), compute->dtype);
  }
  return shares;
}

Share sum_of(const std::map<std::string, Share>& shares) {
  Share sum;
  for (const auto& [name, share] : shares) {
    sum.instructions += share.instructions;
    sum.launches += share.launches;
    sum.bytes += share.bytes;
  }
  return sum;
}

program::Program step_for(const machine::Target& target) {
  return test::SmallRun::compile_bundle(unet_of_50m(), target).at(op::ProgramKind::train);
}

TEST(UnetStep, has_few_launches_and_moves_few_bytes) {
  const auto now = shares_of(step_for(kernels::cuda::own_target()));
  for (const auto& [name, share] : now)
    std::printf("%-120s %5lld %5lld %8.3f GB\n", name.c_str(),
                static_cast<long long>(share.instructions), static_cast<long long>(share.launches),
                share.bytes / 1e9);
  machine::Target plain = kernels::cuda::own_target();
  std::erase_if(plain.fusions, [](const std::string& name) {
    return name.starts_with("group_norm") || name == "moving_average_list";
  });
  plain.repeated.clear();
  const Share before = sum_of(shares_of(step_for(plain))), after = sum_of(now);
  std::printf("instructions %lld -> %lld, launches of own kernels %lld -> %lld, %.2f -> %.2f GB\n",
              static_cast<long long>(before.instructions),
              static_cast<long long>(after.instructions), static_cast<long long>(before.launches),
              static_cast<long long>(after.launches), before.bytes / 1e9, after.bytes / 1e9);
  EXPECT_LE(after.instructions, 1500);
  EXPECT_LE(after.bytes, 0.7 * before.bytes);
}

}  // namespace
}  // namespace fourfold::run::cuda
