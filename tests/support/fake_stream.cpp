#include "support/fake_stream.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace fourfold::test {

class FakeStream::Thread {
 public:
  Thread() : thread_([this] { loop(); }) {}
  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      work_.clear();
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_.empty() && !works_; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      works_ = true;
      lock.unlock();
      work();
      lock.lock();
      works_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ends_ = false, works_ = false;
  std::thread thread_;
};

FakeStream::FakeStream() : thread_(std::make_unique<Thread>()) {}
FakeStream::~FakeStream() = default;
comm::DeviceStream FakeStream::get() {
  return reinterpret_cast<comm::DeviceStream>(thread_.get());
}
void FakeStream::synchronize() {
  thread_->synchronize();
}
void push(comm::DeviceStream stream, std::vector<StreamStep> steps) {
  reinterpret_cast<FakeStream::Thread*>(stream)->push([steps = std::move(steps)] {
    for (const StreamStep& step : steps) step.run();
  });
}

}  // namespace fourfold::test
