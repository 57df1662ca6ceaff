#include "compile/join.h"

#include <algorithm>
#include <map>

#include "compile/uses.h"

namespace fourfold::compile {
namespace {

using program::Access;
using program::Compute;
using program::Instruction;
using program::Program;

/// What instructions that stay where they are touch, by buffer.
class Touched {
 public:
  void add(const Instruction& instruction) {
    for (const Access& access : program::accesses(instruction))
      by_buffer_[access.slice.buffer].push_back(access);
  }
  bool conflicts_with(const Instruction& instruction) const {
    for (const Access& access : program::accesses(instruction)) {
      const auto place = by_buffer_.find(access.slice.buffer);
      if (place == by_buffer_.end()) continue;
      for (const Access& other : place->second)
        if ((access.role != op::Role::read || other.role != op::Role::read) &&
            access.slice.offset_bytes < other.slice.end_bytes() &&
            other.slice.offset_bytes < access.slice.end_bytes())
          return true;
    }
    return false;
  }

 private:
  std::map<program::BufferId, std::vector<Access>> by_buffer_;
};

}  // namespace

std::vector<const Compute*> computes_of(const Program& program, const Members& members) {
  std::vector<const Compute*> list;
  for (const std::size_t i : members)
    list.push_back(&std::get<Compute>(program.instructions[i].what));
  return list;
}

std::vector<Members> find_groups(const Program& program,
                                 const std::function<bool(const Compute&)>& is_wanted,
                                 const std::function<bool(const Members&, std::size_t)>& may_join) {
  std::vector<Members> groups;
  std::vector<Touched> between;  // since the place of each group, by what has not joined it
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto* compute = std::get_if<Compute>(&instruction.what);
    std::size_t own = groups.size();  // the group that it joins
    if (compute != nullptr && is_wanted(*compute)) {
      for (std::size_t group = groups.size(); group-- > 0 && own == groups.size();)
        if (may_join(groups[group], i) && !between[group].conflicts_with(instruction)) own = group;
      if (own == groups.size()) {
        groups.emplace_back();
        between.emplace_back();
      }
      groups[own].push_back(i);
    }
    // It now stands at the place of its group, or where it was: after the groups before that.
    for (std::size_t group = 0; group < std::min(own, groups.size()); ++group)
      between[group].add(instruction);
  }
  return groups;
}

Program join_groups(Program program, const std::vector<Members>& groups, const Join& join) {
  std::vector<bool> gone(program.instructions.size(), false);
  for (const Members& group : groups) {
    if (group.size() < 2) continue;
    Compute joined = join(computes_of(program, group));
    for (const std::size_t member : group) gone[member] = true;
    gone[group[0]] = false;
    program.instructions[group[0]].what = std::move(joined);
  }
  erase(program, gone);
  return program;
}

}  // namespace fourfold::compile
