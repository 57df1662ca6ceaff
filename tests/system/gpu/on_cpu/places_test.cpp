// Which GPU a rank takes, and how its memory is shared out, on GPUs of the test's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "comm/threads.h"
#include "job/device.h"
#include "support/cli_on_cpu.h"
#include "support/gpu_commands.h"

namespace fourfold::test {
namespace {

class GpuPlaces : public GpuCommands {
 protected:
  ~GpuPlaces() override { fake_cuda() = {}; }

  /// Where each of so many ranks of a host finds itself; all of them call together.
  static std::vector<job::GpuPlace> places(std::size_t ranks) {
    std::vector<job::GpuPlace> places(ranks);
    comm::ThreadJob threads(ranks);
    threads.run([&](comm::World& world) { places[world.rank().index()] = job::place_gpu(world); });
    return places;
  }
};

TEST_F(GpuPlaces, a_rank_takes_the_gpu_of_its_number_on_the_host) {
  fake_cuda().devices = 4;
  const auto found = places(3);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    EXPECT_EQ(found[rank].index, static_cast<int>(rank));
    EXPECT_EQ(found[rank].ranks, 1);
  }
}

TEST_F(GpuPlaces, the_only_gpu_is_shared_by_all_ranks_of_the_host) {
  for (const job::GpuPlace& place : places(3)) {
    EXPECT_EQ(place.index, 0);
    EXPECT_EQ(place.ranks, 3);
  }
}

TEST_F(GpuPlaces, fewer_gpus_than_ranks_are_refused_with_both_numbers) {
  fake_cuda().devices = 2;
  try {
    places(3);
    ADD_FAILURE() << "2 GPUs are too few";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    const std::string text = error.what();
    EXPECT_NE(text.find("this host has 2 GPUs and 3 ranks; start as many ranks"), text.npos)
        << text;
    EXPECT_NE(text.find("CUDA_VISIBLE_DEVICES"), text.npos) << text;
  }
}

TEST_F(GpuPlaces, ranks_that_share_a_gpu_need_as_often_its_memory) {
  const Words two{"run.device=cuda", "parallel.data=2", "run.dir=" + path("run")};
  fake_cuda().free_bytes = std::int64_t{3} << 29;
  const Outcome outcome = with_config("train", two);
  EXPECT_EQ(outcome.code, 5);
  EXPECT_NE(outcome.text.find("(for each of 2 ranks "), std::string::npos) << outcome.text;
  EXPECT_EQ(std::ranges::count(outcome.text, '\n'), 1) << outcome.text;
}

TEST_F(GpuPlaces, more_ranks_than_can_share_a_gpu_are_refused) {
  const Outcome outcome =
      with_config("train", {"run.device=cuda", "parallel.data=65", "train.global_batch_size=65",
                            "train.micro_batch_size=1", "run.dir=" + path("run")});
  EXPECT_EQ(outcome.code, 13);
  EXPECT_NE(outcome.text.find("65 ranks as threads would share one GPU, which 64 can at most"),
            std::string::npos)
      << outcome.text;
}

}  // namespace
}  // namespace fourfold::test
