// What hosts give two jobs that are compared: samples as different from one another as their types
// allow, and the values of a step. Pure functions of a seed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "verify/residue_run.h"

namespace fourfold::verify {

/// Samples that every program of a job can read. What an input may hold is seen from the rows that
/// read it in the specification.
class KeyedSamples {
 public:
  KeyedSamples(const ResidueJob& specification, std::uint64_t seed);
  /// Without labels, all of them are -1.
  op::Residue element(const Input& input, std::int64_t sample, std::int64_t element,
                      bool has_labels) const;

 private:
  struct Content {
    bool are_labels = false;  // -1 is among them
    bool are_document_starts = false;
    std::uint64_t bound = 0;  // integers are below it; 0: unknown
  };
  void note(const ResidueProgram& program);
  bool begins_document(std::int64_t sample, std::int64_t element) const;

  std::uint64_t seed_;
  std::map<std::string, Content> contents_;  // by name of the input
};

/// How many values a field of the step block may have, from 0 on, in one program: the least that
/// rows which read it say; 1 where none does.
std::int64_t bound_of_field(const ResidueProgram& program, std::string_view field);

/// Each rank's own vote, and their sum, which the host of the only rank of a specification gives.
struct VotesOfHosts {
  std::vector<std::int64_t> of_ranks;
  std::int64_t sum = 0;
};
VotesOfHosts votes_of_hosts(std::size_t ranks, std::uint64_t seed);

}  // namespace fourfold::verify
