// A cluster as a value: its devices, what they compute, and the links between them. Not a program's
// target (target.h), nor the file that describes a cluster (cluster_file.h).
//
// Links form a tree. Devices are the leaves; a level joins `units` of the level below into one unit
// of its own. A message between two devices meets at the lowest level that has both in one unit. It
// passes the port of each unit on its way up and down, and has at most the link of the level where
// it meets. Messages under way at the same time share ports equally.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective.h"
#include "base/dtype.h"

namespace fourfold::machine {

/// Which share of its peak a device reaches in a product of so many flops.
struct EfficiencyPoint {
  double flops = 0;  // 2 m n k
  double share = 0;  // above 0, at most 1
  bool operator==(const EfficiencyPoint&) const = default;
};

/// How fast a device multiplies matrices of one element type.
struct ComputeRate {
  DType dtype = DType::f32;
  double flops_per_s = 0;                   // the peak, of one device
  std::vector<EfficiencyPoint> efficiency;  // flops grow; none: the peak at every size
  bool operator==(const ComputeRate&) const = default;
};

/// What a product of so many flops reaches, in flops a second: shares between two points are read
/// on a line over log(flops), outside them as at the nearest point.
double product_flops_per_s(const ComputeRate& rate, double flops);

/// A call of a kernel as it was measured, without the fixed time of an instruction.
struct KernelTime {
  double bytes = 0;  // that it moves, as op::traffic_bytes counts
  double flops = 0;  // as op::flops counts; 0: none
  double seconds = 0;
  bool operator==(const KernelTime&) const = default;
};

/// The calls of one operation that were measured. They say how much longer (or shorter, where
/// operands stay in a cache) it takes than the device's rates tell; between two calls that factor
/// lies on a line over log(bytes), outside them it is that of the nearest.
struct MeasuredKernel {
  std::string op;  // as programs print it: "contract"
  DType dtype = DType::f32;
  std::vector<KernelTime> times;  // at least one; bytes grow
  bool operator==(const MeasuredKernel&) const = default;
};

struct Device {
  std::string name;
  double memory_bytes = 0;
  double memory_bytes_per_s = 0;   // reads and writes together
  double memory_share = 1;         // of memory_bytes_per_s that element-wise rows reach
  std::vector<ComputeRate> rates;  // one a type
  double instruction_s = 0;        // the fixed time of an instruction, such as a kernel's launch
  double handoff_s = 0;            // until a stream goes on that an event of another one held
  double slowdown_beside_communication = 1;  // of compute while the device communicates; >= 1
  std::vector<MeasuredKernel> kernels = {};  // one an operation and type
  std::vector<std::string> unmeasured =
      {};  // operations of which the file says: no call was measured
  bool operator==(const Device&) const = default;
};

/// The rate of a type; none: the file says nothing of it.
const ComputeRate* rate_of(const Device& device, DType dtype);

/// What element-wise rows take to move so many bytes.
double memory_s(const Device& device, double bytes);
/// How many times as long as its rates say the device takes for a call of the kernel.
double kernel_factor(const Device& device, const MeasuredKernel& kernel, double bytes);
/// What a call takes, without the fixed time of an instruction: its flops at the rate of a product
/// of so many (of a type without a rate none count) or its bytes, whichever is longer, times the
/// factor that calls of its operation were measured to have.
double kernel_s(const Device& device, std::string_view op, DType dtype, double flops, double bytes);

/// One level of links. A unit is what the level below makes: a device at the first level, a host at
/// the level that joins hosts. Rates are in one direction, while the other one is as busy.
struct Level {
  std::string name;              // "nvlink", "host", "network"
  std::int64_t units = 1;        // how many of the level below are joined
  double latency_s = 0;          // of a message between two devices that meet here
  double link_bytes_per_s = 0;   // between one pair of devices that meet here
  double port_bytes_per_s = 0;   // what one unit sends at once to all others: its NICs together
  double group_bytes_per_s = 0;  // what each unit has in a collective over all units, as ATP's
                                 // GroupBW counts it; 0: as much as the port
  /// Between units, all their devices together: [i][j] is what i sends to j, symmetric, 0 where
  /// there is no link and messages pass through other units. Empty: every two units are joined, by
  /// links of all of their devices.
  std::vector<std::vector<double>> pairs;
  double share = 1;  // of all these rates that programs reach; above 0, at most 1

