#include "run/prepared_program.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "op/blocks.h"
#include "run/program_groups.h"

namespace fourfold::run {
namespace {

using program::Program;
using program::Slice;

/// What a wait for each stream is a wait for.
std::vector<PreparedWait::Timed> streams_to_time(const Program& program) {
  using Timed = PreparedWait::Timed;
  std::vector<Timed> timed(program.streams.size(), Timed::no);
  for (const program::Instruction& instruction : program.instructions) {
    Timed& stream = timed[instruction.stream.index()];
    if (communicates(program, instruction)) stream = Timed::communication;
    if (std::holds_alternative<program::Feed>(instruction.what)) stream = Timed::feed;
  }
  return timed;
}

/// Turns the instructions of one program, in their order.
class Preparation {
 public:
  Preparation(const Program& program, const Regions& regions, const Peers& peers, int threads)
      : program_(program),
        regions_(regions),
        peers_(peers),
        threads_(threads),
        streams_(streams_to_time(program)),
        recorded_(program.num_events) {}

  PreparedInstruction prepare(const program::Instruction& instruction) {
    PreparedInstruction prepared;
    stream_id_ = instruction.stream;
    stream_ = program_.streams[stream_id_.index()];
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
    prepared.what = PreparedCopy{{prepared_copy(copy.from, copy.to)}};
  }

  void set(PreparedInstruction& prepared, const program::Feed& feed) {
    const program::Feeds& feeds = program_.feeds;
    require(feed.input.index() < program_.inputs.size(), "a feed brings an input of the program");
    const Input& input = program_.inputs[feed.input.index()];
    require(feed.to.bytes() == feeds.of_chunk() * input.sample_bytes(),
            "a feed fills this rank's samples");
    require(feed.micro >= 0 && feed.micro < feeds.micros,
            "a feed brings a micro-batch of the step");
    require(feed.chunk >= 0 && feed.chunk < feeds.chunks, "a feed brings a chunk of a micro-batch");
    PreparedFeed result{&input,
                        feed.micro * feeds.samples + feeds.first + feed.chunk * feeds.of_chunk(),
                        feeds.of_chunk(),
                        {}};
    for (const std::size_t parity : {0U, 1U})
      result.into[parity] = {dense(feed.to, parity), static_cast<std::size_t>(feed.to.bytes())};
    prepared.what = result;
  }

  void set(PreparedInstruction& prepared, const program::Record& record) {
    require(record.event.index() < recorded_.size(), "an event is one of the program's");
    require(!recorded_[record.event.index()], "an event is recorded once in a program");
    recorded_[record.event.index()] = streams_[stream_id_.index()];
    prepared.what = PreparedRecord{record.event.index()};
  }

  void set(PreparedInstruction& prepared, const program::Wait& wait) {
    require(wait.event.index() < recorded_.size() && recorded_[wait.event.index()],
            "a wait stands behind the record of its event");
    const bool is_timed = stream_ == math_stream;
    prepared.what = PreparedWait{
        wait.event.index(), is_timed ? *recorded_[wait.event.index()] : PreparedWait::Timed::no};
  }

  void set(PreparedInstruction& prepared, const program::Pack& pack) {
    set_reorder(prepared, pack.from, pack.to, true);
  }
  void set(PreparedInstruction& prepared, const program::Unpack& unpack) {
    set_reorder(prepared, unpack.to, unpack.from, false);
  }

  template <program::AnyCollective Kind>
  void set(PreparedInstruction& prepared, const Kind& what) {
    if (has_peers(what.group)) {
      prepared.what = prepared_collective(what);
    } else if constexpr (requires { what.from; }) {
      PreparedCopy copy;
      program::for_each_tensor(what, [&](const Slice& from, const Slice& to) {
        copy.tensors.push_back(prepared_copy(from, to));
      });
      prepared.what = std::move(copy);
    }
  }
  void set(PreparedInstruction& prepared, const program::Send& send) {
    set_message(prepared, true, send.peer, send.tag, send.from);
  }
  void set(PreparedInstruction& prepared, const program::Recv& recv) {
    set_message(prepared, false, recv.peer, recv.tag, recv.to);
  }

