#include "show/plan_report.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "compile/compile.h"
#include "compile/insert_waits.h"
#include "compile/place_buffers.h"
#include "pipeline/order.h"
#include "program/traffic.h"
#include "show/memory_classes.h"

namespace fourfold::show {
namespace {

using program::Program;

// --- parameters

std::string shape_words(const Shape& shape) {
  std::string text;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    text += format("{}{}", dim == 0 ? "" : "x", shape[dim]);
  return text;
}

/// How the first op that reads a parameter in the forward pass sees it.
const op::Sharding& sharding_in_use(const graph::Graph& train,
                                    const plan::GraphShardings& shardings, graph::ValueId id) {
  for (std::size_t node = 0; node < train.nodes.size(); ++node) {
    const auto& reads = train.nodes[node].reads;
    const auto place = std::find(reads.begin(), reads.end(), id);
    if (place != reads.end())
      return shardings.nodes[node].reads[static_cast<std::size_t>(place - reads.begin())];
  }
  return shardings.values[id.index()];
}

// --- memory

std::string memory_line(std::string_view label, std::int64_t bytes, int indent) {
  return format("{:{}}{:<{}} {:>10}\n", "", indent, label, 28 - indent, format_bytes(bytes));
}

std::string place_of(const Program& program, std::size_t instruction) {
  for (const program::Task& task : program.tasks)
    if (instruction >= task.begin && instruction < task.end)
      return std::string(to_string(task.kind)) +
             (task.micro ? format(" of micro-batch {}", *task.micro) : std::string());
  fail_internal("tasks cover all instructions");
}

/// How many forward tasks of an order await the task that needs what they keep last, at most.
std::int64_t most_in_flight(const pipeline::Order& order, pipeline::TaskKind last) {
  std::int64_t now = 0, most = 0;
  for (const pipeline::Task& task : order) {
    if (task.kind == pipeline::TaskKind::forward) most = std::max(most, ++now);
    if (task.kind == last) --now;
  }
  return most;
}

/// A line for each mesh of a pipeline: its stages and their blocks, its ranks and parameters, how
/// many micro-batches of its stages are in flight at most, and what one of its ranks needs.
std::string stage_table(const job::Job& job) {
  const auto line = [](std::string_view stage, std::string_view layers, std::string_view ranks,
                       std::string_view parameters, std::string_view in_flight,
                       std::string_view memory) {
    return format("{:<9} {:>8} {:>8} {:>12} {:>10} {:>12}\n", stage, layers, ranks, parameters,
                  in_flight, memory);
  };
  const plan::Plan plan = plan::with_fit(job.plan, job.fit);
  const std::size_t meshes = plan.meshes.size();
  const bool is_shared = job.plan.num_stages() > meshes;
  std::string text =
      line(is_shared ? "stages" : "stage", "blocks", "ranks", "parameters", "in flight", "memory");
  for (std::size_t number = 0; number < meshes; ++number) {
    const Mesh& mesh = plan.meshes[number];
    std::vector<std::string> stages, blocks;
    for (std::size_t stage = number; stage < job.plan.num_stages(); stage += meshes) {
      stages.push_back(format("{}", stage));
      blocks.push_back(format("{}", job.plan.layers[stage]));
    }
    double parameters = 0;
    for (const graph::Value& value : job.graphs.at(op::ProgramKind::train, MeshId(number)).values)
      if (value.role == graph::ValueRole::parameter)
        parameters += static_cast<double>(value.shape.elements());
    const bool has_weight_tasks =
        job.plan.schedule.weight_delay.kind != pipeline::WeightDelay::Kind::none;
    const std::int64_t in_flight =
        most_in_flight(plan.orders[number], has_weight_tasks ? pipeline::TaskKind::weight_backward
                                                             : pipeline::TaskKind::backward);
    const program::Bundle& bundle =
        job::bundle_of(job, static_cast<std::int64_t>(mesh.ranks.front().index()));
    text += line(join(stages, ", "), join(blocks, " + "),
                 format_grouped(static_cast<std::int64_t>(mesh.ranks.size())),
                 format_count(parameters), format("{}", in_flight),
                 format_bytes(bundle.persistent_bytes + bundle.transient_bytes +
                              job::checkpoint_copy_bytes(job)));
  }
  return text;
}

// --- traffic

/// Totals of one axis stand before its lines. A collective of several tensors is counted with the
/// first one; the others have joined it.
std::string traffic_line(std::string_view axis, std::string_view kind, std::string_view tensor,
                         std::int64_t calls, std::int64_t payload_bytes, double sent_bytes) {
  return format("{:<6} {:<15} {:<10} {:>9} {:>12} {:>12}\n", axis, kind, tensor,
                calls > 0 ? format_grouped(calls) : "joined", format_bytes(payload_bytes),
                format_bytes(static_cast<std::int64_t>(sent_bytes)));
}

struct Totals {
  std::int64_t calls = 0, payload_bytes = 0;
  double sent_bytes = 0;

