#include "machine/peak_rates.h"

#include <gtest/gtest.h>

namespace fourfold::machine {
namespace {

TEST(PeakRates, are_those_without_sparsity) {
  // The figure that the speed of training on an H100 or H200 is told as a share of.
  EXPECT_DOUBLE_EQ(peak_rates("NVIDIA H100 80GB HBM3")->bf16_flops_per_s, 989.4e12);
  EXPECT_DOUBLE_EQ(peak_rates("NVIDIA H200")->bf16_flops_per_s, 989.4e12);
  EXPECT_DOUBLE_EQ(peak_rates("NVIDIA A100-SXM4-40GB")->bf16_flops_per_s, 312e12);
}

TEST(PeakRates, differ_by_how_a_chip_is_mounted) {
  EXPECT_LT(peak_rates("NVIDIA H100 PCIe")->bf16_flops_per_s, 800e12);
  EXPECT_LT(peak_rates("NVIDIA H200 NVL")->bf16_flops_per_s, 900e12);
}

TEST(PeakRates, of_an_unknown_device_and_of_a_part_of_one_are_none) {
  EXPECT_FALSE(peak_rates("NVIDIA H200 MIG 1g.18gb"));
  EXPECT_FALSE(peak_rates("NVIDIA T4"));
  EXPECT_FALSE(peak_rates(""));
}

TEST(PeakRates, tensor_cores_are_no_slower_and_every_row_has_a_source) {
  for (const char* name : {"NVIDIA B200", "NVIDIA GH200 480GB", "NVIDIA H200 NVL", "NVIDIA H200",
                           "NVIDIA L40S", "NVIDIA GeForce RTX 3090"}) {
    const auto peak = peak_rates(name);
    ASSERT_TRUE(peak) << name;
    EXPECT_GE(peak->bf16_flops_per_s, peak->tf32_flops_per_s) << name;
    EXPECT_GE(peak->tf32_flops_per_s, peak->f32_flops_per_s) << name;
    EXPECT_FALSE(peak->source.empty()) << name;
  }
}

}  // namespace
}  // namespace fourfold::machine
