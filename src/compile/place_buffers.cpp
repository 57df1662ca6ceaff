#include "compile/place_buffers.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "compile/liveness.h"
#include "compile/occupancy.h"
#include "compile/persistent_region.h"

namespace fourfold::compile {
namespace {

using program::BufferId;
using program::Program;

/// Buffers that share one address, and when any of them is alive, by begin. No two lives have more
/// than the instruction in common in which one takes over from the other.
struct Allocation {
  std::vector<std::size_t> buffers;
  std::int64_t bytes = 0;
  std::vector<Interval> lives;

  /// True if each of these lives begins where one here ends, at the earliest, and ends before the
  /// next one begins: a source may be written anew while what took over from it is still read, as
  /// weight gradients do that a pipeline makes later.
  bool has_time_for(const std::vector<Interval>& others) const {
    return std::ranges::all_of(others, [&](const Interval& other) {
      const auto next = std::ranges::lower_bound(lives, other.begin, {}, &Interval::begin);
      return (next == lives.end() || next->begin > other.end) &&
             (next == lives.begin() || std::prev(next)->end <= other.begin);
    });
  }
};

/// output buffer -> read buffers whose memory it may take, over all instructions that write it.
class Takeovers {
 public:
  Takeovers(const Program& program, Reach reach)
      : program_(program), lives_(live_intervals(program)), takeovers_(program.buffers.size()) {
    extend(lives_, program, reach);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what);
      if (compute == nullptr) continue;
      const op::Operands operands = op::operands(compute->op);
      for (std::size_t o = 0; o < operands.size(); ++o)
        if (operands[o].may_alias)
          note(compute->slices[o].buffer, compute->slices[*operands[o].may_alias].buffer, i);
    }
  }

  /// The buffer whose memory `output` takes over in every one of its lives, if there is one.
  std::optional<std::size_t> source(std::size_t output) const {
    const auto& [read, at] = takeovers_[output];
    if (at.empty()) return std::nullopt;
    const auto& from = lives_[read];
    const auto& to = lives_[output];
    if (from.size() != to.size() || at.size() != to.size()) return std::nullopt;
    for (std::size_t life = 0; life < to.size(); ++life)
      if (from[life].end != at[life] || to[life].begin != at[life]) return std::nullopt;
    return read;
  }

  const std::vector<std::vector<Interval>>& lives() const { return lives_; }

 private:
  static bool may_move(const program::Buffer& buffer) {
    return buffer.region == program::Region::transient &&
           buffer.role == program::BufferRole::activation;
  }

  void note(BufferId output, BufferId read, std::size_t instruction) {
    const program::Buffer& to = program_.buffer(output);
    const program::Buffer& from = program_.buffer(read);
    if (!may_move(from) || to.region != program::Region::transient ||
        to.size_bytes != from.size_bytes)
      return;
    Takeover& takeover = takeovers_[output.index()];
    if (takeover.instructions.empty()) takeover.read = read.index();
    if (takeover.read == read.index()) takeover.instructions.push_back(instruction);
  }

  const Program& program_;
  std::vector<std::vector<Interval>> lives_;
  struct Takeover {
    std::size_t read = 0;  // buffer
    std::vector<std::size_t> instructions;
  };
  std::vector<Takeover> takeovers_;  // by output buffer; most have none
};

