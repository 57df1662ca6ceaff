// Sums of gradients on data that begin in the last backward pass.
#include "compile/fill_buckets.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile::fill_buckets_test {
namespace {

using program::AllReduce;
using program::Program;
using program::ReduceScatter;

GridSetup setup_of(std::int64_t bucket_bytes, const plan::Grid& grid = {.data = 2}) {
  GridSetup setup;
  setup.set_grid(grid, 3);
  setup.plan.bucket_bytes = bucket_bytes;
  return setup;
}

/// The last two tasks: the last backward pass and the update.
struct Sums {
  std::vector<std::size_t> in_backward, in_update;  // by collective over gradients: its tensors
  std::map<std::string, int> times;                 // by tensor
  std::int64_t largest_bytes = 0;                   // of those with several tensors
};

Sums sums_of(const Program& train) {
  Sums sums;
  const program::Task& update = train.tasks.back();
  for (std::size_t i = 0; i < train.instructions.size(); ++i) {
    const auto* reduce = std::get_if<AllReduce>(&train.instructions[i].what);
    const auto* scatter = std::get_if<ReduceScatter>(&train.instructions[i].what);
    if (reduce == nullptr && scatter == nullptr) continue;
    const program::Slices& tensors = reduce != nullptr ? reduce->data : scatter->from;
    if (train.buffer(tensors[0].buffer).role != program::BufferRole::gradient) continue;
    (i < update.begin ? sums.in_backward : sums.in_update).push_back(tensors.size());
    EXPECT_GE(i, train.tasks[train.tasks.size() - 2].begin);
    std::int64_t bytes = 0;
    for (const program::Slice& slice : tensors) {
      ++sums.times[train.buffer(slice.buffer).name];
      bytes += slice.bytes();
    }
    if (tensors.size() > 1) sums.largest_bytes = std::max(sums.largest_bytes, bytes);
  }
  return sums;
}

/// Small buckets are not joined again.
Program train_of(const GridSetup& setup) {
  const graph::ModelGraphs model = setup.graphs();
  const program::Bundle bundle =
      compile(model, setup.solved(model), GridSetup::target(), {.without = {"join_collectives"}})
          .classes[0];
  for (const verify::Fault& fault : verify::verify(bundle))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  return bundle.at(op::ProgramKind::train);
}

TEST(FillBuckets, every_gradient_is_summed_once_and_all_but_the_last_bucket_in_the_backward_pass) {
  for (const plan::Grid& grid : {plan::Grid{.data = 2}, plan::Grid{.x = 2, .z = 2, .data = 2}}) {
    const Sums none = sums_of(train_of(setup_of(0, grid)));
    EXPECT_TRUE(none.in_backward.empty());
    const Sums some = sums_of(train_of(setup_of(8 << 10, grid)));
    EXPECT_GT(some.in_backward.size(), 4U);
    EXPECT_TRUE(some.in_update.empty());
    EXPECT_EQ(some.times, none.times);
    for (const auto& [tensor, times] : some.times) EXPECT_EQ(times, 1) << tensor;
  }
}

TEST(FillBuckets, a_bucket_is_full_with_its_size_and_holds_less_than_two) {
  const std::int64_t size = 48 << 10;  // three products' weights
  const Sums sums = sums_of(train_of(setup_of(size)));
  EXPECT_GE(sums.largest_bytes, size);
  EXPECT_LT(sums.largest_bytes, 2 * size);
}

TEST(FillBuckets, what_ranks_keep_a_part_of_is_scattered_in_the_backward_pass_too) {
  GridSetup none = setup_of(0), some = setup_of(8 << 10);
  none.plan.shard_states = some.plan.shard_states = true;
  const Sums late = sums_of(train_of(none)), early = sums_of(train_of(some));
  EXPECT_TRUE(late.in_backward.empty());
  EXPECT_GT(early.in_backward.size(), 4U);
  EXPECT_TRUE(early.in_update.empty());
  EXPECT_EQ(early.times, late.times);
  EXPECT_GE(early.largest_bytes, 8 << 10);
  std::size_t tensors = 0;
  for (const std::size_t count : early.in_backward) tensors += count;
  EXPECT_EQ(tensors, early.times.size());
}

TEST(FillBuckets, larger_buckets_are_fewer) {
  const std::size_t small = sums_of(train_of(setup_of(4 << 10))).in_backward.size(),
                    large = sums_of(train_of(setup_of(1 << 20))).in_backward.size();
  EXPECT_EQ(large, 1U);
  EXPECT_GT(small, 8U);
}

TEST(FillBuckets, without_ranks_on_data_there_is_nothing_to_fill) {
  GridSetup with = setup_of(4 << 10, {.x = 2, .data = 1}),
            without = setup_of(0, {.x = 2, .data = 1});
  EXPECT_EQ(with.bundle(), without.bundle());
}

}  // namespace
}  // namespace fourfold::compile::fill_buckets_test
