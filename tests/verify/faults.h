// Helpers of the tests that break a sound program in one place and expect the rule and the
// instruction that name the fault.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "program/builder.h"
#include "verify/verify.h"

namespace fourfold::verify {

inline std::string all(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += format("{}: {}\n", fault.rule, fault.message);
  return text;
}

/// The first fault is of that rule and at that instruction, and its message names program and
/// instruction.
inline void expect_fault(const Program& program, std::string_view rule,
                         std::optional<std::size_t> instruction,
                         std::string_view part_of_message = "") {
  const std::vector<Fault> faults = verify(program);
  ASSERT_FALSE(faults.empty()) << "expected " << rule;
  const Fault& first = faults.front();
  EXPECT_EQ(first.rule, rule) << all(faults);
  EXPECT_EQ(first.instruction, instruction) << all(faults);
  EXPECT_TRUE(first.message.starts_with(std::string(op::to_string(program.kind)) + ": "))
      << first.message;
  EXPECT_NE(first.message.find(part_of_message), std::string::npos) << first.message;
  if (instruction) {
    EXPECT_NE(first.message.find(format("instruction {} (", *instruction)), std::string::npos)
        << first.message;
  }
}

inline Compute& compute_at(Program& program, std::size_t index) {
  return std::get<Compute>(program.instructions[index].what);
}

/// The `count`-th instruction of that name whose `operand`-th slice is of that buffer.
inline std::size_t find_compute(const Program& program, std::string_view name, std::size_t operand,
                                std::string_view buffer) {
  for (std::size_t count = 0;; ++count) {
    const std::size_t index = find_instruction(program, name, count);
    const auto list = accesses(program.instructions[index]);
    if (program.buffer(list[operand].slice.buffer).name == buffer) return index;
  }
}

inline Slice slice_of(const Program& program, std::string_view name) {
  return program.whole(*program.find_buffer(name));
}

}  // namespace fourfold::verify
