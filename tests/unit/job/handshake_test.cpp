#include "job/handshake.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "comm/threads.h"
#include "config/print.h"

namespace fourfold::job {
namespace {

/// What a job of four ranks says whose facts are these.
std::string refusal(const std::function<std::vector<CommonFact>(std::size_t rank)>& facts) {
  comm::ThreadJob job(4);
  const std::vector<std::string> hosts{"n0", "n0", "n1", "n1"};
  try {
    job.run([&](comm::World& world) { require_common(facts(world.rank().index()), hosts, world); });
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::ranks_disagree);
    return error.what();
  }
  return "";
}

TEST(Handshake, equal_facts_are_no_reason_to_end) {
  EXPECT_EQ(refusal([](std::size_t) {
              return std::vector<CommonFact>{{"binary", "a", "b"}, {"plan", "", "c"}};
            }),
            "");
}

TEST(Handshake, the_odd_rank_is_named_with_what_it_has) {
  EXPECT_EQ(refusal([](std::size_t rank) {
              return std::vector<CommonFact>{
                  {"binary", "a", "b"},
                  {"data set", rank == 3 ? "9 tokens" : "8 tokens", "bring the same file"}};
            }),
            "rank 3 (n1) has another data set than the other ranks: 9 tokens there, 8 tokens on "
            "rank 0; bring the same file");
}

TEST(Handshake, without_a_majority_all_are_named) {
  EXPECT_EQ(refusal([](std::size_t rank) {
              return std::vector<CommonFact>{{"binary", rank < 2 ? "a" : "b", "start one file"}};
            }),
            "ranks 0 (n0), 1 (n0), 2 (n1), 3 (n1) have not the same binary: a there, b on rank 2; "
            "start one file");
}

TEST(Handshake, the_first_fact_that_differs_is_told) {
  const std::string text = refusal([](std::size_t rank) {
    return std::vector<CommonFact>{{"binary", rank == 1 ? "a" : "b", "x"},
                                   {"plan", rank == 2 ? "a" : "b", "y"}};
  });
  EXPECT_TRUE(text.starts_with("rank 1 (n0) has another binary")) << text;
}

TEST(Handshake, libraries_of_cuda_are_compared_as_they_were_loaded) {
  EXPECT_EQ(refusal([](std::size_t rank) {
              return std::vector<CommonFact>{
                  cuda_libraries_fact({{"cuBLASLt", "13.1.0", "13.1.0"},
                                       {"cuDNN", "9.19.0", rank == 2 ? "9.20.0" : "9.19.0"}})};
            }),
            "rank 2 (n1) has another set of CUDA libraries than the other ranks: cuBLASLt 13.1.0, "
            "cuDNN 9.20.0 there, cuBLASLt 13.1.0, cuDNN 9.19.0 on rank 0; put the same ones into "
            "LD_LIBRARY_PATH on all hosts (scripts/cuda-libraries prints where they lie)");
}

TEST(Handshake, configurations_are_compared_key_by_key) {
  const auto yaml = [](std::int64_t steps) {
    const std::vector<std::string> sets{"data.format=synthetic", "model.vocab_size=64",
                                        "lr_schedule.warmup_steps=1", "lr_schedule.decay_steps=9",
                                        "train.steps=" + std::to_string(steps)};
    return config::resolved_yaml(config::load({}, sets));
  };
  const std::string text = refusal([&](std::size_t rank) {
    return std::vector<CommonFact>{{"configuration", yaml(rank == 2 ? 41 : 40), "use one file"}};
  });
  EXPECT_EQ(
      text,
      "rank 2 (n1) has another configuration than the other ranks: train.steps = 41 there, 40 "
      "on rank 0; use one file");
}

}  // namespace
}  // namespace fourfold::job
