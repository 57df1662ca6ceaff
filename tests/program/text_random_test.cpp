// Programs made at random, from fixed seeds: all of them read back equal.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/format.h"
#include "program/examples.h"
#include "program/round_trip.h"
#include "program/text.h"
#include "verify/verify.h"

namespace fourfold::program {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : random_(seed) {}

  Program make() {
    Program program;
    program.kind = op::ProgramKind::train;
    program.world = below(100) + 1;
    program.rank = Rank(index(100));
    program.persistent_bytes = below(1 << 20);
    program.transient_bytes = below(1LL << 40);
    program.feeds = {below(5), below(5), below(5), below(5), coin() ? 1 : below(5)};
    program.inputs = {{"tokens", DType::i32, {below(9)}}, {"pixels", DType::u8, {2, below(9), 3}}};
    if (coin()) program.reduce = static_cast<DType>(index(3));
    program.num_events = 40;
    for (std::size_t i = 0; i < 1 + index(3); ++i) add_mesh(program);
    for (std::size_t i = 0; i < 1 + index(4); ++i) add_group(program);
    for (std::size_t i = 0; i < 1 + index(4); ++i) program.streams.push_back(format("s{}", i));
    for (std::size_t i = 0; i < 2 + index(10); ++i) add_buffer(program);
    const std::size_t tasks = index(6);
    for (std::size_t i = 0; i < tasks; ++i) add_task(program);
    return program;
  }

 private:
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  std::size_t index(std::size_t end) { return random_() % end; }
  bool coin() { return index(2) == 0; }

  void add_group(Program& program) {
    Group group{format("g{}", program.groups.size()), MeshId(0), {}, {}};
    for (std::size_t axis = 0; axis < program.meshes[0].axes.size(); ++axis)
      if (axis == 0 || coin()) group.axes.emplace_back(axis);
    std::ranges::shuffle(group.axes, random_);
    for (std::size_t i = 0; i < index(4); ++i) group.members.push_back(Rank(index(50)));
    program.groups.push_back(std::move(group));
  }
  void add_mesh(Program& program) {
    Mesh mesh{format("m{}", program.meshes.size()), {}, {}};
    for (std::size_t i = 0; i < 1 + index(4); ++i)
      mesh.axes.push_back({format("a{}", i), below(4) + 1});
    for (std::size_t i = 0; i < index(9); ++i) mesh.ranks.push_back(Rank(index(40)));
    program.meshes.push_back(mesh);
  }

  void add_buffer(Program& program) {
    Buffer buffer;
    buffer.name = format("b.{}/x_{}", program.buffers.size(), index(100));
    buffer.dtype = static_cast<DType>(index(6));
    const MeshId mesh(index(program.meshes.size()));
    buffer.sharding.mesh = mesh;
    const std::size_t axes = program.meshes[mesh.index()].axes.size();
    for (std::size_t i = 0; i < index(4); ++i) buffer.global.push_back(below(1000));
    if (buffer.global.rank() > 0 && coin()) {
      buffer.sharding.dims.resize(buffer.global.rank());
      buffer.sharding.dims[index(buffer.global.rank())].push_back({AxisId(index(axes)), {}});
      if (coin()) buffer.sharding.dims[0].push_back({AxisId(index(axes)), below(9)});
    }
    if (coin())
      buffer.sharding.partial.push_back(
          {AxisId(index(axes)), coin() ? op::Reduction::sum : op::Reduction::max});
    if (buffer.global.rank() > 0 && index(4) == 0)
      buffer.blocked = Blocked{index(buffer.global.rank()), AxisId(index(axes)), below(9)};
    buffer.region = coin() ? Region::persistent : Region::transient;
    buffer.role = static_cast<BufferRole>(index(11));
    buffer.offset_bytes = below(1 << 20);
    buffer.size_bytes = below(1 << 12);
    buffer.two_by_parity = coin();
    program.buffers.push_back(buffer);
  }

  Slice slice(const Program& program) {
    const BufferId buffer(index(program.buffers.size()));
    if (coin()) return program.whole(buffer);
    return {buffer, below(64) * 8, below(3) + 1, 8, below(3) * 8};
  }

