#include "job/prove_equal.h"

#include <cstdint>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "job/prove_meetings.h"
#include "job/specify.h"
#include "verify/equal.h"

namespace fourfold::job {
namespace {

constexpr double operations_per_second = 8e8;  // of one core (verify/equal.h)

/// The products in a training step of the rank that computes most: comparing takes more than this
/// many operations for each rank.
double least_operations(const Job& job) {
  constexpr double flops_of_product = 2;
  const program::Program* training = job.bundle().find(op::ProgramKind::train);
  return training == nullptr ? 0 : program::total_flops(*training) / flops_of_product;
}

std::string too_many_operations(double operations, double most_s) {
  return format("some {} operations, more than {}", format_count(operations),
                format_count(most_s * operations_per_second));
}

}  // namespace

std::optional<std::string> reason_to_leave_out(const program::Job& job) {
  constexpr std::size_t most_ranks = 32;
  if (job.ranks.size() <= most_ranks) return std::nullopt;
  return format("{} ranks, more than {}", job.ranks.size(), most_ranks);
}

std::optional<std::string> reason_to_leave_out(const program::Job& job,
                                               const program::Job& specification, double seconds) {
  if (auto reason = reason_to_leave_out(job)) return reason;
  const verify::EqualCost cost = verify::cost_of_equal(job, specification);
  const auto operations = static_cast<double>(cost.operations);
  if (operations > seconds * operations_per_second) return too_many_operations(operations, seconds);
  const std::int64_t free_bytes = available_memory_bytes();
  if (cost.bytes > free_bytes)
    return format("{} of memory, and {} are free", format_bytes(cost.bytes),
                  format_bytes(free_bytes));
  return std::nullopt;
}

std::string prove_equal(const Job& job) {
  constexpr double most_s = 2;
  const auto left_out = [](const std::string& reason) {
    return format("not compared with the serial program, as that takes {}", reason);
  };
  const bool runs = job.plan.reshard.strategy != reshard::Strategy::signal;
  if (job.ranks() == 1 || !runs) return "";
  if (const auto reason = reason_to_leave_out(job.programs)) return left_out(*reason);
  // A large model is not written down for this question.
  if (const double least = least_operations(job); least > most_s * operations_per_second)
    return left_out(too_many_operations(least, most_s));
  const program::Job specification = specify(job.settled);
  if (const auto reason = reason_to_leave_out(job.programs, specification, most_s))
    return left_out(*reason);
  const Stopwatch comparing;
  const verify::Equal equal = verify::compare(job.programs, specification);
  if (!equal.faults.empty()) throw bug_in_job(job, "compute what one rank does", equal.faults);
  return format("compared with the serial program in {}: equal",
                format_duration(comparing.seconds()));
}

}  // namespace fourfold::job
