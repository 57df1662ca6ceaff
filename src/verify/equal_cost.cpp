// What a comparison takes, before anything of it is run.
#include <algorithm>

#include "base/cores.h"
#include "verify/equal.h"
#include "verify/equal_scenario.h"
#include "verify/residue_memory.h"

namespace fourfold::verify {
namespace {

/// A product costs one operation, half of its two flops; to fetch and to store an element of an
/// operand some more, as counted by what both take.
double operations_of(const Program& program) {
  constexpr double of_element = 4;
  double count = 0;
  for (const Instruction& instruction : program.instructions) {
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr) {
      for (const Access& access : accesses(instruction))
        count += of_element * static_cast<double>(access.slice.bytes()) /
                 static_cast<double>(size_bytes(program.buffer(access.slice.buffer).dtype));
      continue;
    }
    for_each_piece(*compute, [&](const Compute& piece) {
      const std::vector<Shape> shapes = program.operand_shapes(piece);
      count += op::flops(piece.op, shapes) / 2;
      for (const Shape& shape : shapes) count += of_element * static_cast<double>(shape.elements());
    });
  }
  return count;
}

struct CostOfBundle {
  double operations = 0;
  std::int64_t bytes = 0;
};
CostOfBundle cost_of(const Bundle& bundle) {
  constexpr double sets_of_keys = 2;
  constexpr std::int64_t of_instruction = 2048;  // rows with their shapes, and the program itself
  CostOfBundle cost{0, ResidueMemory::bytes_for(bundle, false)};
  for (const Program& program : bundle.programs) {
    cost.operations +=
        sets_of_keys * static_cast<double>(most_runs_of(program.kind)) * operations_of(program);
    cost.bytes += of_instruction * static_cast<std::int64_t>(program.instructions.size());
  }
  return cost;
}

}  // namespace

EqualCost cost_of_equal(const Job& job, const Job& specification) {
  std::vector<CostOfBundle> of_class;
  for (const Bundle& bundle : job.classes) of_class.push_back(cost_of(bundle));
  CostOfBundle cost = cost_of(specification.classes.front());
  for (const program::Binding& binding : job.ranks) {
    cost.operations += of_class[binding.of_class].operations;
    cost.bytes += of_class[binding.of_class].bytes;
  }
  // Scenarios run side by side.
  constexpr double most = 1e18;
  return {static_cast<std::int64_t>(std::min(cost.operations, most)),
          cost.bytes * std::min(8, num_usable_cores())};
}

}  // namespace fourfold::verify
