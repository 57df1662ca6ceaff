// Proves that a job computes the function of its specification, a job of one rank: the programs of
// both run over a finite field (op/residues.h), in which sums have no rounding, so that every order
// and layout of the same sums gives one number, and another operand, window, term or attribute
// another one. Rounding, kernels and the network are not looked at, nor order and races: those are
// verify_job.h's.
//
// Programs run from random state that a run may have, on samples and steps that are all different:
// `init`, `digest`; steps of `train`, where counts decide something from both sides of it;
// `evaluate`, `bound`, `prefill`, `decode` and `denoise`. After each, all state of every rank, the
// results that it tells its host, and outputs must be those of the specification; rounded copies
// must be those of their weights. Some steps have a reason not to write an update: no labels, a
// learning rate or moments that are not finite; or such a number appears on one rank in one
// micro-batch: no rank may write then.
//
// Two different functions pass with a probability that follows from the degree of what was computed
// (op/degrees.h), for hashes taken as random functions; two independent sets of keys make it the
// square.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "op/program_kind.h"
#include "program/job.h"
#include "verify/verify.h"

namespace fourfold::verify {

struct EqualOptions {
  std::uint64_t seed = 1;
  /// Bytes that the proof may take.
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
};

/// What comparing takes, counted before anything is run.
struct EqualCost {
  std::int64_t operations = 0;  // about as many as products; some 8 x 10^8 a second on a core
  std::int64_t bytes = 0;
};
/// Requires what check_structure proves. Cost: linear in the instructions of the classes.
EqualCost cost_of_equal(const program::Job& job, const program::Job& specification);

struct Equal {
  /// None where the jobs are equal. They are of rule "equal", or of those that running rests on.
  std::vector<Fault> faults;
  /// What was not compared, and why.
  std::vector<std::string> notes;
  std::vector<op::ProgramKind> programs;  // that were compared
  std::int64_t elements = 0;              // of ranks, compared after each run
  double degree = 0;                      // the largest of a value, as op/degrees.h counts it
  int keys = 0;                           // how many sets were drawn
  /// Two different functions pass with a probability of at most 2 to the power of minus this.
  double bits = 0;
};

/// Compares a job with its specification. The differences after one run of each kind of program are
/// told, eight at most. Throws UserError(does_not_fit) where the proof takes more memory than it
/// may.
Equal compare(const program::Job& job, const program::Job& specification,
              const EqualOptions& options = {});

}  // namespace fourfold::verify
