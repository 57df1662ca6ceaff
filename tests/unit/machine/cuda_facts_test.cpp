// The judgement of what CUDA answers, for machines that are not here.
#include "machine/cuda_facts.h"

#include <gtest/gtest.h>

namespace fourfold::machine {
namespace {

CudaDevice h200() {
  return {.name = "NVIDIA H200", .capability = {9, 0}, .memory_bytes = 1, .l2_bytes = 1};
}

CudaFacts facts(std::vector<CudaDevice> devices = {h200()}) {
  CudaFacts found;
  found.driver = 13000;
  found.runtime = 13000;
  found.architectures = "80-real,90";
  found.devices = std::move(devices);
  return found;
}

CudaFacts judged(CudaFacts found, CudaAnswer answer = CudaAnswer::devices) {
  judge(found, answer);
  return found;
}

bool says(const CudaFacts& found, const std::string& part) {
  return trouble(found).find(part) != std::string::npos;
}

TEST(CudaArchitectures, machine_code_runs_on_its_major_version_and_ptx_on_all_later_ones) {
  EXPECT_TRUE(runs_on("80-real", {8, 0}));
  EXPECT_TRUE(runs_on("80-real", {8, 6}));
  EXPECT_FALSE(runs_on("86-real", {8, 0}));
  EXPECT_FALSE(runs_on("80-real", {9, 0}));
  EXPECT_TRUE(runs_on("80", {9, 0}));
  EXPECT_TRUE(runs_on("80-virtual", {12, 0}));
  EXPECT_FALSE(runs_on("90", {8, 9}));
  EXPECT_TRUE(runs_on("80-real,90", {10, 0}));
  EXPECT_TRUE(runs_on("120", {12, 0}));
  EXPECT_FALSE(runs_on("", {9, 0}));
}

TEST(CudaArchitectures, code_for_one_architecture_alone_runs_on_that_one) {
  EXPECT_TRUE(runs_on("90a", {9, 0}));
  EXPECT_TRUE(runs_on("90a-real", {9, 0}));
  EXPECT_FALSE(runs_on("90a", {10, 0}));
}

TEST(CudaFacts, a_device_that_was_built_for_is_ready) {
  const CudaFacts found = judged(facts());
  EXPECT_EQ(found.state, CudaState::ready);
  EXPECT_TRUE(found.devices[0].is_built);
  EXPECT_EQ(trouble(found), "");
}

TEST(CudaFacts, every_other_state_says_what_to_do) {
  EXPECT_TRUE(says(CudaFacts{}, "-DFOURFOLD_CUDA=ON"));

  CudaFacts bare = facts({});
  bare.driver = 0;
  // Without a driver CUDA's runtime calls it too old.
  bare = judged(bare, CudaAnswer::driver_insufficient);
  EXPECT_EQ(bare.state, CudaState::no_driver);
  EXPECT_TRUE(says(bare, "branch 580"));

  CudaFacts old = facts({});
  old.driver = 12040;
  old = judged(old, CudaAnswer::driver_insufficient);
  EXPECT_EQ(old.state, CudaState::driver_too_old);
  EXPECT_TRUE(says(old, "knows CUDA 12.4, and this build's runtime is 13.0"));

  const CudaFacts none = judged(facts({}), CudaAnswer::none);
  EXPECT_EQ(none.state, CudaState::no_device);
  EXPECT_TRUE(says(none, "CUDA_VISIBLE_DEVICES"));

  CudaFacts broken = facts({});
  broken.error = "system not yet initialized";
  broken = judged(broken, CudaAnswer::failed);
  EXPECT_EQ(broken.state, CudaState::failed);
  EXPECT_TRUE(says(broken, "system not yet initialized"));
}

TEST(CudaFacts, a_device_without_code_is_named_with_the_option_that_gives_it_some) {
  CudaDevice old = h200();
  old.name = "Tesla V100-SXM2-16GB";
  old.capability = {7, 0};
  const CudaFacts found = judged(facts({old, h200()}));
  EXPECT_EQ(found.state, CudaState::wrong_architecture);
  EXPECT_TRUE(found.devices[1].is_built);
  EXPECT_TRUE(says(found, "Tesla V100-SXM2-16GB has compute capability 7.0"));
  EXPECT_TRUE(says(found, "-DFOURFOLD_CUDA_ARCHITECTURES=70"));
}

TEST(CudaLibraries, one_that_is_older_or_of_another_major_version_than_its_headers_is_trouble) {
  EXPECT_FALSE(trouble(CudaLibrary{"cuDNN", "9.5.1", "9.5.1"}));
  EXPECT_FALSE(trouble(CudaLibrary{"cuDNN", "9.5.1", "9.10.0"}));
  EXPECT_FALSE(trouble(CudaLibrary{"cuDNN", "", "9.10.0"}));
  EXPECT_TRUE(trouble(CudaLibrary{"cuDNN", "9.5.1", "9.5.0"}));
  EXPECT_TRUE(trouble(CudaLibrary{"cuDNN", "9.5.1", "10.0.0"}));
  EXPECT_TRUE(trouble(CudaLibrary{"cuDNN", "9.5.1", ""}));
}

}  // namespace
}  // namespace fourfold::machine
