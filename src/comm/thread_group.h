// Collectives between threads of one process: members read each other's buffers directly. The part
// of threads.h that moves tensors.
#pragma once

#include <memory>
#include <vector>

#include "comm/group.h"
#include "comm/meeting.h"

namespace fourfold::comm {

/// What the members of one group share.
class ThreadMeetingPlace {
 public:
  /// One member's call.
  struct alignas(64) Call {
    Group::Kind kind = Group::Kind::all_reduce;
    DType type = DType::f32;
    Reduction reduction = Reduction::sum;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t from_bytes = 0, to_bytes = 0;
  };

  explicit ThreadMeetingPlace(std::size_t count) : calls(count), begin(count), end(count) {}

  std::vector<Call> calls;
  // The first can be called off when the job ends; after it all members work on each other's
  // memory, so all of them come to the second, and none leaves before.
  Meeting begin, end;
};

/// Element i of a reduction is the sum over the members in their order, whoever computes it: the
/// same bits whatever the timing. Nothing is allocated after construction.
class ThreadGroup : public Group {
 public:
  ThreadGroup(GroupSpec spec, std::size_t position, ThreadMeetingPlace& place);

 private:
  void do_all_reduce(std::span<std::byte> data, DType type, Reduction reduction) override;
  void do_reduce_scatter(std::span<const std::byte> from, std::span<std::byte> to, DType type,
                         Reduction reduction) override;
  void do_all_gather(std::span<const std::byte> from, std::span<std::byte> to) override;
  void do_all_to_all(std::span<const std::byte> from, std::span<std::byte> to) override;

  template <class Work>
  void together(const ThreadMeetingPlace::Call& call, Work&& work);
  void check_calls() const;

  ThreadMeetingPlace& place_;
  std::vector<const std::byte*> terms_;
  std::vector<std::byte*> results_;
};

}  // namespace fourfold::comm
