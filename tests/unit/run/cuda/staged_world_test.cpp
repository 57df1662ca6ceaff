// Collectives and messages by way of the host, on a GPU which is not there, against those of the
// thread communicator: tensors in one piece and in many; and messages that a library takes as they
// lie on the device.
#include "run/cuda/staged_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "comm/threads.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::run::cuda {
namespace {

using comm::DeviceCollective;

/// What a device did in which order, of all ranks.
class Events {
 public:
  void note(const std::string& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> events_;
};

/// Notes copies from the device and to it as they are enqueued, and waits.
class WatchedGpu : public FakeGpu {
 public:
  WatchedGpu(Events& events, unsigned seed) : FakeGpu(seed), events_(events) {}

  std::atomic<bool> is_noted{false};
  void copy(const RowCopy& copy, Stream stream) override {
    if (is_noted) events_.note(format("copy {}", copy.row_bytes * copy.rows));
    FakeGpu::copy(copy, stream);
  }
  void synchronize(Event event) override {
    if (is_noted) events_.note("wait");
    FakeGpu::synchronize(event);
  }
  using FakeGpu::synchronize;

 private:
  Events& events_;
};

/// A rank's tensors on the device, which tests fill and read by way of pinned memory.
class OnDevice {
 public:
  OnDevice(Device& device, std::size_t bytes)
      : device_(device),
        stream_(make_stream(device)),
        pinned_(make_pinned(device, static_cast<std::int64_t>(bytes))),
        memory_(make_memory(device, static_cast<std::int64_t>(bytes))),
        bytes_(bytes) {}

  Stream stream() const { return stream_.get(); }
  std::span<std::byte> memory() const { return {memory_.get(), bytes_}; }
  void write(const std::vector<std::byte>& bytes) {
    std::memcpy(pinned_.get(), bytes.data(), bytes.size());
    device_.copy(dense(memory_.get(), pinned_.get(), bytes.size()), stream());
  }
  std::vector<std::byte> read() {
    device_.copy(dense(pinned_.get(), memory_.get(), bytes_), stream());
    device_.synchronize(stream());
    return {pinned_.get(), pinned_.get() + bytes_};
  }

 private:
  Device& device_;
  OwnedStream stream_;
  PinnedMemory pinned_;
  DeviceMemory memory_;
  std::size_t bytes_;
};

std::vector<Rank> all_of(const comm::World& world) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < world.size(); ++i) ranks.emplace_back(i);
  return ranks;
}

std::vector<std::byte> numbers(std::size_t rank, std::size_t count) {
  const Random random(rank, random_stream("test.staged"));
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.normal(i, 0));
  std::vector<std::byte> bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A collective of tensors whose members' parts have so many elements of f32: where both sides lie
/// in memory, one after another.
struct Laid {
  DeviceCollective what;
  std::size_t bytes = 0;
};
Laid lay(Collective kind, const std::vector<std::size_t>& counts, std::size_t members,
         std::span<std::byte> memory) {
  Laid laid{{kind, DType::f32, Reduction::sum, {}, {}}, 0};
  const auto next = [&](std::size_t bytes) {
    const std::size_t first = laid.bytes;
    laid.bytes += bytes;
    return memory.empty() ? std::span<std::byte>() : memory.subspan(first, bytes);
  };
  for (const std::size_t count : counts) {
    const std::size_t part = count * sizeof(float), whole = part * members;
    const bool scatters = kind == Collective::reduce_scatter || kind == Collective::all_to_all;
    const bool gathers = kind == Collective::all_gather || kind == Collective::all_to_all;
    laid.what.from.push_back(next(scatters ? whole : part));
    laid.what.to.push_back(kind == Collective::all_reduce ? laid.what.from.back()
                                                          : next(gathers ? whole : part));
  }
  return laid;
}

void on_host(comm::Group& group, const DeviceCollective& what) {
  group.carry_out(what.kind, what.from, what.to, what.dtype, what.reduction);
}

struct Case {
  Collective kind;
  std::vector<std::size_t> counts;
};
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter,
                                Collective::all_gather, Collective::all_to_all}) {
    all.push_back({kind, {1000}});             // many pieces, the last one short
    all.push_back({kind, {3, 1, 200, 7, 0}});  // small ones together, one in pieces, one of nothing
    all.push_back({kind, {16}});
  }
  return all;
}

