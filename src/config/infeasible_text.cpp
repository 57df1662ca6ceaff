#include "config/infeasible_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "config/family.h"
#include "plan/make_mesh.h"

namespace fourfold::config {
namespace {

/// The greatest divisor of `number` that is at most `limit`.
std::int64_t divisor_below(std::int64_t number, std::int64_t limit) {
  for (std::int64_t candidate = std::min(number, limit); candidate > 1; --candidate)
    if (number % candidate == 0) return candidate;
  return 1;
}

std::string joined(const std::vector<std::int64_t>& numbers, std::string_view separator) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += format("{}{}", text.empty() ? "" : separator, number);
  return text;
}

struct Words {
  model::Kind kind;

  InfeasibleText operator()(const plan::ForbiddenAxis& problem) const {
    return {{"parallel.strategy", "parallel.tensor." + problem.axis},
            format("parallel.strategy = {} has parallel.tensor.{} = 1, not {}; set that, or "
                   "parallel.strategy = axonn",
                   plan::to_string(problem.strategy), problem.axis, problem.ranks)};
  }

  InfeasibleText operator()(const plan::UnevenJob& problem) const {
    const plan::Grid& grid = problem.grid;
    const std::int64_t tensor = grid.x * grid.y * grid.z, ranks = problem.ranks;
    if (problem.stages > 1) return of_stages(problem);
    if (problem.has_open_data)
      return {
          {"parallel.tensor"},
          format("parallel.tensor x {} y {} z {} uses {} ranks at a time, which does not divide "
                 "the {} ranks of the job; start a multiple of {}",
                 grid.x, grid.y, grid.z, tensor, ranks, tensor)};
    return {
        {"parallel.tensor", "parallel.data"},
        format("the grid x {} y {} z {} data {} has {} ranks, the job {}; start {} ranks, or set "
               "parallel.data = {}",
               grid.x, grid.y, grid.z, grid.data, plan::num_ranks(grid), ranks,
               plan::num_ranks(grid),
               ranks % tensor == 0 ? format("{}", ranks / tensor)
                                   : std::string("auto and another parallel.tensor"))};
  }

  static InfeasibleText of_stages(const plan::UnevenJob& problem) {
    const plan::Grid& grid = problem.grid;
    const std::int64_t of_mesh = grid.x * grid.y * grid.z * grid.data,
                       of_all = of_mesh * problem.stages / problem.stages_per_mesh;
    if (problem.has_open_data)
      return {{"parallel.pipeline.stages", "parallel.tensor"},
              format("parallel.pipeline.stages = {}{} of parallel.tensor x {} y {} z {} use {} "
                     "ranks at a time, which does not divide the {} ranks of the job; start a "
                     "multiple of {}",
                     problem.stages, per_mesh(problem.stages_per_mesh), grid.x, grid.y, grid.z,
                     of_all, problem.ranks, of_all)};
    return {{"parallel.pipeline.stages", "parallel.tensor", "parallel.data"},
            format("parallel.pipeline.stages = {}{} of the grid x {} y {} z {} data {} have {} "
                   "ranks, the job {}; start {} ranks, or set parallel.data = auto",
                   problem.stages, per_mesh(problem.stages_per_mesh), grid.x, grid.y, grid.z,
                   grid.data, of_all, problem.ranks, of_all)};
  }

  static std::string per_mesh(std::int64_t stages) {
    return stages == 1 ? std::string() : format(", {} per mesh,", stages);
  }

  InfeasibleText operator()(const plan::UnevenStages& problem) const {
    return {{"parallel.pipeline.stages", "parallel.pipeline.stages_per_mesh"},
            format("parallel.pipeline.stages = {} is not divisible by "
                   "parallel.pipeline.stages_per_mesh = {}; set parallel.pipeline.stages = {}",
                   problem.stages, problem.stages_per_mesh,
                   (problem.stages / problem.stages_per_mesh + 1) * problem.stages_per_mesh)};
  }

