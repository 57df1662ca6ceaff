// Jobs of a few instructions on small clusters, for closed forms. Header only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine/cluster.h"
#include "program/builder.h"
#include "program/jobs.h"
#include "simulate/simulate.h"

namespace fourfold::simulate {

constexpr double gb = 1e9, us = 1e-6;

/// So many hosts of so many devices: 1 Tflop/s and 1 TB/s each; 100 GB/s within a host, where a
/// device's port has 300 GB/s; a host's port of 20 GB/s.
inline machine::Cluster two_levels(std::int64_t hosts, std::int64_t devices) {
  machine::Cluster cluster;
  cluster.name = "small";
  cluster.device = {.name = "device",
                    .memory_bytes = 1e10,
                    .memory_bytes_per_s = 1e12,
                    .rates = {{DType::f32, 1e12, {}}}};
  cluster.levels = {{.name = "nvlink",
                     .units = devices,
                     .latency_s = 2 * us,
                     .link_bytes_per_s = 100 * gb,
                     .port_bytes_per_s = 300 * gb,
                     .pairs = {}},
                    {.name = "network",
                     .units = hosts,
                     .latency_s = 5 * us,
                     .link_bytes_per_s = 20 * gb,
                     .port_bytes_per_s = 20 * gb,
                     .pairs = {}}};
  return cluster;
}

/// Sizes of the axes, the last one varying fastest over ranks.
using Axes = std::vector<Axis>;

/// The job of one class in which each rank of a mesh does what `fill` adds to its program: streams
/// math, feed and one for each axis, with the axis' group.
inline program::Job job_on(const Axes& axes, const std::function<void(program::Builder&)>& fill) {
  std::size_t count = 1;
  for (const Axis& axis : axes) count *= static_cast<std::size_t>(axis.size);
  const Mesh mesh{"main", axes, Ranks(Rank(0), count)};
  std::vector<std::string> streams = {"math", "feed"};
  for (const Axis& axis : axes) streams.push_back(axis.name);
  program::Builder builder(op::ProgramKind::train, Rank(0), mesh, streams);
  for (const Axis& axis : axes) builder.group({axis.name});
  fill(builder);
  program::Job job;
  job.classes.push_back({{builder.finish()}, 0, 0});
  job.ranks.resize(count);
  return job;
}

/// A product of so many flops, 2 n n n, that takes far longer than its memory.
inline void add_product(program::Builder& builder, const std::string& name, std::int64_t n) {
  for (const char* operand : {".a", ".b", ".c"})
    builder.buffer(name + operand, {n, n}, {program::BufferRole::activation, DType::f32});
  const std::string a = name + ".a", b = name + ".b", c = name + ".c";
  builder.op("math", op::Contract{1, 1}, {a, b, c});
}
constexpr double product_s(std::int64_t n) {
  return 2e-12 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

/// A tensor of so many bytes, whole on every rank.
inline void add_tensor(program::Builder& builder, const std::string& name, std::int64_t bytes) {
  builder.buffer(name, {bytes / 4}, {program::BufferRole::activation, DType::f32});
}

/// When the instruction of that name ran, the `count`-th of it, on a rank that was followed.
inline Times times_of(const program::Job& job, const Simulation& simulation, std::size_t rank,
                      std::string_view name, std::size_t count = 0) {
  const SimulatedRank& of = simulation.ranks.at(rank);
  return of.times[find_instruction(job.classes[of.of_class].programs[0], name, count)];
}

}  // namespace fourfold::simulate