  void add(const program::Traffic& entry) {
    calls += entry.calls;
    payload_bytes += entry.payload_bytes;
    sent_bytes += entry.sent_bytes;
  }
};

}  // namespace

std::string parameter_table(const job::Job& job) {
  const graph::Graph& train = job.graphs.at(op::ProgramKind::train);
  const plan::GraphShardings& shardings = job.plan.of(op::ProgramKind::train);
  const auto line = [](std::string_view name, std::string_view whole, std::string_view rest,
                       std::string_view used) {
    return format("{:<24} {:<17} {:<17} {}\n", name, whole, rest, used);
  };
  std::string text = line("parameters of a rank", "whole", "at rest", "in use");
  for (std::size_t i = 0; i < train.values.size(); ++i) {
    const graph::Value& value = train.values[i];
    constexpr std::string_view layer = "blocks.", first = "blocks.0.";
    if (value.role != graph::ValueRole::parameter) continue;
    if (value.name.starts_with(layer) && !value.name.starts_with(first)) continue;
    const auto local = [&](const op::Sharding& sharding) {
      return shape_words(
          op::local_shape(value.shape, sharding, job.plan.meshes[sharding.mesh.index()]));
    };
    const bool is_of_layer = value.name.starts_with(first) && job.graphs.num_layers > 1;
    text += line(is_of_layer ? format("blocks.*.{}", value.name.substr(first.size())) : value.name,
                 shape_words(value.shape), local(shardings.values[i]),
                 local(sharding_in_use(train, shardings, graph::ValueId(i))));
  }
  return text;
}

std::string memory_table(const job::Job& job) {
  const RankMemory memory = rank_memory(job);
  std::string text = memory_line("memory of a rank",
                                 job.bundle().persistent_bytes + job.bundle().transient_bytes +
                                     job::checkpoint_copy_bytes(job),
                                 0);
  for (const MemoryClass& entry : memory.persistent)
    text += memory_line(entry.name, entry.bytes, 2);
  text += format("{:<28} {:>10}  most in {}\n", "  transient",
                 format_bytes(job.bundle().transient_bytes),
                 place_of(job.bundle().at(op::ProgramKind::train), memory.fullest_instruction));
  for (const MemoryClass& entry : memory.transient) text += memory_line(entry.name, entry.bytes, 4);
  for (const MemoryClass& entry : memory.beside) text += memory_line(entry.name, entry.bytes, 2);
  if (job.plan.meshes.size() > 1) text += "\n" + stage_table(job);
  return text;
}

std::string switch_table(job::Job job) {
  const std::int64_t beside_bytes = job::checkpoint_copy_bytes(job);
  job.programs = {};  // those with a switch have the memory
  /// What differs in the plan, and in what was chosen of it.
  struct Side {
    plan::Overlap overlap;
    plan::Fit fit;
  };
  struct Switch {
    std::string_view name;
    Side off, on;
  };
  Side as_it_is{job.plan.overlap, job.fit};
  as_it_is.fit.memory_limit.reset();
  const auto overlapping = [&](const auto member, const auto value) {
    Side side = as_it_is;
    side.overlap.*member = value;
    return side;
  };
  const auto repeating = [&](const plan::Checkpointing& checkpointing) {
    Side side = as_it_is;
    side.fit.checkpointing.assign(job.plan.meshes.size(), checkpointing);
    return side;
  };
  const auto caching = [&](std::int64_t layers) {
    Side side = as_it_is;
    side.fit.cached_gathers = layers;
    return side;
  };
  using plan::Overlap;
  using enum plan::WeightGradients;
  std::vector<Switch> switches = {
      {"gathers ahead", overlapping(&Overlap::all_gather, false),
       overlapping(&Overlap::all_gather, true)},
      {"sums beside computation", overlapping(&Overlap::reduce_scatter, false),
       overlapping(&Overlap::reduce_scatter, true)},
      {"cached gathers", caching(0), caching(job.graphs.num_layers)},
      {"selective checkpointing", repeating({}), repeating({.layers = 1, .keeps_products = true})},
      {"full checkpointing", repeating({}), repeating({.layers = 1})},
  };
  if (job.target.compute_streams > 1 || job.plan.overlap.weight_gradients == beside)
    switches.push_back({"weight gradients beside", overlapping(&Overlap::weight_gradients, in_turn),
                        overlapping(&Overlap::weight_gradients, beside)});
  // A third micro-batch uses the memory of the second.
  constexpr std::int64_t enough_micros = 2;
  const auto bytes_with = [&](const Side& side) {
    plan::Plan plan = plan::with_fit(job.plan, side.fit);
    plan.memory_limit.reset();
    plan.overlap = side.overlap;
    if (plan.meshes.size() == 1)
      plan.orders = {pipeline::order_of(pipeline::Schedule::one_f_one_b, {},
                                        std::min(plan.batching.accumulation, enough_micros))};
    const program::Job made =
        compile::compile(job.graphs, plan, job.target, {.only = op::ProgramKind::train});
    return made.classes[0].persistent_bytes + made.classes[0].transient_bytes + beside_bytes;
  };
  const auto line = [](std::string_view name, std::string_view off, std::string_view on) {
    return format("{:<28} {:>10} {:>12}\n", name, off, on);
  };
  std::string lines;
  for (const Switch& one : switches) {
    const std::int64_t off = bytes_with(one.off), on = bytes_with(one.on);
    if (off != on) lines += line(format("  {}", one.name), format_bytes(off), format_bytes(on));
  }
  if (!lines.empty()) lines = line("memory with a switch", "off", "on") + lines;
  return lines;
}

std::string traffic_table(const job::Job& job) {
  const std::vector<program::Traffic> entries =
      program::traffic(job.bundle().at(op::ProgramKind::train));
  if (entries.empty()) return "sent in a step           nothing: one rank\n";
  std::string lines;
  Totals all;
  for (std::size_t begin = 0; begin < entries.size();) {
    std::size_t end = begin;
    Totals totals;
    for (; end < entries.size() && entries[end].axis == entries[begin].axis; ++end)
      totals.add(entries[end]);
    lines += traffic_line(entries[begin].axis, "all", "", totals.calls, totals.payload_bytes,
                          totals.sent_bytes);
    for (std::size_t i = begin; i < end; ++i) {
      const program::Traffic& entry = entries[i];
      all.add(entry);
      const bool is_same_kind = i > begin && entries[i - 1].kind == entry.kind;
      lines += traffic_line("", is_same_kind ? "" : entry.kind,
                            entry.label.empty() ? "other" : entry.label, entry.calls,
                            entry.payload_bytes, entry.sent_bytes);
    }
    begin = end;
  }
  return format("{:<6} {:<15} {:<10} {:>9} {:>12} {:>12}\n", "axis", "collective", "tensors",
                "calls", "tensor bytes", "sent bytes") +
         lines + traffic_line("step", "all", "", all.calls, all.payload_bytes, all.sent_bytes);
}

std::string program_table(const job::Job& job) {
  std::string text = format("{:<11} {:>12} {:>12} {:>15} {:>12}\n", "program", "instructions",
                            "transient", "least possible", "flops");
  for (const Program& p : job.bundle().programs)
    text +=
        format("{:<11} {:>12} {:>12} {:>15} {:>12}\n", op::to_string(p.kind), p.instructions.size(),
               format_bytes(p.transient_bytes), format_bytes(compile::live_bytes_bound(p)),
               format_count(program::total_flops(p)));
  const compile::WaitCount waits = compile::count_waits(job.bundle().at(op::ProgramKind::train));
  if (waits.all > 0)
    text += format("train waits {} time{} between streams, {} of them for memory alone\n",
                   waits.all, waits.all == 1 ? "" : "s", waits.for_memory);
  return text;
}

}  // namespace fourfold::show