  InfeasibleText operator()(const plan::UnevenMeshes& problem) const {
    const std::int64_t wanted = problem.stages / problem.stages_per_mesh;
    if (problem.meshes != wanted)
      return {
          {"parallel.pipeline.meshes", "parallel.pipeline.stages"},
          format("parallel.pipeline.meshes has {}, for parallel.pipeline.stages = {}{}; write "
                 "{}",
                 counted(problem.meshes, "grid"), problem.stages,
                 problem.stages_per_mesh == 1 ? std::string()
                                              : format(", {} per mesh", problem.stages_per_mesh),
                 problem.stages_per_mesh == 1 ? "one for each stage" : format("{}", wanted))};
    return {{"parallel.pipeline.meshes"},
            format("parallel.pipeline.meshes have {} ranks together, the job {}; start {} ranks",
                   problem.ranks_of_meshes, problem.ranks.value_or(0), problem.ranks_of_meshes)};
  }

  InfeasibleText operator()(const plan::UnevenLayers& problem) const {
    if (problem.stages > problem.layers)
      return {{"parallel.pipeline.stages"},
              format("the model has {}, which cannot be cut into parallel.pipeline.stages = {}; "
                     "set at most {}",
                     counted(problem.layers, "block"), problem.stages, problem.layers)};
    return {{"parallel.pipeline.blocks"},
            format("parallel.pipeline.blocks = [{}] are not {} numbers above 0 that add up to the "
                   "{} of the model; write [{}], or leave it out",
                   joined(problem.given, ", "), problem.stages, counted(problem.layers, "block"),
                   joined(divided(problem.layers, problem.stages), ", "))};
  }

