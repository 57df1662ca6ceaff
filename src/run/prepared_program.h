// A program with every address resolved, for both parities, so that issuing an instruction is a
// look-up. Kernels are filled in by the backend, on the thread that will call them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "comm/device_world.h"
#include "comm/world.h"
#include "kernels/kernel.h"
#include "op/blocks.h"
#include "program/program.h"
#include "run/regions.h"
#include "run/reorder.h"

namespace fourfold::run {

/// The stream on which a program computes; its kernels alone have several threads.
using program::math_stream;

/// One value for each parity of a step.
template <class T>
using ByParity = std::array<T, 2>;

/// The parity of a step: which copy of every buffer that has two it sees.
inline std::size_t parity_of(const op::StepBlock& step) {
  return static_cast<std::size_t>(step.step & 1);
}

struct PreparedCompute {
  kernels::Run run;
  ByParity<std::vector<kernels::Tensor>> operands;
  ByParity<kernels::Workspace> workspace;
};

/// Rows of memory on one side of a copy.
struct Rows {
  std::byte* start = nullptr;
  std::int64_t rows = 1, row_bytes = 0, pitch_bytes = 0;
};
struct PreparedCopy {
  struct Tensor {
    ByParity<Rows> from, to;
  };
  std::vector<Tensor> tensors;
};
/// Copies the bytes in order; the rows of both sides may be cut differently.
void copy_rows(const Rows& from, const Rows& to);

/// Pack or unpack.
struct PreparedReorder {
  Reorder order;
  bool packs = true;
  int threads = 1;
  ByParity<std::byte*> plain, blocked;
};

struct PreparedCollective {
  // One of both, as of Peers.
  comm::Group* group = nullptr;
  comm::DeviceGroup* device_group = nullptr;
  ByParity<comm::DeviceCollective> what;
};
/// In host memory.
void carry_out(const PreparedCollective& collective, std::size_t parity);

struct PreparedMessage {
  bool sends = true;
  Rank peer;
  int tag = 0;
  ByParity<Rows> rows;
  /// Where several rows stand one after another on their way; filled in by the backend.
  std::span<std::byte> dense;

  /// As many bytes as `dense` must have; 0 for one row.
  std::size_t dense_bytes() const {
    return rows[0].rows == 1 ? 0 : static_cast<std::size_t>(rows[0].rows * rows[0].row_bytes);
  }
  std::span<std::byte> whole(std::size_t parity) const {
    if (dense_bytes() > 0) return dense;
    return {rows[parity].start, static_cast<std::size_t>(rows[parity].row_bytes)};
  }
};
/// In host memory.
void carry_out(const PreparedMessage& message, comm::World& world, std::size_t parity);

struct PreparedFeed {
  const Input* input = nullptr;
  std::int64_t first = 0, count = 0;  // samples of the step
  ByParity<std::span<std::byte>> into;
};
struct PreparedRecord {
  std::size_t event = 0;
};
struct PreparedWait {
  /// What the math stream waits for, to be timed.
  enum class Timed : std::uint8_t { no, communication, feed };
  std::size_t event = 0;
  Timed timed = Timed::no;
};
/// A collective whose only member holds the result already.
struct PreparedNothing {};

/// For tests: an element that turns to NaN after an instruction.
struct Poison {
  ByParity<std::byte*> element;
  DType dtype = DType::f32;
};
void write_nan(std::byte* element, DType dtype);

struct PreparedInstruction {
  std::size_t worker = 0;  // which of the backend's threads serves its stream
  std::variant<PreparedNothing, PreparedCompute, PreparedCopy, PreparedReorder, PreparedCollective,
               PreparedMessage, PreparedFeed, PreparedRecord, PreparedWait>
      what;
  std::optional<Poison> poison;
};

/// The step block and the result block; null where a program has none.
struct PreparedBlocks {
  ByParity<std::byte*> step{}, result{};
};

struct PreparedProgram {
  const program::Program* program = nullptr;
  PreparedBlocks blocks;
  std::vector<PreparedInstruction> instructions;
  /// The last one of the math stream, where other streams communicate.
  std::optional<std::size_t> last_math;
};

/// The other ranks, where there are any: both are null where a rank is alone.
struct Peers {
  comm::World* world = nullptr;
  /// Where tensors lie in the memory of a device.
  comm::DeviceWorld* device_world = nullptr;
};

/// Resolves everything but kernels, workers and the dense places of messages. The world whose
/// memory has the tensors has the groups of groups_of() already; `threads` is how many a reordering
/// on the math stream may use.
/// Errors: UserError(environment) for an instruction that needs other ranks where there is no
/// world; InternalError for slices that a kernel or a collective could not take and for a wait that
/// stands before its record.
PreparedProgram prepare_program(const program::Program& program, const Regions& regions,
                                const Peers& peers = {}, int threads = 1);

/// Room for the rows of one message at a time, by stream: as many bytes as its largest message of
/// several rows has.
std::vector<std::size_t> room_for_messages(const PreparedProgram& prepared);

}  // namespace fourfold::run
