#include "search/resharding_forms.h"

#include <gtest/gtest.h>

namespace fourfold::search {
namespace {

constexpr std::int64_t mi = 1024 * 1024;

/// Zhuang et al. 2023, Table 1, whose M and GB are binary: S = 1024, H = 12288, B = 2, TMP = 8.
TEST(ReshardingForms, of_a_gpt_layer_are_the_papers_table_to_the_byte) {
  const GptLayerMemory layer = gpt_layer_memory({1024, 12288, 2, 8});
  EXPECT_EQ(layer.parameters, 216 * mi);
  EXPECT_EQ(layer.optimizer_parameters, 432 * mi);
  EXPECT_EQ(layer.activation_elements, 24 * mi);
  EXPECT_EQ(layer.weights_and_optimizer_bytes, 168 * std::int64_t{12288} * 12288 / 8);
  EXPECT_EQ(layer.weights_and_optimizer_bytes, 3024 * mi);  // 2.95 GiB
  EXPECT_EQ(layer.activation_bytes, 48 * mi);
}

}  // namespace
}  // namespace fourfold::search
