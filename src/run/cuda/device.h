// One GPU as the backend uses it: memory, streams, events, captured graphs. A thin interface over
// the CUDA runtime, so that the backend is also run on a device that is not there
// (tests/support/fake_device.h); it knows neither programs nor kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/kernels.h"

struct CUevent_st;  // CUDA's own names
struct CUgraphExec_st;

namespace fourfold::run::cuda {

using kernels::cuda::Stream;
using Event = CUevent_st*;
using Graph = CUgraphExec_st*;

/// Rows that a copy takes: dense where the pitch is row_bytes. At most one side is host memory.
struct RowCopy {
  std::byte* to = nullptr;
  std::int64_t to_pitch = 0;
  const std::byte* from = nullptr;
  std::int64_t from_pitch = 0;
  std::int64_t row_bytes = 0, rows = 1;
  bool operator==(const RowCopy&) const = default;
};
inline RowCopy dense(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto row = static_cast<std::int64_t>(bytes);
  return {to, row, from, row, row, 1};
}

/// All calls throw UserError (environment: driver, device lost; out_of_memory) or InternalError,
/// with the call's name. What runs on the device fails later: at the next call that waits. Several
/// threads may use a device, each its own streams and events.
class Device {
 public:
  virtual ~Device() = default;

  /// "NVIDIA H200 (device 0)", for people.
  virtual std::string name() const = 0;

  /// Once on every thread that uses the device, but for the one that opened it.
  virtual void enter() = 0;

  virtual std::byte* allocate(std::int64_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  /// Host memory that the device copies from and to without waiting. Zeroed.
  virtual std::byte* allocate_pinned(std::int64_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;

  /// Where work of two streams waits for room on the device, that of the urgent one goes first:
  /// what other ranks wait for, before computation that could go on beside it.
  enum class Priority : std::uint8_t { normal, urgent };
  virtual Stream create_stream(Priority priority) = 0;
  virtual void release(Stream stream) noexcept = 0;
  /// Waits for all of the stream.
  virtual void synchronize(Stream stream) = 0;
  /// True if all of the stream is done: does not wait.
  virtual bool is_done(Stream stream) = 0;

  enum class Timing : std::uint8_t { off, on };
  virtual Event create_event(Timing timing) = 0;
  virtual void release(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  /// The stream goes on once the event, as it was recorded last before this call, has happened.
  virtual void wait(Stream stream, Event event) = 0;
  virtual void synchronize(Event event) = 0;
  /// True if it has happened, as it was recorded last: does not wait.
  virtual bool is_done(Event event) = 0;
  /// Between two events that have happened, both with timing.
  virtual double elapsed_s(Event begin, Event end) = 0;

  /// Enqueued; host memory must be pinned.
  virtual void copy(const RowCopy& copy, Stream stream) = 0;
  virtual void clear(std::byte* memory, std::int64_t pitch, std::int64_t row_bytes,
                     std::int64_t rows, Stream stream) = 0;

  /// From now on what this thread enqueues on the stream, and on streams that wait for its events,
  /// becomes part of a graph instead of running.
  virtual void begin_capture(Stream stream) = 0;
  virtual Graph end_capture(Stream stream) = 0;
  /// Ends a capture that failed.
  virtual void abandon_capture(Stream stream) noexcept = 0;
  virtual void release(Graph graph) noexcept = 0;
  virtual void launch(Graph graph, Stream stream) = 0;

  /// Names what is enqueued until the pop, for profilers.
  virtual void push_range(const char* name) = 0;
  virtual void pop_range() = 0;
};

/// Owns what a device made.
template <class T>
struct Release {
  Device* device = nullptr;
  using pointer = T;
  void operator()(T made) const { device->release(made); }
};
struct ReleasePinned {
  Device* device = nullptr;
  void operator()(std::byte* memory) const { device->release_pinned(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, Release<std::byte*>>;
using PinnedMemory = std::unique_ptr<std::byte, ReleasePinned>;
using OwnedStream = std::unique_ptr<CUstream_st, Release<Stream>>;
using OwnedEvent = std::unique_ptr<CUevent_st, Release<Event>>;
using OwnedGraph = std::unique_ptr<CUgraphExec_st, Release<Graph>>;

inline DeviceMemory make_memory(Device& device, std::int64_t bytes) {
  return DeviceMemory(device.allocate(bytes), {&device});
}
inline PinnedMemory make_pinned(Device& device, std::int64_t bytes) {
  return PinnedMemory(device.allocate_pinned(bytes), {&device});
}
inline OwnedStream make_stream(Device& device,
                               Device::Priority priority = Device::Priority::normal) {
  return OwnedStream(device.create_stream(priority), {&device});
}
inline OwnedEvent make_event(Device& device, Device::Timing timing) {
  return OwnedEvent(device.create_event(timing), {&device});
}

}  // namespace fourfold::run::cuda
