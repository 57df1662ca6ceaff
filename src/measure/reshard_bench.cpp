#include "measure/reshard_bench.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "measure/box_memory.h"

namespace fourfold::measure {
namespace {

using reshard::Box;
using reshard::Step;
using reshard::StepKind;

constexpr int box_tag = 2;
constexpr const char* group_name = "reshard";

/// One rank's memory of both meshes, and its list.
class Resharder {
 public:
  Resharder(comm::World& world, const reshard::Placement& from, const reshard::Placement& to,
            std::span<const reshard::HostId> host_of, const reshard::ReshardPlan& plan,
            reshard::Turns turns)
      : world_(world),
        host_of_(host_of),
        steps_(reshard::lower(plan, host_of, turns)[world.rank().index()]),
        waits_(reshard::waits_for(steps_)) {
    require(plan.element_bytes == BoxMemory::element_bytes, "elements are 32-bit words");
    if (const auto position = from.ranks.position(world.rank()))
      source_.emplace(from.boxes[*position], from.shape).number();
    if (const auto position = to.ranks.position(world.rank()))
      destination_.emplace(to.boxes[*position], to.shape);
    std::vector<comm::GroupSpec> groups;
    for (const Step& step : steps_)
      if (step.kind == StepKind::gather)
        groups.push_back({group_name, step.members,
                          padded_bytes(step) * static_cast<std::int64_t>(step.members.size())});
    world.create_groups(groups);
    for (const Step& step : steps_) (step.kind == StepKind::send ? sends_ : others_) += 1;
  }

  /// All of the list, once.
  void run() {
    if (sends_ == 0 || others_ == 0 || !world_.concurrent()) {
      for (const Step& step : steps_) carry_out(step);
      return;
    }
    Side sends, others;
    std::exception_ptr failed;
    std::thread sender([&] {
      try {
        go_through(true, sends, others);
      } catch (...) {
        failed = std::current_exception();
        end_job(failed);
      }
      sends.pass(steps_.size());
    });
    std::exception_ptr own;
    try {
      go_through(false, others, sends);
    } catch (...) {
      own = std::current_exception();
      end_job(own);
    }
    others.pass(steps_.size());
    sender.join();
    if (own) std::rethrow_exception(own);
    if (failed) std::rethrow_exception(failed);
  }

  void forget() {
    if (destination_) destination_->forget();
  }
  std::int64_t wrong_elements() const { return destination_ ? destination_->wrong_elements() : 0; }

  /// What this rank's messages of one time take out of its host, and its link of each ring.
  std::int64_t bytes_between_hosts() const {
    std::int64_t bytes = 0;
    for (const Step& step : steps_) {
      if (step.kind == StepKind::send && host(step.peer) != host(world_.rank()) && !step.is_byte)
        bytes += reshard::elements(step.box) * BoxMemory::element_bytes;
      if (step.kind == StepKind::send && host(step.peer) != host(world_.rank()) && step.is_byte)
        ++bytes;
      if (step.kind != StepKind::gather) continue;
      const std::size_t next = (position(step) + 1) % step.members.size();
      if (host(step.members[next]) == host(world_.rank())) continue;
      for (std::size_t i = 0; i < step.shares.size(); ++i)
        if (i != next) bytes += reshard::elements(step.shares[i]) * BoxMemory::element_bytes;
    }
    return bytes;
  }

 private:
  /// How far one of two threads has come: what it does of the steps before `next` is done.
  class Side {
   public:
    void pass(std::size_t next) {
      next_.store(next, std::memory_order_release);
      next_.notify_all();
    }
    void wait_for(std::size_t count) const {
      for (std::size_t next; (next = next_.load(std::memory_order_acquire)) < count;)
        next_.wait(next, std::memory_order_acquire);
    }

   private:
    std::atomic<std::size_t> next_{0};
  };

  /// The sends of the list, or all else, each once what it waits for is done.
  void go_through(bool does_sends, Side& own, const Side& other) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if ((steps_[i].kind == StepKind::send) != does_sends) continue;
      own.pass(i);
      other.wait_for(waits_[i]);
      carry_out(steps_[i]);
    }
  }

