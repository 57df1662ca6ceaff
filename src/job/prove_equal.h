// What a job computes, compared with the serial program that its configuration asks for
// (verify/equal.h), where that is soon done. `fourfold verify` compares longer, and `train`
// compares a job of several ranks before its first step.
#pragma once

#include <optional>
#include <string>

#include "job/job.h"

namespace fourfold::job {

/// Why a job with this specification is not compared with it in about `seconds` of one core: "some
/// 30 G operations, more than 20 G", as what that takes. Nothing where it is.
std::optional<std::string> reason_to_leave_out(const program::Job& job,
                                               const program::Job& specification, double seconds);
/// The same for the number of ranks alone, before there is a specification.
std::optional<std::string> reason_to_leave_out(const program::Job& job);

/// Compares the job before it runs, if that takes at most two seconds of one core; says in words
/// for a log how long it took, or why it was left out. Jobs of one rank are left out: they have no
/// layout, and there is nothing to say. Errors: UserError(internal) where the job computes anything
/// else, with the first difference.
std::string prove_equal(const Job& job);

}  // namespace fourfold::job
