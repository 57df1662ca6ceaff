#include "simulate/priced_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "unit/simulate/small_job.h"

namespace fourfold::simulate {
namespace {

/// A step of 2 s on eight ranks of the small cluster, whose peak is 1 Tflop/s each.
PricedStep small_step() {
  PricedStep step{.name = "a job", .model_flops = 4e12, .hardware_flops = 8e12};
  step.items = 1000;
  step.unit = "tokens";
  step.simulation.num_ranks = 8;
  step.prediction.step_s = 2;
  step.prediction.exposed_s = 0.5;
  step.prediction.flops = 2e12;
  step.prediction.dtype = DType::f32;
  step.prediction.peak_bytes = 1'000'000;
  return step;
}

std::string text_of(const Rows& rows, const std::string& label) {
  const auto row = std::ranges::find(rows, label, &Row::label);
  return row == rows.end() ? "no such row" : row->text;
}

TEST(PricedStep, utilization_is_the_share_of_what_all_devices_do_at_best) {
  const machine::Cluster cluster = two_levels(2, 4);
  EXPECT_EQ(text_of(step_rows(small_step(), cluster), "utilization"),
            "MFU 25.0 %, HFU 50.0 % of f32 peak");
  PricedStep of_a_text = small_step();  // of which nobody knows the model
  of_a_text.model_flops = of_a_text.hardware_flops = std::nullopt;
  EXPECT_EQ(text_of(step_rows(of_a_text, cluster), "utilization"),
            "MFU not known, HFU 12.5 % of f32 peak");
  EXPECT_NE(to_json(of_a_text, cluster).dump().find("\"mfu\":null"), std::string::npos);
}

TEST(PricedStep, says_how_many_items_a_second_are_where_that_is_known) {
  PricedStep step = small_step();
  EXPECT_NE(text_of(step_rows(step, two_levels(2, 4)), "step").find(", 500 tokens/s"),
            std::string::npos);
  step.items = 0;
  EXPECT_EQ(text_of(step_rows(step, two_levels(2, 4)), "step").find("/s"), std::string::npos);
}

TEST(PricedStep, what_is_priced_by_analogy_is_marked_in_the_rows_the_line_and_json) {
  PricedStep step = small_step();
  const machine::Cluster cluster = two_levels(2, 4);
  EXPECT_EQ(text_of(step_rows(step, cluster), "by analogy"), "no such row");
  EXPECT_EQ(sweep_line(step, cluster).find('~'), std::string::npos);
  EXPECT_NE(to_json(step, cluster).dump().find("\"by_analogy\":[]"), std::string::npos);
  step.by_analogy = {{"convolution", 1}, {"attention", 0.5}};
  EXPECT_EQ(text_of(step_rows(step, cluster), "by analogy"),
            "1.50 s of what a rank computes, priced as products of as many flops, because nobody "
            "measured it there: convolution 1.00 s, attention 500 ms");
  EXPECT_TRUE(text_of(step_rows(step, cluster), "step").starts_with("~2.00 s"));
  EXPECT_NE(sweep_line(step, cluster).find(" ~2.00 s"), std::string::npos);
  EXPECT_NE(to_json(step, cluster).dump().find("{\"op\":\"convolution\",\"seconds\":1"),
            std::string::npos);
}

TEST(PricedStep, what_does_not_fit_is_said_in_the_row_the_line_and_json) {
  PricedStep step = small_step();
  const machine::Cluster cluster = two_levels(2, 4);
  EXPECT_NE(to_json(step, cluster).dump().find("\"fits\":true"), std::string::npos);
  step.prediction.peak_bytes = 10'000'000'001;  // a device has 1e10
  EXPECT_TRUE(text_of(step_rows(step, cluster), "memory").ends_with(": does not fit"));
  EXPECT_TRUE(sweep_line(step, cluster).ends_with("  does not fit\n"));
  EXPECT_NE(to_json(step, cluster).dump().find("\"fits\":false"), std::string::npos);
}

TEST(PricedStep, a_refusal_in_a_sweep_is_the_first_line_and_no_longer_than_the_table) {
  EXPECT_EQ(sweep_refusal(64, "one\ntwo"), "      64  one\n");
  EXPECT_EQ(sweep_refusal(64, std::string(200, 'x')),
            "      64  " + std::string(87, 'x') + "...\n");
}

}  // namespace
}  // namespace fourfold::simulate
