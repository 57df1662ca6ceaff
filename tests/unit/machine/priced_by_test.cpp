// From what a device's prices come.
#include "machine/priced_by.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/known_clusters.h"

namespace fourfold::machine {
namespace {

TEST(PricedBy, calls_that_were_measured_count_for_their_operation_and_type_alone) {
  Device device;
  device.kernels = {{"attention", DType::bf16, {{1e6, 1e9, 1e-3}}}};
  EXPECT_EQ(priced_by(device, op::Attention{}, DType::bf16), PricedBy::measured);
  EXPECT_EQ(priced_by(device, op::Attention{}, DType::f32), PricedBy::analogy);
  EXPECT_EQ(priced_by(device, op::AttentionGradient{}, DType::bf16), PricedBy::analogy);
  EXPECT_EQ(priced_by(device, op::Convolution{}, DType::bf16), PricedBy::analogy);
}

TEST(PricedBy, products_and_what_moves_memory_have_rates_of_their_own) {
  const Device device;
  EXPECT_EQ(priced_by(device, op::Contract{}, DType::bf16), PricedBy::rates);
  EXPECT_EQ(priced_by(device, op::LayerNorm{}, DType::bf16), PricedBy::rates);
  EXPECT_EQ(priced_by(device, op::Silu{}, DType::f32), PricedBy::rates);
}

TEST(PricedBy, every_known_machine_says_of_each_operation_what_was_measured_or_that_nothing_was) {
  EXPECT_EQ(std::ranges::count(operations_beside_products(), "convolution"), 1);
  EXPECT_EQ(std::ranges::count(operations_beside_products(), "contract"), 0);
  for (const KnownCluster& known : known_clusters()) {
    const Device device = load_cluster(known.name).device;
    for (const std::string& op : operations_beside_products()) {
      const bool is_measured =
          std::ranges::find(device.kernels, op, &MeasuredKernel::op) != device.kernels.end();
      EXPECT_EQ(std::ranges::count(device.unmeasured, op), is_measured ? 0 : 1)
          << known.name << ": " << op;
    }
  }
}

}  // namespace
}  // namespace fourfold::machine
