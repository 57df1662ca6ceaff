// Finds places in the bundles of a job where a mutation can do harm. For mutations*.cpp.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "program/builder.h"
#include "program/text.h"
#include "verify/mutations.h"

namespace fourfold::verify {

struct Site {
  std::size_t rank = 0, program = 0, instruction = 0;
};

inline Program& program_at(std::vector<Bundle>& job, const Site& site) {
  return job[site.rank].programs[site.program];
}
inline Instruction& instruction_at(std::vector<Bundle>& job, const Site& site) {
  return program_at(job, site).instructions[site.instruction];
}
template <class Kind>
Kind& kind_at(std::vector<Bundle>& job, const Site& site) {
  return std::get<Kind>(instruction_at(job, site).what);
}

inline Seeded seeded(std::vector<Bundle>& job, const Site& site, bool on_one_rank) {
  const Program& program = program_at(job, site);
  return {site.rank, on_one_rank, site.program,
          format("rank {}: {}: instruction {} ({})", site.rank, op::to_string(program.kind),
                 site.instruction, short_text(program, program.instructions[site.instruction]))};
}

/// A random site at which `suits(program, index)`, on a random rank. The program is the same on all
/// ranks of a class, so one of each class is searched.
template <class Suits>
std::optional<Site> pick(std::vector<Bundle>& job, std::mt19937& random, Suits&& suits) {
  std::vector<std::size_t> ranks(job.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
  std::shuffle(ranks.begin(), ranks.end(), random);
  // Ranks of one class have the same sites; a few ranks reach all classes in good time.
  constexpr std::size_t most_ranks = 8;
  for (std::size_t i = 0; i < ranks.size() && i < most_ranks; ++i) {
    std::vector<Site> sites;
    for (std::size_t p = 0; p < job[ranks[i]].programs.size(); ++p) {
      const Program& program = job[ranks[i]].programs[p];
      for (std::size_t at = 0; at < program.instructions.size(); ++at)
        if (suits(program, at)) sites.push_back({ranks[i], p, at});
    }
    if (!sites.empty()) return sites[random() % sites.size()];
  }
  return std::nullopt;
}
template <class Kind, class Suits>
std::optional<Site> pick_kind(std::vector<Bundle>& job, std::mt19937& random, Suits&& suits) {
  return pick(job, random, [&](const Program& program, std::size_t at) {
    const auto* what = std::get_if<Kind>(&program.instructions[at].what);
    return what != nullptr && suits(program, *what);
  });
}
template <class Row, class Suits>
std::optional<Site> pick_op(std::vector<Bundle>& job, std::mt19937& random, Suits&& suits) {
  return pick_kind<Compute>(job, random, [&](const Program& program, const Compute& compute) {
    const auto* row = compute.op.get_if<Row>();
    return row != nullptr && suits(program, compute, *row);
  });
}

/// Ranks whose program at the site is the same but for coordinates: all of its meshes.
inline std::vector<Site> siblings(std::vector<Bundle>& job, const Site& site) {
  const auto meshes_of = [&](std::size_t rank) {
    std::vector<bool> has;
    for (const Mesh& mesh : job[site.rank].programs[site.program].meshes)
      has.push_back(mesh.ranks.has(Rank(rank)));
    return has;
  };
  // Where another fault was seeded before, a rank may have something else there.
  const auto has_it = [&](std::size_t rank) {
    const auto& programs = job[rank].programs;
    return site.program < programs.size() &&
           site.instruction < programs[site.program].instructions.size() &&
           name(programs[site.program].instructions[site.instruction]) ==
               name(instruction_at(job, site));
  };
  std::vector<Site> all;
  for (std::size_t rank = 0; rank < job.size(); ++rank)
    if (meshes_of(rank) == meshes_of(site.rank) && has_it(rank))
      all.push_back({rank, site.program, site.instruction});
  return all;
}

inline std::optional<GroupId> group_of(const Instruction& instruction) {
  return std::visit(
      [](const auto& what) -> std::optional<GroupId> {
        if constexpr (requires { what.group; })
          return what.group;
        else
          return std::nullopt;
      },
      instruction.what);
}
/// True if it is a collective of more than one rank.
inline bool is_shared(const Program& program, std::size_t at) {
  const auto group = group_of(program.instructions[at]);
  return group && program.groups[group->index()].members.size() > 1;
}

/// True if a path of streams and events leads from one instruction to a later one, `without` one.
inline bool is_ordered(const Program& program, std::size_t from, std::size_t to,
                       std::optional<std::size_t> without = std::nullopt) {
  std::vector<bool> reached(program.instructions.size(), false);
  std::vector<bool> streams(program.streams.size(), false), events(program.num_events, false);
  for (std::size_t i = from; i <= to; ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto* wait = std::get_if<Wait>(&instruction.what);
    if (i == without) continue;
    const std::size_t stream = instruction.stream.index();
    if (i == from || (wait != nullptr && events[wait->event.index()])) streams[stream] = true;
    if (i == to) return streams[stream];
    if (const auto* record = std::get_if<Record>(&instruction.what))
      events[record->event.index()] = events[record->event.index()] || streams[stream];
  }
  return false;
}

inline bool touches(const Instruction& instruction, BufferId id, bool writes) {
  const auto list = accesses(instruction);
  return std::any_of(list.begin(), list.end(), [&](const Access& access) {
    return access.slice.buffer == id &&
           (writes ? access.role != op::Role::read : access.role != op::Role::write);
  });
}

inline std::optional<Site> pick_shared(std::vector<Bundle>& job, std::mt19937& random) {
  return pick(job, random, is_shared);
}

// --- changes

inline void erase_at(std::vector<Bundle>& job, const Site& site) {
  erase_instruction(program_at(job, site), site.instruction);
}
inline void double_at(std::vector<Bundle>& job, const Site& site) {
  const Instruction again = instruction_at(job, site);
  insert_instruction(program_at(job, site), site.instruction + 1, again);
}

/// Makes a change at a site, if there is one; on its rank, or on all siblings.
inline std::optional<Seeded> on_one(std::vector<Bundle>& job, const std::optional<Site>& site,
                                    const std::function<void(const Site&)>& change) {
  if (!site) return std::nullopt;
  const Seeded result = seeded(job, *site, true);
  change(*site);
  return result;
}
inline std::optional<Seeded> on_all(std::vector<Bundle>& job, const std::optional<Site>& site,
                                    const std::function<void(const Site&)>& change) {
  if (!site) return std::nullopt;
  const Seeded result = seeded(job, *site, false);
  for (const Site& sibling : siblings(job, *site)) change(sibling);
  return result;
}

inline void swap_whats(std::vector<Bundle>& job, const Site& site, std::size_t other) {
  std::swap(instruction_at(job, site).what, program_at(job, site).instructions[other].what);
}

}  // namespace fourfold::verify