  Compute compute(const Program& program, std::int64_t micro) {
    static const std::vector<op::Op> ops = {op::Contract{2, 1, true, false, true},
                                            op::Embedding{3},
                                            op::Dropout{{77}, 0.25, {micro, 8, 1}},
                                            op::LayerNorm{1e-6, false},
                                            op::AdamW{0.1, 1},
                                            op::Fill{-0.5, {2, 3}},
                                            op::Attention{{9}, 0.5, {0, 4, 0}, 1, 2}};
    Compute what{
        ops[index(ops.size())], static_cast<DType>(index(3)), {}, {}, coin() ? "" : "one.dnn"};
    if (auto* dropout = what.op.get_if<op::Dropout>())
      dropout->window.micro = coin() ? micro : below(9);
    for (std::size_t i = 0; i < op::operands(what.op).size(); ++i)
      what.slices.push_back(slice(program));
    if (coin()) what.workspace = slice(program);
    return what;
  }

  Slices slices(const Program& program, std::size_t count) {
    Slices list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(slice(program));
    return list;
  }

  What what(const Program& program, std::int64_t micro) {
    const GroupId group(index(program.groups.size()));
    const std::size_t tensors = 1 + (coin() ? index(4) : 0);
    const EventId event(index(program.num_events));
    switch (index(13)) {
      case 0:
        return AllReduce{group, op::Reduction::max, slices(program, tensors)};
      case 1:
        return ReduceScatter{group, op::Reduction::sum, slices(program, tensors),
                             slices(program, tensors)};
      case 2:
        return AllGather{group, slices(program, tensors), slices(program, tensors)};
      case 3:
        return AllToAll{group, slices(program, tensors), slices(program, tensors)};
      case 4:
        return Send{Rank(index(9)), below(99), slice(program)};
      case 5:
        return Recv{Rank(index(9)), below(99), slice(program)};
      case 6:
        return Copy{slice(program), slice(program)};
      case 7:
        return Feed{InputId(index(2)), coin() ? micro : below(9), slice(program),
                    coin() ? 0 : below(5)};
      case 8:
        return Record{event};
      case 9:
        return Wait{event};
      case 10:
        return Pack{slice(program), slice(program)};
      case 11:
        return Unpack{slice(program), slice(program)};
      default:
        return compute(program, micro);
    }
  }

  /// A new task, or an earlier one again for another micro-batch and with moved events, so that
  /// folding is met.
  void add_task(Program& program) {
    Task task{static_cast<TaskKind>(index(9)), below(9), program.instructions.size(), 0};
    if (!program.tasks.empty() && coin()) {
      const Task& earlier = program.tasks[index(program.tasks.size())];
      task.kind = earlier.kind;
      const std::size_t shift = index(3);
      for (std::size_t i = earlier.begin; i < earlier.end; ++i) {
        Instruction copy = program.instructions[i];
        move(copy, earlier.micro, *task.micro, shift);
        program.instructions.push_back(copy);
      }
    } else {
      for (std::size_t i = 0; i < index(8); ++i)
        program.instructions.push_back(
            {StreamId(index(program.streams.size())), what(program, *task.micro)});
      if (index(4) == 0) task.micro.reset();
    }
    task.end = program.instructions.size();
    program.tasks.push_back(task);
  }

  static void move(Instruction& instruction, std::optional<std::int64_t> from, std::int64_t to,
                   std::size_t shift) {
    std::visit(
        [&]<class Kind>(Kind& kind) {
          if constexpr (requires { kind.event; })
            kind.event = EventId((kind.event.index() + shift) % 40);
          if constexpr (std::is_same_v<Kind, Feed>)
            if (kind.micro == from) kind.micro = to;
          if constexpr (std::is_same_v<Kind, Compute>)
            if (auto* dropout = kind.op.template get_if<op::Dropout>();
                dropout != nullptr && dropout->window.micro == from)
              dropout->window.micro = to;
        },
        instruction.what);
  }

  std::mt19937 random_;
};

TEST(Text, random_programs_read_back_equal) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    const Program program = RandomProgram(seed).make();
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(program)) << seed;
  }
}

TEST(Text, random_programs_are_verified_without_an_error) {
  for (std::uint32_t seed = 0; seed < 500; ++seed)
    EXPECT_NO_THROW(verify::verify(RandomProgram(seed).make())) << seed;
}

}  // namespace
}  // namespace fourfold::program
