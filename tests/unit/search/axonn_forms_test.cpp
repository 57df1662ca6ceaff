// AxoNN's equations, and every number of the paper that follows from a model (X1 to X7 and tables I
// and III).
#include "search/axonn_forms.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "machine/known_clusters.h"
#include "machine/mesh_bandwidth.h"
#include "search/gpt_forms.h"

namespace fourfold::search {
namespace {

TEST(AxonnForms, equations_1_to_3_are_those_of_rings) {
  EXPECT_DOUBLE_EQ(ring_all_gather(4, 10), 30);
  EXPECT_DOUBLE_EQ(ring_reduce_scatter(4, 40), 30);
  EXPECT_DOUBLE_EQ(ring_all_reduce(4, 40), 60);
}

TEST(AxonnForms, equations_4_to_8_of_a_linear_are_as_printed) {
  const LinearVolumes got =
      axonn_volumes({.x = 2, .y = 4, .z = 8, .data = 16}, {.m = 64, .k = 96, .n = 32});
  EXPECT_DOUBLE_EQ(got.weight_gather, 7. * 96 * 32 / (2 * 4 * 8));
  EXPECT_DOUBLE_EQ(got.gradient_scatter, 7. / 8 * 96 * 32 / (2 * 4));
  EXPECT_DOUBLE_EQ(got.output_reduce, 2 * 3. / 4 * 64 * 32 / (8 * 2));
  EXPECT_DOUBLE_EQ(got.input_reduce, 2 * 1. / 2 * 64 * 96 / (8 * 4));
  EXPECT_DOUBLE_EQ(got.replica_reduce, 2 * 15. / 16 * 96 * 32 / (2 * 4 * 8));
}

TEST(AxonnForms, a_transposed_linear_swaps_x_and_y) {
  const AxisNumbers grid{.x = 2, .y = 4, .z = 1, .data = 1};
  const Linear linear{.m = 64, .k = 96, .n = 32, .is_transposed = true};
  const AxisNumbers sent = axonn_by_axis(grid, {linear});
  EXPECT_DOUBLE_EQ(sent.x, 2 * 1. / 2 * 64 * 32 / 4) << "its forward pass reduces on x";
  EXPECT_DOUBLE_EQ(sent.y, 2 * 3. / 4 * 64 * 96 / 2);
}

TEST(AxonnForms, the_closed_form_of_a_gpt_is_the_sum_over_its_linears) {
  constexpr double layers = 42, hidden = 12288, tokens = 2048. * 2048;
  for (const AxisNumbers& grid : {AxisNumbers{2, 2, 16, 16}, AxisNumbers{4, 1, 8, 2},
                                  AxisNumbers{1, 1, 64, 1}, AxisNumbers{1, 8, 1, 4}}) {
    const AxisNumbers sent = axonn_by_axis(grid, gpt_linears(tokens / grid.data, hidden));
    const double sum = layers * (sent.x + sent.y + sent.z + sent.data);
    EXPECT_NEAR(axonn_gpt_volume(grid, layers, hidden, tokens), sum, 1e-12 * sum);
  }
}

// X7: the agnostic model sees the product of z and data alone, so its ranks are not well defined.
TEST(AxonnForms, x7_the_agnostic_model_ties_grids_that_placement_tells_apart) {
  constexpr double layers = 32, hidden = 7168, tokens = 2048. * 2048;
  const AxisNumbers a{2, 2, 4, 2}, b{2, 2, 2, 4};
  EXPECT_NEAR(
      axonn_gpt_volume(a, layers, hidden, tokens) / axonn_gpt_volume(b, layers, hidden, tokens), 1,
      1e-12);
  const auto aware = [&](const AxisNumbers& grid) {
    return axonn_seconds(axonn_by_axis(grid, gpt_linears(tokens / grid.data, hidden)),
                         axonn_rates(grid, 4, 100e9, 100e9));
  };
  EXPECT_GT(std::abs(aware({4, 1, 2, 4}) - aware({1, 4, 2, 4})), 1e-9);
}

// The placement of section V-B: figures 5 and 6 and what bounds equation 10.
TEST(AxonnForms, groups_within_a_node_have_the_rate_within) {
  const AxisNumbers rates = axonn_rates({2, 2, 2, 2}, 4, 200, 100);
  EXPECT_EQ(rates.x, 200);
  EXPECT_EQ(rates.y, 200);
}

TEST(AxonnForms, one_ring_through_two_nodes_has_all_of_the_rate_between_them) {
  EXPECT_EQ(axonn_rates({1, 8, 1, 1}, 4, 200, 100).y, 100) << "figure 5";
}

TEST(AxonnForms, two_rings_through_two_nodes_share_the_rate_between_them) {
  EXPECT_EQ(axonn_rates({2, 4, 1, 1}, 4, 200, 100).y, 50) << "figure 6";
}

TEST(AxonnForms, no_more_rings_share_a_node_than_it_has_devices) {
  const AxisNumbers rates = axonn_rates({2, 2, 2, 2}, 4, 200, 100);
  EXPECT_EQ(rates.z, 25);
  EXPECT_EQ(rates.data, 25) << "not 100 / 8";
}

TEST(AxonnForms, equation_10_is_what_counting_groups_on_the_cluster_gives_for_powers_of_two) {
  machine::Cluster cluster = machine::load_cluster("perlmutter-40gb");
  for (machine::Level& level : cluster.levels) level.share = 1;  // the paper counts links alone
  std::size_t grids = 0;
  for (const std::int64_t x : {1, 4})
    for (const std::int64_t y : {1, 2, 4, 8})
      for (const std::int64_t z : {1, 2, 16}) {
        const std::int64_t data = 4;
        const auto counted = machine::axes_bytes_per_s(cluster, {x, y, z, data});
        const auto number = [](std::int64_t n) { return static_cast<double>(n); };
        const AxisNumbers printed =
            axonn_rates({number(x), number(y), number(z), number(data)}, 4, 300e9, 100e9);
        const std::array<double, 4> all = {printed.x, printed.y, printed.z, printed.data};
        const std::array<std::int64_t, 4> sizes = {x, y, z, data};
        std::int64_t inner = 1;
        for (std::size_t axis = 0; axis < 4; ++axis) {
          // Within a node AxoNN has one rate, the cluster as many links as a group has others.
          inner *= sizes[axis];
          if (sizes[axis] == 1 || inner <= 4) continue;
          EXPECT_DOUBLE_EQ(all[axis], counted[axis]) << x << " " << y << " " << z << " " << axis;
          ++grids;
        }
      }
  EXPECT_GE(grids, 40U);
}

TEST(AxonnForms, groups_that_do_not_divide_a_node_are_not_taken_to_be_within_it) {
  EXPECT_EQ(axonn_rates({3, 2, 1, 1}, 4, 200, 100).x, 100);
}

struct Model {
  const char* name;
  double layers, hidden, billions, with_embeddings, devices;
  std::array<double, 4> shares;  // of the peak: Megatron, ZeRO-3, DeepSpeed-3D, AxoNN
  double seconds;                // of AxoNN's step
};
constexpr std::array<Model, 5> models = {{
    {"5B", 24, 4096, 4.83, 5.05, 64, {.37, .55, .33, .67}, 13.5},
    {"10B", 32, 5120, 10.07, 10.34, 128, {.42, .57, .33, .63}, 14.6},
    {"20B", 32, 7168, 19.73, 20.11, 256, {.42, .57, .35, .67}, 13.1},
    {"40B", 38, 9216, 38.73, 39.23, 512, {.44, .55, .35, .64}, 13.3},
    {"80B", 42, 12288, 76.10, 76.76, 1024, {.42, .27, .38, .57}, 14.5},
}};
constexpr double peak = 312e12, vocabulary = 51200, batch = 2048, length = 2048;

TEST(AxonnForms, tables_1_and_3_give_parameters_and_the_times_of_a_step) {
  for (const Model& model : models) {
    const GptSizes sizes{model.layers, model.hidden, batch, length, vocabulary};
    GptSizes bare = sizes;
    bare.vocabulary = 0;
    EXPECT_NEAR(gpt_parameters(bare) / 1e9, model.billions, 0.0051) << model.name;
    // Learned positions too.
    EXPECT_NEAR((gpt_parameters(sizes) + length * model.hidden) / 1e9, model.with_embeddings, 0.015)
        << model.name;
    EXPECT_NEAR(step_seconds(gpt_recomputed_flops(sizes), model.devices, peak, model.shares[3]),
                model.seconds, 0.051)
        << model.name;
  }
}

double seconds_of(const Model& model, std::size_t system) {
  const GptSizes sizes{model.layers, model.hidden, batch, length, vocabulary};
  return step_seconds(gpt_recomputed_flops(sizes), model.devices, peak, model.shares[system]);
}

TEST(AxonnForms, x1_57_percent_of_1024_devices_are_182_petaflops_and_26_percent_less_time) {
  const Model& model = models[4];
  const GptSizes sizes{model.layers, model.hidden, batch, length, vocabulary};
  EXPECT_NEAR(gpt_recomputed_flops(sizes) / seconds_of(model, 3) / 1e15, 182.1, 0.05);
  EXPECT_NEAR(1 - seconds_of(model, 3) / seconds_of(model, 0), 0.263, 5e-4);
}

TEST(AxonnForms, x2_table_3_has_26_to_45_percent_less_time_than_megatron_33_to_51_than_deepspeed) {
  const auto less_time = [](std::size_t rival) {
    double least = 1, most = 0;
    for (const Model& model : models) {
      const double less = 1 - seconds_of(model, 3) / seconds_of(model, rival);
      least = std::min(least, less);
      most = std::max(most, less);
    }
    return std::array<double, 2>{least, most};
  };
  EXPECT_NEAR(less_time(0)[0], 0.263, 5e-4);
  EXPECT_NEAR(less_time(0)[1], 0.448, 5e-4);
  EXPECT_NEAR(less_time(2)[0], 0.333, 5e-4);
  EXPECT_NEAR(less_time(2)[1], 0.507, 5e-4);
}

TEST(AxonnForms, without_recomputation_a_step_has_three_quarters_of_the_flops_and_all_of_the_head) {
  const GptSizes sizes{42, 12288, batch, length, vocabulary};
  const double head = 6 * batch * length * 12288 * vocabulary;
  EXPECT_NEAR((gpt_model_flops(sizes) - head) / (gpt_recomputed_flops(sizes) - head), 0.75, 1e-12);
}

}  // namespace
}  // namespace fourfold::search
