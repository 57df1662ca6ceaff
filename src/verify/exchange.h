// What the ranks of a job exchange, without the bundles it stands in: who meets whom, as
// program/meetings.h tells it, and what those who meet must agree on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/meetings.h"
#include "program/runners.h"
#include "verify/claims.h"
#include "verify/language.h"
#include "verify/values.h"
#include "verify/verify.h"

namespace fourfold::verify {

/// Texts as small numbers: equal texts, equal numbers.
class Terms {
 public:
  std::uint32_t number(std::string text);
  const std::string& text(std::uint32_t number) const { return *texts_[number]; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::vector<const std::string*> texts_;
};

/// What the siblings of a class have in common, of one program.
struct Skeleton {
  struct Message {
    DType dtype = DType::f32;
    std::int64_t bytes = 0;
  };
  Stops stops;
  /// Terms of each of the stops' collectives: what all members must agree on.
  std::vector<std::vector<std::uint32_t>> collectives;
  std::vector<Message> messages;  // as in the stops
  Values values;                  // of a job with messages: as many as there are
};
/// Values are left out where the job has no messages.
Skeleton skeleton(const Program& program, bool has_messages, Terms& terms);

/// What one rank has of its own, of one program.
struct Exchange {
  Partners partners;
  std::vector<std::uint32_t> windows;  // Terms, of each message: which box of which tensor
};
/// Requires slices within their buffers.
Exchange exchange(Claims& claims, Terms& terms, Communicators& communicators);

/// Ranks of the same meshes with the same programs but for their coordinates.
struct PositionClass {
  const Bundle* bundle = nullptr;  // of its first rank
  std::vector<Skeleton> skeletons;
};

/// A whole job, one program of each bundle at a time: all bundles have the same programs.
struct CheckedJob {
  std::vector<PositionClass> classes;
  std::vector<std::size_t> class_of;             // of each rank
  std::vector<std::vector<Exchange>> exchanges;  // of each rank and program
  Terms terms;
  Communicators communicators;

  const Skeleton& skeleton_of(std::size_t rank, std::size_t program) const {
    return classes[class_of[rank]].skeletons[program];
  }
  const Stops& stops(std::size_t rank, std::size_t program) const {
    return skeleton_of(rank, program).stops;
  }
  const Partners& partners(std::size_t rank, std::size_t program) const {
    return exchanges[rank][program].partners;
  }
  /// Who meets whom in one program; a view of this job.
  MeetingsView meetings(std::size_t program) const;
  /// "rank 3: train: forward(0): instruction 17 (all_reduce -> &p)"; for the place of a fault.
  std::string place(std::size_t rank, std::size_t program, std::size_t instruction) const;
  /// "rank 3: instruction 17 (all_reduce -> &p)": the same, shorter, for the other ranks that a
  /// message about one fault names.
  std::string short_place(std::size_t rank, std::size_t program, std::size_t instruction) const;
  Fault fault(std::string_view rule, std::size_t rank, std::size_t program, std::size_t instruction,
              std::string_view message) const;
};

/// groups, matching.
void check_matching(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults);
/// deadlock and launch, of all ranks together. `is_matched`: no other rule has found a fault, so
/// one rank of each class tells what all do.
void check_progress(const CheckedJob& job, std::size_t program, bool is_matched,
                    std::vector<Fault>& faults);

}  // namespace fourfold::verify
