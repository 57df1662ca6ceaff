// A rank's step as a value: instructions on streams over buffers whose addresses are decided. Built
// by compile/ or read from text, checked by verify.h, then const. It holds no state and knows no
// device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/input.h"
#include "op/program_kind.h"
#include "program/instruction.h"

namespace fourfold::program {

/// Persistent memory keeps its content between programs of a bundle; transient memory does not.
enum class Region : std::uint8_t { persistent, transient };

enum class BufferRole : std::uint8_t {
  parameter,
  moment,        // optimizer state of a parameter
  average,       // over the steps: of a parameter, named after it (averaged_name), or of losses
  rounded,       // a parameter in the type of the computation; named after it, see rounded_name
  counter,       // number of updates
  cache,         // keys and values
  step_block,    // op::StepBlock: written by the host before the program runs
  result_block,  // op::ResultBlock: read by the host afterwards
  feed,
  activation,
  gradient,  // of a parameter, summed over micro-batches
  workspace,
  output  // read by the host after the program: logits, digests
};
std::string_view to_string(BufferRole role);
/// True if a buffer of this role is learned from step to step: what a checkpoint holds, but
/// counters.
constexpr bool is_learned(BufferRole role) {
  return role == BufferRole::parameter || role == BufferRole::moment || role == BufferRole::average;
}
/// The parameter of an average of this name: "w" of "average/w"; empty of any other name.
std::string_view averaged_name(std::string_view name);
/// The parameter of a rounded copy of this name: "w" of "w/rounded"; empty of any other name.
std::string_view rounded_name(std::string_view name);
/// The name of the rounded copy of a parameter.
std::string name_of_rounded(std::string_view parameter);

/// A local tensor stored block by block: the equal shares of `dim` that the members of `axis` own,
/// or would own, stand one after another in the order of the members, each dense and row-major.
/// Collectives over the axis then see one contiguous share for each member. Each share has `share`
/// elements of the dim; what the shares have beyond the dim's local size is padding.
struct Blocked {
  std::size_t dim = 0;
  AxisId axis;
  std::int64_t share = 1;
  bool operator==(const Blocked&) const = default;
};

/// A tensor and its place. The local shape is op::local_shape(global, sharding, its mesh), dense
/// and row-major unless `blocked`.
struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  Shape global;           // logical shape
  op::Sharding sharding;  // what the compiler claims about it; the verifier recomputes it
  std::optional<Blocked> blocked;
  Region region = Region::transient;
  BufferRole role = BufferRole::activation;
  std::int64_t offset_bytes = 0;  // within its region
  std::int64_t size_bytes = 0;    // of one copy: local elements x element size
  bool two_by_parity = false;     // two copies; a step uses the one of its parity (step mod 2)
  std::string label = {};         // for reports: a word of the model for what made it, or nothing
  bool operator==(const Buffer&) const = default;

  std::int64_t space_bytes() const { return two_by_parity ? 2 * size_bytes : size_bytes; }
};

/// Ranks that take part in a collective: those that differ at most in their coordinates on the
/// axes, in the order of these coordinates, the last axis fastest.
struct Group {
  std::string name;  // "z.weights"
  MeshId mesh;
  std::vector<AxisId> axes;  // at least one, each once
  Ranks members;
  bool operator==(const Group&) const = default;
};

enum class TaskKind : std::uint8_t {
  init,
  receive,  // what a later task reads of other stages, and what is passed on of it
  forward,
  backward,
  weight_backward,
  gradient_sync,
  update,
  evaluate,
  decode,
  digest
};
std::string_view to_string(TaskKind kind);

/// A labelled interval [begin, end) of the instruction list.
struct Task {
  TaskKind kind = TaskKind::forward;
  std::optional<std::int64_t> micro;
  std::size_t begin = 0, end = 0;
  bool operator==(const Task&) const = default;
};

/// Which samples the feeds bring: local sample b of micro-batch m is sample m * samples + first + b
/// of the step. A rank may process its samples of a micro-batch in chunks, equal ranges of them
/// (Cheng et al. 2023, section 4.1): local sample b of chunk c is sample number c * of_chunk() + b
/// of them. The tensors of a chunk are those of a micro-batch of so many samples as all ranks have
/// in one.
struct Feeds {
  std::int64_t micros = 0;   // micro-batches of a step
  std::int64_t samples = 0;  // samples of a micro-batch over all ranks
  std::int64_t first = 0;    // this rank's first one among them
  std::int64_t count = 0;    // this rank's number of them
  std::int64_t chunks = 1;   // of a micro-batch
  bool operator==(const Feeds&) const = default;

  std::int64_t of_chunk() const { return count / chunks; }
  /// The sample of a micro-batch that is sample `index` of the tensors of one of its chunks.
  /// Requires a number of chunks that divides `count`.
  std::int64_t sample_of(std::int64_t chunk, std::int64_t index) const;
};

/// Streams that compute: the first one of every program and, where a program has one, the one for
/// gradients of weights, which nothing but their sums and the update waits for.
inline constexpr std::string_view math_stream = "math", gradient_stream = "gradients";
constexpr bool computes(std::string_view stream) {
  return stream == math_stream || stream == gradient_stream;
}

struct Program {
  op::ProgramKind kind = op::ProgramKind::train;
  Rank rank;
  std::int64_t world = 1;  // ranks of the job
  std::vector<Mesh> meshes;
  std::vector<Group> groups;
  std::vector<std::string> streams;  // "math", "feed", ...
  std::vector<Buffer> buffers;
  std::int64_t persistent_bytes = 0, transient_bytes = 0;  // sizes of the regions
  std::vector<Input> inputs;                               // what is fed, in the order of first use
  Feeds feeds;
  /// The type to which gradients are rounded before collectives carry them; none: their own.
  std::optional<DType> reduce;
  std::size_t num_events = 0;
  std::vector<Instruction> instructions;
  std::vector<Task> tasks;  // in order, covering all instructions
  bool operator==(const Program&) const = default;

  const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  std::optional<BufferId> find_buffer(std::string_view buffer_name) const;
  Shape local_shape(BufferId id) const;
  /// The slice that covers one copy of a buffer.
  Slice whole(BufferId id) const;
  /// "z", "data-z": the axes of a group of this program.
  std::string axes_text(const Group& group) const;
  /// The shape that an op sees through a slice: the local shape for a whole buffer; for fewer bytes
  /// in one row, the leading dim shortened where the bytes divide so, else one dim of elements of
  /// `dtype`; a scalar for one element.
  Shape view_shape(const Slice& slice, DType dtype) const;
  /// The shapes of all operands of a compute instruction of this program.
  std::vector<Shape> operand_shapes(const Compute& compute) const;
};

/// All programs of a rank, over one persistent region (same addresses in all) and one transient
/// region, as large as the largest asks for.
struct Bundle {
  std::vector<Program> programs;
  std::int64_t persistent_bytes = 0, transient_bytes = 0;
  bool operator==(const Bundle&) const = default;

  const Program* find(op::ProgramKind kind) const;
  /// Throws InternalError when the bundle has no such program.
  const Program& at(op::ProgramKind kind) const;
};

/// Bytes by buffer role, each address counted once for the first role that holds it; for plans and
/// start-up tables.
struct MemoryClass {
  BufferRole role;
  std::int64_t bytes;
};
std::vector<MemoryClass> persistent_memory_by_role(const Program& program);

/// Floating-point operations of all Compute instructions (hardware flops: recomputation counts).
double total_flops(const Program& program);

}  // namespace fourfold::program
