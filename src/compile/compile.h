// Plan to programs. The list of passes stands in passes.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compile/passes.h"
#include "graph/graph.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/job.h"

namespace fourfold::compile {

/// The job of a plan. A bundle has a program for every graph of its mesh, over one persistent and
/// one transient region. The ranks of a mesh are one class where they send and receive the same
/// parts of their tensors; each class is compiled once.
program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target, const PassOptions& options = {});

/// The same in two steps, between which somebody may look at what is computed and choose kernels
/// for it. Graphs, plan and target outlive it.
class Compilation {
 public:
  /// Compiles nothing yet. `target`: of which no kernel counts.
  Compilation(const graph::ModelGraphs& model, const plan::Plan& plan,
              const machine::Target& target, PassOptions options = {});
  ~Compilation();
  Compilation(Compilation&&) noexcept;

  /// The programs of a kind, one of each class, before kernels are chosen. Compiles so far.
  std::vector<const program::Program*> programs(op::ProgramKind kind);

  /// The job, with the kernels of a target that differs in these alone; none where a rank of it
  /// needs more than so many bytes: that is seen before any program is complete. To be called once.
  std::optional<program::Job> finish(const machine::Target& target,
                                     std::optional<std::int64_t> most_bytes = std::nullopt);

 private:
  struct Classes;
  std::unique_ptr<Classes> classes_;
};

}  // namespace fourfold::compile
