// What the ranks of a job send each other in one program, counted from its instructions. Not how
// long that takes: prices are simulate/'s.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace fourfold::program {

/// Collectives of one kind along the same axes on tensors of one label.
struct Traffic {
  std::string axis;       // "z", "data-z"; empty for messages between two ranks
  std::string_view kind;  // name of the instruction: "all_reduce"
  std::string label;      // of the tensors: what part of the model made them
  /// A collective of tensors of several labels counts with the first of them.
  std::int64_t calls = 0;
  /// Bytes of the tensors before they are cut or after they are gathered: what `all_reduce` holds,
  /// the larger side of the others.
  std::int64_t payload_bytes = 0;
  /// Bytes that one rank sends: CollectiveFacts::sent_share of the payload, also where an
  /// all-reduce could take a tree; all of a message.
  double sent_bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/// By axis in the order of the groups, then kind, then label. Cost: linear in the instructions.
std::vector<Traffic> traffic(const Program& program);

}  // namespace fourfold::program
