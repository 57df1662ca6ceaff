// Collectives and messages of ranks that share a GPU which is not there, against those of the
// thread communicator over host memory.
#include "run/cuda/shared_gpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
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
using Bytes = std::vector<std::byte>;

/// A rank's memory on the device, with a pinned copy that tests read and write.
class Mirrored {
 public:
  Mirrored(SharedGpu& gpu, std::size_t bytes)
      : device_(gpu.device()),
        stream_(make_stream(device_)),
        pinned_(make_pinned(device_, static_cast<std::int64_t>(bytes))),
        memory_(gpu.allocate(static_cast<std::int64_t>(bytes)), bytes) {}

  std::span<std::byte> memory() const { return memory_; }
  Stream stream() const { return stream_.get(); }
  /// Enqueued: others must wait for it, and the caller reads before it writes again.
  void write(const Bytes& bytes) {
    std::memcpy(pinned_.get(), bytes.data(), bytes.size());
    device_.copy(dense(memory_.data(), pinned_.get(), bytes.size()), stream());
  }
  Bytes read() {
    device_.copy(dense(pinned_.get(), memory_.data(), memory_.size()), stream());
    device_.synchronize(stream());
    return {pinned_.get(), pinned_.get() + memory_.size()};
  }

 private:
  Device& device_;
  OwnedStream stream_;
  PinnedMemory pinned_;
  std::span<std::byte> memory_;
};

/// Runs on threads, each with its view of the others, and expects that all is given back.
void run_ranks(std::size_t ranks, unsigned seed,
               const std::function<void(SharedGpu&, SharedGpuWorld&, comm::World&)>& body) {
  FakeGpu device(seed);
  {
    SharedGpu gpu(device);
    comm::ThreadJob job(ranks);
    job.run([&](comm::World& world) {
      SharedGpuWorld view(gpu, world);
      body(gpu, view, world);
    });
  }
  EXPECT_EQ(device.live(), 0);
}

std::vector<Rank> first_ranks(std::size_t count) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < count; ++i) ranks.emplace_back(i);
  return ranks;
}

struct Tensors {
  Collective kind;
  DType dtype = DType::f32;
  Reduction reduction = Reduction::sum;
  std::vector<std::int64_t> counts;  // elements of a member's smaller side, of each tensor
  bool in_place = false;
};

/// Where the sides of each tensor lie, one after another.
struct Places {
  std::vector<std::pair<std::size_t, std::size_t>> from, to;  // first byte and bytes
  std::size_t bytes = 0;
};
Places places_of(const Tensors& tensors, std::size_t members, std::size_t position) {
  Places places;
  for (const std::int64_t count : tensors.counts) {
    const auto small = static_cast<std::size_t>(count * size_bytes(tensors.dtype));
    const std::size_t large = small * members;
    const std::size_t from = tensors.kind == Collective::all_gather   ? small
                             : tensors.kind == Collective::all_reduce ? small
                                                                      : large;
    const std::size_t to =
        tensors.kind == Collective::all_gather || tensors.kind == Collective::all_to_all ? large
                                                                                         : small;
    const std::size_t first = (places.bytes + 15) / 16 * 16;
    const bool shares = tensors.in_place || tensors.kind == Collective::all_reduce;
    std::size_t from_at = first, to_at = (first + from + 15) / 16 * 16;
    if (shares) {
      // The smaller side is this member's piece of the larger one.
      from_at = first + (tensors.kind == Collective::all_gather ? position * small : 0);
      to_at = first + (tensors.kind == Collective::reduce_scatter ? position * small : 0);
    }
    places.from.emplace_back(from_at, from);
    places.to.emplace_back(to_at, to);
    places.bytes = std::max({first + large, from_at + from, to_at + to});
  }
  return places;
}

Bytes numbers(std::size_t rank, const Tensors& tensors, std::size_t bytes) {
  const Random random(rank, random_stream("test.shared"));
  Bytes values((bytes + 7) / 8 * 8);
  for (std::size_t i = 0; i < values.size() / 8; ++i) {
    const auto number = static_cast<float>(random.normal(i, 0));
    if (tensors.dtype == DType::f64) {
      const double wide = random.normal(i, 1);
      std::memcpy(values.data() + 8 * i, &wide, sizeof wide);
    } else if (tensors.dtype == DType::bf16) {
      for (std::size_t k = 0; k < 4; ++k) {
        const BFloat16 half(number * static_cast<float>(k + 1));
        std::memcpy(values.data() + 8 * i + 2 * k, &half, sizeof half);
      }
    } else {
      const float pair[2] = {number, 3 * number};
      std::memcpy(values.data() + 8 * i, pair, sizeof pair);
    }
  }
  values.resize(bytes);
  return values;
}

DeviceCollective collective_of(const Tensors& tensors, const Places& places,
                               std::span<std::byte> memory) {
  DeviceCollective what{tensors.kind, tensors.dtype, tensors.reduction, {}, {}};
  for (const auto& [first, bytes] : places.from) what.from.push_back(memory.subspan(first, bytes));
  for (const auto& [first, bytes] : places.to) what.to.push_back(memory.subspan(first, bytes));
  return what;
}

void on_host(comm::Group& group, const DeviceCollective& what) {
  group.carry_out(what.kind, what.from, what.to, what.dtype, what.reduction);
}

class SharedGpuCollectives : public testing::TestWithParam<unsigned> {};

