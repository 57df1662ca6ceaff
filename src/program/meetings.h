// Who meets whom, in which order: the streams of all ranks of a job as stops, without what lies
// between them. Enough to see whether a job comes to its end, or to put a clock on it. What is
// moved stands in the instructions; whether those who meet agree on it is asked in verify/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/job.h"

namespace fourfold::program {

/// An instruction at which a stream may stop or let another one go on.
struct Stop {
  enum class Kind : std::uint8_t { collective, send, recv, record, wait } kind;
  std::uint32_t instruction = 0;
  std::uint32_t id = 0;  // of the group, the event, or the message (index into Stops::messages)
  bool operator==(const Stop&) const = default;
};

/// Where the ranks of a class stop in one program.
struct Stops {
  struct Message {
    std::uint32_t instruction = 0;
    bool is_send = false;
    bool operator==(const Message&) const = default;
  };
  std::vector<std::vector<Stop>> streams;               // each in its order
  std::vector<std::vector<std::uint32_t>> collectives;  // of each group: instructions, in order
  std::vector<Message> messages;                        // in the order of the list
  std::vector<std::uint32_t> record_streams;            // of each event
  bool operator==(const Stops&) const = default;
};
/// Requires ids within their tables. Cost: linear.
Stops stops_of(const Program& program);

/// Groups of all ranks: the same name and the same members in the same order are one communicator.
class Communicators {
 public:
  struct Entry {
    std::string name;  // "y of mesh main"
    Ranks members;
    bool operator==(const Entry&) const = default;
  };
  /// Makes room for so many.
  void reserve(std::size_t count);
  /// Cost: constant, and linear in the members where they are listed.
  std::uint32_t number(Entry entry);
  const Entry& operator[](std::uint32_t number) const { return entries_[number]; }
  std::size_t size() const { return entries_.size(); }
  /// "y of mesh main: ranks 2 3".
  std::string text(std::uint32_t number) const;

 private:
  std::vector<Entry> entries_;
  void set_places(std::size_t count);

  /// By hash of an entry: its number and 1, or 0 where there is none; then the next place.
  std::vector<std::uint32_t> places_ = std::vector<std::uint32_t>(16);
};

/// Whom one rank meets in one program.
struct Partners {
  struct Message {
    Rank peer;
    std::int64_t tag = 0;
    bool operator==(const Message&) const = default;
  };
  std::vector<std::uint32_t> groups;  // Communicators
  std::vector<Message> messages;      // as in Stops
  bool operator==(const Partners&) const = default;
};
Partners partners_of(const Program& program, Communicators& communicators);

/// One program of a job.
struct Meetings {
  std::vector<Stops> classes;
  std::vector<Partners> ranks;
  Communicators communicators;
};
/// The meetings in the program at this place of each bundle. Cost: linear in the instructions of
/// the classes, and in the ranks, their groups and messages.
Meetings meetings(const Job& job, std::size_t program);

}  // namespace fourfold::program
