// Mutants of collectives, and of the feeds of samples.
#include <algorithm>

#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

std::optional<GroupId> group_at(const Instruction& instruction) {
  return std::visit(
      [](const auto& what) -> std::optional<GroupId> {
        if constexpr (requires { what.group; })
          return what.group;
        else
          return std::nullopt;
      },
      instruction.what);
}

bool is_collective(const Program& program, std::size_t at) {
  const auto group = group_at(program.instructions[at]);
  return group && program.groups[group->index()].members.size() > 1;
}

std::optional<Change> change_group(const Program& program, std::size_t at, Draws& random) {
  if (!is_collective(program, at)) return std::nullopt;
  const Group& group = program.groups[group_at(program.instructions[at])->index()];
  std::vector<std::string> others;
  for (const Group& other : program.groups)
    if (other.mesh == group.mesh && other.axes != group.axes && other.members.size() > 1)
      others.push_back(other.name);
  if (others.empty()) return std::nullopt;
  return [other = pick_of(others, random)](const Spot& spot) {
    const auto found = std::ranges::find(spot.program.groups, other, &Group::name);
    if (found == spot.program.groups.end()) return false;
    return std::visit(
        [&](auto& what) {
          if constexpr (requires { what.group; }) {
            what.group = GroupId(static_cast<std::size_t>(found - spot.program.groups.begin()));
            return true;
          }
          return false;
        },
        spot.instruction().what);
  };
}

