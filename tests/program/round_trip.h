// A program as text reads back as itself.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "program/text.h"

namespace fourfold::program {

inline void expect_round_trip(const Program& program) {
  const std::string text = to_text(program);
  const Program read = parse_program(text, "test.txt");
  EXPECT_TRUE(read == program) << text;
  EXPECT_EQ(to_text(read), text);
}

}  // namespace fourfold::program
