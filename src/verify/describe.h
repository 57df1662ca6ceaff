// What people are told of programs that were verified. Not the rules: verify.h.
#pragma once

#include <string>
#include <vector>

#include "program/job.h"
#include "verify/verify.h"

namespace fourfold::verify {

/// The number of faults, and the first twenty, a line each.
std::string describe_faults(const std::vector<Fault>& faults);

/// What was found sound: programs and memory of a rank; or of each class of ranks, and how much all
/// ranks run. Lines with their ends.
std::string describe_proved(const program::Bundle& bundle);
std::string describe_proved(const program::Job& job);

}  // namespace fourfold::verify
