#include "verify/first_difference.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <variant>
#include <vector>

namespace fourfold::verify {
namespace {

using Node = ResidueTrace::Node;

/// What follows from the rows of an instruction for the values that it makes.
struct Nature {
  bool is_known = true;   // the specification has all its rows
  bool adds_up = false;   // its results may be terms of sums or maxima
  bool is_linear = true;  // in something that it reads
};

bool adds_up(const op::FactorRule& rule, const op::Operands& operands) {
  if (rule.linear == op::FactorRule::Linear::all) return true;
  std::string of_outputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].role != op::Role::read) of_outputs += rule.operands[i].letters();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].role != op::Role::read) continue;
    for (const char factor : rule.operands[i].letters())
      if (of_outputs.find(factor) == std::string::npos && !rule.is_whole(factor) &&
          rule.repeated.find(factor) == std::string::npos)
        return true;
  }
  return false;
}

std::set<std::string_view> names_of_rows(const ResidueJob& job) {
  std::set<std::string_view> names;
  for (std::size_t place = 0; place < job.bundle(0).programs.size(); ++place)
    for (const ResidueRow& row : job.prepared(0, place).rows) names.insert(op::name(row.op));
  return names;
}

Nature nature_of(const ResidueProgram& program, std::size_t instruction,
                 const std::set<std::string_view>& known) {
  // A collective adds up.
  if (!std::holds_alternative<Compute>(program.program->instructions[instruction].what))
    return {.adds_up = true};
  Nature nature;
  for (const ResidueRow& row : program.rows_of(instruction)) {
    nature.is_known = nature.is_known && known.contains(op::name(row.op));
    const op::Operands operands = op::operands(row.op);
    std::vector<Shape> reads;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].role == op::Role::read) reads.push_back(row.operands[i].shape);
    const op::FactorRule rule = op::factors(row.op, reads);
    nature.adds_up = nature.adds_up || adds_up(rule, operands);
    nature.is_linear = nature.is_linear && rule.linear != op::FactorRule::Linear::no;
  }
  return nature;
}

/// The nodes that a node was made from, as far as what they made is not of the specification, and
/// itself; the first ones first.
std::vector<std::uint32_t> origins_of(const ResidueTrace& trace, std::uint32_t writer) {
  std::vector<bool> is_found(trace.nodes().size());
  std::vector<std::uint32_t> found = {writer};
  is_found[writer] = true;
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const std::uint32_t from : trace.nodes()[found[i]].from)
      if (from != ResidueTrace::no_node && !is_found[from]) {
        is_found[from] = true;
        found.push_back(from);
      }
  std::ranges::sort(found);
  return found;
}

}  // namespace

FirstDifference first_difference(const ResidueJob& job, const ResidueJob& specification,
                                 const ResidueTrace& trace, std::uint32_t writer) {
  const std::set<std::string_view> known = names_of_rows(specification);
  const std::vector<std::uint32_t> origins = origins_of(trace, writer);
  const auto is_first = [&](const Node& node, const Nature& nature) {
    return node.makes_foreign && !node.reads_foreign && nature.is_known && !nature.adds_up;
  };
  const auto told = [&](std::uint32_t number, std::string what) {
    const Node& node = trace.nodes()[number];
    return FirstDifference{node.rank, node.place, node.instruction, std::move(what)};
  };
  /// Ranks that do the same are equally to blame: the lowest one is named.
  const auto lowest = [&](std::uint32_t number) {
    for (const std::uint32_t other : origins) {
      const Node &one = trace.nodes()[number], &node = trace.nodes()[other];
      if (node.instruction == one.instruction && node.place == one.place && node.rank < one.rank &&
          is_first(node, nature_of(job.prepared(node.rank, node.place), node.instruction, known)))
        number = other;
    }
    return number;
  };
  for (const std::uint32_t number : origins) {
    const Node& node = trace.nodes()[number];
    if (node.reads_missing) return told(number, "reads what nobody has written");
    if (!node.makes_foreign) continue;
    const Nature nature = nature_of(job.prepared(node.rank, node.place), node.instruction, known);
    if (!nature.is_known) continue;
    if (is_first(node, nature))
      return told(lowest(number), "makes what the specification never has");
    if (node.reads_foreign && !nature.is_linear && !node.from.empty() &&
        node.from.front() != ResidueTrace::no_node)
      return told(node.from.front(), "makes what the specification never has");
  }
  return told(writer, "makes what the specification does not have there");
}

}  // namespace fourfold::verify
