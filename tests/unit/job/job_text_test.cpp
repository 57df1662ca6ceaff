// Whole jobs as commands compile them, sent as text to somebody who proves them.
#include <gtest/gtest.h>

#include <array>

#include "base/format.h"
#include "config/config.h"
#include "job/job.h"
#include "job/settle.h"
#include "program/text.h"
#include "verify/verify_job.h"

namespace fourfold::job {
namespace {

void expect_sent_whole(const std::string& config, const std::vector<std::string>& sets,
                       std::size_t ranks) {
  SCOPED_TRACE(format("{} on {} ranks", config, ranks));
  const std::array files{std::string(FOURFOLD_SOURCE_DIR) + "/configs/" + config};
  const auto number = static_cast<std::int64_t>(ranks);
  const program::Job job =
      prepare(settle(config::load(files, sets), {.ranks = number}), {.purpose = Purpose::look})
          .programs;
  EXPECT_EQ(job.ranks.size(), ranks);
  const std::string text = program::to_text(job);
  const program::Job read = program::parse_job(text, "sent.txt");
  EXPECT_TRUE(read == job);
  EXPECT_TRUE(program::to_text(read) == text);
  const std::vector<verify::Fault> faults = verify::verify(read);
  EXPECT_EQ(faults.size(), 0) << faults[0].message;
}

TEST(JobText, of_1_16_and_1024_ranks_reads_back_whole_and_passes_the_verifier) {
  const std::string vocabulary = "model.vocab_size=65";
  expect_sent_whole("gpt-quickstart.yaml",
                    {vocabulary, "parallel.tensor={x: 1, y: 1, z: 1}", "parallel.data=1"}, 1);
  expect_sent_whole(
      "gpt-quickstart.yaml",
      {vocabulary, "model.dropout=0.1", "optimizer.shard=states", "parallel.strategy=axonn",
       "parallel.tensor={x: 2, y: 2, z: 2}", "parallel.data=2"},
      16);
  expect_sent_whole("paper/gpt-80b.yaml", {}, 1024);
}

}  // namespace
}  // namespace fourfold::job
