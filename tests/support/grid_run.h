// A GPT trained on a grid of rank threads, and its tensors put together again. Header only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/threads.h"
#include "program/bind.h"
#include "program/job.h"
#include "support/simulated_order.h"
#include "support/small_run.h"

namespace fourfold::test {

/// Logical tensors by name, as doubles.
using Tensors = std::map<std::string, std::vector<double>>;

/// Calls `visit(local, global)` for every element that a rank holds of a tensor, with row-major
/// indices; padding is left out. Written without op::local_size, so that it checks that too.
inline void for_each_element(const program::Buffer& buffer, const Mesh& mesh,
                             const std::vector<std::int64_t>& coordinates,
                             const std::function<void(std::size_t, std::size_t)>& visit) {
  // Indices of each dim that this rank owns, in order, -1 for padding.
  std::vector<std::vector<std::int64_t>> owned(buffer.global.rank());
  for (std::size_t dim = 0; dim < owned.size(); ++dim) {
    for (std::int64_t i = 0; i < buffer.global[dim]; ++i) owned[dim].push_back(i);
    if (dim >= buffer.sharding.dims.size()) continue;
    for (const op::Cut& cut : buffer.sharding.dims[dim]) {
      const std::int64_t parts = mesh.axes[cut.axis.index()].size;
      const auto have = static_cast<std::int64_t>(owned[dim].size());
      const std::int64_t block = cut.stride.value_or((have + parts - 1) / parts);
      std::vector<std::int64_t> mine;
      for (std::int64_t i = 0; i < block; ++i) {
        const std::int64_t place = coordinates[cut.axis.index()] * block + i;
        mine.push_back(place < have ? owned[dim][static_cast<std::size_t>(place)] : -1);
      }
      owned[dim] = std::move(mine);
    }
  }
  std::size_t local = 0;
  const std::function<void(std::size_t, std::int64_t)> walk = [&](std::size_t dim,
                                                                  std::int64_t global) {
    if (dim == owned.size()) {
      if (global >= 0) visit(local, static_cast<std::size_t>(global));
      ++local;
      return;
    }
    for (const std::int64_t index : owned[dim])
      walk(dim + 1, index < 0 || global < 0 ? -1 : global * buffer.global[dim] + index);
  };
  walk(0, 0);
}

class GridRun {
 public:
  /// One rank, for the body of `run`.
  struct RankRun {
    std::size_t rank;
    comm::World& world;
    const program::Bundle& bundle;
    run::Executor& executor;
    run::CpuBackend* backend;  // null where it is another one
    const Mesh& mesh(const program::Buffer& buffer) const {
      return bundle.programs[0].meshes[buffer.sharding.mesh.index()];
    }
    std::vector<std::int64_t> coordinates(const program::Buffer& buffer) const {
      return program::coordinates_of(mesh(buffer), Rank(rank));
    }
  };

  explicit GridRun(const RunSetup& setup) : GridRun(setup, compile_job(setup)) {}
  /// A run of programs compiled elsewhere.
  GridRun(const RunSetup& setup, program::Job job) : setup_(setup), job_(std::move(job)) {
    setup_.cpu.threads = 1;
  }

  static program::Job compile_job(const RunSetup& setup, const compile::PassOptions& passes = {}) {
    return compile_for(
        setup, setup.reference_kernels ? kernels::cpu::reference_target() : kernels::cpu::target(1),
        passes);
  }
  static program::Job compile_for(const RunSetup& setup, const machine::Target& target,
                                  const compile::PassOptions& passes = {}) {
    return setup.job(target, passes);
  }

  const program::Job& job() const { return job_; }
  const program::Bundle& bundle() const { return job_.classes[0]; }
  std::size_t num_ranks() const { return job_.ranks.size(); }
  program::Bundle bundle_of(std::size_t rank) const { return program::bundle_of(job_, Rank(rank)); }

  /// Calls the body on every rank, each in its own thread. The first step of training that the body
  /// runs as a whole, not instruction by instruction, is then compared with the simulation of the
  /// job. `not_compared` says why a body has none, or must not be watched. What runs on another
  /// device than the CPU is not compared: while steps are recorded it works in another way.
  void run(const std::function<void(RankRun&)>& body, std::string_view not_compared = {}) {
    const bool is_compared = not_compared.empty() && !setup_.backend;
    std::optional<StepRecorders> recorders;
    if (is_compared) recorders.emplace(job_);
    comm::ThreadJob job(num_ranks());
    job.run([&](comm::World& world) {
      const program::Bundle bundle = bundle_of(world.rank().index());
      const std::unique_ptr<run::Backend> backend = make_backend(world);
      run::Executor executor(bundle, *backend);
      if (is_compared) executor.set_recorder(&(*recorders)[world.rank().index()]);
      RankRun rank{world.rank().index(), world, bundle, executor,
                   dynamic_cast<run::CpuBackend*>(backend.get())};
      body(rank);
    });
    if (!is_compared) return;
    recorded_ = recorders->runs();
    expect_like_simulated(job_, recorded_);
  }
  /// The step of the last run that was compared, by rank.
  const std::vector<trace::RecordedRun>& recorded() const { return recorded_; }

