// A build without CBC.
#include "solve/cbc.h"

#include "base/error.h"

namespace fourfold::solve {

bool has_cbc() {
  return false;
}

ProgramResult run_cbc(const IntegerProgram& /*program*/, Columns /*columns*/,
                      int /*most_branches*/) {
  fail_internal("who asks CBC has asked whether it is there");
}

}  // namespace fourfold::solve
