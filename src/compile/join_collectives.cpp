#include "compile/join_collectives.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compile/uses.h"

namespace fourfold::compile {
namespace {

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
    bool may_join = false;
    const auto add = [&](const Slice& from, const Slice& to) {
      may_join = may_join && from.buffer == to.buffer &&
                 program_.buffer(to.buffer).role != program::BufferRole::result_block;
      bytes += to.bytes();
    };
    std::visit(
        [&]<class Kind>(const Kind& one) {
          if constexpr (program::AnyCollective<Kind>) {
            may_join = !facts_of(one.kind).scatters();
            program::for_each_tensor(one, add);
          }
        },
        what);
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
    std::visit(
        [&]<class Kind>(Kind& one) {
          if constexpr (program::AnyCollective<Kind>) {
            const auto& more = std::get<Kind>(program_.instructions[last].what);
            if constexpr (requires { one.data; }) {
              append(one.data, more.data);
            } else {
              append(one.from, more.from);
              append(one.to, more.to);
            }
          }
        },
        all);
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
  if (a.stream != b.stream || a.what.index() != b.what.index()) return false;
  const auto dtype_of = [&](const auto& collective) {
    if constexpr (requires { collective.data; })
      return program.buffer(collective.data[0].buffer).dtype;
    else
      return program.buffer(collective.to[0].buffer).dtype;
  };
  return std::visit(
      [&]<class Kind>(const Kind& one) {
        if constexpr (program::AnyCollective<Kind>) {
          const auto& other = std::get<Kind>(b.what);
          bool is_alike = one.kind == other.kind && one.group == other.group &&
                          dtype_of(one) == dtype_of(other);
          if constexpr (requires { one.reduction; })
            is_alike = is_alike && one.reduction == other.reduction;
          return is_alike;
        } else {
          return false;
        }
      },
      a.what);
}

Program join_collectives(Program program) {
  const bool has_any = std::ranges::any_of(program.instructions, [](const auto& instruction) {
    return std::visit([]<class Kind>(const Kind&) { return program::AnyCollective<Kind>; },
                      instruction.what);
  });
  if (has_any) Joining(program).run();
  return program;
}

}  // namespace fourfold::compile
