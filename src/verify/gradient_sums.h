// What the walk of rule sum (sums.cpp) learns of gradients and of totals over them, and what they
// have to be at the end: one contribution of each micro-batch for each use of a weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "verify/batches.h"
#include "verify/content.h"

namespace fourfold::verify {

/// What is known of a kind of contribution: who makes it first, and from which kinds of values.
struct Contribution {
  std::size_t index = 0;  // instruction
  std::vector<std::uint64_t> reads;
};

class GradientSums {
 public:
  using Fault = std::function<void(std::size_t instruction, std::string_view message)>;
  GradientSums(const Program& program, const Batches& batches, Contents& contents, Fault fault)
      : program_(program), batches_(batches), contents_(contents), fault_(std::move(fault)) {}

  // --- during the walk

  /// A row at `index` adds to a sum what is of this kind.
  void note_contribution(std::uint64_t kind, std::size_t index,
                         const std::vector<std::uint64_t>& reads) {
    contributions_.try_emplace(kind, Contribution{index, reads});
  }
  /// The first of its kind; null where nobody makes any.
  const Contribution* contribution(std::uint64_t kind) const;
  /// A row takes what is of this kind from bf16 back to the type of sums.
  void note_led_back(std::uint64_t kind, std::size_t index) { led_back_.try_emplace(kind, index); }
  /// A row of the forward pass reads these weights beside values of these kinds, or makes them.
  void note_met(const std::vector<BufferId>& weights, const std::vector<std::uint64_t>& kinds) {
    for (const std::uint64_t kind : kinds) met_[kind].insert(weights.begin(), weights.end());
  }
  /// A row of the forward pass uses these weights for what is of the batch `number` or, without
  /// one, for all chunks of the micro-batch.
  void count_uses(const std::vector<BufferId>& weights, std::optional<std::size_t> number,
                  std::int64_t micro);
  void note_update(std::size_t index, BufferId weight, ValueId gradient) {
    updates_.push_back({index, weight, gradient, Contents::zero()});
  }
  /// What the last update found that is not finite.
  void note_found(ValueId term) { updates_.back().found = term; }
  /// A row reads a total over all gradients, else over all updates.
  void note_total(std::size_t index, ValueId value, bool of_gradients) {
    totals_.push_back({index, value, of_gradients});
  }

  // --- at the end

  void check() const;

 private:
  struct Update {
    std::size_t index = 0;  // instruction
    BufferId weight;
    ValueId gradient;
    ValueId found;  // its term of the number of elements that are not finite
  };
  struct Total {
    std::size_t index = 0;
    ValueId value;
    bool of_gradients = false;  // else of updates
  };

  /// What a total over gradients, which a row makes that reads one alone, or over updates has of an
  /// update.
  Content term_of(const Update& update, bool of_gradients) const;
  /// A gradient has a contribution of each micro-batch for each use of its weight in the forward
  /// pass.
  void check_gradient(const Update& update) const;
  /// A contribution that reads what met weights in the forward pass belongs to one of them.
  void check_origin(const Update& update) const;
  void check_total(const Total& total, const Content& expected) const;

  const Program& program_;
  const Batches& batches_;
  Contents& contents_;
  Fault fault_;
  std::unordered_map<std::uint64_t, Contribution> contributions_;  // by kind
  std::unordered_map<std::uint64_t, std::size_t> led_back_;  // by kind: the row of a rounded value
  /// By kind of value: the weights that rows of the forward pass read beside it, or make it from.
  std::unordered_map<std::uint64_t, std::set<BufferId>> met_;
  std::map<BufferId, std::vector<std::uint32_t>> uses_;  // how many of a weight, by batch
  std::vector<Update> updates_;
  std::vector<Total> totals_;
};

}  // namespace fourfold::verify
