// A rank whose exchanges are part of captured graphs, as over NCCL, on a GPU that is not there:
// what is done before it meets others, and in which order it leaves the device when another is
// gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/threads.h"
#include "run/executor.h"
#include "unit/run/cuda/fake_gpu.h"
#include "unit/run/handmade.h"

namespace fourfold::run::cuda {
namespace {

using Events = std::vector<std::string>;

/// Notes what a rank gives back, and can stop working, as a device does whose kernel waits for a
/// rank that is gone: whoever waited for it by other means than questions would never return.
class WaitingGpu : public FakeGpu {
 public:
  explicit WaitingGpu(Events& events) : events_(events) {}

  bool waits = false;

  bool is_done(Stream stream) override { return !waits && done(stream); }
  bool is_done(Event event) override { return !waits && done(event); }
  void synchronize(Stream stream) override {
    require(!waits, "nobody waits for a device that waits for a rank that is gone");
    FakeGpu::synchronize(stream);
  }
  using FakeGpu::synchronize;
  void release(Graph graph) noexcept override {
    note("a graph was given up");
    FakeGpu::release(graph);
  }
  void release(std::byte* memory) noexcept override {
    note("memory was given back");
    FakeGpu::release(memory);
  }
  using FakeGpu::release;

  void note(const std::string& event) { events_.push_back(event); }

 private:
  template <class Awaited>
  bool done(Awaited awaited) {
    FakeGpu::synchronize(awaited);
    return FakeGpu::is_done(awaited);
  }
  Events& events_;
};

/// A world of two ranks of which the other one is never asked: what is enqueued moves nothing.
class MadeUpWorld : public comm::DeviceWorld {
 public:
  explicit MadeUpWorld(WaitingGpu& gpu) : gpu_(gpu), group_(gpu) {}

  bool gives_memory = false;

  void create_groups(std::span<const comm::GroupSpec>) override { has_groups_ = true; }
  std::byte* allocate(std::int64_t bytes) override {
    if (!gives_memory) return nullptr;
    require(has_groups_, "memory is registered with groups that are there");
    gpu_.note("memory of the world");
    memory_.push_back(make_memory(gpu_, bytes));
    return memory_.back().get();
  }
  comm::DeviceGroup& group(std::span<const Rank>, std::string_view) override { return group_; }
  void send(Rank, int, std::span<const std::byte>, Stream) override {}
  void recv(Rank, int, std::span<std::byte>, Stream) override {}
  bool can_be_captured() const override { return true; }
  void check() override {
    if (gpu_.waits) throw UserError(ExitCode::peer_lost, "NCCL on rank 0: rank 1 is gone");
  }
  void abort() override {
    gpu_.note("the world was aborted");
    gpu_.waits = false;
  }

 private:
  class Group : public comm::DeviceGroup {
   public:
    explicit Group(WaitingGpu& gpu) : gpu_(gpu) {}
    void enqueue(const comm::DeviceCollective&, comm::DeviceStream) override {
      gpu_.note(gpu_.works == 0 ? "enqueued before any kernel ran" : "enqueued");
    }

