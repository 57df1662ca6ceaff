// Runs scenarios on a job and on its specification, and tells in which elements they differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verify/equal_inputs.h"
#include "verify/equal_scenario.h"
#include "verify/verify.h"

namespace fourfold::verify {

/// The rule of all faults that comparing finds.
inline constexpr std::string_view equal_rule = "equal";

/// Two jobs, prepared, and what they have in common.
struct Pair {
  const ResidueJob& job;
  const ResidueJob& specification;
  const TensorsInCommon& state;
  const std::vector<CommonProgram>& programs;
};

/// A field of the result block that a program writes.
struct ResultField {
  op::BlockField field;
  Slice slice;
};
std::vector<ResultField> result_fields_of(const Program& program);
/// The word in such a field; nothing where none has been written.
std::optional<op::Residue> result(const ResidueMemory& memory, const Program& program,
                                  const ResultField& of);

/// All that is random with one set of keys.
struct Keys {
  op::Residues residues;
  op::Residue padding;
  KeyedSamples samples;
  VotesOfHosts votes;

  Keys(const Pair& pair, std::uint64_t key);
};

/// Faults of rule "equal", and which common program has them.
struct FoundFaults {
  std::size_t program = 0;
  std::vector<Fault> faults;
};

/// The differences of the first step that has any: the tensors, a rank and an element of each, and
/// the first instruction that makes another value. Throws op::ZeroDivisor.
FoundFaults check_scenario(const Pair& pair, const Keys& keys, const Scenario& scenario);

/// Where a number that is not finite appears.
enum class PlantIn : std::uint8_t {
  forward,   // what any row of the forward pass gives
  loss,      // what the sum of the loss reads
  backward,  // what any row of the backward pass gives
};
/// What became of it.
struct Planted {
  std::vector<Fault> faults;
  bool has_effect = false;  // no update was written
};
/// Makes an element of what a row gives not finite, on one rank in one micro-batch of a training
/// step, and looks if all ranks leave their state as it was. Elements that nothing
/// depends on, such as those of samples without labels, are passed by. Throws op::ZeroDivisor.
Planted check_planted(const Pair& pair, const Keys& keys, const ScenarioStep& step, PlantIn where,
                      std::uint64_t seed);

/// The largest degree of a value that the first step of a scenario leaves on either side, together
/// with those of what was hashed on the way (op/degrees.h).
double largest_degree(const Pair& pair, const Keys& keys, const Scenario& scenario);

}  // namespace fourfold::verify
