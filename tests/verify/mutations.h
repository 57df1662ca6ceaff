// Faults to seed in the bundles of a job, hand-built or compiled: each breaks one thing in a place
// that it picks at random among all that are suitable.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "program/program.h"
#include "verify/verify.h"

namespace fourfold::verify {

/// Where a fault was seeded.
struct Seeded {
  std::size_t rank = 0;  // the one that was changed, or the first of those changed alike
  bool on_one_rank = true;
  std::size_t program = 0;  // index in the bundle
  std::string what;         // for the log: "rank 3: train: instruction 17 (...)"
};

struct Mutation {
  std::string kind;                // "a collective dropped on one rank"
  std::vector<std::string> rules;  // at least one of which must name it
  bool at_instruction = true;      // whether that fault names an instruction
  /// Changes the bundles, index = rank; nothing where they have nothing suitable, which leaves them
  /// as they are.
  std::function<std::optional<Seeded>(std::vector<Bundle>& by_rank, std::mt19937& random)> apply;
};

/// All mutations. Each must be caught wherever it applies: those that could be harmless choose
/// places where they are not.
const std::vector<Mutation>& mutations();

/// Empty where the faults name what was seeded: one of the rules, a rank (the one that was changed,
/// if it was one), and an instruction where the mutation has one. Else what is missing.
std::string uncaught(const Mutation& mutation, const Seeded& seeded,
                     const std::vector<Fault>& faults);

}  // namespace fourfold::verify
