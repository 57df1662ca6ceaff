// Jobs with one thing changed, as texts could have it: a generator of many kinds, each drawn at
// random among the places that suit. Not the faults of mutations.h, each of which a rule must name:
// a mutant may compute the same function.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "program/job.h"

namespace fourfold::verify {

/// Which ranks have the change: one of them, those of one class, or all that have such an
/// instruction.
enum class Spread : std::uint8_t { one_rank, one_class, all_alike };
std::string_view to_string(Spread spread);

struct Mutant {
  std::string kind;
  Spread spread = Spread::one_rank;
  bool in_all_micros = false;  // also at what corresponds in the other micro-batches
  std::string what;  // "rank 3: train: forward(0): instruction 17 (...) becomes ...", for people
  program::Job job;
};

/// The names of all kinds: "two operands of a row exchanged".
std::vector<std::string> mutant_kinds();

/// Why a mutant of that kind may compute the same function; empty: none does.
std::string_view why_same(std::string_view kind);

/// A mutant of that kind, which differs from the job; nothing where the job has no place for one.
std::optional<Mutant> make_mutant(const program::Job& job, std::string_view kind,
                                  std::mt19937_64& random);

/// The lines in which the texts of two jobs' classes differ, at most some of them: "-" the one, "+"
/// the other.
std::string text_difference(const program::Job& one, const program::Job& other);

}  // namespace fourfold::verify
