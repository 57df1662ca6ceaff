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
  Builder(op::ProgramKind kind, Rank rank, const Mesh& mesh, std::vector<std::string> streams);
  /// On one of several meshes of a job of `world` ranks.
  Builder(op::ProgramKind kind, Rank rank, std::vector<Mesh> meshes, MeshId own, std::int64_t world,
          std::vector<std::string> streams);

  /// From here on every instruction waits for the one before it, on whatever stream that was.
  void serialize() { is_serial_ = true; }

  /// A buffer after the last one of its region. `cuts` names the axes of each dim, "" for none:
  /// {"z", "x,z"}, a stride after a colon: {"x:6,z:3"}.
  BufferId buffer(std::string_view name, const Shape& global, Kind kind,
                  const std::vector<std::string>& cuts = {});
  /// A transient buffer at the address of another one.
  BufferId buffer_over(std::string_view other, std::string_view name, const Shape& global,
                       Kind kind, const std::vector<std::string>& cuts = {});
  /// A transient buffer whose parts of a dim along an axis stand one after another.
  BufferId blocked(std::string_view name, const Shape& global, Kind kind,
                   const std::vector<std::string>& cuts, std::size_t dim, std::string_view axis);
  /// The step and result blocks, both two by parity.
  void blocks();
  void group(const std::vector<std::string>& axes);

  void task(TaskKind kind, std::optional<std::int64_t> micro = std::nullopt);
  void op(std::string_view stream, op::Op op, std::initializer_list<std::string_view> operands,
          DType dtype = DType::f32);
  void add(std::string_view stream, What what);
  void all_reduce(std::string_view axis, std::string_view data);
  void all_reduce(std::string_view axis, const std::vector<std::string>& data);
  void all_gather(std::string_view axis, std::string_view from, std::string_view to);
  void reduce_scatter(std::string_view axis, std::string_view from, std::string_view to);
  void all_to_all(std::string_view axis, std::string_view from, std::string_view to);
  void pack(std::string_view stream, std::string_view from, std::string_view to) {
    add(stream, Pack{slice(from), slice(to)});
  }
  void unpack(std::string_view stream, std::string_view from, std::string_view to) {
    add(stream, Unpack{slice(from), slice(to)});
  }
  /// Feeds a buffer the input of its name, which is declared as the buffer holds it.
  void feed(std::int64_t micro, std::string_view to);
  EventId record(std::string_view stream);
  void wait(std::string_view stream, EventId event);
  /// `to` waits for all that `from` holds so far.
  void order(std::string_view from, std::string_view to) { wait(to, record(from)); }

  /// The whole buffer or the block's field of that name.
  Slice slice(std::string_view name) const;
  /// Which part of a buffer this rank has, for attributes.
  std::int64_t first(std::string_view name, std::size_t dim) const;
  std::int64_t local(std::string_view name, std::size_t dim) const;
  op::TensorWindow window(std::string_view name, std::size_t first_dim = 0) const;

  Program program;

  /// Closes the last task and fixes the sizes of the regions.
  Program finish();

 private:
  BufferId place(std::string_view name, const Shape& global, Kind kind,
                 const std::vector<std::string>& cuts);
  op::Sharding sharding(const std::vector<std::string>& cuts) const;
  StreamId stream(std::string_view name) const;
  const Mesh& mesh() const { return program.meshes[mesh_.index()]; }
  std::vector<std::int64_t> coordinates() const;

  MeshId mesh_;
  bool is_serial_ = false;
};

/// Position of the `count`-th (from 0) instruction of that name.
std::size_t find_instruction(const Program& program, std::string_view name, std::size_t count = 0);
/// Takes an instruction out; tasks move along.
void erase_instruction(Program& program, std::size_t index);
/// Puts an instruction before `index`, into the task of the instruction there (of the last one at
/// the end).
void insert_instruction(Program& program, std::size_t index, const Instruction& instruction);
Buffer& buffer_named(Program& program, std::string_view name);

}  // namespace fourfold::program
