// Programs of several ranks over the thread communicator: collectives, messages, faults. No
// kernels, so that it runs under ThreadSanitizer too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "comm/threads.h"
#include "run/cpu.h"
#include "run/executor.h"
#include "unit/run/allocation_counter.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

using namespace std::chrono_literals;
using program::Region;

constexpr std::size_t ranks = 4;
const program::GroupId x_group(1), y_group(2);

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

/// Compiles, binds and runs a program on each rank; `build` writes it, `look` reads the results.
void run_ranks(const std::function<void(Handmade&, Rank)>& build,
               const std::function<void(Executor&, Rank)>& fill,
               const std::function<void(Executor&, Rank)>& look, Feeder* feeder = nullptr) {
  comm::ThreadJob job(ranks);
  job.run([&](comm::World& world) {
    Handmade made = of_rank(world.rank());
    build(made, world.rank());
    const program::Bundle bundle = made.bundle();
    CpuOptions options;
    options.world = &world;
    CpuBackend backend(options);
    Executor executor(bundle, backend);
    fill(executor, world.rank());
    executor.run(op::ProgramKind::train, {}, feeder);
    look(executor, world.rank());
  });
}

std::span<float> floats(Executor& executor, std::string_view buffer) {
  return as<float>(executor.bytes(op::ProgramKind::train, buffer));
}

TEST(Ranks, collectives_on_all_streams_give_what_their_names_say) {
  // x sums, y gathers what x summed, data scatters the sum of that, x exchanges; 4 numbers a rank.
  const auto build = [](Handmade& made, Rank) {
    const auto a = made.floats("a", 4), b = made.floats("b", 8), c = made.floats("c", 2),
               d = made.floats("d", 2);
    const auto summed = made.event(), gathered = made.event(), scattered = made.event();
    made.add("x", program::AllReduce{x_group, Reduction::sum, {made.whole(a)}});
    made.add("x", program::Record{summed});
    made.add("y", program::Wait{summed});
    made.add("y", program::AllGather{y_group, {made.whole(a)}, {made.whole(b)}});
    made.add("y", program::Record{gathered});
    made.add("data", program::Wait{gathered});
    made.add("data", program::ReduceScatter{
                         program::GroupId(0), Reduction::max, {made.whole(b)}, {made.whole(c)}});
    made.add("data", program::Record{scattered});
    made.add("x", program::Wait{scattered});
    made.add("x", program::AllToAll{x_group, {made.whole(c)}, {made.whole(d)}});
  };
  const auto fill = [](Executor& executor, Rank rank) {
    for (std::size_t i = 0; i < 4; ++i)
      floats(executor, "a")[i] = static_cast<float>(100 * rank.index() + i);
  };
  const auto look = [](Executor& executor, Rank rank) {
    const auto b = floats(executor, "b"), d = floats(executor, "d");
    // Row 0 sums to 100 + 2 i, row 1 to 500 + 2 i; the maximum over all is the same everywhere.
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(b[i], static_cast<float>(100 + 2 * i));
      EXPECT_EQ(b[4 + i], static_cast<float>(500 + 2 * i));
    }
    const std::size_t row = rank.index() / 2, column = rank.index() % 2;
    // Rank r has elements 2 r and 2 r + 1 of b; then column c of a row gets element c of both.
    EXPECT_EQ(d[0], b[4 * row + column]);
    EXPECT_EQ(d[1], b[4 * row + 2 + column]);
  };
  run_ranks(build, fill, look);
}

TEST(Ranks, collectives_work_in_place_on_parts_of_buffers) {
  const auto build = [](Handmade& made, Rank rank) {
    const auto a = made.floats("a", 8);
    program::Slice mine = made.whole(a);
    mine.row_bytes = 8;
    mine.offset_bytes = 8 * static_cast<std::int64_t>(rank.index());
    made.add("data",
             program::ReduceScatter{program::GroupId(0), Reduction::sum, {made.whole(a)}, {mine}});
    made.add("data", program::AllGather{program::GroupId(0), {mine}, {made.whole(a)}});
  };
  const auto fill = [](Executor& executor, Rank rank) {
    for (std::size_t i = 0; i < 8; ++i)
      floats(executor, "a")[i] = static_cast<float>(i + rank.index());
  };
  run_ranks(build, fill, [](Executor& executor, Rank) {
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ(floats(executor, "a")[i], static_cast<float>(4 * i + 6));
  });
}

/// The same collectives of two tensors of different sizes, each alone or both in one.
void add_collectives(Handmade& made, bool as_list) {
  const auto make = [&](std::string_view name, std::int64_t first, std::int64_t second) {
    return program::Slices{made.whole(made.floats(std::string(name) + "0", first)),
                           made.whole(made.floats(std::string(name) + "1", second))};
  };
  const program::GroupId all(0);
  const program::Slices a = make("a", 4, 12), reduced = make("reduced", 1, 3), b = make("b", 4, 12),
                        c = make("c", 4, 12);
  const auto add = [&](const auto& from, const auto& to) {
    made.add("data", program::AllReduce{all, Reduction::sum, from});
    made.add("data", program::ReduceScatter{all, Reduction::sum, from, to[0]});
    made.add("data", program::AllGather{all, to[0], to[1]});
    made.add("data", program::AllToAll{all, from, to[2]});
  };
  if (as_list) return add(a, std::vector{reduced, b, c});
  for (const std::size_t k : {0U, 1U})
    add(program::Slices{a[k]}, std::vector<program::Slices>{{reduced[k]}, {b[k]}, {c[k]}});
}