  /// What this rank holds of a tensor goes into `tensors`; ranks may call at the same time. Throws
  /// InternalError where two ranks hold different values of one element.
  void collect(RankRun& rank, const program::Buffer& buffer, const std::string& name,
               Tensors& tensors) {
    const std::vector<double> local = doubles_of(rank.executor.bytes(buffer), buffer.dtype);
    const std::lock_guard lock(mutex_);
    std::vector<double>& whole = tensors[name];
    if (whole.empty()) whole.assign(static_cast<std::size_t>(buffer.global.elements()), unset);
    for_each_element(buffer, rank.mesh(buffer), rank.coordinates(buffer),
                     [&](std::size_t i, std::size_t g) {
                       require(whole[g] == unset || whole[g] == local[i] || whole[g] != whole[g],
                               "replicas of " + name + " are equal");
                       whole[g] = local[i];
                     });
  }

  /// The digest of each tensor that a rank has a part of, by the name of its buffer.
  static std::map<std::string, std::uint64_t> digests(RankRun& rank) {
    rank.executor.run(op::ProgramKind::digest, {});
    std::map<std::string, std::uint64_t> digests;
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::digest).buffers)
      if (buffer.role == program::BufferRole::output)
        std::memcpy(&digests[buffer.name], rank.executor.bytes(buffer).data(),
                    sizeof(std::uint64_t));
    return digests;
  }

  /// Writes this rank's part of a logical tensor; padding becomes zero.
  static void scatter(RankRun& rank, const program::Buffer& buffer,
                      const std::vector<double>& whole) {
    const auto bytes = rank.executor.bytes(buffer);
    std::vector<double> local(bytes.size() / static_cast<std::size_t>(size_bytes(buffer.dtype)), 0);
    for_each_element(buffer, rank.mesh(buffer), rank.coordinates(buffer),
                     [&](std::size_t i, std::size_t g) { local[i] = whole[g]; });
    for (std::size_t i = 0; i < local.size(); ++i) {
      if (buffer.dtype == DType::f64)
        reinterpret_cast<double*>(bytes.data())[i] = local[i];
      else
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(local[i]);
    }
  }

  /// Runs one step instruction by instruction and collects every gradient as its norm is taken:
  /// complete, and not yet applied.
  op::ResultBlock step_with_gradients(RankRun& rank, run::Feeder& feeder,
                                      const op::StepBlock& block, Tensors& gradients) {
    return rank.executor.run_stepwise(
        op::ProgramKind::train, block, &feeder,
        [&](const program::Program& program, std::size_t index) {
          const auto* compute = std::get_if<program::Compute>(&program.instructions[index].what);
          if (compute == nullptr || !compute->op.is<op::SquaredNorm>()) return;
          program::for_each_piece(*compute, [&](const program::Compute& norm) {
            const program::Buffer& buffer = program.buffer(norm.slices[0].buffer);
            std::string name = buffer.name.substr(std::string("gradient/").size());
            name = name.substr(0, name.find('/'));
            collect(rank, buffer, name, gradients);
          });
        });
  }

  static std::vector<double> doubles_of(std::span<const std::byte> bytes, DType dtype) {
    std::vector<double> values(bytes.size() / static_cast<std::size_t>(size_bytes(dtype)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = dtype == DType::f64
                      ? reinterpret_cast<const double*>(bytes.data())[i]
                      : static_cast<double>(reinterpret_cast<const float*>(bytes.data())[i]);
    return values;
  }

 private:
  std::unique_ptr<run::Backend> make_backend(comm::World& world) const {
    if (setup_.backend) return setup_.backend(world);
    run::CpuOptions options = setup_.cpu;
    options.world = &world;
    return std::make_unique<run::CpuBackend>(options);
  }

  static constexpr double unset = -1.2345678e300;
  RunSetup setup_;
  program::Job job_;
  std::vector<trace::RecordedRun> recorded_;
  std::mutex mutex_;
};

}  // namespace fourfold::test
