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

/// Tensors that have met so far, and the place of the instruction that takes them.
struct Bucket {
  std::size_t index = 0;
  std::int64_t bytes = 0;
  std::size_t tensors = 0;
};

class Joining {
 public:
  explicit Joining(Program& program) : program_(program), uses_(program) {}

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

  DType dtype_of(const Slice& slice) const { return program_.buffer(slice.buffer).dtype; }

  /// True if two collectives differ only in their tensors.
  bool fits(std::size_t a, std::size_t b) const {
    const program::Instruction &one = program_.instructions[a], &other = program_.instructions[b];
    if (one.stream != other.stream || one.what.index() != other.what.index()) return false;
    if (const auto* reduce = std::get_if<AllReduce>(&one.what)) {
      const auto& next = std::get<AllReduce>(other.what);
      return reduce->group == next.group && reduce->reduction == next.reduction &&
             dtype_of(reduce->data[0]) == dtype_of(next.data[0]);
    }
    const auto &gather = std::get<AllGather>(one.what), &next = std::get<AllGather>(other.what);
    return gather.group == next.group && dtype_of(gather.to[0]) == dtype_of(next.to[0]);
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
  Uses uses_;
  std::vector<Bucket> buckets_;  // of the task, that more may join
};

}  // namespace

Program join_collectives(Program program) {
  const bool has_any = std::ranges::any_of(program.instructions, [](const auto& instruction) {
    return std::holds_alternative<AllReduce>(instruction.what) ||
           std::holds_alternative<AllGather>(instruction.what);
  });
  if (has_any) Joining(program).run();
  return program;
}

}  // namespace fourfold::compile
