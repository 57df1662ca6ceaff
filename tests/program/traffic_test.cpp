#include "program/traffic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "program/builder.h"

namespace fourfold::program {
namespace {

Mesh mesh_of(std::int64_t z, std::int64_t x) {
  Mesh mesh{"main", {{"z", z}, {"x", x}}, {}};
  for (std::int64_t rank = 0; rank < z * x; ++rank)
    mesh.ranks.push_back(Rank(static_cast<std::size_t>(rank)));
  return mesh;
}

void label(Builder& b, std::string_view buffer, std::string_view label) {
  b.program.buffers[b.program.find_buffer(buffer)->index()].label = label;
}

/// One collective of each kind along x of three ranks, and two along z of four.
Program every_collective() {
  Builder b(op::ProgramKind::train, Rank(std::size_t{0}), mesh_of(4, 3), {"math", "x", "z"});
  b.group({"x"});
  b.group({"z"});
  b.buffer("wte.weight", {24, 5}, {}, {"x"});
  b.buffer("wte.weight/gathered.x", {24, 5}, {});
  b.buffer("embedding/raw", {12, 6}, {});
  b.buffer("embedding", {12, 6}, {}, {"x"});
  b.buffer("blocks.0.attn.core", {12, 6}, {}, {"", "x"});
  b.buffer("blocks.0.ln1", {7}, {});
  b.buffer("blocks.1.ln1", {7}, {});
  b.buffer("gradient/ln_f.gain", {2}, {BufferRole::gradient, DType::f64});
  for (const std::string_view name : {"wte.weight", "embedding/raw", "embedding"})
    label(b, name, "embedding");
  label(b, "blocks.0.ln1", "linear");
  label(b, "blocks.1.ln1", "linear");
  label(b, "gradient/ln_f.gain", "norm");
  b.task(TaskKind::forward, 0);
  b.all_gather("x", "wte.weight", "wte.weight/gathered.x");
  b.reduce_scatter("x", "embedding/raw", "embedding");
  b.all_to_all("x", "embedding", "blocks.0.attn.core");
  b.all_reduce("x", "blocks.0.ln1");
  b.all_reduce("x", "blocks.1.ln1");
  b.all_reduce("z", "gradient/ln_f.gain");
  return b.finish();
}

TEST(Traffic, counts_calls_payload_and_what_a_ring_sends) {
  const std::vector<Traffic> expected = {
      {"x", "all_gather", "embedding", 1, 480, 480 * 2 / 3.0},
      {"x", "all_reduce", "linear", 2, 56, 56 * 4 / 3.0},
      {"x", "all_to_all", "embedding", 1, 96, 96 * 2 / 3.0},
      {"x", "reduce_scatter", "embedding", 1, 288, 288 * 2 / 3.0},
      {"z", "all_reduce", "norm", 1, 16, 16 * 2 * 3 / 4.0},
  };
  const std::vector<Traffic> got = traffic(every_collective());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].axis, expected[i].axis) << i;
    EXPECT_EQ(got[i].kind, expected[i].kind) << i;
    EXPECT_EQ(got[i].label, expected[i].label) << i;
    EXPECT_EQ(got[i].calls, expected[i].calls) << i;
    EXPECT_EQ(got[i].payload_bytes, expected[i].payload_bytes) << i;
    EXPECT_DOUBLE_EQ(got[i].sent_bytes, expected[i].sent_bytes) << i;
  }
}

TEST(Traffic, fields_of_the_result_block_have_labels_of_their_own) {
  Builder b(op::ProgramKind::train, Rank(std::size_t{0}), mesh_of(1, 2), {"math", "x"});
  b.group({"x"});
  b.blocks();
  b.task(TaskKind::update);
  b.all_reduce("x", "result.loss_sum");
  b.all_reduce("x", "result.squared_norm");
  b.all_reduce("x", "result.non_finite");
  const std::vector<Traffic> expected = {{"x", "all_reduce", "loss", 1, 8, 8},
                                         {"x", "all_reduce", "update", 2, 16, 16}};
  EXPECT_EQ(traffic(b.finish()), expected);
}

TEST(Traffic, messages_are_counted_without_an_axis) {
  Builder b(op::ProgramKind::train, Rank(std::size_t{0}), mesh_of(1, 2), {"math"});
  b.buffer("blocks.0.mlp.residual", {7}, {});
  label(b, "blocks.0.mlp.residual", "linear");
  b.task(TaskKind::forward, 0);
  b.add("math", Send{Rank(std::size_t{1}), 3, b.slice("blocks.0.mlp.residual")});
  const std::vector<Traffic> expected = {{"", "send", "linear", 1, 28, 28}};
  EXPECT_EQ(traffic(b.finish()), expected);
}

TEST(Traffic, a_rank_alone_sends_nothing) {
  Builder b(op::ProgramKind::train, Rank(std::size_t{0}), mesh_of(1, 1), {"math"});
  b.task(TaskKind::forward, 0);
  EXPECT_TRUE(traffic(b.finish()).empty());
}

}  // namespace
}  // namespace fourfold::program
