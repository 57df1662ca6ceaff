// A folder of work that one process of a machine has for itself.
#pragma once

#include <string>

#include "base/descriptor.h"

namespace fourfold::data {

class WorkLock {
 public:
  /// Makes the folder where it is missing. Errors: UserError(output_in_use) while another process
  /// works there; UserError(storage). `lock` is flock(2); tests give their own.
  using Lock = int (*)(int descriptor, int operation);
  explicit WorkLock(std::string folder, Lock lock = nullptr);
  WorkLock(const WorkLock&) = delete;
  WorkLock& operator=(const WorkLock&) = delete;
  /// The folder goes away where no work is left in it.
  ~WorkLock();

  /// Where the file system has no locks, so that nothing keeps another process away: a line for
  /// people. Else empty.
  const std::string& note() const { return note_; }

 private:
  std::string folder_, note_;
  Descriptor descriptor_;
};

}  // namespace fourfold::data