  /// What programs reach of one of these rates.
  double reached(double bytes_per_s) const { return share * bytes_per_s; }
  bool operator==(const Level&) const = default;
};

struct MeasuredTime {
  double bytes = 0, seconds = 0;
  bool operator==(const MeasuredTime&) const = default;
};

/// A collective as it was measured; it overrides what follows from the levels. Its time is
/// latency_s + bytes / bytes_per_s or, where `times` has some, what they say: libraries change
/// their algorithm with the size, and links let a little pass at once, which no line knows. `bytes`
/// has the size of the whole tensor: what is reduced, what is gathered, what all members of a
/// reduce_scatter get together, what a member of an all_to_all sends, a message.
struct MeasuredGroup {
  ExchangeKind kind;
  std::int64_t ranks = 2;   // members
  std::int64_t stride = 1;  // between the numbers of two neighbours
  double latency_s = 0;
  double bytes_per_s = 0;
  std::vector<MeasuredTime> times = {};  // the smallest first
  bool operator==(const MeasuredGroup&) const = default;

  /// Between two times the logarithms lie on a line; beyond the last one the rate goes on.
  double seconds(double bytes) const;
};

/// The names of the kinds that an entry may have.
const std::vector<std::string>& measured_kinds();

struct Cluster {
  std::string name;   // of the file: "perlmutter-40gb"
  std::string title;  // one line for people
  Device device;
  std::vector<Level> levels;  // innermost first; none: one device
  /// So many ranks have one device: they share its rates, memory and links equally, and messages
  /// between them cost what they do at the first level.
  std::int64_t ranks_per_device = 1;
  std::vector<MeasuredGroup> groups;
  /// So many of the innermost levels lie within a node, which is what a launcher counts: 0 where a
  /// device is one; none: the file says nothing of nodes.
  std::optional<std::size_t> levels_of_node;
  /// An element takes at least so many bytes on its way in a collective, as where a library adds up
  /// narrow types in a wider one; 0: what it takes in memory.
  double least_element_bytes = 0;
  /// What all ranks together write to the file system; 0: the file says nothing of it.
  double file_system_bytes_per_s = 0;

  /// How many times as many bytes a collective sends as its tensor of such elements has.
  double widened(double element_bytes) const {
    return element_bytes > 0 && element_bytes < least_element_bytes
               ? least_element_bytes / element_bytes
               : 1;
  }
  std::int64_t devices() const;  // the product of the units of all levels
  std::int64_t ranks() const { return devices() * ranks_per_device; }
  /// How many ranks a node has; none where the file says nothing of nodes.
  std::optional<std::int64_t> ranks_of_node() const;
  /// The number of devices in one unit that `level` joins: 1 at the first level.
  std::int64_t devices_below(std::size_t level) const;
  /// The lowest level with both devices in one of its units; none for a device and itself.
  std::optional<std::size_t> meeting_level(std::int64_t a, std::int64_t b) const;
  /// The rate of one message from device `a` to device `b` with nothing else under way: the link
  /// where they meet, or the narrowest port on the way. Requires two devices.
  double pair_bytes_per_s(std::int64_t a, std::int64_t b) const;
  /// The measured entry of such a group; nullptr where there is none.
  const MeasuredGroup* measured(ExchangeKind kind, std::int64_t ranks, std::int64_t stride) const;
  /// The same or, where there is none and all links of a level are alike, that of a group of
  /// another stride whose members lie in as many units of every level: the same links carry it, as
  /// many at a time.
  const MeasuredGroup* measured_alike(ExchangeKind kind, std::int64_t ranks,
                                      std::int64_t stride) const;
  bool operator==(const Cluster&) const = default;
};

/// Errors: UserError(does_not_fit) where the cluster has fewer ranks.
void require_ranks(const Cluster& cluster, std::int64_t ranks);
/// The rate of its device for a type. Errors: UserError(bad_config) where the file says nothing of
/// it.
const ComputeRate& required_rate(const Cluster& cluster, DType dtype);

}  // namespace fourfold::machine
