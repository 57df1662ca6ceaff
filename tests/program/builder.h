// Builds programs by hand for tests: buffers by name, addresses one after another, operands as text
// of names.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace fourfold::program {

/// What a buffer is, apart from its shape.
struct Kind {
  BufferRole role = BufferRole::activation;
  DType dtype = DType::f32;
};

class Builder {
 public:
  Builder(std::string name, Rank rank, const Mesh& mesh, std::vector<std::string> streams);

  /// A buffer behind the last one of its region. `cuts` names the axes of each dim, "" for none:
  /// {"z", "x,z"}.
  BufferId buffer(std::string_view name, const Shape& global, Kind kind,
                  const std::vector<std::string>& cuts = {});
  /// A transient buffer at the address of another one.
  BufferId buffer_over(std::string_view other, std::string_view name, const Shape& global,
                       Kind kind, const std::vector<std::string>& cuts = {});
  /// The step and result blocks, both two by parity.
  void blocks();
  void group(std::string_view axis);

  void task(TaskKind kind, std::optional<std::int64_t> micro = std::nullopt);
  void op(std::string_view stream, op::Op op, std::initializer_list<std::string_view> operands,
          DType dtype = DType::f32);
  void add(std::string_view stream, What what);
  void all_reduce(std::string_view axis, std::string_view data);
  void all_gather(std::string_view axis, std::string_view from, std::string_view to);
  void reduce_scatter(std::string_view axis, std::string_view from, std::string_view to);
  void feed(FeedKind kind, std::int64_t micro, std::string_view to);
  EventId record(std::string_view stream);
  void wait(std::string_view stream, EventId event);
  /// `to` waits for all that `from` holds so far.
  void order(std::string_view from, std::string_view to) { wait(to, record(from)); }

  /// The whole buffer or the block's field of that name.
  Slice slice(std::string_view name) const;

  Program program;

  /// Closes the last task and fixes the sizes of the regions.
  Program finish();

 private:
  BufferId place(std::string_view name, const Shape& global, Kind kind,
                 const std::vector<std::string>& cuts);
  op::Sharding sharding(const std::vector<std::string>& cuts) const;
  StreamId stream(std::string_view name) const;
};

/// Position of the `count`-th (from 0) instruction of that name.
std::size_t find_instruction(const Program& program, std::string_view name, std::size_t count = 0);
/// Takes an instruction out; tasks move along.
void erase_instruction(Program& program, std::size_t index);
/// Puts an instruction before `index`, into the task of the instruction there.
void insert_instruction(Program& program, std::size_t index, const Instruction& instruction);
Buffer& buffer_named(Program& program, std::string_view name);

}  // namespace fourfold::program
