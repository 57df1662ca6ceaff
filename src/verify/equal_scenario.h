// Which programs are run one after another, from which state and with what from the hosts, when two
// jobs are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "op/blocks.h"
#include "verify/equal_start.h"
#include "verify/residue_job.h"

namespace fourfold::verify {

/// A program that both jobs have.
struct CommonProgram {
  op::ProgramKind kind;
  std::size_t job_place = 0, specification_place = 0;
  TensorsInCommon outputs;
};

/// One run of a program, from a state of its own: what is found of a step does not depend on those
/// before it, which were compared, and values are polynomials of no higher degree than one step
/// makes them.
struct ScenarioStep {
  std::size_t program = 0;  // number of the common program
  op::StepBlock step;
  std::string text;            // "train, step 1"
  std::optional<Start> start;  // none: what the step before it has left, or nothing at first
  bool has_labels = true;
};
/// Steps one after another in the same memory.
using Scenario = std::vector<ScenarioStep>;

/// All that is run with one set of keys, of which there are several: a start from nothing with the
/// digests of that; a training step from an early and one from a late state; and all other
/// programs. With the first set also steps whose updates must not be written, in part or at all:
/// for moments, earlier updates or a learning rate that are not finite, or for want of labels.
std::vector<Scenario> scenarios_of(const std::vector<CommonProgram>& programs,
                                   const ResidueJob& specification, std::uint64_t keys);

/// How often `scenarios_of` runs a program with one set of keys, and more than that by one where a
/// number that is not finite is planted.
std::int64_t most_runs_of(op::ProgramKind kind);

}  // namespace fourfold::verify