   private:
    WaitingGpu& gpu_;
  };
  WaitingGpu& gpu_;
  Group group_;
  bool has_groups_ = false;
  std::vector<DeviceMemory> memory_;
};

/// Fills a buffer and sums it up over both ranks.
program::Bundle sum_of_two() {
  Handmade made(op::ProgramKind::train);
  program::Program& program = made.edit();
  program.world = 2;
  program.meshes = {{"all", {{"data", 2}}, {Rank(0), Rank(1)}}};
  program.groups = {{"data", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}}};
  const program::BufferId a = made.floats("a", 4);
  const program::EventId filled = made.event();
  made.compute(op::Fill{1, {4}}, {made.whole(a)}, "own");
  made.add("math", program::Record{filled});
  made.add("data", program::Wait{filled});
  made.add("data", program::AllReduce{program::GroupId(0), Reduction::sum, {made.whole(a)}});
  return made.bundle();
}

/// What rank 0 does with its backend, and how its job ends.
struct Ended {
  Events events;
  std::string error;
};
template <class Use>
Ended rank_of_two(Use&& use, bool gives_memory = false) {
  Ended ended;
  WaitingGpu gpu(ended.events);
  try {
    comm::ThreadJob(2).run([&](comm::World& world) {
      if (world.rank() != Rank(0)) return;
      MadeUpWorld device_world(gpu);
      device_world.gives_memory = gives_memory;
      CudaOptions options = FakeGpu::options();
      options.world = &world;
      options.device_world = &device_world;
      const program::Bundle bundle = sum_of_two();
      CudaBackend backend(gpu, std::move(options));
      Executor executor(bundle, backend);
      use(executor, gpu);
    });
  } catch (const std::exception& error) {
    ended.error = error.what();
  }
  EXPECT_EQ(gpu.live(), 0);
  return ended;
}

/// What happened from the first graph that was given up, each once.
Events in_leaving(const Ended& ended) {
  Events events(std::ranges::find(ended.events, "a graph was given up"), ended.events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  return events;
}
const Events left_well = {"a graph was given up", "the world was aborted", "memory was given back"};

void run_three_steps(Executor& executor) {
  for (std::int64_t step = 0; step < 3; ++step)
    executor.run(op::ProgramKind::train, {.step = step});
}

TEST(CapturedWorld, every_kernel_runs_once_before_ranks_meet_on_the_device) {
  std::int64_t works_at_bind = 0;
  const Ended ended = rank_of_two([&](Executor& executor, WaitingGpu& gpu) {
    works_at_bind = gpu.works;
    run_three_steps(executor);
  });
  EXPECT_EQ(ended.error, "");
  EXPECT_GT(works_at_bind, 0);
  // Once as it is, then in a graph for each parity.
  EXPECT_EQ(std::ranges::count(ended.events, "enqueued"), 3) << works_at_bind;
  EXPECT_EQ(std::ranges::count(ended.events, "the world was aborted"), 0);
}

TEST(CapturedWorld, streams_that_other_ranks_wait_for_are_urgent_and_those_that_compute_are_not) {
  rank_of_two([](Executor& executor, WaitingGpu& gpu) {
    run_three_steps(executor);
    EXPECT_EQ(gpu.urgent_streams, 1);  // "data"; not "math", and not the one that begins programs
  });
}

TEST(CapturedWorld, after_a_fault_graphs_go_before_the_world_and_memory_after_it) {
  const Ended ended = rank_of_two([](Executor& executor, WaitingGpu& gpu) {
    run_three_steps(executor);
    gpu.waits = true;
    executor.run(op::ProgramKind::train, {.step = 3});
  });
  EXPECT_TRUE(
      ended.error.starts_with("rank 0 (data 0) on a fake GPU: program train, step 3: NCCL "
                              "on rank 0: rank 1 is gone"))
      << ended.error;
  EXPECT_EQ(in_leaving(ended), left_well);
}

TEST(CapturedWorld, a_fault_names_the_first_exchange_that_is_not_over) {
  const Ended ended = rank_of_two([](Executor& executor, WaitingGpu& gpu) {
    run_three_steps(executor);
    // The marks are taken back and the buffer is filled; the sum's mark is lost.
    gpu.lose_at_work(2);
    executor.run(op::ProgramKind::train, {.step = 3});
  });
  EXPECT_TRUE(ended.error.starts_with(
      "rank 0 (data 0) on a fake GPU: program train, step 3, where instruction 3 (all_reduce"))
      << ended.error;
  EXPECT_NE(ended.error.find("of train is the first that is not over: "), std::string::npos)
      << ended.error;
}

TEST(CapturedWorld, who_leaves_a_step_unfinished_frees_the_device_first) {
  const Ended ended = rank_of_two([](Executor& executor, WaitingGpu& gpu) {
    run_three_steps(executor);
    gpu.waits = true;
    executor.start(op::ProgramKind::train, {.step = 3});
    throw UserError(ExitCode::bad_config, "the rank changed its mind");
  });
  EXPECT_EQ(in_leaving(ended), left_well);
}

TEST(CapturedWorld, tensors_lie_in_the_memory_that_the_world_gives) {
  const auto memory_of = [](bool gives_memory) {
    const Ended ended = rank_of_two(
        [](Executor& executor, WaitingGpu& gpu) {
          const std::int64_t live = gpu.live();
          run_three_steps(executor);
          EXPECT_GT(gpu.live(), live) << "graphs are made, and no memory";
        },
        gives_memory);
    EXPECT_EQ(ended.error, "");
    return std::ranges::count(ended.events, "memory of the world");
  };
  EXPECT_EQ(memory_of(false), 0);
  EXPECT_EQ(memory_of(true), 1) << "both regions are one";
}

}  // namespace
}  // namespace fourfold::run::cuda