class StagedCollectives : public testing::TestWithParam<unsigned> {};

TEST_P(StagedCollectives, in_pieces_have_the_bits_of_the_thread_communicator) {
  FakeGpu gpu(GetParam());
  constexpr std::size_t ranks = 3;
  std::vector<std::int64_t> calls(ranks);
  comm::ThreadJob(ranks).run([&](comm::World& world) {
    const std::size_t rank = world.rank().index();
    StagedWorld staged(gpu, world, {.piece_bytes = 400});
    const std::vector<comm::GroupSpec> groups = {{"x", all_of(world), 1 << 14, 1 << 14}};
    staged.create_groups(groups);
    world.create_groups(std::vector<comm::GroupSpec>{{"host", all_of(world), 1 << 14, 1 << 14}});
    for (const Case& one : cases()) {
      const std::size_t bytes = lay(one.kind, one.counts, ranks, {}).bytes;
      std::vector<std::byte> expected = numbers(rank, bytes / sizeof(float));
      OnDevice own(gpu, bytes);
      own.write(expected);
      // Twice: what comes next must not meet what is still copied.
      for (int again = 0; again < 2; ++again) {
        staged.group(all_of(world), "x")
            .enqueue(lay(one.kind, one.counts, ranks, own.memory()).what, own.stream());
        on_host(world.group(all_of(world), "host"),
                lay(one.kind, one.counts, ranks, expected).what);
      }
      EXPECT_TRUE(own.read() == expected)
          << to_string(one.kind) << " of " << one.counts.size() << " on rank " << rank;
      world.barrier();
    }
    calls[rank] = world.group(all_of(world), "x").traffic(Collective::all_reduce).calls;
  });
  // 4000 bytes in pieces of 384, the small tensors in 1 + 3, and 64 bytes at once; each twice.
  EXPECT_EQ(calls, std::vector<std::int64_t>(ranks, 2 * (11 + 4 + 1)));
  EXPECT_EQ(gpu.live(), 0);
}

INSTANTIATE_TEST_SUITE_P(InOrder, StagedCollectives, testing::Values(1U, 2U, 3U));

TEST(StagedWorld, the_next_piece_is_on_its_way_while_one_is_exchanged) {
  Events events;
  WatchedGpu gpu(events, 1);
  comm::ThreadJob(2).run([&](comm::World& world) {
    StagedWorld staged(gpu, world, {.piece_bytes = 256});
    const std::vector<comm::GroupSpec> groups = {{"x", all_of(world), 768, 0}};
    staged.create_groups(groups);
    OnDevice own(gpu, 768);
    own.write(numbers(world.rank().index(), 192));
    gpu.synchronize(own.stream());
    world.barrier();
    if (world.rank() == Rank(0)) gpu.is_noted = true;
    world.barrier();
    // One rank is late, so that the other has enqueued all it can before anything is exchanged.
    if (world.rank() == Rank(1)) {
      while (std::ranges::count(events.all(), "wait") < 1) {
      }
      gpu.is_noted = false;
    }
    staged.group(all_of(world), "x")
        .enqueue(lay(Collective::all_reduce, {192}, 2, own.memory()).what, own.stream());
    gpu.synchronize(own.stream());
  });
  const std::vector<std::string> noted = events.all();
  ASSERT_GE(noted.size(), 4U);
  EXPECT_EQ(std::vector<std::string>(noted.begin(), noted.begin() + 4),
            (std::vector<std::string>{"copy 256", "copy 256", "copy 256", "wait"}));
}

/// The groups and messages of rank threads for tensors of a device that is not there: as an MPI
/// that takes device memory would pass them.
class TakingDeviceMemory : public comm::World {
 public:
  TakingDeviceMemory(comm::World& host, Device& device)
      : World(host.rank(), host.size()), host_(host), device_(device) {}
  std::size_t local_rank() const override { return host_.local_rank(); }
  std::size_t local_size() const override { return host_.local_size(); }
  void abort_all(ExitCode code, std::string_view message) override {
    host_.abort_all(code, message);
  }

