#include "compile/join_collectives.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compile/uses.h"

namespace fourfold::compile {
namespace {

using program::AllGather;
using program::AllReduce;
using program::Program;
using program::Slice;
using program::What;

constexpr std::int64_t most_bytes_of_one = std::int64_t{32} << 10,
                       most_bytes = std::int64_t{256} << 10;
constexpr std::size_t most_tensors = 64;

/// By buffer: the chunk of a micro-batch whose values it holds. Nothing where that is not one
/// alone, as in sums and weights, nor in a program without chunks.
std::vector<std::optional<std::int64_t>> chunks_of(const Program& program) {
  std::vector<std::optional<std::int64_t>> chunk_of(program.buffers.size());
  if (program.feeds.chunks == 1) return chunk_of;
  std::vector<bool> has_several(program.buffers.size(), false);
  for (const program::Instruction& instruction : program.instructions) {
    std::optional<std::int64_t> chunk;
    if (const auto* feed = std::get_if<program::Feed>(&instruction.what)) chunk = feed->chunk;
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (const auto samples = op::samples_of(compute->op)) chunk = samples->chunk;
    const std::vector<program::Access> accesses = program::accesses(instruction);
    for (const program::Access& access : accesses)
      if (access.role == op::Role::read && chunk_of[access.slice.buffer.index()])
        chunk = chunk_of[access.slice.buffer.index()];
    for (const program::Access& access : accesses) {
      const std::size_t buffer = access.slice.buffer.index();
      if (access.role == op::Role::read || !chunk || has_several[buffer]) continue;
      has_several[buffer] = chunk_of[buffer].value_or(*chunk) != *chunk;
      chunk_of[buffer] = has_several[buffer] ? std::nullopt : chunk;
    }
  }
  return chunk_of;
}

/// Tensors that have met so far, and the place of the instruction that takes them.
struct Bucket {
  std::size_t index = 0;
  std::int64_t bytes = 0;
  std::size_t tensors = 0;
};

class Joining {
 public:
  explicit Joining(Program& program)
      : program_(program), chunk_of_(chunks_of(program)), uses_(program) {}

  void run() {
    for (const program::Task& task : program_.tasks) {
      buckets_.clear();
      for (std::size_t i = task.begin; i < task.end; ++i) take(i);
    }
    uses_.finish();
  }

 private:
  void take(std::size_t index) {
    const auto bytes = bytes_in_place(program_.instructions[index].what);
    if (!bytes || *bytes > most_bytes_of_one) return;
    const auto alike = [&](const Bucket& bucket) { return fits(bucket.index, index); };
    const auto bucket = std::ranges::find_if(buckets_, alike);
    if (bucket == buckets_.end()) {
      buckets_.push_back({index, *bytes, 1});
      return;
    }
    const bool has_room = bucket->bytes + *bytes <= most_bytes && bucket->tensors < most_tensors;
    if (!has_room || !uses_.may_move({bucket->index}, index)) {
      *bucket = {index, *bytes, 1};
      return;
    }
    uses_.replace({bucket->index, index}, index, joined(bucket->index, index));
    *bucket = {index, bucket->bytes + *bytes, bucket->tensors + 1};
  }

  /// Bytes of the tensors of a collective that works in place, on what has one type; nothing for
  /// anything else. Fields of a block have types of their own.
  std::optional<std::int64_t> bytes_in_place(const What& what) const {
    std::int64_t bytes = 0;
    bool may_join =
        std::holds_alternative<AllReduce>(what) || std::holds_alternative<AllGather>(what);
    const auto add = [&](const Slice& from, const Slice& to) {
      may_join = may_join && from.buffer == to.buffer &&
                 program_.buffer(to.buffer).role != program::BufferRole::result_block;
      bytes += to.bytes();
    };
    if (const auto* reduce = std::get_if<AllReduce>(&what)) program::for_each_tensor(*reduce, add);
    if (const auto* gather = std::get_if<AllGather>(&what)) program::for_each_tensor(*gather, add);
    return may_join ? std::optional(bytes) : std::nullopt;
  }

  /// True if two collectives may be one, and none would wait for another chunk.
  bool fits(std::size_t a, std::size_t b) const {
    const program::Instruction &one = program_.instructions[a], &other = program_.instructions[b];
    return differ_in_tensors_alone(program_, one, other) && chunk_of(one) == chunk_of(other);
  }
  std::optional<std::int64_t> chunk_of(const program::Instruction& instruction) const {
    return chunk_of_[program::accesses(instruction)[0].slice.buffer.index()];
  }

  What joined(std::size_t first, std::size_t last) const {
    What all = program_.instructions[first].what;
    const auto append = [](program::Slices& list, const program::Slices& more) {
      list.insert(list.end(), more.begin(), more.end());
    };
    const What& more = program_.instructions[last].what;
    if (auto* reduce = std::get_if<AllReduce>(&all)) {
      append(reduce->data, std::get<AllReduce>(more).data);
    } else {
      auto& gather = std::get<AllGather>(all);
      append(gather.from, std::get<AllGather>(more).from);
      append(gather.to, std::get<AllGather>(more).to);
    }
    return all;
  }

  Program& program_;
  std::vector<std::optional<std::int64_t>> chunk_of_;  // by buffer
  Uses uses_;
  std::vector<Bucket> buckets_;  // of the task, that more may join
};

}  // namespace

bool differ_in_tensors_alone(const Program& program, const program::Instruction& a,
                             const program::Instruction& b) {
  const auto are_alike = [&](const Slice& one, const Slice& other) {
    return program.buffer(one.buffer).dtype == program.buffer(other.buffer).dtype;
  };
  if (a.stream != b.stream || a.what.index() != b.what.index()) return false;
  if (const auto* reduce = std::get_if<AllReduce>(&a.what)) {
    const auto& other = std::get<AllReduce>(b.what);
    return reduce->group == other.group && reduce->reduction == other.reduction &&
           are_alike(reduce->data[0], other.data[0]);
  }
  const auto* gather = std::get_if<AllGather>(&a.what);
  if (gather == nullptr) return false;
  const auto& other = std::get<AllGather>(b.what);
  return gather->group == other.group && are_alike(gather->to[0], other.to[0]);
}

Program join_collectives(Program program) {
  const bool has_any = std::ranges::any_of(program.instructions, [](const auto& instruction) {
    return std::holds_alternative<AllReduce>(instruction.what) ||
           std::holds_alternative<AllGather>(instruction.what);
  });
  if (has_any) Joining(program).run();
  return program;
}

}  // namespace fourfold::compile
