#include "show/summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "kernels/cpu/libraries.h"
#include "measure/cuda_parts.h"
#include "model/model.h"
#include "show/convolution_kernels.h"
#include "show/memory_classes.h"

namespace fourfold::show {
namespace {

void add_model(const config::Config& config, Rows& rows) {
  const model::Spec model = config.model();
  const auto counts = model::count_parameters(model);
  std::int64_t total = 0;
  std::string list;
  for (const auto& [name, parameters] : counts) {
    total += parameters;
    list += format("{}{} {}", list.empty() ? "" : ", ", name,
                   format_count(static_cast<double>(parameters)));
  }
  rows.push_back({"model", model::describe(model)});
  rows.push_back({"parameters", format("{} = {}", format_grouped(total), list)});
}

/// "x 2 * y 1 * z 2 * data 16".
std::string sizes_of(const Mesh& mesh) {
  std::string sizes;
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis)
    sizes += format("{}{} {}", sizes.empty() ? "" : " * ", axis->name, axis->size);
  return sizes;
}

/// "64 ranks = x 2 * y 1 * z 2 * data 16, axonn"; of stages that are alike "8 ranks = 2 stages of
/// ...", or "4 stages on 2 meshes of ..."; else one mesh after another.
Row grid_row(const job::Job& job) {
  if (job.ranks() == 1) return {"grid", "1 rank"};
  const config::Config& config = job.settled.config();
  const std::vector<Mesh>& meshes = job.plan.meshes;
  const bool are_alike = std::ranges::all_of(
      meshes, [&](const Mesh& mesh) { return mesh.axes == meshes.front().axes; });
  std::string grid = sizes_of(meshes.front());
  const std::size_t stages = job.plan.num_stages();
  if (stages > meshes.size() && are_alike)
    grid = format("{} stages on {} mesh{} of {}", stages, meshes.size(),
                  meshes.size() == 1 ? "" : "es", grid);
  else if (stages > 1 && are_alike)
    grid = format("{} stages of {}", stages, grid);
  for (std::size_t stage = 1; !are_alike && stage < meshes.size(); ++stage)
    grid += format(" + {}", sizes_of(meshes[stage]));
  return {"grid", format("{} ranks = {}, {}{}{}", format_grouped(job.ranks()), grid,
                         config.layout.empty() ? std::string(to_string(config.plan.strategy))
                                               : "layout " + config.layout,
                         config.plan.shard_sequence ? ", sequence on x" : "",
                         config.plan.shard_states ? ", optimizer state on data" : "")};
}

/// "1f1b; 3 + 3 blocks".
Row pipeline_row(const job::Job& job) {
  std::string layers;
  for (const std::int64_t number : job.plan.layers)
    layers += format("{}{}", layers.empty() ? "" : " + ", number);
  return {"pipeline",
          format("{}; {} blocks", to_string(job.settled.config().plan.pipeline.schedule), layers)};
}

/// "2048 = 4 micro x 16 accumulation x 32 data".
Row batch_row(const job::Job& job) {
  const plan::Batching& b = job.plan.batching;
  const plan::Grid& grid = job.settled.config().plan.grid;
  std::string replicas;
  if (grid.z > 1) replicas += format(" x {} z", grid.z);
  if (b.replicas > grid.z) replicas += format(" x {} data", b.replicas / grid.z);
  const std::string batch =
      format("{} = {} micro x {} accumulation{}{}", b.global_batch, b.micro_batch, b.accumulation,
             replicas, b.chunks == 1 ? "" : format(", in {} chunks", b.chunks));
  if (job.settled.config().family().reads != model::Reads::text) return {"batch", batch};
  return {"batch", format("{}; {} tokens each, {} a step", batch, b.length,
                          format_grouped(b.global_batch * b.length))};
}

Row memory_row(const job::Job& job) {
  const RankMemory memory = rank_memory(job);
  const std::int64_t all = job.bundle().persistent_bytes + job.bundle().transient_bytes +
                           job::checkpoint_copy_bytes(job);
  std::string classes;
  for (const auto* list : {&memory.persistent, &memory.transient, &memory.beside})
    for (const MemoryClass& entry : *list) {
      // Nobody decides anything by less than a hundredth.
      if (entry.bytes * 100 < all) continue;
      classes +=
          format("{}{} {}", classes.empty() ? "" : ", ", entry.name, format_bytes(entry.bytes));
    }
  return {"memory", format("{} a rank: {}", format_bytes(all), classes)};
}

/// Who computes attention: ", attention by cudnn, attention_gradient by cudnn and own".
std::string attention_by(const program::Program& program) {
  std::map<std::string, std::set<std::string>> names;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what);
        compute != nullptr && op::work_class(compute->op) == op::WorkClass::core)
      names[std::string(op::name(compute->op))].insert(compute->implementation);
  std::string text;
  for (const auto& [op, by] : names)
    text += format(", {} by {}", op, join(std::vector<std::string>(by.begin(), by.end()), " and "));
  return text;
}

