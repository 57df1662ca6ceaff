// When a mesh sends what others receive (receipts.h): with the task that makes it or after a later
// one. With it, that the training steps of a pipeline come to their end whatever graph its stages
// are: departures.cpp begins with the argument. Not how long that takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compile/receipts.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// How many tasks longer what is sent stays: as long as its receiver has for it (receipts.h), a
/// forward and a backward task.
inline constexpr std::size_t tasks_to_send = 2;

class Departures {
 public:
  /// For the training graph of a plan. Errors: InternalError where the orders of the meshes wait
  /// for each other even if nobody waits for what he sends; plan_stages refuses these. Cost: linear
  /// in messages and tasks, times the meshes that one exchanges messages with.
  explicit Departures(const plan::Plan& plan);

  /// The task of the sender, as a place in its order, with which the value of an edge leaves: the
  /// one that makes it, or the one after which it stands in the list.
  std::size_t place(std::size_t edge, std::int64_t micro) const {
    return places_[edge][static_cast<std::size_t>(micro)];
  }
  /// How many values leave later than they are made.
  std::size_t count_late() const { return late_; }

 private:
  std::vector<std::vector<std::size_t>> places_;  // by edge and micro-batch
  std::size_t late_ = 0;
};

}  // namespace fourfold::compile
