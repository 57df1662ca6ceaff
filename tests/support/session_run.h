// Whole sessions of train/ on a grid of rank threads, with a hand in what each rank does. Header
// only.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "data/token_source.h"
#include "support/grid_run.h"
#include "train/checkpoints.h"
#include "train/session.h"

namespace fourfold::test {

/// Passes all on, and works for a while at the beginning of each program, as a busy host does.
class BusyBackend : public run::Backend {
 public:
  using Begins = std::function<void(std::int64_t number)>;
  BusyBackend(run::CpuBackend& inner, std::chrono::microseconds busy, Begins begins)
      : inner_(inner), busy_(busy), begins_(std::move(begins)) {}
  void bind(const program::Bundle& bundle) override { inner_.bind(bundle); }
  void begin(run::ProgramId program, const op::StepBlock& step, run::Feeder* feeder) override {
    const auto end = std::chrono::steady_clock::now() + busy_;
    while (std::chrono::steady_clock::now() < end) {
    }
    if (begins_) begins_(++programs_);
    inner_.begin(program, step, feeder);
  }
  void issue(run::ProgramId program, std::size_t instruction) override {
    inner_.issue(program, instruction);
  }
  void finish() override { inner_.finish(); }
  op::ResultBlock result() override { return inner_.result(); }
  void trace_next(std::span<trace::Interval> intervals) override { inner_.trace_next(intervals); }
  run::MathWaits math_waits() const override { return inner_.math_waits(); }
  HostView<std::byte> bytes(const program::Buffer& buffer, std::int64_t parity) override {
    return inner_.bytes(buffer, parity);
  }

 private:
  run::CpuBackend& inner_;
  std::chrono::microseconds busy_;
  Begins begins_;
  std::int64_t programs_ = 0;
};

/// What an observer of one rank was told.
struct Told {
  std::vector<train::StepMetrics> steps;
  /// Each with how many steps were done.
  std::vector<std::pair<std::int64_t, std::string>> warnings;
  bool was_stopped = false;  // by all ranks
};

struct SessionSetup {
  RunSetup run;
  train::TrainSpec spec{.run_name = "test",
                        .run_dir = "",
                        .steps = 6,
                        .schedule = {},
                        .log_interval = 1,
                        .eval_interval = 0,
                        .eval_batches = 1};
  std::int64_t first_step = 0;
  bool ranks_share_cores = false;
  std::size_t busy_rank = 0;
  std::chrono::microseconds busy{0};
  /// Where a checkpoint is written, as this says; nowhere without a folder.
  std::string checkpoints = {};
  train::CheckpointSpec checkpoint = {};
  /// Asks this rank to stop after so many of its steps.
  std::optional<std::pair<std::size_t, std::int64_t>> stop = {};
  /// Called on each rank before its session, and after each of its steps.
  std::function<void(GridRun::RankRun&)> before = {};
  std::function<void(GridRun::RankRun&, std::int64_t step)> behind = {};
  /// And when it begins a program, counted from 1.
  std::function<void(std::size_t rank, std::int64_t program)> begins = {};
};

/// Runs it and compares its first step with the simulation of the job; what rank 0 was told.
/// Errors: those of the session.
inline Told run_session(const SessionSetup& setup) {
  class Listener : public train::Observer {
   public:
    Listener(const SessionSetup& wanted, GridRun::RankRun& rank, Told* told)
        : setup_(wanted), rank_(rank), told_(told) {}
    void step(const train::StepMetrics& metrics) override {
      if (told_ != nullptr) told_->steps.push_back(metrics);
      if (setup_.behind) setup_.behind(rank_, metrics.step);
      if (setup_.stop == std::pair(rank_.rank, metrics.step)) stop_asked = true;
    }
    void end(const train::TrainResult&) override {}
    void warn(const std::string& text) override {
      if (told_ != nullptr)
        told_->warnings.emplace_back(static_cast<std::int64_t>(told_->steps.size()) + 1, text);
    }
    std::atomic<bool> stop_asked{false};

   private:
    const SessionSetup& setup_;
    GridRun::RankRun& rank_;
    Told* told_;
  };

  data::DataSpec spec;
  spec.format = data::Format::synthetic;
  spec.split = 0.99;  // a session ends with an evaluation of all that validates
  spec.seq_length = setup.run.plan.seq_length;
  spec.vocab_size = setup.run.gpt.vocab_size;
  const data::TokenSource dataset(spec);
  const GridRun grid(setup.run);
  Told told;
  std::atomic<bool> all_were_stopped{true};
  StepRecorders recorders(grid.job());
  comm::ThreadJob job(grid.num_ranks());
  job.run([&](comm::World& world) {
    const std::size_t number = world.rank().index();
    const program::Bundle bundle = grid.bundle_of(number);
    run::CpuOptions options = setup.run.cpu;
    options.threads = 1;
    options.world = &world;
    run::CpuBackend cpu(options);
    BusyBackend backend(cpu, number == setup.busy_rank ? setup.busy : std::chrono::microseconds(0),
                        [&](std::int64_t program) {
                          if (setup.begins) setup.begins(number, program);
                        });
    run::Executor executor(bundle, backend);
    executor.set_recorder(&recorders[number]);
    GridRun::RankRun rank{number, world, bundle, executor, &cpu};
    if (setup.before) setup.before(rank);
    Listener listener(setup, rank, number == 0 ? &told : nullptr);
    train::Observer* observers[] = {&listener};
    train::RunFacts facts;
    facts.ranks_share_cores = setup.ranks_share_cores;
    facts.items_per_step = setup.run.plan.global_batch_size * setup.run.plan.seq_length;
    // A course that begins later has its weights from a checkpoint; here they are made.
    train::Session session(setup.spec, facts, executor, dataset, observers, &world);
    session.init();
    train::Course course;
    course.first_step = setup.first_step;
    checkpoint::Store store(real_files(), setup.checkpoints);
    std::optional<train::Checkpoints> checkpoints;
    if (!setup.checkpoints.empty()) {
      if (number == 0) store.prepare();
      const auto tell = [](const std::string&) {};
      checkpoints.emplace(setup.checkpoint, store, executor, &world, checkpoint::Manifest{},
                          listener.stop_asked, train::Checkpoints::Tell{tell, tell});
      course.checkpoints = &*checkpoints;
    }
    if (!session.train(course).was_stopped) all_were_stopped = false;
  });
  told.was_stopped = all_were_stopped;
  expect_like_simulated(grid.job(), recorders.runs());
  return told;
}

}  // namespace fourfold::test
