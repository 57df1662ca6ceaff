// What the summary of a job leaves out, and says so.
#include "show/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "config/config.h"
#include "job/settle.h"

namespace fourfold::show {
namespace {

job::Job looked_at(std::vector<std::string> sets) {
  const std::array files{std::string(FOURFOLD_SOURCE_DIR) + "/configs/gpt-tiny.yaml"};
  return job::prepare(job::settle(config::load(files, sets), {.ranks = 1}),
                      {.purpose = job::Purpose::look});
}

std::string kernels_of(const job::Job& job) {
  const Rows rows = summary_rows(job);
  const auto row = std::ranges::find(rows, "kernels", &Row::label);
  return row == rows.end() ? "no such row" : row->text;
}

TEST(Summary, says_that_workspace_is_not_counted_where_no_kernels_were_chosen) {
  const job::Job without = looked_at({"precision.compute=bf16"});
  EXPECT_EQ(kernels_of(without),
            "none here for this precision; workspace of kernels, such as cuDNN's, is not counted");
  EXPECT_EQ(uncounted_workspace(looked_at({"precision.compute=fp32"})), "");
  EXPECT_EQ(uncounted_workspace(looked_at({"precision.compute=bf16", "run.device=cpu"})), "");
  EXPECT_EQ(uncounted_workspace(looked_at({"precision.compute=bf16", "kernels=reference"})), "");
}

}  // namespace
}  // namespace fourfold::show
