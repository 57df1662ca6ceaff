#include "compile/fill_buckets.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "compile/join_collectives.h"
#include "compile/uses.h"

namespace fourfold::compile {
namespace {

using program::AllReduce;
using program::Instruction;
using program::Program;
using program::ReduceScatter;
using program::Slice;
using program::Slices;
using program::What;

/// Collectives that become one, after the instruction that makes the last of their gradients.
struct Bucket {
  std::vector<std::size_t> members;  // instructions
  std::size_t after = 0;
  std::int64_t bytes = 0;
};

/// A collective that sums up gradients, and the instruction before it that touches them last.
struct Candidate {
  std::size_t index = 0, after = 0;
  std::int64_t bytes = 0;
};

/// The tensors of a collective that sums up, what it reads first; none of anything else.
std::vector<Slices*> tensors_of_sum(What& what) {
  if (auto* reduce = std::get_if<AllReduce>(&what)) return {&reduce->data};
  if (auto* scatter = std::get_if<ReduceScatter>(&what)) return {&scatter->from, &scatter->to};
  return {};
}

bool are_gradients(const Program& program, const Slices& slices) {
  return std::ranges::all_of(slices, [&](const Slice& slice) {
    const program::Buffer& buffer = program.buffer(slice.buffer);
    return buffer.role == program::BufferRole::gradient && slice.bytes() == buffer.size_bytes;
  });
}

/// Those that nothing before them in their task needs to precede.
std::vector<Candidate> candidates(Program& program) {
  std::vector<Candidate> list;
  std::vector<std::optional<std::size_t>> touched(program.buffers.size());
  const std::size_t begin = program.tasks.back().begin;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    Instruction& instruction = program.instructions[i];
    if (const std::vector<Slices*> tensors = tensors_of_sum(instruction.what);
        i >= begin && !tensors.empty() && are_gradients(program, *tensors[0])) {
      Candidate one{i, 0, 0};
      bool is_early = true;
      for (const Slice& slice : *tensors[0]) {
        const std::optional<std::size_t> last = touched[slice.buffer.index()];
        is_early = is_early && last && *last < begin;
        one.after = std::max(one.after, last.value_or(0));
        one.bytes += slice.bytes();
      }
      if (tensors.size() > 1)
        for (const Slice& slice : *tensors[1])
          is_early = is_early && !touched[slice.buffer.index()];
      if (is_early) list.push_back(one);
    }
    for (const program::Access& access : program::accesses(instruction))
      touched[access.slice.buffer.index()] = i;
  }
  std::ranges::stable_sort(list, {}, &Candidate::after);
  return list;
}

std::vector<Bucket> buckets(Program& program, std::int64_t bytes) {
  std::vector<Bucket> full, open;
  const auto close = [&](std::size_t index) {
    full.push_back(std::move(open[index]));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (const Candidate& one : candidates(program)) {
    const auto place = std::ranges::find_if(open, [&](const Bucket& bucket) {
      return differ_in_tensors_alone(program, program.instructions[bucket.members[0]],
                                     program.instructions[one.index]);
    });
    auto index = static_cast<std::size_t>(place - open.begin());
    // What is large itself would only be copied to go with others.
    if (place != open.end() && one.bytes >= bytes) {
      close(index);
      index = open.size();
    }
    if (index == open.size()) open.emplace_back();
    Bucket& bucket = open[index];
    bucket.members.push_back(one.index);
    bucket.after = one.after;
    bucket.bytes += one.bytes;
    if (bucket.bytes >= bytes) close(index);
  }
  while (!open.empty()) close(0);
  std::ranges::stable_sort(full, {}, &Bucket::after);
  return full;
}

/// Puts the tensors of all members into the first; the others are left without any.
void put_together(Program& program, const Bucket& bucket) {
  const auto tensors = tensors_of_sum(program.instructions[bucket.members[0]].what);
  for (std::size_t m = 1; m < bucket.members.size(); ++m) {
    const auto more = tensors_of_sum(program.instructions[bucket.members[m]].what);
    for (std::size_t list = 0; list < tensors.size(); ++list) {
      tensors[list]->insert(tensors[list]->end(), more[list]->begin(), more[list]->end());
      more[list]->clear();
    }
  }
}

}  // namespace

Program fill_buckets(Program program, std::int64_t bytes) {
  if (bytes == 0 || program.tasks.size() < 2) return program;
  const std::vector<Bucket> full = buckets(program, bytes);
  if (full.empty()) return program;
  std::vector<Goal> goals;
  goals.reserve(program.instructions.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) goals.push_back(Goal::own(i));
  for (const Bucket& bucket : full) {
    put_together(program, bucket);
    goals[bucket.members[0]] = Goal::after(bucket.after);
  }
  rearrange(program, goals);
  std::vector<bool> is_empty;
  is_empty.reserve(program.instructions.size());
  for (Instruction& instruction : program.instructions) {
    const auto tensors = tensors_of_sum(instruction.what);
    is_empty.push_back(!tensors.empty() && tensors[0]->empty());
  }
  erase(program, is_empty);
  return program;
}

}  // namespace fourfold::compile
