// The state in which two jobs start that are compared: random, but such as a run may have, and the
// same on both sides.
#pragma once

#include <functional>
#include <vector>

#include "op/residues.h"
#include "verify/equal_tensors.h"

namespace fourfold::verify {

/// On which side of the branches that depend on counts a run starts.
enum class Start : std::uint8_t {
  early,    // before the first update, entries of losses are missing
  late,     // after some updates, all entries of losses are there
  damaged,  // likewise, but some elements of each moment are not finite
  counted   // likewise, but updates have counted elements that were not finite
};

/// True of averages over the steps that are not of a parameter: op::KeepLosses says what they hold.
bool is_table_of_losses(const Buffer& buffer);

/// The elements of each tensor of the state, by its number.
using StateValues = std::vector<std::vector<op::Residue>>;

/// The elements of each tensor of the state: counters are small integers, a table of losses says
/// how many entries it has, and all else is random, by `round` too.
StateValues start_values(const TensorsInCommon& state, const ResidueJob& specification,
                         const op::Residues& residues, Start start, std::int64_t round);

/// Sets the state of all ranks of both jobs. Padding of numbers becomes `padding`, as none of them
/// may matter.
void set_state(const TensorsInCommon& state, const StateValues& values, op::Residue padding,
               ResidueRun& job, ResidueRun& specification);

/// The first elements that are not what they were set to, as TensorsInCommon::differences tells
/// them.
std::vector<Difference> changes(const TensorsInCommon& state, const StateValues& values,
                                const ResidueRun& job);

}  // namespace fourfold::verify
