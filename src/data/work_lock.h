// A folder of work that one process of a machine has for itself.
#pragma once

#include <string>

#include "base/descriptor.h"

namespace fourfold::data {

class WorkLock {
 public:
  /// Makes the folder where it is missing. Errors: UserError(output_in_use) while another process
  /// works there; UserError(storage).
  explicit WorkLock(std::string folder);
  WorkLock(const WorkLock&) = delete;
  WorkLock& operator=(const WorkLock&) = delete;
  /// The folder goes away where no work is left in it.
  ~WorkLock();

 private:
  std::string folder_;
  Descriptor descriptor_;
};

}  // namespace fourfold::data