  template <program::AnyCollective Kind>
  PreparedCollective prepared_collective(const Kind& what) const {
    PreparedCollective collective;
    const program::Group& group = program_.groups[what.group.index()];
    const std::vector<Rank> members(group.members.begin(), group.members.end());
    if (peers_.device_world != nullptr)
      collective.device_group = &peers_.device_world->group(members, stream_);
    else
      collective.group = &peers_.world->group(members, stream_);
    std::optional<DType> dtype;
    program::for_each_tensor(what, [&](const Slice& from, const Slice& to) {
      const DType own = element_type(to);
      require(!dtype || *dtype == own, "the tensors of a collective have one element type");
      dtype = own;
      for (const std::size_t parity : {0U, 1U}) {
        collective.what[parity].from.push_back(dense_bytes(from, parity));
        collective.what[parity].to.push_back(dense_bytes(to, parity));
      }
    });
    require(dtype.has_value(), "a collective moves a tensor");
    for (comm::DeviceCollective& each : collective.what) {
      each.kind = what.kind;
      each.dtype = *dtype;
      if constexpr (requires { what.reduction; }) each.reduction = what.reduction;
    }
    return collective;
  }

  /// The type of what a slice covers; the blocks have fields of several types.
  DType element_type(const Slice& slice) const {
    const program::Buffer& buffer = program_.buffer(slice.buffer);
    const bool is_result = buffer.role == program::BufferRole::result_block;
    if (!is_result && buffer.role != program::BufferRole::step_block) return buffer.dtype;
    std::optional<DType> type;
    const auto look = [&](const op::BlockField& field) {
      const auto offset = static_cast<std::int64_t>(field.offset_bytes);
      if (offset < slice.offset_bytes || offset >= slice.end_bytes()) return;
      require(!type || *type == field.dtype, "a reduction sees fields of one type");
      type = field.dtype;
    };
    if (is_result)
      for (const op::BlockField& field : op::result_fields) look(field);
    else
      for (const op::BlockField& field : op::step_fields) look(field);
    require(type.has_value(), format("a slice of {} covers a field", buffer.name));
    return *type;
  }

  void set_message(PreparedInstruction& prepared, bool sends, Rank peer, std::int64_t tag,
                   const Slice& slice) {
    if (peers_.world == nullptr) fail_peer(sends ? "sends to" : "receives from", peer);
    require(peer.index() < peers_.world->size() && peer != program_.rank,
            "a message goes to another rank of the job");
    PreparedMessage message{sends, peer, static_cast<int>(tag), {}, {}};
    for (const std::size_t parity : {0U, 1U})
      message.rows[parity] = {address(slice, parity), slice.rows, slice.row_bytes,
                              slice.pitch_bytes};
    prepared.what = message;
  }

  void set_reorder(PreparedInstruction& prepared, const Slice& plain, const Slice& blocked,
                   bool packs) {
    const Reorder order = reorder_of(program_, program_.buffer(blocked.buffer));
    require(plain.bytes() == order.plain_bytes() && blocked.bytes() == order.blocked_bytes(),
            "pack and unpack see whole tensors");
    PreparedReorder reorder{order, packs, stream_ == math_stream ? threads_ : 1, {}, {}};
    for (const std::size_t parity : {0U, 1U}) {
      reorder.plain[parity] = dense(plain, parity);
      reorder.blocked[parity] = dense(blocked, parity);
    }
    prepared.what = reorder;
  }

  PreparedCopy::Tensor prepared_copy(const Slice& from, const Slice& to) const {
    require(from.bytes() == to.bytes(), "both sides of a copy have as many bytes");
    PreparedCopy::Tensor copy;
    for (const std::size_t parity : {0U, 1U}) {
      copy.from[parity] = {address(from, parity), from.rows, from.row_bytes, from.pitch_bytes};
      copy.to[parity] = {address(to, parity), to.rows, to.row_bytes, to.pitch_bytes};
    }
    return copy;
  }

  std::byte* address(const Slice& slice, std::size_t parity) const {
    const std::span<std::byte> bytes =
        regions_.bytes(program_.buffer(slice.buffer), static_cast<std::int64_t>(parity));
    require(slice.offset_bytes >= 0 && slice.end_bytes() <= static_cast<std::int64_t>(bytes.size()),
            format("a slice of {} lies within it", program_.buffer(slice.buffer).name));
    return bytes.data() + slice.offset_bytes;
  }

  std::byte* dense(const Slice& slice, std::size_t parity) const {
    require(slice.rows == 1 || slice.pitch_bytes == slice.row_bytes,
            format("a kernel sees dense rows of {}", program_.buffer(slice.buffer).name));
    return address(slice, parity);
  }