TEST(Ranks, a_collective_of_several_tensors_does_to_each_what_one_alone_does) {
  const auto fill = [](Executor& executor, Rank rank) {
    for (const std::string_view name : {"a0", "a1"}) {
      const auto values = floats(executor, name);
      for (std::size_t i = 0; i < values.size(); ++i)  // sums that round
        values[i] = 1.0F / static_cast<float>(1 + 7 * rank.index() + i + values.size());
    }
  };
  std::array<std::vector<float>, ranks> alone;
  const auto all_of = [](Executor& executor) {
    std::vector<float> values;
    for (const std::string_view name : {"a0", "a1", "reduced0", "reduced1", "b0", "b1", "c0", "c1"})
      for (const float value : floats(executor, name)) values.push_back(value);
    return values;
  };
  run_ranks([](Handmade& made, Rank) { add_collectives(made, false); }, fill,
            [&](Executor& executor, Rank rank) { alone[rank.index()] = all_of(executor); });
  run_ranks(
      [](Handmade& made, Rank) { add_collectives(made, true); }, fill,
      [&](Executor& executor, Rank rank) { EXPECT_EQ(all_of(executor), alone[rank.index()]); });
  EXPECT_NE(alone[0], alone[1]);  // parts of the reductions differ by rank
}

TEST(Ranks, a_field_of_the_result_block_is_reduced_in_its_own_type) {
  const auto build = [](Handmade& made, Rank) {
    const auto result = made.result_block();
    made.add("data", program::AllReduce{program::GroupId(0),
                                        Reduction::sum,
                                        {Handmade::field(result, "result.loss_sum")}});
    made.add("data", program::AllReduce{program::GroupId(0),
                                        Reduction::max,
                                        {Handmade::field(result, "result.valid_count")}});
  };
  comm::ThreadJob job(ranks);
  job.run([&](comm::World& world) {
    Handmade made = of_rank(world.rank());
    const auto one =
        made.buffer("one", DType::u64, {sizeof(op::ResultBlock) / 8}, Region::persistent);
    build(made, world.rank());
    made.edit().instructions.insert(
        made.edit().instructions.begin(),
        {made.stream("data"), program::Copy{made.whole(one), made.whole(program::BufferId(1))}});
    const program::Bundle bundle = made.bundle();
    CpuOptions options;
    options.world = &world;
    CpuBackend backend(options);
    Executor executor(bundle, backend);
    op::ResultBlock mine;
    mine.loss_sum = -1.5 - static_cast<double>(world.rank().index());
    mine.valid_count = static_cast<std::int64_t>(world.rank().index()) - 7;
    std::memcpy(executor.bytes(op::ProgramKind::train, "one").data(), &mine, sizeof mine);
    const op::ResultBlock result = executor.run(op::ProgramKind::train, {});
    EXPECT_EQ(result.loss_sum, -12);
    EXPECT_EQ(result.valid_count, -4);
  });
}

TEST(Ranks, messages_pass_round_a_ring) {
  const auto build = [](Handmade& made, Rank rank) {
    const auto from = made.floats("from", 3), to = made.floats("to", 3);
    const std::size_t next = (rank.index() + 1) % ranks, last = (rank.index() + ranks - 1) % ranks;
    made.add("out", program::Send{Rank(next), 5, made.whole(from)});
    made.add("in", program::Recv{Rank(last), 5, made.whole(to)});
  };
  const auto fill = [](Executor& executor, Rank rank) {
    floats(executor, "from")[2] = static_cast<float>(rank.index());
  };
  run_ranks(build, fill, [](Executor& executor, Rank rank) {
    EXPECT_EQ(floats(executor, "to")[2], static_cast<float>((rank.index() + ranks - 1) % ranks));
  });
}

/// Throws on one rank's second feed.
class FailingFeeder : public Feeder {
 public:
  explicit FailingFeeder(std::atomic<int>& calls) : calls_(calls) {}
  void feed(const Input&, const Samples& samples, std::span<std::byte>) override {
    if (++calls_ >= 0 && samples.first == 1)
      throw UserError(ExitCode::bad_data, "token 70000 is too large");
  }

 private:
  std::atomic<int>& calls_;
};

