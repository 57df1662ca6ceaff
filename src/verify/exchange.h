// What the ranks of a job exchange, without the bundles it stands in: enough to match collectives
// and messages and to see whether all streams come to their end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/claims.h"
#include "verify/language.h"
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

/// Groups of all ranks: the same name and the same members in the same order are one communicator.
class Communicators {
 public:
  struct Entry {
    std::string name;  // "y of mesh main"
    std::vector<Rank> members;
    auto operator<=>(const Entry&) const = default;
  };
  std::uint32_t number(const Entry& entry);
  const Entry& operator[](std::uint32_t number) const { return *entries_[number]; }
  std::size_t size() const { return entries_.size(); }
  /// "y of mesh main: ranks 2 3".
  std::string text(std::uint32_t number) const;

 private:
  std::map<Entry, std::uint32_t> numbers_;
  std::vector<const Entry*> entries_;
};

/// An instruction at which a stream may stop or let another one go on.
struct Stop {
  enum class Kind : std::uint8_t { collective, send, recv, record, wait } kind;
  std::uint32_t instruction = 0;
  std::uint32_t id = 0;  // of the group, the event, or the message (index into Exchange::messages)
};

/// What the siblings of a class have in common, of one program.
struct Skeleton {
  struct Collective {
    std::uint32_t instruction = 0;
    std::uint32_t terms = 0;  // Terms: what all members must agree on
  };
  struct Message {
    std::uint32_t instruction = 0;
    bool is_send = false;
    DType dtype = DType::f32;
    std::int64_t bytes = 0;
    BufferId buffer;
    std::optional<std::int64_t> micro;  // of its task
    bool is_shared = false;             // by micro-batches (shared_messages)
  };
  std::vector<std::vector<Stop>> streams;            // each in its order
  std::vector<std::vector<Collective>> collectives;  // of each group, in the order of the list
  std::vector<Message> messages;                     // in the order of the list
  std::vector<std::uint32_t> record_streams;         // of each event
};
Skeleton skeleton(const Program& program, Terms& terms);

/// What one rank has of its own, of one program.
struct Exchange {
  struct Message {
    Rank peer;
    std::int64_t tag = 0;
    std::uint32_t part = 0;  // Terms: which part of which tensor
  };
  std::vector<std::uint32_t> groups;  // Communicators
  std::vector<Message> messages;      // as in the skeleton
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
  /// "rank 3: train: forward(0): instruction 17 (all_reduce -> &p)"; for the place of a fault.
  std::string place(std::size_t rank, std::size_t program, std::size_t instruction) const;
  /// "rank 3: instruction 17 (all_reduce -> &p)"; for the other ranks of it.
  std::string short_place(std::size_t rank, std::size_t program, std::size_t instruction) const;
  Fault fault(std::string_view rule, std::size_t rank, std::size_t program, std::size_t instruction,
              std::string_view message) const;
};

/// groups, matching.
void check_matching(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults);
/// deadlock, of all ranks together.
void check_progress(const CheckedJob& job, std::size_t program, std::vector<Fault>& faults);

}  // namespace fourfold::verify
