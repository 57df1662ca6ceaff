#include "run/prepared_program.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::run {
namespace {

using program::Program;
using program::Slice;

/// Turns the instructions of one program, in their order.
class Preparation {
 public:
  Preparation(const Program& program, const Arena& arena)
      : program_(program), arena_(arena), recorded_(program.num_events, false) {}

  PreparedInstruction prepare(const program::Instruction& instruction) {
    PreparedInstruction prepared;
    std::visit([&](const auto& what) { set(prepared, what); }, instruction.what);
    return prepared;
  }

 private:
  void set(PreparedInstruction& prepared, const program::Compute& compute) {
    const op::Operands operands = op::operands(compute.op);
    require(operands.size() == compute.slices.size(),
            "a compute instruction has a slice for every operand of its op");
    const std::vector<Shape> shapes = program_.operand_shapes(compute);
    PreparedCompute result;
    for (const std::size_t parity : {0U, 1U}) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const DType dtype = op::element_dtype(operands[i].element, compute.dtype);
        require(shapes[i].elements() * size_bytes(dtype) == compute.slices[i].bytes(),
                format("operand {} of {} is a whole number of elements in dense rows",
                       operands[i].name, op::name(compute.op)));
        result.operands[parity].push_back({dense(compute.slices[i], parity), shapes[i], dtype});
      }
      if (compute.workspace)
        result.workspace[parity] = {dense(*compute.workspace, parity),
                                    static_cast<std::size_t>(compute.workspace->bytes())};
    }
    prepared.what = std::move(result);
  }

  void set(PreparedInstruction& prepared, const program::Copy& copy) {
    set_copy(prepared, copy.from, copy.to);
  }

  void set(PreparedInstruction& prepared, const program::Feed& feed) {
    const program::Feeds& feeds = program_.feeds;
    const std::int64_t ids = feeds.count * feeds.length;
    require(feed.to.bytes() == ids * size_bytes(DType::i32),
            "a feed fills the tokens of this rank's samples");
    require(feed.micro >= 0 && feed.micro < feeds.micros,
            "a feed brings a micro-batch of the step");
    PreparedFeed result{feed.kind, feed.micro, {}};
    for (const std::size_t parity : {0U, 1U})
      // The compiler lays out i32 buffers on addresses that suit them; see dense().
      result.ids[parity] = {reinterpret_cast<std::int32_t*>(dense(feed.to, parity)),
                            static_cast<std::size_t>(ids)};
    prepared.what = result;
  }

  void set(PreparedInstruction& prepared, const program::Record& record) {
    require(record.event.index() < recorded_.size(), "an event is one of the program's");
    require(!recorded_[record.event.index()], "an event is recorded once in a program");
    recorded_[record.event.index()] = true;
    prepared.what = PreparedRecord{record.event.index()};
  }

  void set(PreparedInstruction& prepared, const program::Wait& wait) {
    require(wait.event.index() < recorded_.size() && recorded_[wait.event.index()],
            "a wait stands behind the record of its event");
    prepared.what = PreparedWait{wait.event.index()};
  }

  void set(PreparedInstruction&, const program::AllReduce& reduce) { require_alone(reduce.group); }
  void set(PreparedInstruction& prepared, const program::ReduceScatter& scatter) {
    require_alone(scatter.group);
    set_copy(prepared, scatter.from, scatter.to);
  }
  void set(PreparedInstruction& prepared, const program::AllGather& gather) {
    require_alone(gather.group);
    set_copy(prepared, gather.from, gather.to);
  }
  void set(PreparedInstruction& prepared, const program::AllToAll& exchange) {
    require_alone(exchange.group);
    set_copy(prepared, exchange.from, exchange.to);
  }
  void set(PreparedInstruction&, const program::Send& send) { fail_peer("sends to", send.peer); }
  void set(PreparedInstruction&, const program::Recv& recv) {
    fail_peer("receives from", recv.peer);
  }

  void set_copy(PreparedInstruction& prepared, const Slice& from, const Slice& to) {
    require(from.bytes() == to.bytes(), "both sides of a copy have as many bytes");
    PreparedCopy copy;
    for (const std::size_t parity : {0U, 1U}) {
      copy.from[parity] = {address(from, parity), from.rows, from.row_bytes, from.pitch_bytes};
      copy.to[parity] = {address(to, parity), to.rows, to.row_bytes, to.pitch_bytes};
    }
    prepared.what = copy;
  }

  std::byte* address(const Slice& slice, std::size_t parity) const {
    const std::span<std::byte> bytes =
        arena_.bytes(program_.buffer(slice.buffer), static_cast<std::int64_t>(parity));
    require(slice.offset_bytes >= 0 && slice.end_bytes() <= static_cast<std::int64_t>(bytes.size()),
            format("a slice of {} lies within it", program_.buffer(slice.buffer).name));
    return bytes.data() + slice.offset_bytes;
  }

  std::byte* dense(const Slice& slice, std::size_t parity) const {
    require(slice.rows == 1 || slice.pitch_bytes == slice.row_bytes,
            format("a kernel sees dense rows of {}", program_.buffer(slice.buffer).name));
    return address(slice, parity);
  }

  void require_alone(program::GroupId id) const {
    const program::Group& group = program_.groups[id.index()];
    if (group.members.size() == 1) return;
    throw UserError(
        ExitCode::environment,
        format("this build runs one rank; program {} reduces or gathers over group {} of {} ranks; "
               "plan for one rank",
               program_.name, group.name, group.members.size()));
  }

  [[noreturn]] void fail_peer(std::string_view does, Rank peer) const {
    throw UserError(ExitCode::environment,
                    format("this build runs one rank; program {} {} rank {}; plan for one rank",
                           program_.name, does, peer.index()));
  }

  const Program& program_;
  const Arena& arena_;
  std::vector<bool> recorded_;
};

}  // namespace

void copy_rows(const Rows& from, const Rows& to) {
  if (from.start == to.start && from.row_bytes == to.row_bytes &&
      from.pitch_bytes == to.pitch_bytes)
    return;
  std::int64_t from_row = 0, to_row = 0, from_at = 0, to_at = 0;
  while (from_row < from.rows && to_row < to.rows) {
    const std::int64_t bytes = std::min(from.row_bytes - from_at, to.row_bytes - to_at);
    std::memmove(to.start + to_row * to.pitch_bytes + to_at,
                 from.start + from_row * from.pitch_bytes + from_at,
                 static_cast<std::size_t>(bytes));
    from_at += bytes;
    to_at += bytes;
    if (from_at == from.row_bytes) ++from_row, from_at = 0;
    if (to_at == to.row_bytes) ++to_row, to_at = 0;
  }
}

void write_nan(std::byte* element, DType dtype) {
  const auto put = [&](auto value) { std::memcpy(element, &value, sizeof value); };
  switch (dtype) {
    case DType::f32:
      return put(std::numeric_limits<float>::quiet_NaN());
    case DType::f64:
      return put(std::numeric_limits<double>::quiet_NaN());
    case DType::bf16:
      return put(BFloat16(std::numeric_limits<float>::quiet_NaN()));
    case DType::i32:
    case DType::i64:
    case DType::u64:
      break;
  }
  fail_internal("only floating-point elements can be NaN");
}

PreparedProgram prepare_program(const Program& program, const Arena& arena) {
  PreparedProgram prepared{&program, {}};
  prepared.instructions.reserve(program.instructions.size());
  Preparation preparation(program, arena);
  for (const program::Instruction& instruction : program.instructions)
    prepared.instructions.push_back(preparation.prepare(instruction));
  return prepared;
}

}  // namespace fourfold::run
