#include "compile/uses.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace fourfold::compile {

using program::Access;
using program::Compute;
using program::Instruction;
using program::Slice;

namespace {

bool overlap(const Slice& a, const Slice& b) {
  return a.buffer == b.buffer && a.offset_bytes < b.end_bytes() && b.offset_bytes < a.end_bytes();
}

bool conflict(const Access& a, const Access& b) {
  return (a.role != op::Role::read || b.role != op::Role::read) && overlap(a.slice, b.slice);
}

}  // namespace

Uses::Uses(program::Program& program)
    : program_(program),
      by_buffer_(program.buffers.size()),
      tasks_(program.instructions.size(), program.tasks.size()),
      gone_(program.instructions.size(), false) {
  for (std::size_t task = 0; task < program.tasks.size(); ++task)
    for (std::size_t i = program.tasks[task].begin; i < program.tasks[task].end; ++i)
      tasks_[i] = task;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) add(i);
}

void Uses::add(std::size_t index) {
  for (const Access& access : program::accesses(program_.instructions[index])) {
    if (is_given(access)) continue;
    std::vector<Use>& list = by_buffer_[access.slice.buffer.index()];
    list.insert(std::ranges::upper_bound(list, index, {}, &Use::index), {index, access});
  }
}

void Uses::remove(std::size_t index) {
  for (const Access& access : program::accesses(program_.instructions[index])) {
    if (is_given(access)) continue;
    std::vector<Use>& list = by_buffer_[access.slice.buffer.index()];
    const auto own = std::ranges::equal_range(list, index, {}, &Use::index);
    list.erase(own.begin(), own.end());
  }
}

std::span<const Uses::Use> Uses::between(program::BufferId buffer, std::size_t first,
                                         std::size_t last) const {
  const std::vector<Use>& list = by_buffer_[buffer.index()];
  const auto begin = std::ranges::lower_bound(list, first, {}, &Use::index);
  return {begin, std::ranges::lower_bound(begin, list.end(), last, {}, &Use::index)};
}

std::optional<std::size_t> Uses::writer(const Slice& slice, std::size_t reader) const {
  for (const Use& use : between(slice.buffer, 0, reader) | std::views::reverse) {
    if (!same_task(use.index, reader)) return std::nullopt;
    if (use.access.role == op::Role::read || !overlap(use.access.slice, slice)) continue;
    const Instruction &from = program_.instructions[use.index], &to = program_.instructions[reader];
    if (from.stream != to.stream || use.access.role != op::Role::write ||
        !(use.access.slice == slice) || !std::holds_alternative<Compute>(from.what))
      return std::nullopt;
    return use.index;
  }
  return std::nullopt;
}

std::vector<std::size_t> Uses::of_value(const Slice& slice, std::size_t writer) const {
  std::vector<std::size_t> found;
  for (const Use& use : between(slice.buffer, writer + 1, gone_.size())) {
    if (!overlap(use.access.slice, slice)) continue;
    if (use.access.role == op::Role::write && use.access.slice == slice) break;
    found.push_back(use.index);
  }
  return found;
}

bool Uses::may_move(std::vector<std::size_t> moved, std::size_t to) const {
  std::sort(moved.begin(), moved.end());
  for (const std::size_t from : moved) {
    const auto [first, last] = std::minmax(from, to);
    for (const Access& own : program::accesses(program_.instructions[from]))
      for (const Use& other : between(own.slice.buffer, first + 1, last))
        if (conflict(own, other.access) &&
            !std::binary_search(moved.begin(), moved.end(), other.index))
          return false;
  }
  return true;
}

void Uses::replace(const std::vector<std::size_t>& members, std::size_t to, Compute compute) {
  remove(to);
  for (const std::size_t member : members) {
    if (member == to) continue;
    remove(member);
    gone_[member] = true;
  }
  program_.instructions[to].what = std::move(compute);
  add(to);
}

void Uses::finish() {
  std::vector<Instruction>& list = program_.instructions;
  std::vector<std::size_t> now = {0};  // where each instruction stands afterwards
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!gone_[i] && i != now.back()) list[now.back()] = std::move(list[i]);
    now.push_back(now.back() + (gone_[i] ? 0 : 1));
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(now.back()), list.end());
  for (program::Task& task : program_.tasks) task.begin = now[task.begin], task.end = now[task.end];
  drop_untouched_buffers();
}

void Uses::drop_untouched_buffers() {
  std::vector<program::Buffer> kept;
  std::vector<program::BufferId> now;
  for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
    program::Buffer& buffer = program_.buffers[i];
    now.emplace_back(kept.size());
    const bool is_temporary = buffer.region == program::Region::transient &&
                              buffer.role == program::BufferRole::activation;
    if (!is_temporary || !by_buffer_[i].empty()) kept.push_back(std::move(buffer));
  }
  program_.buffers = std::move(kept);
  for (Instruction& instruction : program_.instructions)
    program::for_each_slice(instruction,
                            [&](Slice& slice) { slice.buffer = now[slice.buffer.index()]; });
}

}  // namespace fourfold::compile
