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

TEST(VerifyBundle, a_fault_of_a_program_is_a_fault_of_the_bundle) {
  Bundle bundle = tiny_bundle();
  compute_at(bundle.programs[1], find_instruction(bundle.programs[1], "gelu"))
      .implementation.clear();
  expect_bundle_fault(bundle, "implementation", "train: forward(0)");
}

TEST(VerifyBundle, a_parameter_at_another_address_is_a_fault) {
  Bundle bundle = tiny_bundle();
  Program& evaluate = bundle.programs[2];
  std::swap(buffer_named(evaluate, "head").offset_bytes,
            buffer_named(evaluate, "up.weight").offset_bytes);
  expect_bundle_fault(bundle, "bundle",
                      "evaluate: persistent buffer up.weight is not what it is in init");
}

TEST(VerifyBundle, persistent_buffers_of_different_programs_may_not_overlap) {
  Bundle bundle = tiny_bundle();
  buffer_named(bundle.programs[2], "updates").name = "cached";
  expect_bundle_fault(bundle, "persistent-overlap", "cached");
}

TEST(VerifyBundle, a_region_smaller_than_a_program_needs_is_a_fault) {
  Bundle bundle = tiny_bundle();
  --bundle.transient_bytes;
  expect_bundle_fault(bundle, "bundle", "train: it needs");
}

TEST(VerifyBundle, a_parameter_that_init_does_not_know_is_a_fault) {
  Bundle bundle = tiny_bundle();
  Program& init = bundle.programs[0];
  for (const Program& other : {bundle.programs[1], bundle.programs[2]})
    EXPECT_TRUE(other.find_buffer("non_finite"));
  erase_instruction(init, init.instructions.size() - 1);
  init.buffers.pop_back();
  expect_bundle_fault(bundle, "bundle", "nothing initialises counter non_finite");
}

TEST(VerifyBundle, two_programs_of_one_name_are_a_fault) {
  Bundle bundle = tiny_bundle();
  bundle.programs.push_back(bundle.programs[2]);
  expect_bundle_fault(bundle, "bundle", "two programs have this name");
}

}  // namespace
}  // namespace fourfold::verify