  std::vector<const std::byte*> given, taken;  // where messages lay

 private:
  std::unique_ptr<comm::Group> make_group(const comm::GroupSpec&, std::size_t) override {
    fail_internal("collectives go by way of the host");
  }
  void do_send(Rank peer, int tag, std::span<const std::byte> bytes) override {
    given.push_back(bytes.data());
    const Staged staged(device_, bytes.size());
    staged.copy(staged.host(), bytes.data());
    host_.send(peer, tag, {staged.host(), bytes.size()});
  }
  void do_recv(Rank peer, int tag, std::span<std::byte> bytes) override {
    taken.push_back(bytes.data());
    const Staged staged(device_, bytes.size());
    host_.recv(peer, tag, {staged.host(), bytes.size()});
    staged.copy(bytes.data(), staged.host());
  }

  /// On a stream of the library's own, which it waits for.
  class Staged {
   public:
    Staged(Device& device, std::size_t bytes)
        : device_(device),
          stream_(make_stream(device)),
          memory_(make_pinned(device, static_cast<std::int64_t>(bytes))),
          bytes_(bytes) {}
    std::byte* host() const { return memory_.get(); }
    void copy(std::byte* to, const std::byte* from) const {
      device_.copy(dense(to, from, bytes_), stream_.get());
      device_.synchronize(stream_.get());
    }

   private:
    Device& device_;
    OwnedStream stream_;
    PinnedMemory memory_;
    std::size_t bytes_;
  };

  comm::World& host_;
  Device& device_;
};

/// Both ranks send, then take, rounds of messages of two tags.
void exchange_messages(StagedWorld& staged, Device& device, const comm::World& world) {
  const std::size_t rank = world.rank().index();
  const Rank peer(1 - rank);
  constexpr std::size_t bytes = 1000;
  OnDevice own(device, 2 * bytes), other(device, 2 * bytes);
  const auto half = [&](const OnDevice& of, std::size_t which) {
    return of.memory().subspan(which * bytes, bytes);
  };
  for (std::size_t round = 0; round < 3; ++round) {
    own.write(numbers(10 * round + rank, 2 * bytes / sizeof(float)));
    if (rank == 0) staged.send(peer, 3, half(own, 0), own.stream());
    staged.recv(peer, rank == 0 ? 4 : 3, half(other, 0), other.stream());
    if (rank == 1) staged.send(peer, 4, half(own, 1), own.stream());
    std::vector<std::byte> expected = numbers(10 * round + 1 - rank, 2 * bytes / sizeof(float));
    const auto got = other.read();
    const std::size_t first = rank == 0 ? bytes : 0;  // rank 1 has sent its second half
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + bytes,
                           expected.begin() + static_cast<std::ptrdiff_t>(first)))
        << round << " on rank " << rank;
  }
}

TEST(StagedWorld, messages_in_pieces_arrive_whole) {
  FakeGpu gpu(2);
  std::vector<std::int64_t> messages(2);
  comm::ThreadJob(2).run([&](comm::World& world) {
    {
      StagedWorld staged(gpu, world, {.piece_bytes = 300});
      exchange_messages(staged, gpu, world);
    }
    messages[world.rank().index()] = world.sent().calls;
  });
  EXPECT_EQ(messages, (std::vector<std::int64_t>{3 * 4, 3 * 4}));
  EXPECT_EQ(gpu.live(), 0);
}

TEST(StagedWorld, a_library_that_takes_device_memory_is_given_messages_as_they_lie) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    FakeGpu gpu(seed);
    comm::ThreadJob(2).run([&](comm::World& host) {
      TakingDeviceMemory world(host, gpu);
      StagedWorld staged(
          gpu, world, {.piece_bytes = 300, .messages = StagedOptions::Messages::of_device_memory});
      exchange_messages(staged, gpu, world);
      // Whole, and no pinned memory in between.
      EXPECT_EQ(world.given.size(), 3U);
      EXPECT_EQ(world.taken.size(), 3U);
    });
    EXPECT_EQ(gpu.live(), 0);
  }
}

}  // namespace
}  // namespace fourfold::run::cuda
