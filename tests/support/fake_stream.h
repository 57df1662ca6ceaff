// A stream of a device that is made up: a thread that does one thing after another.
#pragma once

#include <functional>
#include <memory>

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

/// For whoever makes up a device's library.
void push(comm::DeviceStream stream, std::function<void()> work);

}  // namespace fourfold::test
