// The threads that give a device its work where ranks meet on the host: one for each stream of a
// program, in the order of its instructions. A meeting with other ranks holds up its own stream
// alone, so that ranks wait for each other as on the CPU, where every stream has a thread too, and
// as the verifier has it: no circle of streams, whatever the order of collectives and messages in
// the lists of different ranks. The device itself never waits in a circle: what it waits for was
// given to it before.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "run/assign_workers.h"
#include "run/recorded_events.h"
#include "run/stream_worker.h"

namespace fourfold::run::cuda {

class IssuingThreads {
 public:
  struct Fault {
    std::size_t instruction = 0;
    std::exception_ptr exception;
  };
  /// `issue` gives the device an instruction; `failed` is told of the first one that threw, on the
  /// thread where it did, before others are let go.
  struct Calls {
    std::function<void()> enter;  // first, on each of the threads
    std::function<void(std::size_t worker, std::size_t instruction)> issue;
    std::function<void(const Fault&)> failed;
  };
  IssuingThreads(std::span<const WorkerPlan> workers, std::size_t num_events, Calls calls);
  /// Ends what is under way: nobody will issue what a thread may be waiting for.
  ~IssuingThreads();

  // For the owner.

  void begin_run();
  void push(std::size_t worker, std::size_t instruction) {
    workers_[worker]->push(static_cast<std::uint32_t>(instruction));
  }
  /// Sleeps until all that was pushed is with the device, or skipped after a fault. The fault of
  /// this run, if there is one.
  std::optional<Fault> drain();

  // For `issue`.

  /// The device has been given the record of an event.
  void recorded(std::size_t event) { events_.record(event); }
  /// Sleeps until then, or until a fault lets all go: then nothing more is issued.
  void wait_until_recorded(std::size_t event) { events_.wait(event); }

 private:
  void issue(std::size_t worker, std::size_t instruction);

  Calls calls_;
  RecordedEvents events_;
  std::atomic<bool> is_faulty_{false};
  std::mutex mutex_;
  std::optional<Fault> fault_;
  std::vector<std::unique_ptr<StreamWorker>> workers_;  // last: they end before what they use
};

}  // namespace fourfold::run::cuda