Row kernels_row(const job::Job& job) {
  const std::string uncounted = uncounted_workspace(job);
  const std::string beside = uncounted.empty() ? "" : "; " + uncounted;
  if (job.target.backend == "none") return {"kernels", "none here for this precision" + beside};
  if (job.device == job::Device::cuda)
    return {"kernels", format("cuda, {}{}{}",
                              job.settled.config().kernels == "reference" ? "our own" : "cuBLASLt",
                              attention_by(job.bundle().at(op::ProgramKind::train)), beside)};
  const bool is_slow = job.settled.config().kernels != "reference" &&
                       job.plan.compute == DType::bf16 && !kernels::cpu::has_bf16_products();
  return {"kernels",
          format("{}, {} thread{} a rank{}",
                 job.settled.config().kernels == "reference" ? "reference" : "cpu",
                 job.target.threads, job.target.threads == 1 ? "" : "s",
                 is_slow ? "; this CPU has no products in bf16, which here saves memory, not time"
                         : "")};
}

Row step_row(const job::Job& job) {
  const double model_flops = model::model_flops_per_step(
      job.settled.model(), job.plan.batching.global_batch, job.plan.batching.length);
  const program::Program& train = job.bundle().at(op::ProgramKind::train);
  return {"step", format("{} instructions, {} flops a rank; {} model flops of all",
                         train.instructions.size(), format_count(program::total_flops(train)),
                         format_count(model_flops))};
}

}  // namespace

std::string uncounted_workspace(const job::Job& job) {
  const config::Config& config = job.settled.config();
  if (config.kernels == "reference") return {};
  if (job.target.backend == "none") return "workspace of kernels, such as cuDNN's, is not counted";
  const bool is_cudnn_s =
      job.plan.compute == DType::bf16 || config.family().reads == model::Reads::pictures;
  if (job.device != job::Device::cuda || !is_cudnn_s ||
      measure::cuda_facts().state == machine::CudaState::ready)
    return {};
  const std::vector<machine::CudaLibrary> libraries = measure::cuda_libraries();
  const auto cudnn = std::ranges::find(libraries, "cuDNN", &machine::CudaLibrary::name);
  if (cudnn == libraries.end() || cudnn->built.empty()) return {};
  return "no GPU answers here: our own kernels stand for cuDNN's, whose workspace is not counted";
}

Rows summary_rows(const job::Job& job) {
  const config::Config& config = job.settled.config();
  const plan::Plan plan = plan::with_fit(job.plan, job.fit);
  const std::string checkpointing = plan.repeats_any() ? plan::checkpointing_text(plan) : "none";
  Rows rows = {{"run", format("{}: {} step{} into {}", config.name, config.train.steps,
                              config.train.steps == 1 ? "" : "s", config.dir)}};
  add_model(config, rows);
  rows.push_back(grid_row(job));
  if (!job.plan.layers.empty()) rows.push_back(pipeline_row(job));
  rows.push_back(batch_row(job));
  rows.push_back(memory_row(job));
  rows.push_back(
      {"precision",
       format("{}{}{}, activation checkpointing {}", to_string(job.plan.compute),
              config.has_wide_residual() ? " (residual stream f32)" : "",
              job.plan.rounds_gradients ? ", gradients reduced in bf16" : "", checkpointing)});
  if (const std::string alone = plan::not_overlapped(job.plan.overlap); !alone.empty())
    rows.push_back({"overlap", format("none of {}: computation waits for each", alone)});
  rows.push_back(step_row(job));
  rows.push_back(kernels_row(job));
  if (auto convolutions = convolutions_row(job)) rows.push_back(std::move(*convolutions));
  return rows;
}

}  // namespace fourfold::show
