// The step block and the result block: per-step scalars at fixed addresses, read and written
// through pointers. Each program instruction names single fields, so that conflicts between fields
// do not arise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace fourfold::op {

/// How many ranks say what, as one number that a sum over ranks adds up (for up to 2^20 - 1 ranks).
struct Votes {
  std::int64_t stop = 0;     // were asked to stop
  std::int64_t written = 0;  // have written their part of the checkpoint that is under way
  std::int64_t against = 0;  // found something that must not be applied
  std::int64_t save = 0;     // think that it is time for a checkpoint: rank 0 alone may
  bool operator==(const Votes&) const = default;

  static constexpr int bits = 20;
  constexpr std::int64_t packed() const {
    return stop | written << bits | against << 2 * bits | save << 3 * bits;
  }
  static constexpr Votes of(std::int64_t packed) {
    constexpr std::int64_t mask = (std::int64_t{1} << bits) - 1;
    return {packed & mask, packed >> bits & mask, packed >> 2 * bits & mask,
            packed >> 3 * bits & 1};
  }
};

/// What the host tells a program before it runs.
struct StepBlock {
  std::int64_t step = 0;          // counted from 0
  std::uint64_t seed = 0;         // of the run
  double lr = 0;                  // learning rate of this step
  std::int64_t first_sample = 0;  // global index of the step's first sample
  std::int64_t vote = 0;          // Votes of this rank's host
  std::int32_t position = 0;      // tokens already in the key/value cache
  std::int32_t index = 0;         // which position's logits are wanted
};

/// What a program tells the host.
struct ResultBlock {
  double loss_sum = 0;             // over valid tokens
  std::int64_t valid_count = 0;    // terms of that sum
  double squared_norm = 0;         // of the unscaled gradient
  std::int64_t non_finite = 0;     // elements that the update found not finite
  double grad_norm = 0;            // before clipping
  double scale = 0;                // what the update multiplied gradients with
  std::int64_t applied = 0;        // 1: the update was written
  std::int64_t votes = 0;          // Votes of all ranks, the same on all of them
  std::int64_t correct_count = 0;  // labels whose logit is the largest, where that is counted
};

struct BlockField {
  std::string_view name;  // "step.lr", "result.applied"
  std::size_t offset_bytes;
  DType dtype;
  bool is_own_of_each_rank = false;  // a term of the sum over all of them; others are the same
  std::string_view label = {};       // for reports, as of values (graph/graph.h)
};

inline constexpr std::array<BlockField, 7> step_fields = {{
    {"step.step", offsetof(StepBlock, step), DType::i64},
    {"step.seed", offsetof(StepBlock, seed), DType::u64},
    {"step.lr", offsetof(StepBlock, lr), DType::f64},
    {"step.first_sample", offsetof(StepBlock, first_sample), DType::i64},
    {"step.vote", offsetof(StepBlock, vote), DType::i64, true},
    {"step.position", offsetof(StepBlock, position), DType::i32},
    {"step.index", offsetof(StepBlock, index), DType::i32},
}};

inline constexpr std::string_view correct_count_field = "result.correct_count";

inline constexpr std::array<BlockField, 9> result_fields = {{
    {"result.loss_sum", offsetof(ResultBlock, loss_sum), DType::f64, false, "loss"},
    {"result.valid_count", offsetof(ResultBlock, valid_count), DType::i64, false, "loss"},
    {"result.squared_norm", offsetof(ResultBlock, squared_norm), DType::f64, false, "update"},
    {"result.non_finite", offsetof(ResultBlock, non_finite), DType::i64, false, "update"},
    {"result.grad_norm", offsetof(ResultBlock, grad_norm), DType::f64, false, "update"},
    {"result.scale", offsetof(ResultBlock, scale), DType::f64, false, "update"},
    {"result.applied", offsetof(ResultBlock, applied), DType::i64, false, "update"},
    {"result.votes", offsetof(ResultBlock, votes), DType::i64, false, "update"},
    {correct_count_field, offsetof(ResultBlock, correct_count), DType::i64, false, "loss"},
}};

/// The field of that name in either block.
constexpr std::optional<BlockField> find_block_field(std::string_view name) {
  for (const BlockField& field : step_fields)
    if (field.name == name) return field;
  for (const BlockField& field : result_fields)
    if (field.name == name) return field;
  return std::nullopt;
}

}  // namespace fourfold::op
