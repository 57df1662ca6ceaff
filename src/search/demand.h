// What a training step asks of one rank: work, what it sends, memory; counted from the shardings of
// a plan, by closed form. Nothing is lowered, placed or fused: a program's own numbers are
// program/traffic.h and the memory table of `fourfold plan`.
//
// What is sent is exact, whatever the model: every change of sharding that the ops' factor rules
// ask for (compile/insert_conversions). Work is that of rows before they are fused, memory that of
// values before their buffers are placed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compile/sharded_graph.h"
#include "plan/plan.h"

namespace fourfold::search {

/// Collectives of one kind along the same axes, for the same purpose, on tensors of one label.
struct SentKey {
  compile::Purpose purpose = compile::Purpose::activations;
  Collective kind = Collective::all_reduce;
  std::vector<AxisId> axes;
  std::string label;       // of the tensors: which part of the model made them
  bool is_at_end = false;  // once in a step, where buckets join them; else in each micro-batch
  /// Computation that does not need it goes on beside it: gathers of weights, sums of gradients,
  /// and of activations those of the backward pass, beside the gradients of weights.
  bool is_hideable = false;
  auto operator<=>(const SentKey&) const = default;
};

/// In a step. Fractions occur only on the way to numbers of other layers.
struct Sent {
  double calls = 0;
  double payload_bytes = 0;  // of the tensors, the larger side
  double sent_bytes = 0;     // by one rank of a ring
  double element_bytes = 0;  // of each element; 0: not known
};

/// One collective that changes a tensor of a rank from so many bytes into so many. Padding goes
/// along: what is gathered or scattered is as much as all members hold or get.
Sent sent_of(const compile::Conversion& conversion, const Mesh& mesh, double from_bytes,
             double to_bytes);

/// Bytes of one rank.
struct MemoryNeed {
  double parameters = 0;  // between steps
  double rounded = 0;     // their copies in the type of the computation
  double optimizer = 0;   // moments and averages
  double gradients = 0;   // where most is alive, as the next two
  double weights = 0;     // gathered for use
  double activations = 0;
  double all() const {
    return parameters + rounded + optimizer + gradients + weights + activations;
  }
};

/// A tensor of a rank, at most as alive as one of its name.
struct LargeTensor {
  std::string name;
  double bytes = 0;
};

/// What memory a stage needs for several micro-batches under way. Bytes of a rank.
struct InFlight {
  double kept = 0;  // of one that awaits its backward pass
  /// What is there for other micro-batches: what is received ahead, and what stays while it is
  /// sent.
  double passing = 0;
  /// What one micro-batch under way does within the memory that it kept and has done with. Of
  /// several, others keep something there.
  double apart = 0;
  double apart_room = 0;  // what more is alive with room, beside what is kept
};

struct Demand {
  std::map<SentKey, Sent> sent;
  std::map<double, double> products;  // by flops of one: how many; cores too
  double other_bytes = 0;             // read and written by all other rows
  double instructions = 0;            // rows and collectives
  double update_bytes = 0;            // of the other bytes those of the update, once in a step
  double update_instructions = 0;     // likewise
  double micros = 1;                  // micro-batches of the step
  MemoryNeed memory;                  // with one micro-batch under way
  /// What more is alive where there is room for what runs beside computation: weights that are
  /// gathered ahead, memory that stays while it is sent.
  double room_bytes = 0;
  InFlight in_flight;
  std::vector<LargeTensor> largest;  // of those alive where most is, the largest first
};

/// The demand of a training graph on its mesh of a plan, for all micro-batches of a step. What goes
/// to other meshes is counted in memory alone (its time: transfer_forms.h).
/// Cost: linear in the nodes of the graph.
Demand demand_of(const graph::Graph& train, const plan::Plan& plan);

/// The demand of a stage with so many of its micro-batches under way, instead of one.
Demand with_in_flight(Demand demand, std::int64_t in_flight, std::int64_t micros);

/// a + times (b - a), each number apart: the demand of a model of more layers than `a`, where `b`
/// has as many more as `a` has. Tensors, and the
/// room beside computation, are those of `b`.
Demand extrapolated(const Demand& a, const Demand& b, double times);

/// base + times (b - a), each number apart; tensors, and the room beside computation, are those of
/// `base`.
Demand with_difference(const Demand& base, const Demand& a, const Demand& b, double times);

}  // namespace fourfold::search
