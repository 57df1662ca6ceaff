// The program of a class as what its streams do one after another, each with its price: computed
// once a class, whatever the number of its ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/cluster.h"
#include "program/meetings.h"
#include "simulate/route.h"

namespace fourfold::simulate {

/// One instruction on its stream.
struct Item {
  enum class Kind : std::uint8_t { compute, move, collective, send, recv, record, wait } kind;
  std::uint32_t instruction = 0;
  std::uint32_t id = 0;  // of the group, the event, or the message, as in program::Stop
};

struct Track {
  std::vector<std::vector<Item>> streams;
  /// By instruction. What is computed, moved in memory or fed: seconds on a device that does
  /// nothing else. What is exchanged: bytes of the payload.
  std::vector<double> amounts;
  std::vector<ExchangeKind> exchanges;  // of each instruction; none: no collective
  /// Seconds of each computation's amount in which the device may do something else: the fixed
  /// ones, where two streams compute. 0 where one does, as there is nothing else to do.
  double launch_s = 0;
  double flops = 0;  // of all that is computed
};

/// Seconds of one computation: its flops at the rate that a product of so many reaches, or its
/// bytes at the rate of the memory, whichever is longer, and the fixed time of an instruction.
/// Errors: UserError(bad_config) where the machine has no rate for the type of a product.
double compute_s(const machine::Cluster& cluster, const program::Program& program,
                 const program::Compute& compute);

/// Requires the stops of this program. A collective of one member moves memory. Cost: linear.
/// Errors: those of compute_s.
Track make_track(const machine::Cluster& cluster, const program::Program& program,
                 const program::Stops& stops);

}  // namespace fourfold::simulate
