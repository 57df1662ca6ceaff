#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cores.h"

namespace fourfold {
namespace {

class Team {
 public:
  Team(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work) {}

  void run() {
    const std::size_t size = std::min(count_, static_cast<std::size_t>(num_usable_cores()));
    std::vector<std::thread> helpers;
    helpers.reserve(size);
    for (std::size_t i = 1; i < size; ++i) try {
        helpers.emplace_back([this] { serve(next_++); });
      } catch (const std::system_error&) {
        break;  // fewer threads do the same
      }
    serve(0);
    for (std::thread& helper : helpers) helper.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void serve(std::size_t first) noexcept {
    for (std::size_t i = first; i < count_; i = next_++) try {
        work_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count_;
      }
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_{1};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void for_each_on_all_cores(std::size_t count, const std::function<void(std::size_t)>& work) {
  Team(count, work).run();
}

}  // namespace fourfold
