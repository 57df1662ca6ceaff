#include "compile/place_buffers.h"

#include <gtest/gtest.h>

#include "compile/liveness.h"
#include "unit/compile/one_rank.h"

namespace fourfold::compile {
namespace {

TEST(Placement, live_buffers_never_share_bytes_and_the_region_is_near_the_lower_bound) {
  RunSetup setup;
  setup.gpt.num_layers = 6;
  for (const program::Program& program : bundle_of(setup).programs) {
    const auto lives = live_intervals(program);
    for (std::size_t a = 0; a < program.buffers.size(); ++a)
      for (std::size_t b = a + 1; b < program.buffers.size(); ++b) {
        const program::Buffer &p = program.buffers[a], &q = program.buffers[b];
        if (p.region != program::Region::transient || q.region != program::Region::transient)
          continue;
        const bool meet = p.offset_bytes < q.offset_bytes + q.size_bytes &&
                          q.offset_bytes < p.offset_bytes + p.size_bytes;
        if (!meet || !overlap(lives[a], lives[b])) continue;
        // Only a takeover: same address, and one ends where the other begins.
        EXPECT_EQ(p.offset_bytes, q.offset_bytes) << p.name << " and " << q.name;
      }
    EXPECT_GE(program.transient_bytes, live_bytes_bound(program)) << op::to_string(program.kind);
    EXPECT_LE(program.transient_bytes, live_bytes_bound(program) * 5 / 4)
        << op::to_string(program.kind);
  }
}

TEST(Placement, elementwise_outputs_take_over_the_memory_of_dying_reads) {
  const program::Program evaluate = bundle_of({}).at(op::ProgramKind::evaluate);
  const auto up = evaluate.find_buffer("blocks.0.mlp.up.biased");
  const auto gelu = evaluate.find_buffer("blocks.0.mlp.gelu");
  ASSERT_TRUE(up && gelu);
  EXPECT_EQ(evaluate.buffer(*up).offset_bytes, evaluate.buffer(*gelu).offset_bytes);
  const program::Program train =
      bundle_of({}).at(op::ProgramKind::train);  // here the backward pass reads it
  EXPECT_NE(train.buffer(*train.find_buffer("blocks.0.mlp.up.biased")).offset_bytes,
            train.buffer(*train.find_buffer("blocks.0.mlp.gelu")).offset_bytes);
}

/// Two micro-batches, each of which makes x and y = relu(x) and reads y, in so many instructions.
struct InPlace {
  program::Program program;
  program::Slice x, y, z;

  InPlace() {
    program.kind = op::ProgramKind::train;
    program.streams = {"math"};
    program.meshes = {{"all", {{"data", 1}}, {Rank(0)}}};
    x = buffer("x"), y = buffer("y"), z = buffer("z");
  }
  program::Slice buffer(const std::string& name) {
    program::Buffer buffer;
    buffer.name = name;
    buffer.dtype = DType::f32;
    buffer.global = {4};
    buffer.region = program::Region::transient;
    buffer.role = program::BufferRole::activation;
    buffer.size_bytes = 16;
    program.buffers.push_back(buffer);
    return program.whole(program::BufferId(program.buffers.size() - 1));
  }
  void add(op::Op op, std::vector<program::Slice> slices) {
    program::Compute compute;
    compute.op = std::move(op);
    compute.dtype = DType::f32;
    compute.slices = std::move(slices);
    program.instructions.push_back({program::StreamId(std::size_t{0}), std::move(compute)});
  }
  void make() { add(op::Fill{1, {4}}, {x}); }
  void take_over() { add(op::Relu{}, {x, y}); }
  void read() { add(op::Relu{}, {y, z}); }
  bool shares() const {
    const program::Program placed = place_buffers(program, {});
    return placed.buffers[0].offset_bytes == placed.buffers[1].offset_bytes;
  }
};

TEST(Placement, what_is_read_while_its_source_is_written_anew_has_memory_of_its_own) {
  InPlace in_turn, later;
  for (int micro = 0; micro < 2; ++micro) in_turn.make(), in_turn.take_over(), in_turn.read();
  EXPECT_TRUE(in_turn.shares());
  later.make(), later.take_over();
  later.make(), later.read(), later.take_over(), later.read();
  EXPECT_FALSE(later.shares());
}

}  // namespace
}  // namespace fourfold::compile