std::optional<Change> change_reduction(const Program& program, std::size_t at, Draws&) {
  if (!is_collective(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    return std::visit(
        [](auto& what) {
          if constexpr (requires { what.reduction; }) {
            what.reduction =
                what.reduction == op::Reduction::sum ? op::Reduction::max : op::Reduction::sum;
            return true;
          }
          return false;
        },
        spot.instruction().what);
  };
}

std::optional<Change> erase_collective(const Program& program, std::size_t at, Draws&) {
  if (!is_collective(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}

/// Without its members each rank keeps what it has: its own part stands for all.
std::optional<Change> own_part_alone(const Program& program, std::size_t at, Draws&) {
  if (!is_collective(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    const std::vector<Access> list = touched(spot.instruction());
    if (list.size() != 2) return false;
    Slice from = list[0].slice, to = list[1].slice;
    if (from.rows != 1 || to.rows != 1 || from.bytes() == to.bytes()) return false;
    from.row_bytes = to.row_bytes = std::min(from.row_bytes, to.row_bytes);
    spot.instruction().what = Copy{from, to};
    return true;
  };
}

std::optional<Change> double_collective(const Program& program, std::size_t at, Draws&) {
  if (!is_collective(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    const Instruction again = spot.instruction();
    insert_instruction(spot.program, spot.at + 1, again);
    return true;
  };
}

/// Calls change(list) with one of the lists of tensors of a collective, by its number.
template <class Function>
bool change_list(Instruction& instruction, std::size_t which, Function&& change) {
  return std::visit(
      [&](auto& what) {
        if constexpr (requires { what.data; })
          return change(what.data);
        else if constexpr (requires {
                             what.group;
                             what.from;
                           })
          return change(which == 0 ? what.from : what.to);
        else
          return false;
      },
      instruction.what);
}

/// A collective of several tensors.
bool has_list(const Program& program, std::size_t at) {
  return is_collective(program, at) && std::visit(
                                           [](const auto& what) {
                                             if constexpr (requires { what.data; })
                                               return what.data.size() > 1;
                                             else if constexpr (requires { what.group; })
                                               return what.from.size() > 1;
                                             else
                                               return false;
                                           },
                                           program.instructions[at].what);
}

std::optional<Change> exchange_tensors(const Program& program, std::size_t at, Draws& random) {
  if (!has_list(program, at)) return std::nullopt;
  const std::size_t which = random() % 2;
  const std::uint64_t seed = random();
  return [which, seed](const Spot& spot) {
    return change_list(spot.instruction(), which, [&](Slices& list) {
      Draws own(seed);
      if (list.size() < 2) return false;
      const std::size_t one = own() % list.size();
      std::vector<std::size_t> others;
      for (std::size_t i = 0; i < list.size(); ++i)
        if (i != one && list[i].bytes() == list[one].bytes()) others.push_back(i);
      if (others.empty()) return false;
      std::swap(list[one], list[pick_of(others, own)]);
      return true;
    });
  };
}

std::optional<Change> leave_out_tensor(const Program& program, std::size_t at, Draws& random) {
  if (!has_list(program, at)) return std::nullopt;
  return [seed = random()](const Spot& spot) {
    bool is_made = false;
    for (const std::size_t which : {0U, 1U}) {
      if (which == 1 && std::holds_alternative<AllReduce>(spot.instruction().what)) break;
      is_made = change_list(spot.instruction(), which, [&](Slices& list) {
        if (list.size() < 2) return false;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(seed % list.size()));
        return true;
      });
    }
    return is_made;
  };
}

/// Two collectives of one kind, in one task, have each other's tensors.
std::optional<Change> exchange_collectives(const Program& program, std::size_t at, Draws& random) {
  if (!is_collective(program, at)) return std::nullopt;
  const Task& task = program.tasks[task_of(program, at)];
  const What& what = program.instructions[at].what;
  std::vector<std::size_t> others;
  for (std::size_t i = task.begin; i < task.end; ++i)
    if (is_collective(program, i) && program.instructions[i].what.index() == what.index() &&
        !(program.instructions[i].what == what))
      others.push_back(i);
  if (others.empty()) return std::nullopt;
  return [other = landmark_of(program, pick_of(others, random))](const Spot& spot) {
    const auto there = spot.find_other(other);
    if (!there || *there == spot.at) return false;
    std::swap(spot.instruction().what, spot.program.instructions[*there].what);
    return true;
  };
}

/// The members of a group in another order.
std::optional<Change> turn_members(const Program& program, std::size_t at, Draws&) {
  if (!is_collective(program, at)) return std::nullopt;
  return [](const Spot& spot) {
    const auto id = group_at(spot.instruction());
    if (!id) return false;
    Group& group = spot.program.groups[id->index()];
    Ranks turned;
    for (std::size_t i = 0; i < group.members.size(); ++i)
      turned.push_back(group.members[(i + 1) % group.members.size()]);
    group.members = turned;
    return true;
  };
}

const Feed* feed_at(const Program& program, std::size_t at) {
  return std::get_if<Feed>(&program.instructions[at].what);
}

std::optional<Change> feed_other_input(const Program& program, std::size_t at, Draws& random) {
  const Feed* feed = feed_at(program, at);
  if (feed == nullptr) return std::nullopt;
  const Input& own = program.inputs[feed->input.index()];
  std::vector<std::string> others;
  for (const Input& input : program.inputs)
    if (input.name != own.name && input.dtype == own.dtype &&
        input.sample_shape == own.sample_shape)
      others.push_back(input.name);
  if (others.empty()) return std::nullopt;
  return [other = pick_of(others, random)](const Spot& spot) {
    auto* here = spot.kind<Feed>();
    const auto found = std::ranges::find(spot.program.inputs, other, &Input::name);
    if (here == nullptr || found == spot.program.inputs.end()) return false;
    here->input = InputId(static_cast<std::size_t>(found - spot.program.inputs.begin()));
    return true;
  };
}

/// Another micro-batch, or another chunk of it where there are chunks.
std::optional<Change> feed_other_samples(const Program& program, std::size_t at, Draws& random) {
  if (feed_at(program, at) == nullptr) return std::nullopt;
  return [of_chunk = random() % 2 == 0](const Spot& spot) {
    auto* feed = spot.kind<Feed>();
    if (feed == nullptr) return false;
    const Feeds& feeds = spot.program.feeds;
    if (of_chunk && feeds.chunks > 1)
      feed->chunk = (feed->chunk + 1) % feeds.chunks;
    else if (feeds.micros > 1)
      feed->micro = (feed->micro + 1) % feeds.micros;
    else
      return false;
    return true;
  };
}

/// Two feeds of one input bring each other's samples: each is fed once.
std::optional<Change> exchange_feeds(const Program& program, std::size_t at, Draws& random) {
  const Feed* feed = feed_at(program, at);
  if (feed == nullptr) return std::nullopt;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (const Feed* other = feed_at(program, i);
        other != nullptr && other->input == feed->input &&
        (other->micro != feed->micro || other->chunk != feed->chunk))
      others.push_back(i);
  if (others.empty()) return std::nullopt;
  return [other = landmark_of(program, pick_of(others, random))](const Spot& spot) {
    const auto there = find(spot.program, other);
    auto* here = spot.kind<Feed>();
    if (!there || here == nullptr || *there == spot.at) return false;
    auto& second = std::get<Feed>(spot.program.instructions[*there].what);
    std::swap(here->micro, second.micro);
    std::swap(here->chunk, second.chunk);
    return true;
  };
}

std::optional<Change> erase_feed(const Program& program, std::size_t at, Draws&) {
  if (feed_at(program, at) == nullptr) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}

/// The samples of another rank, or more of them than the micro-batch has.
std::optional<Change> move_samples(const Program& program, std::size_t at, Draws& random) {
  if (feed_at(program, at) == nullptr) return std::nullopt;
  return [way = random() % 3](const Spot& spot) {
    Feeds& feeds = spot.program.feeds;
    if (way == 2)
      feeds.samples += feeds.count;
    else if (feeds.first >= feeds.count)
      feeds.first -= feeds.count;
    else if (feeds.first + 2 * feeds.count <= feeds.samples)
      feeds.first += feeds.count;
    else
      return false;
    return true;
  };
}

}  // namespace

void add_exchange_mutants(std::vector<MutantKind>& list) {
  list.push_back({"a collective along another axis", change_group});
  list.push_back({"a maximum for a sum, or a sum for a maximum", change_reduction});
  list.push_back({"a collective left out", erase_collective});
  list.push_back({"a collective that moves its own part alone", own_part_alone});
  list.push_back({"a collective twice", double_collective});
  list.push_back({"two tensors of a collective exchanged", exchange_tensors});
  list.push_back({"a tensor of a collective left out", leave_out_tensor});
  list.push_back({"two collectives exchanged", exchange_collectives});
  list.push_back({"members of a group in another order", turn_members, true});
  list.push_back({"another input fed", feed_other_input});
  list.push_back({"samples of another micro-batch fed", feed_other_samples});
  list.push_back({"two feeds exchanged", exchange_feeds});
  list.push_back({"a feed left out", erase_feed});
  list.push_back({"samples of another rank fed", move_samples, true});
}

}  // namespace fourfold::verify
