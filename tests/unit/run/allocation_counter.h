// Counts calls of operator new while it is switched on, for tests that a step does not allocate,
// and lets one of them fail. Linking the .cpp file replaces the operators of the whole test
// program.
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

/// From now on the allocation of that number, counted over all threads from 1, throws
/// std::bad_alloc; those after it succeed. 0: none fails, and they are counted.
void fail_allocation(std::int64_t number);
/// The number since fail_allocation.
std::int64_t allocations_so_far();

}  // namespace fourfold