  /// As evenly as can be.
  static std::vector<std::int64_t> divided(std::int64_t whole, std::int64_t shares) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < shares; ++i)
      result.push_back(whole * (i + 1) / shares - whole * i / shares);
    return result;
  }

  InfeasibleText operator()(const plan::UnevenBatch& problem) const {
    const std::int64_t whole = problem.global_batch, replicas = problem.replicas();
    if (replicas == 1)
      return {{"train.global_batch_size", "train.micro_batch_size"},
              format("train.global_batch_size = {} is not a multiple of train.micro_batch_size = "
                     "{}; set train.micro_batch_size = {}",
                     whole, problem.micro_batch, divisor_below(whole, problem.micro_batch))};
    const std::int64_t at_once = problem.micro_batch * replicas;
    const std::string ways =
        whole % replicas == 0
            ? format("set train.micro_batch_size = {}",
                     divisor_below(whole / replicas, problem.micro_batch))
            : format("set train.global_batch_size = {}", (whole + at_once - 1) / at_once * at_once);
    return {
        {"train.global_batch_size", "train.micro_batch_size", "parallel.data", "parallel.tensor.z"},
        format("train.global_batch_size = {} is not a multiple of the {} samples that all ranks "
               "process at once: train.micro_batch_size = {} x parallel.data = {} x "
               "parallel.tensor.z = {}; {}",
               whole, at_once, problem.micro_batch, problem.data, problem.z, ways)};
  }

  InfeasibleText operator()(const plan::UnevenChunks& problem) const {
    return {{"parallel.chunks", "train.micro_batch_size"},
            format("the {} that a rank processes at once cannot be divided into parallel.chunks = "
                   "{}; set parallel.chunks = {}",
                   counted(problem.micro_batch, "sample"), problem.chunks,
                   problem.micro_batch % 2 == 0 ? 2 : 1)};
  }

  InfeasibleText operator()(const plan::ChunkedStages& problem) const {
    return {{"parallel.chunks"},
            format("the stages of a pipeline hand over whole micro-batches, and have no "
                   "parallel.chunks = {}; set parallel.chunks = 1",
                   problem.chunks)};
  }

  InfeasibleText operator()(const plan::Indivisible& problem) const {
    const std::string key = "parallel.tensor." + problem.axis;
    const bool is_rows = problem.side == plan::Indivisible::Side::rows;
    const std::string size_key = family_schema(kind).size_key(problem.tensor, is_rows);
    return {{key, size_key},
            format("{} = {} does not divide the {} {} of {} that a rank would hold (see {}); "
                   "degrees that do: {}",
                   key, problem.ranks, joined(problem.sizes, " x "), is_rows ? "rows" : "columns",
                   problem.tensor, size_key, joined(problem.degrees, ", "))};
  }

  InfeasibleText operator()(const plan::BrokenRule& problem) const {
    return {
        {},
        format("{} in graph {}: {}", problem.op, op::to_string(problem.graph), problem.problem)};
  }

  InfeasibleText operator()(const plan::UnevenStage& problem) const {
    return {{"train.micro_batch_size"},
            format("stage {} cannot divide micro-batches of {} samples among {} ranks; choose a "
                   "multiple of {}",
                   problem.stage, problem.samples, problem.replicas, problem.replicas)};
  }

  InfeasibleText operator()(const plan::RefusedSchedule& problem) const {
    return {{"parallel.pipeline.schedule"}, pipeline::to_text(problem.refusal)};
  }

  InfeasibleText operator()(const plan::PaddedTransfer& problem) const {
    const std::string& key = family_schema(kind).labels_key;
    return {
        {key},
        format("several stages use {}, whose {} rows leave one of {} ranks of a stage without any; "
               "set {} = {}, or parallel.tensor to fewer ranks",
               problem.tensor, problem.rows, problem.ranks, key,
               (problem.rows + problem.ranks - 1) / problem.ranks * problem.ranks)};
  }

  InfeasibleText operator()(const plan::BadPin& problem) const {
    return {{"parallel.pin"}, pin_text(problem)};
  }

  InfeasibleText operator()(const plan::BadLayout& problem) const {
    std::string text;
    for (const Diagnostic& fault : problem.faults)
      text += format("{}{}", text.empty() ? "" : "\n", print(fault));
    return {{"parallel.layout"}, text};
  }

 private:
  static std::string pin_text(const plan::BadPin& problem) {
    using Why = plan::BadPin::Why;
    const std::string pin = format("parallel.pin {}: {}", problem.pattern, problem.sharding);
    switch (problem.why) {
      case Why::unused:
        return format("parallel.pin {}: no parameter and no activation has such a name; {}",
                      problem.pattern, name_advice(problem));
      case Why::dims:
        return format("{} is not of the dims {} of {}; write a size or '*' for each of them", pin,
                      joined(problem.shape, " x "), problem.tensor);
      case Why::indivisible:
        return format(
            "{} cuts {} of {} among {} ranks, which do not divide it; degrees that do: {}", pin,
            problem.size, problem.tensor, problem.ranks, joined(problem.degrees, ", "));
      case Why::other_pin:
        return format("{} says otherwise of {} than {}; narrow one of the two patterns", pin,
                      problem.tensor, problem.other);
      case Why::graph:
        return format("{} cannot be obeyed ({}); parallel.strategy has {} as {}", pin,
                      problem.other, problem.tensor, problem.instead);
      case Why::whole:
        return format(
            "{}, and every rank has all of {} ({}); write how it is cut, or set "
            "parallel.strategy = auto where an axis divides it",
            pin, problem.tensor, joined(problem.shape, " x "));
    }
    fail_internal("every fault of a pin has its words");
  }

  /// A name that is meant, or some that there are.
  static std::string name_advice(const plan::BadPin& problem) {
    if (const auto meant = nearest(problem.pattern, problem.names))
      return format("did you mean {}?", *meant);
    constexpr std::size_t shown = 4;
    std::vector<std::string> names = problem.names;
    names.resize(std::min(names.size(), shown));
    return format("there are {}{}", join(names, ", "),
                  problem.names.size() > shown ? format(" and {} more; `fourfold plan` lists all",
                                                        problem.names.size() - shown)
                                               : "");
  }
};

}  // namespace

InfeasibleText in_words(const plan::Problem& problem, model::Kind kind) {
  return std::visit(Words{kind}, problem);
}

}  // namespace fourfold::config
