// Other methods in closed form, against AxoNN's equations where both say the same.
#include "search/rival_forms.h"

#include <gtest/gtest.h>

#include "search/atp_forms.h"

namespace fourfold::search {
namespace {

TEST(RivalForms, megatron_all_reduces_four_activations_of_a_layer) {
  constexpr double m = 4096, hidden = 1024;
  EXPECT_NEAR(megatron_volume(8, 1, gpt_linears(m, hidden)), 4 * ring_all_reduce(8, m * hidden),
              1e-3);
}

TEST(RivalForms, parameters_that_are_kept_gathered_send_what_z_alone_sends) {
  const auto linears = gpt_linears(4096, 64);
  const AxisNumbers sent = axonn_by_axis({.x = 1, .y = 1, .z = 16, .data = 1}, linears);
  EXPECT_DOUBLE_EQ(sharded_volume(16, 12. * 64 * 64, 1, Gathers::kept), sent.z);
  EXPECT_EQ(sent.x + sent.y + sent.data, 0);
}

TEST(RivalForms, zero_3_sends_half_as_much_again_as_data_parallel_all_reduces) {
  EXPECT_DOUBLE_EQ(sharded_volume(16, 1000, 1, Gathers::again), 1.5 * ring_all_reduce(16, 1000));
  EXPECT_DOUBLE_EQ(sharded_volume(16, 1000, 3, Gathers::again), 4.5 * ring_all_reduce(16, 1000));
}

TEST(RivalForms, two_dimensions_broadcast_and_reduce_each_matrix_three_times_in_blocks) {
  const DimVolumes sent = summa_volume(4, 1, {{.m = 64, .k = 32, .n = 16}});
  EXPECT_DOUBLE_EQ(sent.rows, 3 * 3. / 16 * 64 * 32);
  EXPECT_DOUBLE_EQ(sent.columns, 3 * 3. / 16 * 32 * 16);
  EXPECT_EQ(sent.depth, 0);
}

TEST(RivalForms, depth_divides_what_is_sent_of_inputs_and_all_reduces_gradients) {
  const std::vector<Linear> linears = {{.m = 64, .k = 32, .n = 16}};
  const DimVolumes flat = summa_volume(4, 1, linears), deep = summa_volume(4, 2, linears);
  EXPECT_DOUBLE_EQ(deep.rows, flat.rows / 2);
  EXPECT_DOUBLE_EQ(deep.columns, flat.columns);
  EXPECT_DOUBLE_EQ(deep.depth, ring_all_reduce(2, 32. * 16 / 16));
  EXPECT_DOUBLE_EQ(deep.total(), deep.rows + deep.columns + deep.depth);
}

// ATP, 1.4, item 9.
TEST(RivalForms, item_9_googles_mesh_costs_30_q_minus_18_and_its_transpose_15_q_minus_18) {
  for (const double q : {2., 4., 8., 32.}) {
    EXPECT_DOUBLE_EQ(google_cost(q), (30 * q - 18) / (q * q));
    EXPECT_DOUBLE_EQ(google_transposed_cost(q), (15 * q - 18) / (q * q));
  }
  // In units of 2 L b s h at one rate.
  const AtpModel half{.batch = 0.5, .element_bytes = 1};
  EXPECT_DOUBLE_EQ(google_cost(8), atp_seconds_at_one_rate(half, 4, 16, 1));
}

// Narayanan et al. 2021, sections 2.2 and 4.1.
TEST(RivalForms, interleaved_stages_wait_less_and_send_more) {
  const PipelineShape plain{.tensor = 8, .stages = 8, .data = 4, .chunks = 1, .micros = 32};
  PipelineShape interleaved = plain;
  interleaved.chunks = 4;
  EXPECT_DOUBLE_EQ(waiting_share(plain), 7. / 32);
  EXPECT_DOUBLE_EQ(waiting_share(interleaved), 7. / 128);
  EXPECT_DOUBLE_EQ(boundary_volume(plain, 4096, Boundary::whole), 2 * 4096. / 4);
  EXPECT_DOUBLE_EQ(boundary_volume(interleaved, 4096, Boundary::whole), 8 * 4096. / 4);
  EXPECT_DOUBLE_EQ(boundary_volume(interleaved, 4096, Boundary::scattered), 4096. / 4);
  EXPECT_EQ(boundary_volume({.tensor = 8}, 4096, Boundary::whole), 0);
}

}  // namespace
}  // namespace fourfold::search
