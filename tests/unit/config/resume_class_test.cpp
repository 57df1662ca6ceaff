#include "config/resume_class.h"

#include <gtest/gtest.h>

#include "config/schema.h"

namespace fourfold::config {
namespace {

TEST(ResumeClass, every_key_has_one) {
  for (const Key& key : keys()) EXPECT_NO_THROW(resume_class(key.path)) << key.path;
}

TEST(ResumeClass, the_most_special_rule_counts) {
  EXPECT_EQ(resume_class("model.hidden_size"), ResumeClass::fixed);
  EXPECT_EQ(resume_class("model.dropout"), ResumeClass::overridable);
  EXPECT_EQ(resume_class("run.seed"), ResumeClass::overridable);
  EXPECT_EQ(resume_class("data.validation"), ResumeClass::overridable);
  EXPECT_EQ(resume_class("precision.reduce"), ResumeClass::overridable);
  EXPECT_EQ(resume_class("sample.interval"), ResumeClass::free);
  EXPECT_EQ(resume_class("run.name"), ResumeClass::free);
  EXPECT_EQ(resume_class("parallel.tensor.x"), ResumeClass::free);
}

TEST(ResumeConflicts, name_values_places_and_the_way_out) {
  const std::vector<Difference> differences = {
      {"model.num_layers", {"a.yaml:3", "4"}, {"--set #1", "5"}},
      {"optimizer.eps", {"default", "1e-8"}, {"a.yaml:9", "1e-6"}},
      {"data.split", {"default", "0.9"}, {"a.yaml:7", "0.8"}},
      {"log.level", {"default", "info"}, {"--set #2", "debug"}}};
  EXPECT_EQ(resume_conflicts(differences, {"data.split", "model.num_layers"}),
            "\n  model.num_layers: 4 in the checkpoint, 5 now (--set #1); the checkpoint fits only "
            "the former"
            "\n  optimizer.eps: 1e-8 in the checkpoint, 1e-6 now (a.yaml:9); if you mean it, pass "
            "--override optimizer.eps");
  EXPECT_EQ(resume_conflicts({differences[3]}, {}), "");
}

TEST(ResumeConflicts, leave_out_what_follows_from_another_key_before_and_now) {
  const Difference compute = {"precision.compute", {"a.yaml:3", "fp32"}, {"--set #1", "bf16"}},
                   follower = {"precision.residual", {"derived", "fp32"}, {"derived", "bf16"}},
                   given = {"precision.residual", {"derived", "bf16"}, {"--set #2", "fp32"}};
  EXPECT_EQ(resume_conflicts({compute, follower}, {"precision.compute"}), "");
  EXPECT_EQ(resume_conflicts({given}, {"precision.compute"}),
            "\n  precision.residual: bf16 in the checkpoint, fp32 now (--set #2); if you mean it, "
            "pass --override precision.residual");
}

}  // namespace
}  // namespace fourfold::config