TEST(Ranks, a_fault_ends_the_job_on_all_ranks_and_names_rank_and_instruction) {
  // Rank 3's feed breaks; all ranks, rank 3's own collective too, would wait for ever.
  comm::ThreadJob job(ranks);
  std::atomic<int> released = 0, calls = 0;
  FailingFeeder feeder(calls);
  const auto body = [&](comm::World& world) {
    Handmade made = of_rank(world.rank());
    const auto fed = made.tokens("fed", {2, 1, 0, 1}, 4);
    const auto ready = made.event();
    const auto micro = world.rank() == Rank(3) ? 1 : 0;
    made.add("math", made.feed(fed, micro));
    made.add("math", program::Record{ready});
    made.add("data", program::Wait{ready});
    made.add("data", program::AllReduce{program::GroupId(0), Reduction::max, {made.whole(fed)}});
    made.edit().tasks = {{program::TaskKind::forward, 0, 0, 4}};
    const program::Bundle bundle = made.bundle();
    CpuOptions options;
    options.world = &world;
    CpuBackend backend(options);
    Executor executor(bundle, backend);
    try {
      executor.run(op::ProgramKind::train, {}, &feeder);
    } catch (const std::exception&) {
      ++released;
      throw;
    }
  };
  try {
    job.run(body);
    FAIL() << "the job went on";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_data);
    const std::string text = error.what();
    EXPECT_EQ(text.substr(0, 38), "rank 3 (y 1, x 1): instruction 0 (feed");
    EXPECT_NE(text.find(" in forward(0)) of train: token 70000 is too large"), std::string::npos)
        << text;
  }
  EXPECT_EQ(released, 4);
}

TEST(Ranks, what_each_rank_waits_for_can_be_read_while_it_waits) {
  // Rank 0 comes late; the others are seen waiting for it.
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
    made.add("data", program::AllReduce{program::GroupId(0), Reduction::sum, {made.whole(a)}});
    const program::Bundle bundle = made.bundle();
    CpuOptions options;
    options.world = &world;
    CpuBackend backend(options);
    Executor executor(bundle, backend);
    if (world.rank() == Rank(0)) watcher.join();
    const std::uint64_t before = world.progress().ticks();
    executor.run(op::ProgramKind::train, {});
    EXPECT_NE(world.progress().ticks(), before);
    EXPECT_FALSE(world.progress().in_program());
  });
  for (std::size_t rank = 1; rank < ranks; ++rank)
    EXPECT_EQ(seen[rank],
              "data instruction 0 (all_reduce -> &a group data reduction sum) of train");
}

TEST(Ranks, sixteen_ranks_with_four_streams_each_get_through_and_steps_allocate_nothing) {
  // A grid of 2 x 2 x 2 x 2; every stream sums over its axis, one after the other, for 20 steps.
  constexpr std::size_t many = 16;
  comm::ThreadJob job(many);
  std::array<bool, many> right{};
  std::optional<AllocationCounter> counter;
  Allocations allocations;
  job.run([&](comm::World& world) {
    const std::size_t me = world.rank().index();
    Handmade made(op::ProgramKind::train);
    program::Program& program = made.edit();
    program.rank = world.rank();
    program.world = many;
    program.meshes = {{"all", {{"data", 2}, {"z", 2}, {"y", 2}, {"x", 2}}, {}}};
    for (std::size_t i = 0; i < many; ++i) program.meshes[0].ranks.push_back(Rank(i));
    program.groups.clear();
    const auto a = made.floats("a", 1000, Region::persistent);
    std::optional<program::EventId> last;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const std::string name = program.meshes[0].axes[axis].name;
      const std::size_t bit = std::size_t{8} >> axis;
      program.groups.push_back(
          {name, MeshId(0), {AxisId(axis)}, {Rank(me & ~bit), Rank(me | bit)}});
      if (last) made.add(name, program::Wait{*last});
      made.add(name, program::AllReduce{program::GroupId(axis), Reduction::sum, {made.whole(a)}});
      last = made.event();
      made.add(name, program::Record{*last});
    }
    const program::Bundle bundle = made.bundle();
    CpuOptions options;
    options.world = &world;
    CpuBackend backend(options);
    Executor executor(bundle, backend);
    const auto step = [&] {
      for (float& x : floats(executor, "a")) x = static_cast<float>(me);
      executor.run(op::ProgramKind::train, {});
    };
    step();
    world.barrier();
    if (me == 0) counter.emplace();
    world.barrier();
    for (int i = 0; i < 20; ++i) step();
    world.barrier();
    if (me == 0) allocations = counter->stop();
    right[me] = std::ranges::all_of(floats(executor, "a"), [](float x) { return x == 120; });
  });
  EXPECT_TRUE(std::ranges::all_of(right, [](bool x) { return x; }));
  EXPECT_EQ(allocations.own, 0) << allocations.first_own;
}

TEST(Ranks, a_rank_refuses_the_program_of_another) {
  comm::ThreadJob job(ranks);
  EXPECT_THROW(job.run([](comm::World& world) {
    Handmade made = of_rank(Rank(0));
    made.floats("a", 1);
    const program::Bundle bundle = made.bundle();
    CpuOptions options;
    options.world = &world;
    CpuBackend backend(options);
    Executor executor(bundle, backend);
  }),
               InternalError);
}

}  // namespace
}  // namespace fourfold::run
