// Code that a GPU loads when it is first used, for which it must be idle: where a kernel waits for
// another rank whose host loads code likewise, both wait for ever. So all code is loaded before
// ranks meet.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/threads.h"
#include "kernels/cuda/target.h"
#include "run/executor.h"
#include "support/fake_gpus.h"
#include "support/gpu_grid.h"
#include "unit/run/handmade.h"

namespace fourfold::run::cuda {
namespace {

using test::FakeGpus;
using test::GridRun;
using test::RunSetup;
using Names = std::vector<std::string>;

/// What the device of a rank loaded after its programs were bound.
Names loaded_after(std::size_t bound, const test::FakeDevice& device) {
  Names names = device.loaded();
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(bound));
  return names;
}

template <class Kind>
bool has_any(const program::Job& job, const std::function<bool(const Kind&)>& is_such) {
  for (const program::Bundle& bundle : job.classes)
    for (const program::Instruction& instruction : bundle.at(op::ProgramKind::train).instructions)
      if (const auto* found = std::get_if<Kind>(&instruction.what); found && is_such(*found))
        return true;
  return false;
}

/// As a run does it: where it may, the next step begins before this one has ended. Devices load
/// nothing on the way.
std::vector<double> trained_losses(const RunSetup& setup, const program::Job& job,
                                   const std::function<test::FakeDevice*(std::size_t)>& device_of) {
  constexpr std::int64_t steps = 5;
  GridRun grid(setup, job);
  std::vector<double> losses;
  const auto train = [&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    const auto start = [&](std::int64_t step) {
      if (step < steps)
        rank.executor.start(op::ProgramKind::train, test::SmallRun::block(step, 1e-3, 1), &feeder);
    };
    start(0);
    for (std::int64_t step = 0; step < steps; ++step) {
      if (rank.executor.runs_ahead()) start(step + 1);
      const double loss = test::loss_of(rank.executor.finish());
      if (!rank.executor.runs_ahead()) start(step + 1);
      if (rank.rank == 0) losses.push_back(loss);
    }
  };
  const auto train_on_device = [&](GridRun::RankRun& rank) {
    const test::FakeDevice& device = *device_of(rank.rank);
    const std::size_t bound = device.loaded().size();
    EXPECT_GT(bound, 10U);
    train(rank);
    EXPECT_EQ(loaded_after(bound, device), Names{}) << "rank " << rank.rank;
    EXPECT_EQ(device.captures, 2);
  };
  if (device_of)
    grid.run(train_on_device);
  else
    grid.run(train, "it runs here to be compared with");
  return losses;
}

TEST(LateCode, of_two_stages_with_two_tensor_columns_is_loaded_before_their_ranks_meet) {
  RunSetup setup = test::gpt_for_grids();
  setup.plan.micro_batch_size = 4;
  const test::TwoStages stages{{.x = 2, .data = 1}, {.y = 2, .data = 1}, 0};
  const program::Job job = compile_stages(setup, stages, kernels::cuda::own_target());
  EXPECT_TRUE(has_any<program::Pack>(job, [](const auto&) { return true; }));
  EXPECT_TRUE(has_any<program::Unpack>(job, [](const auto&) { return true; }));
  EXPECT_TRUE(has_any<program::Copy>(job, [](const auto&) { return true; }));
  EXPECT_TRUE(has_any<program::Send>(job, [](const auto& send) { return send.from.rows > 1; }));
  EXPECT_TRUE(has_any<program::Recv>(job, [](const auto& recv) { return recv.to.rows > 1; }));
  FakeGpus gpus(4);
  const std::vector<double> losses = trained_losses(
      gpus.on_gpus(setup), job, [&](std::size_t rank) { return &gpus.device(rank); });
  const RunSetup serial = test::serial_of(setup, 4);
  test::expect_same_losses(losses, trained_losses(serial, GridRun::compile_job(serial), {}),
                           test::float_bound);
}

/// Two ranks that each take a message, move something, and send: both would wait for ever if that
/// move were the first of its kind.
class LateMove : public testing::TestWithParam<const char*> {
 protected:
  static program::Bundle bundle_of(Rank rank, const std::string& kind) {
    Handmade made(op::ProgramKind::train);
    program::Program& program = made.edit();
    program.rank = rank;
    program.world = 2;
    program.meshes = {{"all", {{"data", 2}}, {Rank(0), Rank(1)}}};
    program.groups = {{"data", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}}};
    const auto a = made.floats("a", 16), b = made.floats("b", 16), c = made.floats("c", 16);
    if (kind == "pack") program.buffers[b.index()].blocked = program::Blocked{0, AxisId(0), 8};
    if (kind == "unpack") program.buffers[a.index()].blocked = program::Blocked{0, AxisId(0), 8};
    program::Slice from = made.whole(a), to = made.whole(c);
    for (program::Slice* slice : {&from, &to})
      if (kind == (slice == &from ? "rows that are sent" : "rows that are taken"))
        *slice = {slice->buffer, 0, 4, 8, 16};
      else
        slice->row_bytes = 32;
    const Rank peer(1 - rank.index());
    made.add("in", program::Recv{peer, 1, to});
    if (kind == "copy") made.copy("math", a, b);
    if (kind == "copy of one parity") {
      // In a step of the other parity its rows begin at no multiple of 16.
      const auto two = made.buffer("two", DType::f32, {5}, Handmade::Region::transient,
                                   Handmade::Role::activation, true);
      made.add("math", program::Copy{{a, 0, 1, 16, 16}, {two, 0, 1, 16, 16}});
    }
    if (kind == "pack") made.add("math", program::Pack{made.whole(a), made.whole(b)});
    if (kind == "unpack") made.add("math", program::Unpack{made.whole(a), made.whole(b)});
    made.add("out", program::Send{peer, 1, from});
    return made.bundle();
  }
};

TEST_P(LateMove, does_not_make_two_ranks_wait_for_one_another) {
  FakeGpus gpus(2);
  comm::ThreadJob(2).run([&](comm::World& world) {
    const program::Bundle bundle = bundle_of(world.rank(), GetParam());
    const auto backend = gpus.make_backend(world);
    Executor executor(bundle, *backend);
    const std::size_t bound = gpus.device(world.rank().index()).loaded().size();
    // Two at a time: the device votes on the second one.
    executor.start(op::ProgramKind::train, {.step = 0});
    for (std::int64_t step = 1; step < 4; ++step) {
      executor.start(op::ProgramKind::train, {.step = step});
      executor.finish();
    }
    executor.finish();
    EXPECT_EQ(loaded_after(bound, gpus.device(world.rank().index())), Names{});
  });
}
INSTANTIATE_TEST_SUITE_P(LateCode, LateMove,
                         testing::Values("copy", "copy of one parity", "pack", "unpack",
                                         "rows that are sent", "rows that are taken"));

}  // namespace
}  // namespace fourfold::run::cuda
