// The lock of the run directory while a run works: any thread that ends the process gives it back.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "rundir/run_lock.h"

namespace fourfold::training_run {

class HeldLock {
 public:
  void hold(std::unique_ptr<rundir::RunLock> lock) {
    const std::lock_guard guard(mutex_);
    lock_ = std::move(lock);
  }
  void give_back() {
    const std::lock_guard guard(mutex_);
    lock_.reset();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<rundir::RunLock> lock_;  // under mutex_
};

}  // namespace fourfold::training_run
