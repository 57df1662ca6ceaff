#include "program/traffic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "program/builder.h"

namespace fourfold::program {
namespace {

struct Named {
  std::string name;
  TensorClass tensor;
};

TEST(TensorClass, follows_from_the_names_of_the_model_and_not_from_the_compilers_words) {
  const std::vector<Named> names = {
      {"blocks.0.attn.qkv.weight", TensorClass::linear},
      {"blocks.12.mlp.down.weight/gathered.z2", TensorClass::linear},
      {"gradient/blocks.0.mlp.up.weight/part/scattered.z", TensorClass::linear},
      {"blocks.0.attn.qkv/raw/packed.y", TensorClass::linear},
      {"blocks.0.attn.qkv/again/raw/packed.y", TensorClass::linear},
      {"blocks.0.mlp.up", TensorClass::linear},
      {"blocks.0.mlp.gelu/grad", TensorClass::linear},
      {"blocks.0.ln1/grad", TensorClass::linear},
      {"blocks.0.ln2/gathered.x", TensorClass::linear},
      {"blocks.0.attn.core/grad/raw/packed.y", TensorClass::linear},
      {"blocks.0.attn.core/gathered.y/blocks.y", TensorClass::attention},
      {"blocks.0.attn.core/again", TensorClass::attention},
      {"blocks.0.attn.qkv.biased/grad", TensorClass::attention},
      {"blocks.0.attn.qkv/grad2/gathered.y", TensorClass::attention},
      {"blocks.0.ln1.moments/again/gathered.y", TensorClass::norm},
      {"blocks.0.ln1/gradient_sums", TensorClass::norm},
      {"gradient/blocks.0.ln2.gain", TensorClass::norm},
      {"gradient/blocks.0.ln2.bias/gathered.y", TensorClass::norm},
      {"ln_f.moments", TensorClass::norm},
      {"ln_f/gradient_sums", TensorClass::norm},
      {"ln_f.gain", TensorClass::norm},
      {"gradient/blocks.0.attn.qkv.bias/gathered.y/blocks.y", TensorClass::bias},
      {"m/blocks.0.mlp.down.bias", TensorClass::bias},
      {"wte.weight/gathered.z", TensorClass::embedding},
      {"gradient/wpe.weight/part", TensorClass::embedding},
      {"embedding/raw/packed.y", TensorClass::embedding},
      {"positions/grad", TensorClass::embedding},
      {"head.weight", TensorClass::head},
      {"logits/grad", TensorClass::head},
      {"ln_f/gathered.y/blocks.y", TensorClass::head},
      {"ln_f/grad/raw", TensorClass::head},
      {"loss.max", TensorClass::loss},
      {"loss.sums.label_logit", TensorClass::loss},
      {"result.loss_sum", TensorClass::loss},
      {"result.token_count", TensorClass::loss},
      {"result.squared_norm/part", TensorClass::update},
      {"result.non_finite", TensorClass::update},
      {"workspace", TensorClass::other},
      {"blocks.0.conv", TensorClass::other},
      {"", TensorClass::other},
  };
  for (const Named& named : names)
    EXPECT_EQ(to_string(tensor_class(named.name)), to_string(named.tensor)) << named.name;
}

Mesh mesh_of(std::int64_t z, std::int64_t x) {
  Mesh mesh{"main", {{"z", z}, {"x", x}}, {}};
  for (std::int64_t rank = 0; rank < z * x; ++rank)
    mesh.ranks.emplace_back(static_cast<std::size_t>(rank));
  return mesh;
}

/// One collective of each kind along x of three ranks, and two along z of four.
Program every_collective() {
  Builder b("train", Rank(std::size_t{0}), mesh_of(4, 3), {"math", "x", "z"});
  b.group("x");
  b.group("z");
  b.buffer("wte.weight", {24, 5}, {}, {"x"});
  b.buffer("wte.weight/gathered.x", {24, 5}, {});
  b.buffer("embedding/raw", {12, 6}, {});
  b.buffer("embedding", {12, 6}, {}, {"x"});
  b.buffer("blocks.0.attn.core", {12, 6}, {}, {"", "x"});
  b.buffer("blocks.0.ln1", {7}, {});
  b.buffer("blocks.1.ln1", {7}, {});
  b.buffer("gradient/ln_f.gain", {2}, {BufferRole::gradient, DType::f64});
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
      {"x", "all_gather", TensorClass::embedding, 1, 480, 480 * 2 / 3.0},
      {"x", "all_reduce", TensorClass::linear, 2, 56, 56 * 4 / 3.0},
      {"x", "all_to_all", TensorClass::embedding, 1, 96, 96 * 2 / 3.0},
      {"x", "reduce_scatter", TensorClass::embedding, 1, 288, 288 * 2 / 3.0},
      {"z", "all_reduce", TensorClass::norm, 1, 16, 16 * 2 * 3 / 4.0},
  };
  const std::vector<Traffic> got = traffic(every_collective());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].axis, expected[i].axis) << i;
    EXPECT_EQ(got[i].kind, expected[i].kind) << i;
    EXPECT_EQ(to_string(got[i].tensor), to_string(expected[i].tensor)) << i;
    EXPECT_EQ(got[i].calls, expected[i].calls) << i;
    EXPECT_EQ(got[i].payload_bytes, expected[i].payload_bytes) << i;
    EXPECT_DOUBLE_EQ(got[i].sent_bytes, expected[i].sent_bytes) << i;
  }
}

TEST(Traffic, fields_of_the_result_block_have_classes_of_their_own) {
  Builder b("train", Rank(std::size_t{0}), mesh_of(1, 2), {"math", "x"});
  b.group("x");
  b.blocks();
  b.task(TaskKind::update);
  b.all_reduce("x", "result.loss_sum");
  b.all_reduce("x", "result.squared_norm");
  b.all_reduce("x", "result.non_finite");
  const std::vector<Traffic> expected = {{"x", "all_reduce", TensorClass::loss, 1, 8, 8},
                                         {"x", "all_reduce", TensorClass::update, 2, 16, 16}};
  EXPECT_EQ(traffic(b.finish()), expected);
}

TEST(Traffic, messages_are_counted_without_an_axis) {
  Builder b("train", Rank(std::size_t{0}), mesh_of(1, 2), {"math"});
  b.buffer("blocks.0.mlp.residual", {7}, {});
  b.task(TaskKind::forward, 0);
  b.add("math", Send{Rank(std::size_t{1}), 3, b.slice("blocks.0.mlp.residual")});
  const std::vector<Traffic> expected = {{"", "send", TensorClass::linear, 1, 28, 28}};
  EXPECT_EQ(traffic(b.finish()), expected);
}

TEST(Traffic, a_rank_alone_sends_nothing) {
  Builder b("train", Rank(std::size_t{0}), mesh_of(1, 1), {"math"});
  b.task(TaskKind::forward, 0);
  EXPECT_TRUE(traffic(b.finish()).empty());
}

}  // namespace
}  // namespace fourfold::program
