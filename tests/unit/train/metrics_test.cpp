#include "train/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/file.h"

namespace fourfold::train {
namespace {

StepMetrics example(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.0 / 3;
  metrics.lr = 1e-3;
  metrics.grad_norm = 0.875;
  metrics.time_s = 0.0625;
  metrics.items_per_s = 12288;
  metrics.model_flops_per_s = 5e9;
  metrics.memory_bytes = 1 << 20;
  metrics.peak_resident_bytes = 3 << 20;
  return metrics;
}

class MetricsFileTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  MetricsFile::Warn warn() {
    return [this](const std::string& text) { warnings_.push_back(text); };
  }
  // Each case has its own file: cases may run side by side.
  const std::string path_ = ::testing::TempDir() + "fourfold_metrics_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ".jsonl";
  std::vector<std::string> warnings_;
};

TEST(Metrics, a_step_is_one_object_in_full_precision_without_what_does_not_apply) {
  EXPECT_EQ(
      to_json(example(120)).dump(),
      R"({"step":120,"loss":0.6666666666666666,"lr":0.001,"grad_norm":0.875,"step_time_s":0.0625,)"
      R"("tokens_per_s":12288.0,"tflops":0.005,"memory_bytes":1048576,"peak_resident_bytes":3145728})");
}

TEST(Metrics, an_evaluation_and_a_known_peak_add_their_members) {
  StepMetrics metrics = example(1);
  metrics.evaluation = Evaluation{1.5, 100, 0.25};
  metrics.utilization = Utilization{0.5};
  metrics.exposed_communication_s = 0.125;
  const Json json = to_json(metrics);
  ASSERT_NE(json.find("val_loss"), nullptr);
  EXPECT_EQ(json.find("val_loss")->as_double(), 1.5);
  EXPECT_EQ(json.find("val_time_s")->as_double(), 0.25);
  EXPECT_EQ(json.find("val_loss_compared"), nullptr) << "it takes what every evaluation takes";
  metrics.evaluation->compared_loss = 1.75;
  metrics.evaluation->compared_items = 10;
  const Json larger = to_json(metrics);
  ASSERT_NE(larger.find("val_loss_compared"), nullptr);
  EXPECT_EQ(larger.find("val_loss_compared")->as_double(), 1.75);
  EXPECT_EQ(json.find("mfu")->as_double(), 0.5);
  EXPECT_EQ(json.find("hfu"), nullptr) << "nothing is computed again";
  EXPECT_EQ(json.find("exposed_communication_s")->as_double(), 0.125);
}

TEST(Metrics, a_step_that_computes_again_has_the_share_of_the_hardware_beside_the_models) {
  StepMetrics metrics = example(1);
  metrics.utilization = Utilization{0.375, 0.5};
  EXPECT_NE(to_json(metrics).dump().find(R"("mfu":0.375,"hfu":0.5,)"), std::string::npos);
}

TEST(RunFacts, shares_of_the_peak_are_those_of_the_model_and_of_the_hardware) {
  RunFacts facts;
  facts.model_flops_per_step = 72;
  EXPECT_EQ(facts.utilization(10), std::nullopt) << "no peak is known";
  facts.peak_flops = 100;
  EXPECT_EQ(facts.utilization(72), (Utilization{0.72, std::nullopt}));
  EXPECT_EQ(facts.hardware_flops_per_s(72), 72);
  // Full recomputation: 96 for 72, the share of attention and the head left out.
  facts.hardware_flops_per_step = 96;
  EXPECT_EQ(facts.hardware_flops_per_s(36), 48);
  EXPECT_EQ(facts.utilization(36), (Utilization{0.36, 0.48}));
  EXPECT_EQ(facts.utilization(90), std::nullopt) << "120 of 100 cannot be";
}

TEST_F(MetricsFileTest, a_line_per_step_is_in_the_file_at_the_end) {
  {
    MetricsFile file(path_, MetricsFile::Existing::replace, warn());
    file.step(example(1));
    file.step(example(2));
  }
  EXPECT_EQ(read_file(path_),
            to_json(example(1)).dump() + "\n" + to_json(example(2)).dump() + "\n");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(MetricsFileTest, a_checkpoint_finds_the_lines_of_its_steps_in_the_file) {
  MetricsFile file(path_, MetricsFile::Existing::replace, warn());
  file.step(example(1));
  EXPECT_EQ(read_file(path_), "");
  file.saving();
  EXPECT_EQ(read_file(path_), to_json(example(1)).dump() + "\n");
}

TEST_F(MetricsFileTest, an_existing_file_is_continued_or_replaced_as_told) {
  for (const auto existing : {MetricsFile::Existing::replace, MetricsFile::Existing::keep}) {
    MetricsFile file(path_, existing, warn());
    file.step(example(1));
  }
  const std::string line = to_json(example(1)).dump() + "\n";
  EXPECT_EQ(read_file(path_), line + line);
  {
    MetricsFile file(path_, MetricsFile::Existing::replace, warn());
  }
  EXPECT_EQ(read_file(path_), "");
}

TEST_F(MetricsFileTest, a_full_disk_is_told_once_and_at_the_end_and_does_not_stop_the_run) {
  MetricsFile file("/dev/full", MetricsFile::Existing::keep, warn());
  for (std::int64_t step = 1; step <= 3; ++step) file.step(example(step));
  file.end({});
  ASSERT_EQ(warnings_.size(), 2);
  EXPECT_NE(warnings_[0].find("/dev/full: No space left on device"), std::string::npos);
  EXPECT_EQ(warnings_[1], "/dev/full: 3 lines were lost");
}

TEST_F(MetricsFileTest, a_folder_that_is_not_there_does_not_stop_the_run) {
  MetricsFile file("/no/such/folder/metrics.jsonl", MetricsFile::Existing::keep, warn());
  file.step(example(1));
  file.end({});
  ASSERT_EQ(warnings_.size(), 2);
  EXPECT_EQ(warnings_[1], "/no/such/folder/metrics.jsonl: 1 line was lost");
}

}  // namespace
}  // namespace fourfold::train
