// A stream of a device that is made up: a thread that does one thing after another.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/device_world.h"

namespace fourfold::test {

class FakeStream {
 public:
  FakeStream();
  ~FakeStream();  // drops what has not begun, and waits for what has
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  comm::DeviceStream get();
  /// Returns when all is done that was enqueued.
  void synchronize();

  class Thread;

 private:
  std::unique_ptr<Thread> thread_;
};

/// A step of what a library enqueues. `run` may wait for other ranks, but not where `can_run`,
/// which may be null, said true before.
struct StreamStep {
  std::function<bool()> can_run = nullptr;
  std::function<void()> run = nullptr;
};
/// For whoever makes up a device's library. The stream is a FakeStream's; tests whose streams are
/// those of a FakeDevice have another definition (fake_gpus.cpp).
void push(comm::DeviceStream stream, std::vector<StreamStep> steps);

}  // namespace fourfold::test