std::vector<Allocation> allocations(const Program& program, Reach reach = {}) {
  const Takeovers takeovers(program, reach);
  std::vector<Allocation> list;
  std::vector<std::optional<std::size_t>> of_buffer(program.buffers.size());
  // Sources come before what takes them over when buffers are visited in order of their first life.
  std::vector<std::pair<std::size_t, std::size_t>> order;  // begin of the first life, buffer
  for (std::size_t b = 0; b < program.buffers.size(); ++b)
    if (!takeovers.lives()[b].empty()) order.emplace_back(takeovers.lives()[b][0].begin, b);
  std::ranges::sort(order);
  for (const auto& [begin, b] : order) {
    const auto source = takeovers.source(b);
    const std::vector<Interval>& lives = takeovers.lives()[b];
    if (source && of_buffer[*source] && list[*of_buffer[*source]].has_time_for(lives)) {
      Allocation& allocation = list[*of_buffer[*source]];
      allocation.buffers.push_back(b);
      const auto middle = static_cast<std::ptrdiff_t>(allocation.lives.size());
      allocation.lives.insert(allocation.lives.end(), lives.begin(), lives.end());
      std::ranges::inplace_merge(allocation.lives, allocation.lives.begin() + middle, {},
                                 &Interval::begin);
      of_buffer[b] = of_buffer[*source];
      continue;
    }
    of_buffer[b] = list.size();
    list.push_back({{b}, align_up(program.buffers[b].size_bytes), takeovers.lives()[b]});
  }
  for (Allocation& allocation : list) join(allocation.lives);
  return list;
}

/// Removes untouched transient buffers and renumbers the rest.
void drop_untouched(Program& program) {
  std::vector<bool> touched(program.buffers.size(), false);
  for (program::Instruction& instruction : program.instructions)
    program::for_each_slice(
        instruction, [&](const program::Slice& slice) { touched[slice.buffer.index()] = true; });
  std::vector<std::size_t> renumbered(program.buffers.size());
  std::size_t kept = 0;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    renumbered[b] = kept;
    if (!touched[b] && program.buffers[b].region != program::Region::persistent) continue;
    if (kept != b) program.buffers[kept] = std::move(program.buffers[b]);
    ++kept;
  }
  if (kept == program.buffers.size()) return;
  program.buffers.erase(program.buffers.begin() + static_cast<std::ptrdiff_t>(kept),
                        program.buffers.end());
  for (program::Instruction& instruction : program.instructions)
    program::for_each_slice(instruction, [&](program::Slice& slice) {
      slice.buffer = BufferId(renumbered[slice.buffer.index()]);
    });
}

}  // namespace

program::Program place_buffers(Program program, Reach reach) {
  drop_untouched(program);
  std::vector<Allocation> list = allocations(program, reach);
  std::vector<const Allocation*> by_size;
  for (const Allocation& allocation : list) by_size.push_back(&allocation);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });

  Occupancy memory;
  for (const Allocation* allocation : by_size) {
    const std::int64_t offset = memory.lowest_offset(allocation->bytes, allocation->lives);
    memory.add(offset, allocation->bytes, allocation->lives);
    program.transient_bytes = std::max(program.transient_bytes, offset + allocation->bytes);
    for (const std::size_t b : allocation->buffers) program.buffers[b].offset_bytes = offset;
  }
  return program;
}

LivePeak live_peak(const Program& program) {
  const std::vector<Allocation> list = allocations(program);
  std::vector<std::int64_t> change(program.instructions.size() + 1, 0);
  for (const Allocation& allocation : list)
    for (const Interval& life : allocation.lives) {
      change[life.begin] += allocation.bytes;
      change[life.end + 1] -= allocation.bytes;
    }
  LivePeak peak;
  std::int64_t live = 0;
  for (std::size_t i = 0; i < change.size(); ++i)
    if ((live += change[i]) > peak.bytes) peak.instruction = i, peak.bytes = live;
  const Interval there{peak.instruction, peak.instruction};
  const auto lives = live_intervals(program);
  for (const Allocation& allocation : list) {
    // Where one takes over from another, both are alive: the later one has the address.
    const auto place = std::find_if(allocation.buffers.rbegin(), allocation.buffers.rend(),
                                    [&](std::size_t b) { return overlap(lives[b], {there}); });
    if (place != allocation.buffers.rend()) peak.buffers.emplace_back(*place);
  }
  return peak;
}

std::int64_t live_bytes_bound(const Program& program) {
  return live_peak(program).bytes;
}

}  // namespace fourfold::compile
