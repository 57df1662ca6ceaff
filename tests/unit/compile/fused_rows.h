// Programs of a small GPT whose rows a target fuses or not, and what they mean. Header only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "unit/compile/grid_setup.h"

namespace fourfold::compile {

using program::Compute;
using program::Program;

inline GridSetup setup_of(const plan::Grid& grid, double dropout) {
  GridSetup setup;
  setup.gpt.dropout = dropout;
  setup.set_grid(grid);
  return setup;
}

inline Program train_program(const GridSetup& setup, const machine::Target& target) {
  const graph::ModelGraphs model = setup.graphs();
  return compile(model, setup.solved(model), target).classes[0].at(op::ProgramKind::train);
}

/// How often each row of the op table is there.
inline std::map<std::string, int> count_rows(const Program& program) {
  std::map<std::string, int> count;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what))
      ++count[std::string(op::name(compute->op))];
  return count;
}

/// Every row with its attributes and the names of what it touches, chains by their pieces; what
/// only links the pieces of a chain has no name.
inline std::multiset<std::string> meaning_of(const Program& program,
                                             const std::set<std::string>& known) {
  std::multiset<std::string> meaning;
  for (const program::Instruction& instruction : program.instructions) {
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr) continue;
    for (const op::Piece& piece : op::pieces(compute->op)) {
      std::string text(op::name(piece.op));
      std::multiset<std::string> names;
      for (const std::size_t operand : piece.operands) {
        const std::string& name = program.buffer(compute->slices[operand].buffer).name;
        if (known.contains(name)) names.insert(name);
      }
      const std::string attributes = op::attributes_text(piece.op, std::nullopt);
      text += " " + attributes;
      for (const std::string& name : names) text += " " + name;
      meaning.insert(text);
    }
  }
  return meaning;
}

/// Parameters, gradients, moments and what the host gives and gets.
inline std::set<std::string> lasting_names(const Program& program) {
  std::set<std::string> names;
  for (const program::Buffer& buffer : program.buffers)
    if (buffer.role != program::BufferRole::activation) names.insert(buffer.name);
  return names;
}

}  // namespace fourfold::compile
