// ATP's equations, and every number of the paper that follows from a model: rows A2 to A11 of its
// claims, tables 2 and 3, and what its text leaves open.
#include "search/atp_forms.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "machine/known_clusters.h"
#include "search/axonn_forms.h"
#include "search/gpt_forms.h"

namespace fourfold::search {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr AtpCore printed = AtpCore::all_reduced, ours = AtpCore::reduce_scattered;

/// N devices on one level with the rate 1.
machine::Cluster flat(std::int64_t devices) {
  machine::Cluster cluster;
  cluster.levels = {{"switch", devices, 0, 1, 1, 0, {}}};
  return cluster;
}

/// In units of 2 L b s h / GroupBW: 7 / (d1 B2) + 2 / (d2 B1).
double cost(const machine::Cluster& cluster, std::int64_t d1, std::int64_t d2,
            AtpCore core = printed) {
  const AtpModel one{.element_bytes = 1};
  return atp_seconds(one, static_cast<double>(d1), static_cast<double>(d2),
                     machine::atp_bandwidths(cluster, d1, d2), core) /
         2;
}
double cost_on_one_level(std::int64_t devices, std::int64_t i) {
  return cost(flat(devices), devices / i, i);
}

TEST(AtpForms, a2_the_best_mesh_costs_less_the_more_devices_there_are_from_8_on) {
  const std::array<double, 7> expected = {2, 3, 3.25, 2.625, 2.1875, 1.59375, 1.234375};
  std::int64_t devices = 2;
  for (const double best : expected) {
    EXPECT_DOUBLE_EQ(cost_on_one_level(devices, best_atp(flat(devices), devices, printed)), best)
        << devices;
    devices *= 2;
  }
}

TEST(AtpForms, a3_megatron_costs_4_l_b_s_h_over_b_which_is_the_mesh_of_one_column) {
  const AtpModel model{.layers = 24, .batch = 4, .length = 2048, .hidden = 4096};
  EXPECT_DOUBLE_EQ(megatron_seconds(model, 5e9), 4. * 24 * 4 * 2048 * 4096 * 2 / 5e9);
  EXPECT_DOUBLE_EQ(
      atp_seconds(model, 8, 1, {.all_reduce1 = 5e9, .all_reduce2 = unbounded}, printed),
      megatron_seconds(model, 5e9));
}

TEST(AtpForms, a4_two_to_the_n_devices_have_n_plus_1_meshes) {
  for (std::size_t n = 0; n <= 10; ++n) EXPECT_EQ(atp_meshes(std::int64_t{1} << n).size(), n + 1);
  EXPECT_EQ(atp_meshes(8).front(), (std::pair<std::int64_t, std::int64_t>(8, 1)));
}

TEST(AtpForms, a5_figure_7a_gives_12_5_and_200_gigabytes_for_8_by_2) {
  const auto rates = machine::atp_bandwidths(machine::load_cluster("atp-fig7a"), 8, 2);
  EXPECT_DOUBLE_EQ(rates.ring1, 12.5e9);
  EXPECT_DOUBLE_EQ(rates.ring2, 200e9);
}

TEST(AtpForms, a6_equations_2_and_4_at_one_rate_are_the_closed_form_of_ic5_and_ic6) {
  const AtpModel model{.layers = 24, .batch = 4, .length = 2048, .hidden = 4096};
  for (const auto& [d1, d2] : {std::pair{8., 1.}, {4., 2.}, {2., 4.}, {1., 8.}, {16., 4.}}) {
    const auto all_reduce = [](double d) { return d == 1 ? unbounded : d / (2 * (d - 1)) * 300e9; };
    const double seconds = atp_seconds(
        model, d1, d2, {.all_reduce1 = all_reduce(d1), .all_reduce2 = all_reduce(d2)}, printed);
    EXPECT_NEAR(seconds, atp_seconds_at_one_rate(model, d1, d2, 300e9), 1e-12 * seconds);
  }
}

TEST(AtpForms, a7_on_calibrated_ic1_atp_4_costs_45_5_percent_less_and_is_best) {
  const machine::Cluster cluster = machine::load_cluster("atp-ic1");
  const auto rates = machine::atp_bandwidths(cluster, 2, 4);
  EXPECT_DOUBLE_EQ(rates.all_reduce1, 1.20e9);
  EXPECT_DOUBLE_EQ(rates.all_reduce2, 4.95e9);
  EXPECT_DOUBLE_EQ(machine::atp_bandwidths(cluster, 8, 1).all_reduce1, 0.97e9);
  EXPECT_NEAR(cost(cluster, 2, 4) / cost(cluster, 8, 1), 0.5450, 5e-5) << "46% only by rounding up";
  EXPECT_EQ(best_atp(cluster, 8, printed), 4) << "of the two meshes that were measured";
  // The estimates that stand for the mesh that was not.
  const double four_in_a_socket = 4.95e9 * 6 / 4, one_ring = 0.97e9 * 14 / 8, four_rings = 1.2e9;
  const auto other = machine::atp_bandwidths(cluster, 4, 2);
  EXPECT_NEAR(other.all_reduce2, four_in_a_socket, 1e7);
  EXPECT_NEAR(other.all_reduce1, (2 * one_ring + four_rings) / 3 * 4 / 6, 1e7);
}

TEST(AtpForms, a8_atp_1_is_best_for_4_devices_of_nvswitch_and_atp_2_for_16) {
  EXPECT_EQ(best_atp(machine::load_cluster("atp-ic3"), 4, printed), 1);
  EXPECT_EQ(best_atp(machine::load_cluster("atp-ic4"), 16, printed), 2);
}

// The formulas disagree with the text at 8 devices, and the crossovers are not those it names.
TEST(AtpForms, a8_at_8_devices_atp_2_costs_3_25_and_atp_1_3_5_and_the_crossovers_are_7_28_and_112) {
  EXPECT_DOUBLE_EQ(cost_on_one_level(8, 1), 3.5);
  EXPECT_DOUBLE_EQ(cost_on_one_level(8, 2), 3.25);
  const AtpModel one{.element_bytes = 1};
  const auto at = [&](double devices, double i) {
    return atp_seconds_at_one_rate(one, devices / i, i, 1);
  };
  EXPECT_DOUBLE_EQ(at(7, 1), at(7, 2));
  EXPECT_DOUBLE_EQ(at(28, 2), at(28, 4));
  EXPECT_DOUBLE_EQ(at(112, 4), at(112, 8));
  EXPECT_EQ(best_atp(flat(32), 32, printed), 4);
  EXPECT_EQ(best_atp(flat(128), 128, printed), 8);
}

TEST(AtpForms, a10_four_chunks_on_ic4_gain_16_to_22_percent_and_at_most_3_5_elsewhere) {
  // Table 3: TFLOP/s of M2, M3 and M4 without and with 4 chunks on IC1, IC2, IC3, IC4.
  const std::array<std::array<double, 4>, 3> without = {
      {{3.45, 42.82, 97.45, 15.31}, {6.68, 73.61, 151.98, 22.47}, {10.71, 96.83, 178.19, 32.52}}};
  const std::array<std::array<double, 4>, 3> with = {
      {{3.51, 43.73, 98.20, 18.62}, {6.72, 75.95, 151.79, 26.18}, {10.70, 100.23, 177.78, 38.81}}};
  const std::array<double, 3> expected = {0.216, 0.165, 0.193}, hidden = {4096, 8192, 12288};
  for (std::size_t model = 0; model < 3; ++model) {
    const double flops = gpt_model_flops({1, hidden[model], 4, 2048, 0});
    const auto gain_on = [&](std::size_t ic) {
      return step_seconds(flops, 8, without[model][ic] * 1e12, 1) /
                 step_seconds(flops, 8, with[model][ic] * 1e12, 1) -
             1;
    };
    EXPECT_NEAR(gain_on(3), expected[model], 5e-4);
    for (std::size_t ic = 0; ic < 3; ++ic) {
      const double gain = gain_on(ic);
      EXPECT_GT(gain, -0.0025);
      EXPECT_LT(gain, 0.0355);
    }
  }
}

TEST(AtpForms, a11_atp_1_costs_more_with_more_devices_and_atp_2_and_atp_4_less) {
  for (std::int64_t devices = 8; devices <= 128; devices *= 2) {
    EXPECT_LT(cost_on_one_level(devices, 1), cost_on_one_level(2 * devices, 1));
    EXPECT_GT(cost_on_one_level(devices, 2), cost_on_one_level(2 * devices, 2));
    EXPECT_GT(cost_on_one_level(devices, 4), cost_on_one_level(2 * devices, 4));
  }
}

TEST(AtpForms, table_2_counts_parameters_and_flops_of_a_layer_in_binary_units) {
  struct Row {
    double hidden, billions, tflops;
  };
  for (const Row& row :
       {Row{2048, 0.048, 2.625}, {4096, 0.192, 9.75}, {8192, 0.768, 37.5}, {12288, 1.728, 83.25}}) {
    const GptSizes layer{.layers = 1, .hidden = row.hidden, .batch = 4, .length = 2048};
    EXPECT_DOUBLE_EQ(gpt_parameters(layer) / (1000 * 0x1p20), row.billions);
    EXPECT_DOUBLE_EQ(gpt_model_flops(layer) / 0x1p40, row.tflops);
  }
}

// 1.4, item 1: one level would make ATP-1 always best if its rate were divided by d2.
TEST(AtpForms, item_1_on_one_level_no_rate_is_divided) {
  const auto rates = machine::atp_bandwidths(flat(16), 8, 2);
  EXPECT_EQ(rates.ring1, 1) << "equation 3 as printed: 1/2";
  EXPECT_EQ(machine::atp_bandwidths(machine::load_cluster("atp-fig7a"), 2, 8).ring1, 6.25e9)
      << "as printed: 3.125";
}

// 1.4, item 5: what is printed is AxoNN's sum and 2 h more for the gather of the core.
TEST(AtpForms, item_5_atp_prints_14_h_and_ours_and_axonns_equations_send_12_h) {
  constexpr double m = 96, hidden = 64;
  for (const auto& [d1, d2] : {std::pair{4., 2.}, {2., 4.}, {3., 5.}}) {
    const AxisNumbers sent =
        axonn_by_axis({.x = d1, .y = d2, .z = 1, .data = 1}, gpt_linears(m, hidden));
    const AtpElements mine = atp_elements(d1, d2, hidden, ours),
                      theirs = atp_elements(d1, d2, hidden, printed);
    EXPECT_NEAR(sent.y, ring_all_reduce(d2, m * mine.second), 1e-9);
    EXPECT_NEAR(sent.x, ring_all_reduce(d1, m * mine.first), 1e-9);
    EXPECT_NEAR(theirs.second - mine.second, 2 * hidden / d1, 1e-9);
    EXPECT_EQ(theirs.first, mine.first);
  }
}

// 1.4, item 6.
TEST(AtpForms, item_6_pairs_by_nvlink_make_atp_2_best_where_nvlink_has_3_5_times_the_rate_of_pcie) {
  machine::Cluster cluster = machine::load_cluster("atp-ic2");
  EXPECT_NEAR(cost(cluster, 8, 1) * 1e9, 0.0547, 5e-5);
  EXPECT_NEAR(cost(cluster, 4, 2) * 1e9, 0.0498, 5e-5);
  EXPECT_EQ(best_atp(cluster, 8, printed), 2);
}

// 1.4, item 8: the closed form takes the rate of whole rings for every mesh of IC6.
TEST(AtpForms, item_8_on_the_torus_two_neighbours_have_half_the_rate_that_the_closed_form_takes) {
  const machine::Cluster cluster = machine::load_cluster("atp-ic6");
  EXPECT_DOUBLE_EQ(machine::atp_bandwidths(cluster, 8, 2).ring2, 25e9);
  const AtpModel half{.batch = 0.5, .element_bytes = 1};
  EXPECT_NEAR(cost(cluster, 4, 4), atp_seconds_at_one_rate(half, 4, 4, 50e9),
              1e-12 * cost(cluster, 4, 4));
  EXPECT_GT(cost(cluster, 8, 2), 1.5 * atp_seconds_at_one_rate(half, 8, 2, 50e9));
}

// 1.4, item 9.
TEST(AtpForms, item_9_the_best_second_dim_is_the_root_of_2_n_over_7_were_it_no_whole_number) {
  const AtpModel one{.element_bytes = 1};
  for (const double devices : {14., 56., 1024.}) {
    const double best = best_second_dim(devices);
    const auto at = [&](double d2) { return atp_seconds_at_one_rate(one, devices / d2, d2, 1); };
    EXPECT_LT(at(best), at(best * 1.01));
    EXPECT_LT(at(best), at(best / 1.01));
  }
}

// Section 5.3: on InfiniBand ATP-2 gains for M4 and loses where a model is small.
TEST(AtpForms, small_models_lose_by_latency_on_ic4_what_large_ones_gain) {
  const machine::Cluster cluster = machine::load_cluster("atp-ic4");
  const auto gain = [&](double hidden, double tokens) {
    const AtpModel model{.layers = 1, .batch = tokens, .length = 1, .hidden = hidden};
    const auto seconds = [&](std::int64_t d1, std::int64_t d2) {
      return atp_seconds_with_latency(model, static_cast<double>(d1), static_cast<double>(d2),
                                      machine::atp_bandwidths(cluster, d1, d2), printed,
                                      cluster.levels[0].latency_s);
    };
    return 1 - seconds(8, 2) / seconds(16, 1);
  };
  EXPECT_NEAR(gain(12288, 4 * 2048), 0.3, 0.001);
  EXPECT_LT(gain(2048, 4 * 2048), gain(12288, 4 * 2048));
  EXPECT_LT(gain(2048, 4), 0);
}

}  // namespace
}  // namespace fourfold::search
