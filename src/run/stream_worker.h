// A thread that does what is pushed to it, in order: one stream of a program on the CPU. It knows
// neither programs nor events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/futex.h"

namespace fourfold::run {

class StreamWorker {
 public:
  /// `execute` is called on the thread for every item pushed and must not throw. At most `capacity`
  /// items may be under way. `name` shows in debuggers and profilers. Items are counted from
  /// `first` on, modulo 2^32, for tests of the wrap.
  using Execute = std::function<void(std::uint32_t item)>;
  StreamWorker(const std::string& name, std::size_t capacity, Execute execute,
               std::uint32_t first = 0);
  StreamWorker(const StreamWorker&) = delete;
  StreamWorker& operator=(const StreamWorker&) = delete;
  /// Does what is still queued, then ends the thread.
  ~StreamWorker();

  // The following are for one thread, the owner's.

  /// Enqueues; neither allocates nor waits.
  void push(std::uint32_t item);
  /// Sleeps until everything pushed is done.
  void drain();
  /// Runs a job on the thread and waits for it; throws what the job threw.
  void call(const std::function<void()>& job);

 private:
  void loop(std::uint32_t next);
  void run_job();

  Execute execute_;
  std::vector<std::uint32_t> queue_;  // a ring, its size a power of two
  std::uint32_t mask_;
  const std::function<void()>* job_ = nullptr;
  std::exception_ptr job_fault_;
  // Counts of items, modulo 2^32. `done_` is brought up to date only when the queue runs empty, so
  // that a sleeping owner is woken once and not after every item. Each on a cache line of its own
  // (64 bytes on x86-64).
  alignas(64) Futex pushed_;
  alignas(64) Futex done_;
  std::thread thread_;
};

}  // namespace fourfold::run
