// Every row of the op table in a program: its text reads back, its operands pass the verifier, and
// no text that is nearly right makes a reader or the verifier do anything but refuse it.
#include "program/all_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "program/text.h"
#include "verify/verify.h"

namespace fourfold::program {
namespace {

TEST(AllRows, read_back_equal_from_the_text_of_their_program) {
  const Program program = all_rows();
  const std::string text = to_text(program);
  const Program read = parse_program(text, "test.txt");
  EXPECT_TRUE(read == program) << text;
  EXPECT_EQ(to_text(read), text);
  std::set<std::size_t> rows;
  for (const Instruction& instruction : read.instructions)
    rows.insert(std::get<Compute>(instruction.what).op.index());
  EXPECT_EQ(rows.size(), op::num_rows);
}

TEST(AllRows, have_the_operands_that_the_verifier_expects) {
  for (const verify::Fault& fault : verify::verify(all_rows()))
    EXPECT_FALSE(fault.rule == "operands" || fault.rule == "bounds" || fault.rule == "names")
        << fault.message;
}

}  // namespace
}  // namespace fourfold::program
