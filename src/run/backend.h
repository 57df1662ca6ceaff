// The one seam between a program and a device. Above it: executor.h, shared by all backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/host_view.h"
#include "op/blocks.h"
#include "program/program.h"
#include "trace/interval.h"

namespace fourfold::run {

/// Samples [first, first + count) of a step, counted over all ranks.
struct Samples {
  std::int64_t step = 0, first = 0, count = 0;
  bool operator==(const Samples&) const = default;
};

/// Brings samples of a program's inputs. Called from the worker of the feed stream, or before the
/// program runs.
class Feeder {
 public:
  virtual ~Feeder() = default;
  /// True if what it brings depends on nothing but its arguments and it lives on after the
  /// program: then a backend may ask for the step that follows while the present one runs.
  virtual bool feeds_ahead() const { return false; }
  /// Fills `into` with the samples one after another; it is aligned for elements of the input.
  virtual void feed(const Input& input, const Samples& samples, std::span<std::byte> into) = 0;
};

/// How long the math stream stood still in a program, in waits that did block.
struct MathWaits {
  /// For streams that exchange with other ranks, and for what they had left to do after the last
  /// instruction of the math stream.
  std::int64_t communication_ns = 0;
  std::int64_t feed_ns = 0;
};

/// Index of a program in its bundle.
using ProgramId = Id<struct ProgramTag>;

class Backend {
 public:
  virtual ~Backend() = default;

  /// Once: allocates both regions, prepares every kernel of every program, starts the workers. All
  /// that is dear. The bundle must outlive the backend's use of it.
  virtual void bind(const program::Bundle& bundle) = 0;

  /// Hands the next program run what it needs from the host: its step block, whose parity it takes,
  /// and its feeder (null: no feeds). The result block is cleared, so that a field no instruction
  /// writes reads as zero.
  virtual void begin(ProgramId program, const op::StepBlock& step, Feeder* feeder) = 0;
  /// Enqueues one instruction on its stream. No allocation, no wait, no decision.
  virtual void issue(ProgramId program, std::size_t instruction) = 0;
  /// Enqueues all `count` instructions of the program in their order, where a device can at once.
  virtual void issue_all(ProgramId program, std::size_t count) {
    for (std::size_t instruction = 0; instruction < count; ++instruction)
      issue(program, instruction);
  }
  /// True if a step may begin while the one before it runs: of the same program, both issued by
  /// issue_all and none of them recorded, two at a time. `finish` is then that of the first, whose
  /// result and waits follow; the second runs on. It updates nothing where the first has not.
  virtual bool runs_ahead() const { return false; }
  /// Drains all streams, but for a step that began ahead; throws the first fault that any of them
  /// met. After a fault nothing runs any more.
  virtual void finish() = 0;
  /// The result block of the program that finished last; zeros where it has none.
  virtual op::ResultBlock result() = 0;

  /// Where the program that begins next writes when its instructions ran, by their index, until it
  /// has finished; empty: nowhere. A backend that takes no times leaves them as they are.
  virtual void trace_next(std::span<trace::Interval> /*intervals*/) {}
  /// Calls `watch` after each instruction of the program that begins next, on the thread of its
  /// stream, before anything else happens there: what the instruction wrote is there to be read,
  /// and stays as it is until the call returns. All other streams, and ranks, go on as they always
  /// do, so calls for instructions of different streams overlap. The empty function ends this.
  /// False: the backend has no such threads, and nothing is called.
  using Watch = std::function<void(std::size_t instruction)>;
  virtual bool watch(Watch /*watch*/) { return false; }
  /// The waits in the last program that has finished; zero from a backend that takes no times.
  virtual MathWaits math_waits() const { return {}; }

  /// The bytes of a buffer's copy of the given parity (0 for buffers with one copy), for the host
  /// to read and write between programs. A fault of what is written back is one of the next
  /// program.
  virtual HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) = 0;
  /// To read alone: cheaper where the host sees a copy.
  virtual HostView<const std::byte> read(const program::Buffer& buffer, std::int64_t parity) {
    return bytes(buffer, parity);
  }
};

}  // namespace fourfold::run
