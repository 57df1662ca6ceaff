#include "compile/uses.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

#include "base/error.h"

namespace fourfold::compile {

using program::Access;
using program::Compute;
using program::Instruction;
using program::Slice;

namespace {

void drop_untouched_buffers(program::Program& program) {
  std::vector<bool> is_touched(program.buffers.size(), false);
  for (Instruction& instruction : program.instructions)
    program::for_each_slice(instruction,
                            [&](Slice& slice) { is_touched[slice.buffer.index()] = true; });
  std::vector<program::Buffer> kept;
  std::vector<program::BufferId> now;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    program::Buffer& buffer = program.buffers[i];
    now.emplace_back(kept.size());
    const bool is_temporary = buffer.region == program::Region::transient &&
                              buffer.role == program::BufferRole::activation;
    if (!is_temporary || is_touched[i]) kept.push_back(std::move(buffer));
  }
  program.buffers = std::move(kept);
  for (Instruction& instruction : program.instructions)
    program::for_each_slice(instruction,
                            [&](Slice& slice) { slice.buffer = now[slice.buffer.index()]; });
}

}  // namespace

Uses::Use::Use(std::size_t instruction, const Access& access)
    : index(static_cast<std::uint32_t>(instruction)),
      role(access.role),
      is_one_row(access.slice.rows == 1),
      begin(access.slice.offset_bytes),
      end(access.slice.end_bytes()) {}

Uses::Uses(program::Program& program, std::size_t first, std::size_t last)
    : program_(program),
      begin_(program.buffers.size() + 1, 0),
      tasks_(program.instructions.size(), program.tasks.size()),
      gone_(program.instructions.size(), false) {
  require(program.instructions.size() <= std::numeric_limits<std::uint32_t>::max(),
          "a program has less than 2^32 instructions");
  for (std::size_t task = 0; task < program.tasks.size(); ++task)
    for (std::size_t i = program.tasks[task].begin; i < program.tasks[task].end; ++i)
      tasks_[i] = task;
  for (std::size_t i = first; i < last; ++i)
    program::for_each_slice(program.instructions[i], [&](const Slice& slice) {
      if (!is_given(slice)) ++begin_[slice.buffer.index() + 1];
    });
  for (std::size_t buffer = 0; buffer < program.buffers.size(); ++buffer)
    begin_[buffer + 1] += begin_[buffer];
  uses_.resize(begin_.back());
  std::vector<std::size_t> next = begin_;
  for (std::size_t i = first; i < last; ++i)
    for (const Access& access : program::accesses(program.instructions[i]))
      if (!is_given(access.slice)) uses_[next[access.slice.buffer.index()]++] = Use(i, access);
}

void Uses::add(std::size_t index, Freed& freed) {
  for (const Access& access : program::accesses(program_.instructions[index])) {
    if (is_given(access.slice)) continue;
    const std::span<Use> list = of(*this, access.slice.buffer);
    std::vector<std::size_t>& places = freed[access.slice.buffer];
    require(!places.empty(), "an instruction touches what those do that it replaces");
    const auto old = std::ranges::find_if(
        std::ranges::lower_bound(list, places.back(), {}, &Use::index), list.end(), &Use::is_gone);
    places.pop_back();
    const auto behind = std::ranges::upper_bound(list, index, {}, &Use::index);
    const auto place =
        old < behind ? std::rotate(old, old + 1, behind) : std::rotate(behind, old, old + 1) - 1;
    num_moved_ += static_cast<std::size_t>(old < behind ? behind - old : old - behind);
    *place = Use(index, access);
  }
}

void Uses::remove(std::size_t index, Freed& freed) {
  for (const Access& access : program::accesses(program_.instructions[index])) {
    if (is_given(access.slice)) continue;
    const std::span<Use> list = of(*this, access.slice.buffer);
    for (auto use = std::ranges::lower_bound(list, index, {}, &Use::index);
         use != list.end() && use->index == index; ++use) {
      if (!use->is_gone) freed[access.slice.buffer].push_back(index);
      use->is_gone = true;
    }
  }
}

