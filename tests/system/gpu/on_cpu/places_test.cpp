// Which GPU a rank takes, and how its memory is shared out, on GPUs of the test's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "comm/threads.h"
#include "config/config.h"
#include "job/device.h"
#include "job/job.h"
#include "job/settle.h"
#include "support/cli_on_cpu.h"
#include "support/gpu_commands.h"

namespace fourfold::test {
namespace {

class GpuPlaces : public GpuCommands {
 protected:
  ~GpuPlaces() override { fake_cuda() = {}; }

  /// Where each of so many ranks of a host finds itself; all of them call together.
  static std::vector<measure::GpuPlace> places(std::size_t ranks) {
    std::vector<measure::GpuPlace> places(ranks);
    comm::ThreadJob threads(ranks);
    threads.run(
        [&](comm::World& world) { places[world.rank().index()] = measure::place_gpu(world); });
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
  for (const measure::GpuPlace& place : places(3)) {
    EXPECT_EQ(place.index, 0);
    EXPECT_EQ(place.ranks, 3);
  }
}

/// NCCL compares bus ids and refuses them ("Duplicate GPU detected").
TEST_F(GpuPlaces, slices_of_one_board_are_not_one_gpu_and_nccl_does_not_take_them) {
  fake_cuda().devices = 2;
  fake_cuda().are_slices = true;
  for (const measure::GpuPlace& place : places(2)) {
    EXPECT_EQ(place.ranks, 1);
    EXPECT_EQ(place.between, measure::Between::host);
    EXPECT_NE(place.why_not_nccl.find("slice"), std::string::npos) << place.why_not_nccl;
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

TEST_F(GpuPlaces, what_nccl_takes_is_left_free_for_it) {
  constexpr std::int64_t gib = std::int64_t{1} << 30, mib = std::int64_t{1} << 20;
  fake_cuda().free_bytes = 10 * gib;
  measure::GpuPlace place;
  const measure::Communicators communicators{.groups = 2, .channels = 4};
  place.between = measure::Between::host;
  EXPECT_EQ(measure::memory_share(&place, 1, 0, communicators), 17 * gib / 2);
  place.between = measure::Between::nccl;
  EXPECT_EQ(measure::memory_share(&place, 1, 0, communicators),
            17 * gib / 2 - (666 + 36) * mib - 4 * 65 * mib);
  EXPECT_EQ(measure::memory_share(&place, 1, 0), 17 * gib / 2);
  fake_cuda().free_bytes = gib;
  EXPECT_EQ(measure::memory_share(&place, 1, 0, communicators), 0);
}

/// Memory is shared out before a job is compiled for it.
TEST_F(GpuPlaces, communicators_are_counted_before_a_job_is_compiled_as_they_are_made) {
  const std::vector<std::string> files = {path("gpt.yaml")};
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {"run.device=cuda", "parallel.data=2", "parallel.tensor.x=2"},
           {"run.device=cuda", "parallel.pipeline.stages=2", "parallel.tensor.x=2"}}) {
    const job::Preparation run(job::settle(config::load(files, sets), {}));
    const job::Job ready = job::prepare(job::settle(config::load(files, sets), {}));
    std::int64_t most = 0;
    for (const program::Bundle& bundle : ready.programs.classes)
      most = std::max(most, measure::nccl_bytes(measure::communicators_of(bundle)));
    EXPECT_GT(most, 0) << sets[1];
    EXPECT_EQ(measure::nccl_bytes(job::communicators_of(run)), most) << sets[1];
  }
}

TEST_F(GpuPlaces, a_job_that_leaves_no_room_for_nccl_does_not_fit) {
  const std::vector<std::string> files = {path("gpt.yaml")},
                                 sets = {"run.device=cuda", "parallel.data=2",
                                         "parallel.tensor.x=2"};
  job::Job ready = job::prepare(job::settle(config::load(files, sets), {}));
  const measure::Communicators made = measure::communicators_of(ready.bundle());
  EXPECT_GE(made.groups, 2);
  const std::int64_t regions = ready.bundle().persistent_bytes + ready.bundle().transient_bytes,
                     late = std::int64_t{3} << 29;
  ready.gpu = {};
  fake_cuda().free_bytes = late + regions;
  EXPECT_NO_THROW(job::check_memory(ready));
  ready.gpu.between = measure::Between::nccl;
  try {
    job::check_memory(ready);
    ADD_FAILURE() << "NCCL takes some of it";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_NE(std::string(error.what()).find(" for communicators of NCCL"), std::string::npos)
        << error.what();
  }
  fake_cuda().free_bytes += measure::nccl_bytes(made);
  EXPECT_NO_THROW(job::check_memory(ready));
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

/// A text whose lines were broken, as one line.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char letter : text)
    if (const bool is_space = letter == ' ' || letter == '\n'; !is_space || !line.ends_with(' '))
      line += is_space ? ' ' : letter;
  return line;
}

TEST_F(GpuPlaces, without_a_gpu_plans_and_programs_say_that_workspace_of_cudnn_is_not_counted) {
  const std::string words = "our own kernels stand for cuDNN's, whose workspace is not counted";
  for (const int devices : {0, 1}) {
    fake_cuda().devices = devices;
    for (const char* precision : {"bf16", "fp32"}) {
      const Outcome plan = with_config("plan", on("cuda", precision)),
                    program = with_config("program", on("cuda", precision));
      const bool is_said = devices == 0 && std::string(precision) == "bf16";
      EXPECT_EQ(in_one_line(plan.output).find(words) != std::string::npos, is_said) << plan.output;
      EXPECT_EQ(program.text.find(words) != std::string::npos, is_said) << program.text;
      EXPECT_EQ(program.output.find(words), std::string::npos) << "a program is a text of its own";
    }
  }
}

}  // namespace
}  // namespace fourfold::test
