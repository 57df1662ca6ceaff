// Counts calls of operator new while it is switched on, for tests that a step does not allocate.
// Linking the .cpp file replaces the operators of the whole test program.
#pragma once

#include <cstdint>
#include <string>

namespace fourfold {

struct Allocations {
  std::int64_t own = 0;          // asked for by the test program: our code and what it inlines
  std::int64_t third_party = 0;  // asked for by a shared library on its own account
  std::string first_own;  // address of the first, as addr2line -e takes it: "test_unit_run+0x1234"
};

/// Counts on all threads from its making until `stop`. One at a time. An allocation belongs to the
/// innermost caller outside the C and C++ run-time libraries; glibc's malloc called directly is not
/// seen.
class AllocationCounter {
 public:
  AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;
  ~AllocationCounter();

  Allocations stop();
};

}  // namespace fourfold