std::span<const Uses::Use> Uses::between(program::BufferId buffer, std::size_t first,
                                         std::size_t last) const {
  const std::span<const Use> list = of(*this, buffer);
  const auto begin = std::ranges::lower_bound(list, first, {}, &Use::index);
  return {begin, std::ranges::lower_bound(begin, list.end(), last, {}, &Use::index)};
}

std::optional<std::size_t> Uses::writer(const Slice& slice, std::size_t reader) const {
  for (const Use& use : between(slice.buffer, 0, reader) | std::views::reverse) {
    if (!same_task(use.index, reader)) return std::nullopt;
    if (use.is_gone) continue;
    if (use.role == op::Role::read || !use.overlaps(slice)) continue;
    const Instruction &from = program_.instructions[use.index], &to = program_.instructions[reader];
    if (from.stream != to.stream || use.role != op::Role::write || !use.is(slice) ||
        !std::holds_alternative<Compute>(from.what))
      return std::nullopt;
    return use.index;
  }
  return std::nullopt;
}

std::vector<std::size_t> Uses::of_value(const Slice& slice, std::size_t writer) const {
  std::vector<std::size_t> found;
  for (const Use& use : between(slice.buffer, writer + 1, gone_.size())) {
    if (use.is_gone || !use.overlaps(slice)) continue;
    if (use.role == op::Role::write && use.is(slice)) break;
    found.push_back(use.index);
  }
  return found;
}

bool Uses::is_kept(const Slice& slice, std::size_t first, std::size_t last) const {
  return std::ranges::none_of(between(slice.buffer, first + 1, last), [&](const Use& use) {
    return !use.is_gone && use.role != op::Role::read && use.overlaps(slice);
  });
}

bool Uses::may_move(std::vector<std::size_t> moved, std::size_t to) const {
  std::sort(moved.begin(), moved.end());
  for (const std::size_t from : moved) {
    const auto [first, last] = std::minmax(from, to);
    for (const Access& own : program::accesses(program_.instructions[from]))
      for (const Use& other : between(own.slice.buffer, first + 1, last))
        if (const bool conflict = own.role != op::Role::read || other.role != op::Role::read;
            conflict && !other.is_gone && other.overlaps(own.slice) &&
            !std::ranges::binary_search(moved, other.index))
          return false;
  }
  return true;
}

void Uses::replace(const std::vector<std::size_t>& members, std::size_t to, program::What what) {
  Freed freed;
  for (const std::size_t member : members) {
    remove(member, freed);
    gone_[member] = member != to;
  }
  if (std::ranges::find(members, to) == members.end()) remove(to, freed);
  program_.instructions[to].what = std::move(what);
  add(to, freed);
}

void rearrange(program::Program& program, const std::vector<Goal>& goals) {
  std::vector<std::uint32_t> order(goals.size());  // by new place: the former one
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return goals[i]; });
  for (program::Task& task : program.tasks) {
    const auto place = [&](std::size_t index) {
      return static_cast<std::size_t>(
          std::ranges::lower_bound(order, Goal::before(index), {},
                                   [&](std::uint32_t i) { return goals[i]; }) -
          order.begin());
    };
    task.begin = place(task.begin);
    task.end = place(task.end);
  }
  // Along each cycle of the permutation.
  for (std::size_t first = 0; first < order.size(); ++first) {
    if (order[first] == first) continue;
    program::Instruction held = std::move(program.instructions[first]);
    std::size_t at = first;
    while (order[at] != first) {
      const std::size_t from = order[at];
      program.instructions[at] = std::move(program.instructions[from]);
      order[at] = static_cast<std::uint32_t>(at);
      at = from;
    }
    program.instructions[at] = std::move(held);
    order[at] = static_cast<std::uint32_t>(at);
  }
}

void erase(program::Program& program, const std::vector<bool>& gone) {
  if (std::ranges::find(gone, true) == gone.end()) return;
  std::vector<Instruction>& list = program.instructions;
  std::vector<std::size_t> now = {0};  // where each instruction stands afterwards
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!gone[i] && i != now.back()) list[now.back()] = std::move(list[i]);
    now.push_back(now.back() + (gone[i] ? 0 : 1));
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(now.back()), list.end());
  for (program::Task& task : program.tasks) task.begin = now[task.begin], task.end = now[task.end];
  drop_untouched_buffers(program);
}

}  // namespace fourfold::compile
