// How the meshes of a pipeline take turns: filled by config/ and plan/, read by pipeline/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/order.h"

namespace fourfold::pipeline {

/// The gradients of weights may have tasks of their own, some backward tasks after the one that
/// they were taken out of.
struct WeightDelay {
  enum class Kind : std::uint8_t {
    none,       // they are part of the backward task
    automatic,  // as few as make the shortest step, by choose_orders
    fixed
  };
  Kind kind = Kind::none;
  std::int64_t micros = 0;  // where it is fixed
  bool operator==(const WeightDelay&) const = default;
};
/// "none", "auto" or a number.
std::string to_string(const WeightDelay& delay);
/// Nothing for any other text, and for numbers below 0.
std::optional<WeightDelay> weight_delay_from(std::string_view text);

struct ScheduleSpec {
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t stages_per_mesh = 1;  // more than one where the schedule is interleaved
  WeightDelay weight_delay = {};
  /// By mesh: the micro-batches, or stages of them, whose activations it may keep at once, as its
  /// memory says (cap_of). Empty: no mesh has a cap.
  std::vector<std::optional<std::int64_t>> caps = {};
  bool operator==(const ScheduleSpec&) const = default;
};

/// How many micro-batches in flight fit `limit_bytes`, each of `bytes` on the rank of the mesh that
/// has most. Nothing in flight fits a limit below 0; there is no cap where they need no memory.
std::optional<std::int64_t> cap_of(std::int64_t limit_bytes, std::int64_t bytes);

}  // namespace fourfold::pipeline