  std::span<std::byte> dense_bytes(const Slice& slice, std::size_t parity) const {
    require(slice.rows == 1,
            format("a collective sees one run of bytes of {}", program_.buffer(slice.buffer).name));
    return {address(slice, parity), static_cast<std::size_t>(slice.bytes())};
  }

  /// False for a group of one member, which has nothing to exchange.
  bool has_peers(program::GroupId id) const {
    const program::Group& group = program_.groups[id.index()];
    if (group.members.size() == 1) return false;
    if (peers_.world != nullptr) return true;
    throw UserError(
        ExitCode::environment,
        format("one rank runs here; program {} reduces or gathers over group {} of {} ranks; plan "
               "for one rank, or start them all",
               op::to_string(program_.kind), group.name, group.members.size()));
  }

  [[noreturn]] void fail_peer(std::string_view does, Rank peer) const {
    throw UserError(ExitCode::environment,
                    format("one rank runs here; program {} {} rank {}; plan for one rank, or start "
                           "them all",
                           op::to_string(program_.kind), does, peer.index()));
  }

  const Program& program_;
  const Regions& regions_;
  Peers peers_;
  int threads_;
  std::vector<PreparedWait::Timed> streams_;
  std::vector<std::optional<PreparedWait::Timed>> recorded_;  // by event: of the record's stream
  program::StreamId stream_id_;                               // of the instruction under way
  std::string_view stream_;                                   // its name
};

/// The addresses of the buffer of a role that only one buffer has.
ByParity<std::byte*> find_block(const Program& program, const Regions& regions,
                                program::BufferRole role, std::size_t bytes) {
  const auto place = std::ranges::find(program.buffers, role, &program::Buffer::role);
  if (place == program.buffers.end()) return {};
  require(place->size_bytes >= static_cast<std::int64_t>(bytes),
          format("{} has room for all fields of the {}", place->name, to_string(role)));
  return {regions.bytes(*place, 0).data(), regions.bytes(*place, 1).data()};
}

/// None where the stream has no instruction.
std::optional<std::size_t> last_of_stream(const Program& program, std::string_view stream) {
  for (std::size_t i = program.instructions.size(); i-- > 0;)
    if (program.streams[program.instructions[i].stream.index()] == stream) return i;
  return std::nullopt;
}

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
    case DType::u8:
      break;
  }
  fail_internal("only floating-point elements can be NaN");
}

void carry_out(const PreparedCollective& collective, std::size_t parity) {
  const comm::DeviceCollective& what = collective.what[parity];
  collective.group->carry_out(what.kind, what.from, what.to, what.dtype, what.reduction);
}

void carry_out(const PreparedMessage& message, comm::World& world, std::size_t parity) {
  const Rows& rows = message.rows[parity];
  const std::span<std::byte> whole = message.whole(parity);
  const Rows dense{whole.data(), 1, static_cast<std::int64_t>(whole.size()), 0};
  const bool is_copied = message.dense_bytes() > 0;
  if (message.sends) {
    if (is_copied) copy_rows(rows, dense);
    world.send(message.peer, message.tag, whole);
  } else {
    world.recv(message.peer, message.tag, whole);
    if (is_copied) copy_rows(dense, rows);
  }
}

std::vector<std::size_t> room_for_messages(const PreparedProgram& prepared) {
  std::vector<std::size_t> room(prepared.program->streams.size(), 0);
  for (std::size_t i = 0; i < prepared.instructions.size(); ++i)
    if (const auto* message = std::get_if<PreparedMessage>(&prepared.instructions[i].what)) {
      std::size_t& bytes = room[prepared.program->instructions[i].stream.index()];
      bytes = std::max(bytes, message->dense_bytes());
    }
  return room;
}

PreparedProgram prepare_program(const Program& program, const Regions& regions, const Peers& peers,
                                int threads) {
  PreparedProgram prepared{&program, {}, {}, {}};
  prepared.blocks.step =
      find_block(program, regions, program::BufferRole::step_block, sizeof(op::StepBlock));
  prepared.blocks.result =
      find_block(program, regions, program::BufferRole::result_block, sizeof(op::ResultBlock));
  prepared.instructions.reserve(program.instructions.size());
  Preparation preparation(program, regions, peers, threads);
  for (const program::Instruction& instruction : program.instructions)
    prepared.instructions.push_back(preparation.prepare(instruction));
  if (std::ranges::any_of(program.instructions,
                          [&](const auto& i) { return communicates(program, i); }))
    prepared.last_math = last_of_stream(program, math_stream);
  return prepared;
}

}  // namespace fourfold::run