  /// Releases the other thread, which may wait for a peer.
  void end_job(const std::exception_ptr& failed) {
    try {
      std::rethrow_exception(failed);
    } catch (const comm::Aborted&) {  // somebody else has
    } catch (const std::exception& exception) {
      const comm::Fault fault = comm::fault_of(exception);
      world_.abort_all(fault.code, fault.message);
    }
  }

  void carry_out(const Step& step) {
    switch (step.kind) {
      case StepKind::send:
        send(step);
        return;
      case StepKind::receive:
        receive(step);
        return;
      case StepKind::gather:
        gather(step);
        return;
      case StepKind::copy:
        source_->read(step.box, copied_);
        destination_->write(step.box, copied_);
        return;
    }
  }

  void send(const Step& step) {
    std::byte byte{1};
    if (step.is_byte) {
      world_.send(step.peer, box_tag, {&byte, 1});
      return;
    }
    const bool is_of_source = source_ && reshard::contains(source_->box(), step.box);
    BoxMemory& memory = is_of_source ? *source_ : *destination_;
    world_.send(step.peer, box_tag, memory.view(step.box, sent_));
  }

  void receive(const Step& step) {
    std::byte byte{};
    if (step.is_byte) {
      world_.recv(step.peer, box_tag, {&byte, 1});
    } else if (const auto run = destination_->run_of(step.box)) {
      world_.recv(step.peer, box_tag, *run);
    } else {
      received_.resize(bytes_of(step.box));
      world_.recv(step.peer, box_tag, received_);
      destination_->write(step.box, received_);
    }
  }

  /// Shares are padded to the longest, since those of a collective are equal.
  void gather(const Step& step) {
    const auto share_bytes = static_cast<std::size_t>(padded_bytes(step));
    const std::size_t own = position(step);
    gathered_.resize(share_bytes * step.members.size());
    destination_->read(step.shares[own], copied_);
    copied_.resize(share_bytes);
    world_.group(step.members, group_name).all_gather(copied_, gathered_);
    for (std::size_t i = 0; i < step.shares.size(); ++i)
      if (i != own)
        destination_->write(step.shares[i], std::span(gathered_).subspan(i * share_bytes,
                                                                         bytes_of(step.shares[i])));
  }

  static std::size_t bytes_of(const Box& box) {
    return static_cast<std::size_t>(reshard::elements(box) * BoxMemory::element_bytes);
  }
  static std::int64_t padded_bytes(const Step& step) {
    std::size_t most = 0;
    for (const Box& share : step.shares) most = std::max(most, bytes_of(share));
    return static_cast<std::int64_t>(most);
  }
  std::size_t position(const Step& step) const {
    return static_cast<std::size_t>(std::ranges::find(step.members, world_.rank()) -
                                    step.members.begin());
  }
  reshard::HostId host(Rank rank) const { return host_of_[rank.index()]; }

  comm::World& world_;
  std::span<const reshard::HostId> host_of_;
  std::vector<Step> steps_;
  std::vector<std::size_t> waits_;
  std::size_t sends_ = 0, others_ = 0;
  std::optional<BoxMemory> source_, destination_;
  std::vector<std::byte> sent_;                          // of the thread that sends
  std::vector<std::byte> received_, copied_, gathered_;  // of the other
};

}  // namespace

ReshardTimes measure_reshard(comm::World& world, const reshard::Placement& from,
                             const reshard::Placement& to, std::span<const reshard::HostId> host_of,
                             const reshard::ReshardPlan& plan, reshard::Turns turns,
                             double seconds) {
  Resharder resharder(world, from, to, host_of, plan, turns);
  ReshardTimes times;
  // A sender whose messages are buffered ends before they have come: the time is that of the last
  // rank, from when the first begins.
  times.timing = time_together(world, seconds, [&] {
    resharder.run();
    world.barrier();
  });
  // What was there before proves nothing.
  resharder.forget();
  world.barrier();
  resharder.run();
  std::vector<std::int64_t> sums{resharder.bytes_between_hosts(), resharder.wrong_elements()};
  world.all_reduce(sums, Reduction::sum);
  times.bytes_between_hosts = sums[0];
  times.wrong_elements = sums[1];
  return times;
}

}  // namespace fourfold::measure
