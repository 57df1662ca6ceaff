// Broken bundles: programs that do not fit together.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/examples.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

// --- bundle

void expect_bundle_fault(const Bundle& bundle, std::string_view rule,
                         std::string_view part_of_message) {
  const std::vector<Fault> faults = verify(bundle);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults.front().rule, rule) << all(faults);
  EXPECT_NE(faults.front().message.find(part_of_message), std::string::npos) << all(faults);
}

TEST(VerifyBundle, AFaultOfAProgramIsAFaultOfTheBundle) {
  Bundle bundle = tiny_bundle();
  compute_at(bundle.programs[1], find_instruction(bundle.programs[1], "gelu"))
      .implementation.clear();
  expect_bundle_fault(bundle, "implementation", "train: forward(0)");
}

TEST(VerifyBundle, AParameterAtAnotherAddressIsAFault) {
  Bundle bundle = tiny_bundle();
  Program& evaluate = bundle.programs[2];
  std::swap(buffer_named(evaluate, "head").offset_bytes,
            buffer_named(evaluate, "up.weight").offset_bytes);
  expect_bundle_fault(bundle, "bundle",
                      "evaluate: persistent buffer up.weight is not what it is in init");
}

TEST(VerifyBundle, PersistentBuffersOfDifferentProgramsMayNotOverlap) {
  Bundle bundle = tiny_bundle();
  buffer_named(bundle.programs[2], "updates").name = "cached";
  expect_bundle_fault(bundle, "persistent-overlap", "cached");
}

TEST(VerifyBundle, ARegionSmallerThanAProgramNeedsIsAFault) {
  Bundle bundle = tiny_bundle();
  --bundle.transient_bytes;
  expect_bundle_fault(bundle, "bundle", "train: it needs");
}

TEST(VerifyBundle, AParameterThatInitDoesNotKnowIsAFault) {
  Bundle bundle = tiny_bundle();
  Program& init = bundle.programs[0];
  for (const Program& other : {bundle.programs[1], bundle.programs[2]})
    EXPECT_TRUE(other.find_buffer("non_finite"));
  erase_instruction(init, init.instructions.size() - 1);
  init.buffers.pop_back();
  expect_bundle_fault(bundle, "bundle", "nothing initialises counter non_finite");
}

TEST(VerifyBundle, TwoProgramsOfOneNameAreAFault) {
  Bundle bundle = tiny_bundle();
  bundle.programs.push_back(bundle.programs[2]);
  expect_bundle_fault(bundle, "bundle", "two programs have this name");
}

}  // namespace
}  // namespace fourfold::verify
