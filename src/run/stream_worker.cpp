#include "run/stream_worker.h"

#include <pthread.h>

#include <bit>
#include <limits>
#include <utility>

namespace fourfold::run {
namespace {

constexpr std::uint32_t stop_item = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t job_item = stop_item - 1;

}  // namespace

StreamWorker::StreamWorker(const std::string& name, std::size_t capacity, Execute execute,
                           std::uint32_t first)
    : execute_(std::move(execute)),
      queue_(std::bit_ceil(capacity + 2)),  // room for a job and the stop besides
      mask_(static_cast<std::uint32_t>(queue_.size() - 1)),
      pushed_(first),
      done_(first),
      thread_([this, first] { loop(first); }) {
  // Linux keeps 15 letters of a thread's name.
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

StreamWorker::~StreamWorker() {
  push(stop_item);
  thread_.join();
}

void StreamWorker::push(std::uint32_t item) {
  const std::uint32_t count = pushed_.load(std::memory_order_relaxed);
  queue_[count & mask_] = item;
  pushed_.store(count + 1);
}

void StreamWorker::drain() {
  const std::uint32_t wanted = pushed_.load(std::memory_order_relaxed);
  for (std::uint32_t done = done_.load(); done != wanted;) done = done_.wait(done);
}

void StreamWorker::call(const std::function<void()>& job) {
  job_ = &job;
  push(job_item);
  drain();
  job_ = nullptr;
  if (std::exception_ptr fault = std::exchange(job_fault_, nullptr)) std::rethrow_exception(fault);
}

void StreamWorker::run_job() {
  try {
    (*job_)();
  } catch (const std::exception&) {
    job_fault_ = std::current_exception();
  }
}

void StreamWorker::loop(std::uint32_t next) {
  for (;;) {
    if (pushed_.load() == next) {
      done_.store(next);
      pushed_.wait(next);
    }
    const std::uint32_t item = queue_[next & mask_];
    ++next;
    if (item == stop_item) return;
    if (item == job_item)
      run_job();
    else
      execute_(item);
  }
}

}  // namespace fourfold::run
