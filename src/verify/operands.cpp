// implementation, operands: whether every op gets what its rules ask for.
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

std::string dtype_problem(const Program& program, const Compute& compute,
                          const op::Operands& operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const DType wanted = op::element_dtype(operands[i].element, compute.dtype);
    const auto found = slice_dtype(program, compute.slices[i]);
    const std::string& buffer = program.buffer(compute.slices[i].buffer).name;
    if (!found) return format("operand {} covers no field of {}", operands[i].name, buffer);
    if (*found != wanted)
      return format("operand {} is {}, but {} holds {}", operands[i].name,
                    fourfold::to_string(wanted), buffer, fourfold::to_string(*found));
    if (compute.slices[i].rows != 1)
      return format("operand {} is dense, but the slice of {} has {} rows", operands[i].name,
                    buffer, compute.slices[i].rows);
  }
  return {};
}

std::vector<Shape> view_shapes(const Program& program, const Compute& compute,
                               const op::Operands& operands) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < operands.size(); ++i)
    shapes.push_back(program.view_shape(compute.slices[i],
                                        op::element_dtype(operands[i].element, compute.dtype)));
  return shapes;
}

std::size_t count_reads(const op::Operands& operands) {
  std::size_t count = 0;
  for (const op::Operand& operand : operands) count += operand.role == op::Role::read ? 1U : 0U;
  return count;
}

/// A letter of the factor rule has one size in all reads: what the shape rule leaves unsaid about
/// them. It says all about outputs.
std::string factor_problem(const op::FactorRule& rule, const std::vector<Shape>& shapes,
                           std::size_t reads, const op::Operands& operands) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (rule.operands[i].size() != shapes[i].rank())
      return format("operand {} has shape {}, expected {} dims", operands[i].name,
                    to_string(shapes[i]), rule.operands[i].size());
    for (std::size_t dim = 0; i < reads && dim < shapes[i].rank(); ++dim) {
      if (rule.operands[i][dim].size() != 1) continue;  // its sizes come from the shape rule
      const auto [place, inserted] = sizes.try_emplace(rule.operands[i][dim][0], shapes[i][dim]);
      if (place->second != shapes[i][dim])
        return format("operand {} has shape {}, expected {} in dim {}", operands[i].name,
                      to_string(shapes[i]), place->second, dim);
    }
  }
  return {};
}

std::string shape_problem(const Program& program, const Compute& compute,
                          const op::Operands& operands) {
  const std::vector<Shape> shapes = view_shapes(program, compute, operands);
  const std::size_t reads = count_reads(operands);
  const op::Shapes read_shapes(shapes.data(), reads);
  const op::Outputs made = op::judge_outputs(compute.op, read_shapes);
  if (made.mistake() != nullptr) return made.mistake()->sentence;
  const std::vector<Shape>& outputs = made.shapes();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (shapes[reads + i] != outputs[i])
      return format("output {} in {} has shape {}, the op gives {}", operands[reads + i].name,
                    program.buffer(compute.slices[reads + i].buffer).name,
                    to_string(shapes[reads + i]), to_string(outputs[i]));
  return factor_problem(op::factors(compute.op, read_shapes), shapes, reads, operands);
}

/// What is learned, and the sums it is learned from, lose nothing to the type of the computation.
void check_kept_types(const Program& program, Report& report) {
  for (const Buffer& buffer : program.buffers) {
    const bool is_kept = is_learned(buffer.role) || buffer.role == BufferRole::gradient;
    const DType wanted = accumulation_type(buffer.dtype);
    if (is_kept && buffer.dtype != wanted)
      report.fault(
          "operands",
          format("the {} {} holds {}, expected the type of its sums, {}", to_string(buffer.role),
                 buffer.name, fourfold::to_string(buffer.dtype), fourfold::to_string(wanted)));
  }
}

}  // namespace

void check_operands(const Program& program, Report& report) {
  check_kept_types(program, report);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* compute = std::get_if<Compute>(&program.instructions[i].what);
    if (compute == nullptr) continue;
    if (compute->implementation.empty())
      report.fault("implementation", i, "nothing says who computes it");
    for_each_piece(*compute, [&](const Compute& piece) {
      const op::Operands operands = op::operands(piece.op);
      std::string problem = dtype_problem(program, piece, operands);
      if (problem.empty()) problem = shape_problem(program, piece, operands);
      if (!problem.empty()) report.fault("operands", i, problem);
    });
  }
}

}  // namespace fourfold::verify
