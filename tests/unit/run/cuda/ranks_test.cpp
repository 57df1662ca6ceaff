// Programs of several ranks, written by hand, on a GPU that is not there: what they exchange, and
// what a fault and whoever watches tell of it.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "run/executor.h"
#include "support/gpu_grid.h"
#include "unit/run/cuda/fake_gpu.h"
#include "unit/run/handmade.h"

namespace fourfold::run::cuda {
namespace {

using test::GpuRanks;
using test::Passes;
using test::RunSetup;

constexpr std::size_t ranks = 4;
using Bytes = std::vector<std::byte>;
using Build = std::function<void(Handmade&, Rank)>;

/// A program of one rank of a 2 x 2 mesh, with the groups of its axes: data (all), x, y.
Handmade of_rank(Rank rank) {
  Handmade made(op::ProgramKind::train);
  program::Program& program = made.edit();
  const std::size_t row = rank.index() / 2, column = rank.index() % 2;
  program.rank = rank;
  program.world = ranks;
  program.meshes = {{"all", {{"y", 2}, {"x", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}},
                    {"line", {{"data", 4}}, {Rank(0), Rank(1), Rank(2), Rank(3)}}};
  program.groups = {{"data", MeshId(1), {AxisId(0)}, {Rank(0), Rank(1), Rank(2), Rank(3)}},
                    {"x", MeshId(0), {AxisId(1)}, {Rank(2 * row), Rank(2 * row + 1)}},
                    {"y", MeshId(0), {AxisId(0)}, {Rank(column), Rank(column + 2)}}};
  return made;
}
const program::GroupId data_group(0), x_group(1), y_group(2);

/// What all buffers of each rank hold after three runs, from numbers that differ by rank.
using MakeBackend = std::function<std::unique_ptr<Backend>(comm::World&)>;
std::array<Bytes, ranks> run_ranks(const Build& build, const MakeBackend& make_backend) {
  std::array<Bytes, ranks> found;
  comm::ThreadJob job(ranks);
  job.run([&](comm::World& world) {
    Handmade made = of_rank(world.rank());
    build(made, world.rank());
    const program::Bundle bundle = made.bundle();
    const std::unique_ptr<Backend> backend = make_backend(world);
    Executor executor(bundle, *backend);
    for (const program::Buffer& buffer : bundle.programs[0].buffers) {
      const auto view = executor.bytes(buffer);
      const auto values = as<float>({view.data(), view.size()});
      for (std::size_t i = 0; i < values.size(); ++i)  // sums that round
        values[i] = 1.0F / static_cast<float>(1 + 7 * world.rank().index() + i);
    }
    for (std::int64_t step = 0; step < 3; ++step)
      executor.run(op::ProgramKind::train, {.step = step});
    for (const program::Buffer& buffer : bundle.programs[0].buffers) {
      const auto view = executor.read(buffer, 0);
      found[world.rank().index()].insert(found[world.rank().index()].end(), view.data(),
                                         view.data() + view.size());
    }
  });
  return found;
}

std::array<Bytes, ranks> on_gpu(const Build& build, Passes passes, unsigned seed) {
  FakeGpu device(seed);
  std::array<Bytes, ranks> found;
  {
    GpuRanks gpu(device, FakeGpu::options(), passes);
    const RunSetup setup = gpu.on_gpu({});
    found = run_ranks(build, setup.backend);
  }
  EXPECT_EQ(device.live(), 0);
  return found;
}

void expect_as_on_the_cpu(const Build& build) {
  const auto expected = run_ranks(build, [](comm::World& world) {
    return std::make_unique<CpuBackend>(CpuOptions{.world = &world});
  });
  for (const Passes passes : {Passes::shared, Passes::staged})
    for (unsigned seed = 1; seed < 5; ++seed)
      EXPECT_TRUE(on_gpu(build, passes, seed) == expected)
          << (passes == Passes::shared ? "shared " : "staged ") << seed;
}

/// Copies alone: no kernel runs, so that a thread sanitizer sees everything.
TEST(RanksOnAFakeGpu, gathers_and_messages_on_streams_that_wait_for_each_other_move_what_they_say) {
  expect_as_on_the_cpu([](Handmade& made, Rank rank) {
    const auto a = made.floats("a", 4), b = made.floats("b", 8), c = made.floats("c", 8),
               d = made.floats("d", 8);
    const std::size_t next = (rank.index() + 1) % ranks, last = (rank.index() + ranks - 1) % ranks;
    const auto gathered = made.event(), exchanged = made.event(), arrived = made.event();
    made.add("y", program::AllGather{y_group, {made.whole(a)}, {made.whole(b)}});
    made.add("y", program::Record{gathered});
    made.add("x", program::Wait{gathered});
    made.add("x", program::AllToAll{x_group, {made.whole(b)}, {made.whole(c)}});
    made.add("x", program::Record{exchanged});
    made.add("out", program::Wait{exchanged});
    made.add("out", program::Send{Rank(next), 5, made.whole(c)});
    made.add("in", program::Recv{Rank(last), 5, made.whole(d)});
    made.add("in", program::Record{arrived});
    program::Slice first = made.whole(d);
    first.row_bytes = 16;
    made.add("data", program::Wait{arrived});
    made.add("data", program::AllToAll{data_group, {first}, {made.whole(a)}});
  });
}

/// Ranks 0 and 1 list their messages in an order in which two who wait in turn would wait for ever.
TEST(RanksOnAFakeGpu, messages_of_streams_of_their_own_pass_in_any_order_of_the_lists) {
  expect_as_on_the_cpu([](Handmade& made, Rank rank) {
    if (rank.index() > 1) return;
    const auto from = made.floats("from", 12), to = made.floats("to", 12);
    program::Slice rows = made.whole(from);  // every other number
    rows.rows = 6, rows.row_bytes = 4, rows.pitch_bytes = 8;
    program::Slice into = made.whole(to);
    into.rows = 2, into.row_bytes = 12, into.pitch_bytes = 24;
    const Rank peer(1 - rank.index());
    made.add("out", program::Send{peer, 1, rows});
    made.add("out", program::Send{peer, 2, rows});
    made.add("in", program::Recv{peer, 1, into});
    made.add("in", program::Recv{peer, 2, into});
  });
}

TEST(RanksOnAFakeGpu, reductions_in_place_and_of_lists_have_the_bits_of_the_cpu) {
  expect_as_on_the_cpu([](Handmade& made, Rank rank) {
    const auto a = made.floats("a", 8), b = made.floats("b", 40), c = made.floats("c", 3);
    program::Slice mine = made.whole(a);
    mine.row_bytes = 8;
    mine.offset_bytes = 8 * static_cast<std::int64_t>(rank.index());
    made.add("data", program::ReduceScatter{data_group, Reduction::sum, {made.whole(a)}, {mine}});
    made.add("data", program::AllGather{data_group, {mine}, {made.whole(a)}});
    made.add("x", program::AllReduce{x_group, Reduction::sum, {made.whole(b), made.whole(c)}});
  });
}

TEST(RanksOnAFakeGpu, a_fault_names_rank_and_instruction_and_lets_all_go) {
  for (const Passes passes : {Passes::shared, Passes::staged}) {
    std::string text;
    try {
      on_gpu(
          [](Handmade& made, Rank rank) {
            const auto a = made.floats("a", 4), b = made.floats("b", 8);
            if (rank.index() == 0)
              made.add("out", program::Send{Rank(1), 1, made.whole(a)});
            else if (rank.index() == 1)
              made.add("in", program::Recv{Rank(0), 1, made.whole(b)});
            made.add("data", program::AllReduce{data_group, Reduction::sum, {made.whole(a)}});
          },
          passes, 1);
      ADD_FAILURE() << "sizes differ";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::ranks_disagree);
      text = error.what();
    }
    EXPECT_TRUE(text.starts_with("rank 1 (y 0, x 1) on a fake GPU: instruction 0 (recv")) << text;
    EXPECT_NE(text.find("rank 0 sends 16 bytes to rank 1 with tag 1, which expects 32"), text.npos)
        << text;
  }
}

TEST(RanksOnAFakeGpu, what_each_rank_waits_for_can_be_read_while_it_waits) {
  using namespace std::chrono_literals;
  // Rank 0 comes late; the others are seen waiting for it.
  FakeGpu device;
  GpuRanks gpu(device, FakeGpu::options(), Passes::shared);
  const RunSetup setup = gpu.on_gpu({});
  comm::ThreadJob job(ranks);
  std::array<std::string, ranks> seen;
  std::thread watcher([&] {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    for (std::size_t rank = 1; rank < ranks && std::chrono::steady_clock::now() < deadline;) {
      const comm::Progress& progress = job.world(rank).progress();
      for (const comm::WorkerState& worker : progress.workers())
        if (worker.waits && progress.in_program()) seen[rank] = worker.stream + " " + worker.doing;
      if (!seen[rank].empty()) ++rank;
      std::this_thread::sleep_for(1ms);
    }
  });
  job.run([&](comm::World& world) {
    Handmade made = of_rank(world.rank());
    const auto a = made.floats("a", 4);
    made.add("data", program::AllReduce{data_group, Reduction::sum, {made.whole(a)}});
    const program::Bundle bundle = made.bundle();
    const std::unique_ptr<Backend> backend = setup.backend(world);
    Executor executor(bundle, *backend);
    if (world.rank() == Rank(0)) watcher.join();
    executor.run(op::ProgramKind::train, {});
    EXPECT_FALSE(world.progress().in_program());
  });
  for (std::size_t rank = 1; rank < ranks; ++rank)
    EXPECT_EQ(seen[rank],
              "data instruction 0 (all_reduce -> &a group data reduction sum) of train");
}

}  // namespace
}  // namespace fourfold::run::cuda
