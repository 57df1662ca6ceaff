// Puts instructions of one kind that stand apart together: what the passes share that make one
// instruction of a row for each tensor. Which rows, and what becomes of them, is theirs.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "program/program.h"

namespace fourfold::compile {

/// Places of instructions that become one where the first of them stands.
using Members = std::vector<std::size_t>;

std::vector<const program::Compute*> computes_of(const program::Program& program,
                                                 const Members& members);

/// Takes the instructions that `is_wanted` names, in their order, into groups: each joins the last
/// group where `may_join` allows it and nothing in between that stays touches what it touches, or
/// begins another. Cost: for each instruction, a look at each group.
std::vector<Members> find_groups(const program::Program& program,
                                 const std::function<bool(const program::Compute&)>& is_wanted,
                                 const std::function<bool(const Members&, std::size_t)>& may_join);

/// Each group of several becomes what `join` makes of its instructions.
using Join = std::function<program::Compute(std::vector<const program::Compute*> members)>;
program::Program join_groups(program::Program program, const std::vector<Members>& groups,
                             const Join& join);

}  // namespace fourfold::compile