TEST_P(SharedGpuCollectives, have_the_bits_of_the_thread_communicator) {
  std::vector<Tensors> cases;
  for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter,
                                Collective::all_gather, Collective::all_to_all})
    for (const bool in_place : {false, true}) {
      if (in_place && kind == Collective::all_to_all) continue;
      cases.push_back({kind, DType::f32, Reduction::sum, {300}, in_place});
      cases.push_back({kind, DType::bf16, Reduction::sum, {64, 1, 130}, in_place});
      cases.push_back({kind, DType::f64, Reduction::max, {1, 7}, in_place});
    }
  for (const std::size_t ranks : {2, 3})
    run_ranks(ranks, GetParam(), [&](SharedGpu& gpu, SharedGpuWorld& view, comm::World& world) {
      const std::vector<comm::GroupSpec> groups = {{"x", first_ranks(ranks), 1 << 16}};
      view.create_groups(groups);
      world.create_groups(std::vector<comm::GroupSpec>{{"host", first_ranks(ranks), 1 << 16}});
      const std::size_t rank = world.rank().index();
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const Tensors& tensors = cases[i];
        const Places places = places_of(tensors, ranks, rank);
        Bytes expected = numbers(rank, tensors, places.bytes);
        Mirrored own(gpu, places.bytes);
        own.write(expected);
        const DeviceCollective what = collective_of(tensors, places, own.memory());
        // Twice: what a member does next must not meet what others still read.
        for (int again = 0; again < 2; ++again) {
          view.group(first_ranks(ranks), "x").enqueue(what, own.stream());
          on_host(world.group(first_ranks(ranks), "host"),
                  collective_of(tensors, places, expected));
        }
        EXPECT_TRUE(own.read() == expected) << "case " << i << " on rank " << rank;
        world.barrier();
      }
    });
}

TEST_P(SharedGpuCollectives, messages_arrive_in_the_order_in_which_they_were_sent) {
  run_ranks(2, GetParam(), [](SharedGpu& gpu, SharedGpuWorld& view, comm::World& world) {
    const std::size_t rank = world.rank().index();
    const Rank peer(1 - rank);
    Mirrored own(gpu, 64);
    for (std::size_t round = 0; round < 5; ++round) {
      own.write(Bytes(64, static_cast<std::byte>(10 * round + rank)));
      const auto first = own.memory().first(16), second = own.memory().subspan(16, 32);
      if (rank == 0) {
        view.send(peer, 3, first, own.stream());
        view.send(peer, 3, second, own.stream());
        view.recv(peer, 4, first, own.stream());
      } else {
        view.recv(peer, 3, first, own.stream());
        view.recv(peer, 3, second, own.stream());
        view.send(peer, 4, own.memory().last(16), own.stream());
      }
      Bytes expected(64, static_cast<std::byte>(10 * round + rank));
      std::fill_n(expected.begin(), rank == 0 ? 16 : 48,
                  static_cast<std::byte>(10 * round + 1 - rank));
      EXPECT_TRUE(own.read() == expected) << round << " on rank " << rank;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(InOrder, SharedGpuCollectives, testing::Values(1U, 2U, 3U));

/// What ranks say that call different things.
std::string disagreement(
    const std::function<void(SharedGpu&, SharedGpuWorld&, comm::World&)>& body) {
  try {
    run_ranks(2, 1, body);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::ranks_disagree);
    return error.what();
  }
  return "nothing";
}

TEST(SharedGpuWorld, ranks_that_call_different_collectives_are_told_so) {
  const std::string text =
      disagreement([](SharedGpu& gpu, SharedGpuWorld& view, comm::World& world) {
        view.create_groups(std::vector<comm::GroupSpec>{{"x", first_ranks(2), 64}});
        Mirrored own(gpu, 64);
        DeviceCollective what{Collective::all_reduce, DType::f32, Reduction::sum, {}, {}};
        what.from = what.to = {own.memory().first(world.rank().index() == 0 ? 32 : 16)};
        view.group(first_ranks(2), "x").enqueue(what, own.stream());
      });
  EXPECT_NE(text.find("the members of group x call different collectives"), text.npos) << text;
}

TEST(SharedGpuWorld, a_message_of_another_size_than_is_expected_is_refused) {
  const std::string text =
      disagreement([](SharedGpu& gpu, SharedGpuWorld& view, comm::World& world) {
        Mirrored own(gpu, 64);
        if (world.rank().index() == 0)
          view.send(Rank(1), 7, own.memory(), own.stream());
        else
          view.recv(Rank(0), 7, own.memory().first(32), own.stream());
      });
  EXPECT_NE(text.find("rank 0 sends 64 bytes to rank 1 with tag 7, which expects 32"), text.npos)
      << text;
}

TEST(SharedGpuWorld, a_rank_that_is_gone_lets_the_others_go) {
  std::atomic<int> released{0};
  try {
    run_ranks(3, 1, [&](SharedGpu& gpu, SharedGpuWorld& view, comm::World& world) {
      view.create_groups(std::vector<comm::GroupSpec>{{"x", first_ranks(3), 64}});
      Mirrored own(gpu, 64);
      if (world.rank().index() == 2) throw UserError(ExitCode::bad_data, "no more data");
      try {
        if (world.rank().index() == 0) view.recv(Rank(2), 1, own.memory(), own.stream());
        DeviceCollective what{Collective::all_reduce, DType::f32, Reduction::sum, {}, {}};
        what.from = what.to = {own.memory()};
        view.group(first_ranks(3), "x").enqueue(what, own.stream());
      } catch (const comm::Aborted&) {
        ++released;
        throw;
      }
    });
    ADD_FAILURE() << "the fault is thrown";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "rank 2: no more data");
  }
  EXPECT_EQ(released, 2);
}

}  // namespace
}  // namespace fourfold::run::cuda
