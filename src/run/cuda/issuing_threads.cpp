#include "run/cuda/issuing_threads.h"

#include <utility>

namespace fourfold::run::cuda {
IssuingThreads::IssuingThreads(std::span<const WorkerPlan> workers, std::size_t num_events,
                               Calls calls)
    : calls_(std::move(calls)) {
  events_.resize(num_events);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    workers_.push_back(std::make_unique<StreamWorker>(
        workers[i].name, workers[i].longest,
        [this, i](std::uint32_t instruction) { issue(i, instruction); }));
    workers_.back()->call(calls_.enter);
  }
}

IssuingThreads::~IssuingThreads() {
  is_faulty_ = true;
  events_.record_all();
}

void IssuingThreads::begin_run() {
  is_faulty_ = false;
  fault_.reset();
  events_.begin_run();
}

std::optional<IssuingThreads::Fault> IssuingThreads::drain() {
  for (const auto& worker : workers_) worker->drain();
  return fault_;
}

void IssuingThreads::issue(std::size_t worker, std::size_t instruction) {
  if (is_faulty_.load(std::memory_order_acquire)) return;
  try {
    calls_.issue(worker, instruction);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    if (!fault_) {
      fault_ = Fault{instruction, std::current_exception()};
      calls_.failed(*fault_);
    }
    is_faulty_.store(true, std::memory_order_release);
    events_.record_all();
  }
}

}  // namespace fourfold::run::cuda
