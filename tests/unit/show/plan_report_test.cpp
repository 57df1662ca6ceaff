// What a plan says of its switches, and what a job keeps of what its configuration left open.
#include "show/plan_report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "job/job.h"
#include "job/settle.h"

namespace fourfold::show {
namespace {

job::Job job_with(const std::vector<std::string>& more) {
  std::vector<std::string> sets = {
      "data.format=synthetic",
      "model={num_layers: 4, num_attention_heads: 4, hidden_size: 64, vocab_size: 256}",
      "sample.tokens=0",
      "parallel.tensor={x: 1, y: 1, z: 2}",
      "train={steps: 9, global_batch_size: 8, micro_batch_size: 2}",
      "run={threads: 1, kernel_table: builtin}"};
  sets.insert(sets.end(), more.begin(), more.end());
  return job::prepare(job::settle(config::load({}, sets), {}));
}

TEST(SwitchTable, a_limit_on_memory_that_binds_nothing_changes_no_line) {
  const std::string lines = switch_table(job_with({}));
  EXPECT_NE(lines.find("selective checkpointing"), std::string::npos) << lines;
  EXPECT_NE(lines.find("cached gathers"), std::string::npos) << lines;
  EXPECT_EQ(switch_table(job_with({"memory.limit=1GiB"})), lines);
}

}  // namespace
}  // namespace fourfold::show
