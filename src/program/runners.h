// Whose streams are followed through a program of a job: all ranks, or one of each class where that
// says as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/meetings.h"

namespace fourfold::program {

/// Who meets whom in one program, wherever it is kept: a view.
struct MeetingsView {
  std::vector<const Stops*> classes;
  std::vector<std::size_t> class_of;  // of each rank
  std::vector<const Partners*> ranks;
  const Communicators* communicators = nullptr;

  const Stops& stops(std::size_t rank) const { return *classes[class_of[rank]]; }
  const Partners& partners(std::size_t rank) const { return *ranks[rank]; }
};
MeetingsView view_of(const Meetings& meetings, const Job& job);

struct Runners {
  struct Runner {
    std::uint32_t rank = 0;
    std::vector<std::uint32_t> channels;  // of each of its messages
  };
  std::vector<Runner> list;
  std::size_t num_channels = 0;
  bool are_all = true;  // if not, the other members of a group are where the runner is
};

/// All ranks. A channel is a sender, a receiver and a tag.
Runners all_runners(const MeetingsView& meetings);

/// The first rank of each class, if the ranks of a class never get out of step: all members of a
/// group are of one class and have the group in the same place, and what the ranks of a class send
/// or receive in one place, ranks of one class receive or send in one place. Then whatever one of
/// them can do the others can do too, and a job comes to its end where these few do, with a channel
/// for each pair of such places. Requires that no two streams of a rank use one group at a time
/// (rules groups and order of verify/). Cost: n log n in the ranks and their messages.
std::optional<Runners> one_of_each_class(const MeetingsView& meetings);

}  // namespace fourfold::program
