#include "comm/threads.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/cores.h"
#include "base/format.h"
#include "comm/mail.h"
#include "comm/thread_group.h"

namespace fourfold::comm {

/// What the ranks of one process share.
class ThreadJobState {
 public:
  explicit ThreadJobState(std::size_t ranks) : mail(ranks) {}

  ThreadMeetingPlace& place(const GroupSpec& spec) {
    const std::lock_guard lock(mutex_);
    auto& place = places_[{spec.name, spec.members}];
    if (!place) {
      place = std::make_unique<ThreadMeetingPlace>(spec.members.size());
      if (fault_) place->begin.call_off();
    }
    return *place;
  }

  void abort(ExitCode code, std::string_view message) {
    {
      const std::lock_guard lock(mutex_);
      if (fault_) return;
      fault_ = Fault{code, std::string(message)};
      for (const auto& [key, place] : places_) place->begin.call_off();
    }
    mail.call_off();
  }

  std::optional<Fault> fault() const {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

  Mail mail;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<Rank>>, std::unique_ptr<ThreadMeetingPlace>> places_;
  std::optional<Fault> fault_;
};

namespace {

class ThreadWorld : public World {
 public:
  ThreadWorld(Rank rank, std::size_t size, ThreadJobState& state)
      : World(rank, size), state_(state) {
    make_everyone();
  }

  std::size_t local_rank() const override { return rank().index(); }
  std::size_t local_size() const override { return size(); }

  void abort_all(ExitCode code, std::string_view message) override { state_.abort(code, message); }
  bool has_ended() const override { return state_.fault().has_value(); }

 private:
  std::unique_ptr<Group> make_group(const GroupSpec& spec, std::size_t position) override {
    return std::make_unique<ThreadGroup>(spec, position, state_.place(spec));
  }
  void do_send(Rank peer, int tag, std::span<const std::byte> bytes) override {
    state_.mail.send(rank().index(), peer.index(), tag, bytes);
  }
  void do_recv(Rank peer, int tag, std::span<std::byte> bytes) override {
    state_.mail.recv(peer.index(), rank().index(), tag, bytes);
  }

  ThreadJobState& state_;
};

/// True if every rank met a fault, and all the same one.
bool all_say_the_same(std::span<const std::optional<Fault>> faults) {
  return std::ranges::all_of(faults, [&](const std::optional<Fault>& fault) {
    return fault && fault->code == faults[0]->code && fault->message == faults[0]->message;
  });
}

[[noreturn]] void throw_fault(const Fault& fault) {
  if (fault.code == ExitCode::internal) throw InternalError(fault.message);
  throw UserError(fault.code, fault.message);
}

}  // namespace

ThreadJob::ThreadJob(std::size_t ranks) : state_(std::make_unique<ThreadJobState>(ranks)) {
  for (std::size_t i = 0; i < ranks; ++i)
    worlds_.push_back(std::make_unique<ThreadWorld>(Rank(i), ranks, *state_));
}

ThreadJob::~ThreadJob() = default;

std::optional<Fault> ThreadJob::fault() const {
  return state_->fault();
}

void ThreadJob::run(const std::function<void(World&)>& body, Cores cores) {
  std::vector<int> shared;
  if (cores == Cores::own_share && size() > 1) shared = in_order_of_places(usable_cores());
  std::vector<std::optional<Fault>> faults(size());
  const auto end_all = [&](std::size_t rank, const std::exception& exception) {
    faults[rank] = fault_of(exception);
    const std::string& message = faults[rank]->message;
    state_->abort(faults[rank]->code, size() == 1 ? message : format("rank {}: {}", rank, message));
  };
  const auto run_rank = [&](std::size_t rank) {
    // A rank whose cores are refused runs on any, only slower.
    if (const auto own = share_of_cores(shared, rank, size()); !own.empty()) keep_to_cores(own);
    try {
      body(world(rank));
    } catch (const Aborted&) {
      // This rank only learns of the fault of another one, which has reported it already.
      state_->abort(ExitCode::internal, format("rank {} was released without a reason", rank));
    } catch (const std::exception& exception) {
      end_all(rank, exception);
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(size());
  // Those that run must be joined, also where one cannot be started.
  for (std::size_t rank = 0; rank < size(); ++rank) try {
      threads.emplace_back(run_rank, rank);
    } catch (const std::exception& exception) {
      end_all(rank, exception);
      break;
    }
  for (std::thread& thread : threads) thread.join();
  if (all_say_the_same(faults)) throw_fault(*faults[0]);
  if (const std::optional<Fault> first = fault()) throw_fault(*first);
}

}  // namespace fourfold::comm
