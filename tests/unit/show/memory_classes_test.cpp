// The memory of a rank by class, beside the regions of its programs.
#include "show/memory_classes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "job/settle.h"

namespace fourfold::show {
namespace {

job::Job made(std::vector<std::string> sets) {
  const std::vector<std::string> files{std::string(FOURFOLD_SOURCE_DIR) +
                                       "/configs/gpt-quickstart.yaml"};
  for (const char* set : {"model.vocab_size=65", "kernels=reference", "train.global_batch_size=8",
                          "train.micro_batch_size=4"})
    sets.emplace_back(set);
  return job::prepare(job::settle(config::load(files, sets), {}));
}

std::map<std::string, std::int64_t> by_name(const std::vector<MemoryClass>& classes) {
  std::map<std::string, std::int64_t> map;
  for (const MemoryClass& entry : classes) map[entry.name] = entry.bytes;
  return map;
}

std::int64_t total(const std::vector<MemoryClass>& classes) {
  std::int64_t sum = 0;
  for (const MemoryClass& entry : classes) sum += entry.bytes;
  return sum;
}

TEST(MemoryClasses, come_to_the_regions_of_the_programs) {
  for (const char* precision : {"fp32", "bf16"})
    for (const char* grid : {"parallel.data=1", "parallel.data=2", "parallel.tensor={x: 2}"}) {
      const job::Job job = made({std::string("precision.compute=") + precision, grid});
      const RankMemory memory = rank_memory(job);
      EXPECT_EQ(total(memory.persistent), job.bundle().persistent_bytes) << precision << grid;
      EXPECT_EQ(total(memory.transient), job.bundle().transient_bytes) << precision << grid;
      EXPECT_LT(by_name(memory.persistent).at("blocks and counters"), 4096) << "nothing is missing";
    }
}

/// All weights of a GPT are used in bf16: a copy of half the size is kept of each, but of those of
/// which a rank updates only its own rows.
TEST(MemoryClasses, in_bf16_rounded_weights_are_kept_beside_the_weights) {
  const auto kept = [](const std::vector<std::string>& sets) {
    return by_name(rank_memory(made(sets)).persistent);
  };
  const auto single = kept({"precision.compute=fp32"}), mixed = kept({"precision.compute=bf16"});
  EXPECT_FALSE(single.contains("rounded parameters"));
  EXPECT_EQ(2 * mixed.at("rounded parameters"), mixed.at("parameters"));
  EXPECT_EQ(mixed.at("parameters"), single.at("parameters"));
  const auto own_rows =
      kept({"precision.compute=bf16", "parallel.data=2", "optimizer.shard=states"});
  EXPECT_LT(20 * own_rows.at("rounded parameters"), own_rows.at("parameters"));
}

}  // namespace
}  // namespace fourfold::show
