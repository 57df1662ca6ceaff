// Checks that ranks which hold the same window of a tensor hold the same bits of it. They must:
// they start equal and get equal updates. Where they differ, memory or a processor is faulty, or we
// are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state.h"
#include "comm/world.h"

namespace fourfold::train {

class ReplicaCheck {
 public:
  /// `program` is this rank's own; `bytes` leads to its memory. All must outlive the check.
  ReplicaCheck(const program::Program& program, checkpoint::BufferReads bytes, comm::World& world);

  /// Between steps, on all ranks together: compares digests (base/digest_term.h) of parameters,
  /// moments and counters within each group of replicas. Nothing where all agree; otherwise who
  /// differs in what, the same text on all ranks. Of three replicas and more, those in the minority
  /// are named. Cost: a pass over the state that has replicas, and 16 bytes for each tensor and
  /// rank sent.
  std::optional<std::string> find_difference() const;

 private:
  comm::World& world_;
  checkpoint::BufferReads bytes_;
  std::vector<checkpoint::StateTensor> tensors_;  // that have replicas
};

}  // namespace fourfold::train
