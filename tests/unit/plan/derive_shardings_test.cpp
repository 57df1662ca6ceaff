// The states of values that ops make: they follow from the rules of the ops, and stand here once in
// full for a GPT on a grid with all four axes.
#include "plan/derive_shardings.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "base/format.h"
#include "unit/plan/gpt_setup.h"

namespace fourfold::plan {
namespace {

/// How the plan keeps a value, as text.
class Kept {
 public:
  explicit Kept(const GptSetup& setup, op::ProgramKind graph = op::ProgramKind::train)
      : graph_(setup.graphs().at(graph)), plan_(setup.planned()), kind_(graph) {}

  std::string operator()(const std::string& value) const {
    const auto id = graph_.find(value);
    if (!id) return "there is no " + value;
    return text(*id, plan_.of(kind_).values[id->index()]);
  }
  /// The state in which the op that makes a value gives it.
  std::string given(const std::string& value) const {
    const auto id = graph_.find(value);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (std::size_t output = 0; output < graph_.nodes[i].outputs.size(); ++output)
        if (id && graph_.nodes[i].outputs[output] == *id)
          return text(*id, plan_.of(kind_).nodes[i].outputs[output]);
    return "nothing makes " + value;
  }

 private:
  std::string text(graph::ValueId id, const op::Sharding& state) const {
    return op::to_string(graph_.value(id).shape, state, plan_.meshes[0]);
  }

  graph::Graph graph_;
  Plan plan_;
  op::ProgramKind kind_;
};

TEST(DeriveShardings, activations_lie_as_axonn_and_atp_have_them) {
  const Kept kept{GptSetup()};
  const std::string stream = "[4 (data,z), 8, 32 (y)]", inner = "[4 (data,z), 8, 128 (x)]";
  EXPECT_EQ(kept("tokens"), "[4 (data,z), 8]");
  for (const std::string name :
       {"embedding", "positions", "blocks.0.ln1", "blocks.0.attn.out", "blocks.0.attn.residual",
        "blocks.1.ln2", "blocks.1.mlp.down", "blocks.1.mlp.residual", "ln_f"})
    EXPECT_EQ(kept(name), stream) << name;
  for (const std::string name : {"blocks.0.mlp.up", "blocks.0.mlp.up.biased", "blocks.1.mlp.gelu"})
    EXPECT_EQ(kept(name), inner) << name;
  EXPECT_EQ(kept("blocks.0.ln1.mean"), "[4 (data,z), 8]");
  EXPECT_EQ(kept("blocks.0.attn.qkv"), "[4 (data,z), 8, 3, 8 (x,y), 4]");
  EXPECT_EQ(kept("blocks.0.attn.core"), "[4 (data,z), 8, 8 (x,y), 4]");
  EXPECT_EQ(kept("blocks.0.attn.core.lse"), "[4 (data,z), 8 (x,y), 8]");
  EXPECT_EQ(kept("logits"), "[4 (data,z), 8, 37 (x:20,y:10)]");
  EXPECT_EQ(kept("result.loss_sum"), "[]");
}

TEST(DeriveShardings, products_are_partial_on_the_axis_that_cuts_what_they_contract) {
  const Kept kept{GptSetup()};
  EXPECT_EQ(kept.given("blocks.0.attn.qkv"), "[4 (data,z), 8, 3, 8 (x), 4] partial sum(y)");
  EXPECT_EQ(kept.given("blocks.0.attn.out"), "[4 (data,z), 8, 32 (y)] partial sum(x)");
  EXPECT_EQ(kept.given("blocks.0.mlp.up"), "[4 (data,z), 8, 128 (x)] partial sum(y)");
  EXPECT_EQ(kept.given("blocks.0.mlp.down"), "[4 (data,z), 8, 32 (y)] partial sum(x)");
  EXPECT_EQ(kept.given("embedding"), "[4 (data,z), 8, 32] partial sum(y) partial sum(x)");
  EXPECT_EQ(kept.given("logits"), "[4 (data,z), 8, 37 (x:20,y:10)]");
  // The gradients of their inputs, over the other axis (AxoNN, algorithm 1, line 11).
  EXPECT_EQ(kept.given("blocks.0.ln1/grad"), "[4 (data,z), 8, 32 (y)] partial sum(x)");
  EXPECT_EQ(kept.given("blocks.0.attn.core/grad"), "[4 (data,z), 8, 8 (x), 4] partial sum(y)");
  EXPECT_EQ(kept.given("blocks.0.ln2/grad"), "[4 (data,z), 8, 32 (y)] partial sum(x)");
  EXPECT_EQ(kept.given("blocks.0.mlp.gelu/grad"), "[4 (data,z), 8, 128 (x)] partial sum(y)");
}

TEST(DeriveShardings, gradients_of_activations_are_kept_as_the_activations) {
  const GptSetup setup;
  const auto model = setup.graphs();
  const graph::Graph& train = model.at(op::ProgramKind::train);
  const Plan plan = setup.planned();
  std::size_t gradients = 0;
  for (std::size_t i = 0; i < train.values.size(); ++i) {
    const auto of = train.values[i].gradient_of;
    if (!of || train.values[i].role == graph::ValueRole::gradient) continue;
    EXPECT_EQ(plan.of(op::ProgramKind::train).values[i],
              plan.of(op::ProgramKind::train).values[of->index()])
        << train.values[i].name;
    ++gradients;
  }
  EXPECT_GT(gradients, 20U);
}

TEST(DeriveShardings,
     sums_of_weights_lie_as_the_weights_and_wait_for_data_small_ones_as_they_are_made) {
  const Kept kept{GptSetup()};
  EXPECT_EQ(kept("gradient/blocks.0.mlp.up.weight"), "[32 (y,z), 128 (x)] partial sum(data)");
  EXPECT_EQ(kept("gradient/wte.weight"), "[37 (x:20,y:10,z:5), 32] partial sum(data)");
  EXPECT_EQ(kept("gradient/wpe.weight"), "[8 (z), 32 (y)] partial sum(data)");
  EXPECT_EQ(kept("gradient/blocks.0.ln1.gain"), "[32 (y)] partial sum(data) partial sum(z)");
  EXPECT_EQ(kept("gradient/blocks.0.attn.qkv.bias"),
            "[3, 8 (x,y), 4] partial sum(data) partial sum(z)");
  EXPECT_EQ(kept("gradient/blocks.0.mlp.up.bias"), "[128 (x)] partial sum(data) partial sum(z)");
}

// --- heads

TEST(DeriveShardings, fourteen_heads_on_x_2_and_y_4_put_samples_of_the_core_on_y) {
  const Kept kept{fourteen_heads({.x = 2, .y = 4, .z = 1, .data = 2})};
  EXPECT_EQ(kept("blocks.0.attn.qkv"), "[16 (data,y), 8, 3, 14 (x), 8]");
  EXPECT_EQ(kept("blocks.0.attn.core"), "[16 (data,y), 8, 14 (x), 8]");
  EXPECT_EQ(kept("gradient/blocks.0.attn.qkv.bias"),
            "[3, 14 (x), 8] partial sum(data) partial sum(y)");
  EXPECT_EQ(kept.given("blocks.0.attn.out"), "[16 (data), 8, 112 (y)] partial sum(x)");
}

TEST(DeriveShardings, heads_that_x_does_not_divide_are_cut_on_y_and_samples_on_x) {
  const Kept kept{fourteen_heads({.x = 4, .y = 2, .z = 2, .data = 1})};
  EXPECT_EQ(kept.given("blocks.0.attn.qkv"), "[16 (z), 8, 3, 14, 8 (x)] partial sum(y)");
  EXPECT_EQ(kept("blocks.0.attn.qkv"), "[16 (z,x), 8, 3, 14 (y), 8]");
  EXPECT_EQ(kept("blocks.0.attn.core"), "[16 (z,x), 8, 14 (y), 8]");
}

TEST(DeriveShardings, heads_that_neither_axis_divides_stay_whole_and_samples_go_on_both) {
  const Kept kept{fourteen_heads({.x = 4, .y = 4, .z = 1, .data = 1})};
  EXPECT_EQ(kept.given("blocks.0.attn.qkv"), "[8, 8, 3, 14, 8 (x)] partial sum(y)");
  EXPECT_EQ(kept("blocks.0.attn.qkv"), "[8 (y), 8, 3, 14, 8]") << "16 ranks have no 8 samples";
  GptSetup setup = fourteen_heads({.x = 4, .y = 4, .z = 1, .data = 1});
  setup.plan.micro_batch_size = 16;
  setup.set_grid(setup.plan.grid);
  EXPECT_EQ(Kept(setup)("blocks.0.attn.qkv"), "[16 (y,x), 8, 3, 14, 8]");
}

TEST(DeriveShardings, a_core_that_can_be_shared_by_neither_heads_nor_samples_is_repeated) {
  GptSetup setup = fourteen_heads({.x = 2, .y = 4, .z = 1, .data = 1});
  setup.plan.micro_batch_size = 3;
  setup.set_grid(setup.plan.grid);
  EXPECT_EQ(Kept(setup)("blocks.0.attn.qkv"), "[3, 8, 3, 14 (x), 8]");
}

// --- other graphs and strategies

TEST(DeriveShardings, a_text_is_on_all_ranks_and_its_cache_is_shared_by_heads) {
  const Kept kept(GptSetup(), op::ProgramKind::decode);
  EXPECT_EQ(kept("tokens"), "[1, 1]");
  EXPECT_EQ(kept("embedding"), "[1, 1, 32 (y)]");
  EXPECT_EQ(kept("blocks.0.attn.core"), "[1, 1, 8 (x,y), 4]");
  EXPECT_EQ(kept("blocks.0.attn.cache"), "[1, 2, 8, 8 (x,y), 4]");
  EXPECT_EQ(kept("logits"), "[1, 1, 37]") << "the host reads them whole";
  EXPECT_EQ(kept.given("logits"), "[1, 1, 37 (x:20,y:10)]");
}

TEST(DeriveShardings, sharded_sequences_cut_time_between_blocks_where_x_divides_it) {
  GptSetup setup;
  setup.plan.strategy = Strategy::megatron;
  setup.plan.shard_sequence = true;
  setup.set_grid({.x = 4, .data = 2});
  const Kept kept(setup);
  for (const std::string name : {"embedding", "blocks.0.ln1", "blocks.0.attn.out",
                                 "blocks.0.attn.residual", "blocks.1.mlp.down", "ln_f"})
    EXPECT_EQ(kept(name), "[2 (data), 8 (x), 32]") << name;
  EXPECT_EQ(kept("blocks.0.mlp.up"), "[2 (data), 8, 128 (x)]");
  EXPECT_EQ(kept("blocks.0.attn.core"), "[2 (data), 8, 8 (x), 4]");
  EXPECT_EQ(kept("gradient/blocks.0.ln1.gain"), "[32] partial sum(data) partial sum(x)");
  setup.plan.seq_length = 6;
  EXPECT_EQ(Kept(setup)("embedding"), "[2 (data), 6, 32]");
}

TEST(DeriveShardings, persistent_values_lie_alike_in_all_graphs) {
  GptSetup setup;
  setup.plan.shard_states = true;
  const auto model = setup.graphs();
  const Plan plan = setup.planned();
  std::map<std::string, op::Sharding> seen;
  for (const graph::Graph& graph : model.graphs)
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      if (!graph::is_persistent(graph.values[i].role)) continue;
      const op::Sharding& state = plan.of(graph.kind).values[i];
      EXPECT_EQ(seen.try_emplace(graph.values[i].name, state).first->second, state)
          << graph.values[i].name << " in " << op::to_string(graph.kind);
    }
  EXPECT_GT(seen.size(), 80U);
}

// --- choices by op

/// AxoNN's layout, but that a product of the first block shares what it contracts on both axes.
struct ChosenProduct {
  GptSetup setup;
  graph::ModelGraphs model = setup.graphs();
  Plan plan;
  std::string op = "blocks.0.mlp.down";

  explicit ChosenProduct(bool sums_stay) {
    const Axes axes = axes_of(setup.mesh());
    Layout layout = std::get<Layout>(setup.layout());
    layout.ops[op] = {{'a', {axes.data, axes.z}}, {'k', {axes.x, axes.y}}};
    layout.activations[op].sums_stay = sums_stay;
    plan =
        std::get<Plan>(make_plan(model, setup.mesh(), layout,
                                 std::get<Batching>(solve_batching(setup.plan)), DType::f32, {}));
  }
  std::string kept(op::ProgramKind kind) const {
    const graph::Graph& graph = model.at(kind);
    const auto id = graph.find(op).value();
    return op::to_string(graph.value(id).shape, plan.of(kind).values[id.index()], plan.meshes[0]);
  }
  /// The states in which others read what the product gives.
  std::string read() const {
    const graph::Graph& graph = model.at(op::ProgramKind::train);
    std::string text;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      for (std::size_t r = 0; r < graph.nodes[i].reads.size(); ++r)
        if (graph.value(graph.nodes[i].reads[r]).name == op)
          text += op::to_string(graph.value(graph.nodes[i].reads[r]).shape,
                                plan.of(op::ProgramKind::train).nodes[i].reads[r], plan.meshes[0]) +
                  "\n";
    return text;
  }
};

TEST(DeriveShardings, an_op_is_cut_as_it_is_chosen_and_what_it_gives_is_reduced) {
  const ChosenProduct chosen(false);
  EXPECT_EQ(chosen.kept(op::ProgramKind::train), "[4 (data,z), 8, 32]");
}

TEST(DeriveShardings, sums_that_are_to_stay_are_reduced_for_ops_that_are_not_linear_alone) {
  const ChosenProduct chosen(true);
  EXPECT_EQ(chosen.kept(op::ProgramKind::train),
            "[4 (data,z), 8, 32] partial sum(y) partial sum(x)");
  EXPECT_EQ(chosen.read(), "[4 (data,z), 8, 32]\n") << "a bias is added to the sum";
}

TEST(DeriveShardings, what_does_not_divide_in_another_graph_stays_whole_and_is_told) {
  const ChosenProduct chosen(false);
  EXPECT_EQ(chosen.kept(op::ProgramKind::decode), "[1, 1, 32]");
  EXPECT_TRUE(chosen.plan.of(op::ProgramKind::train).left_out.empty());
  EXPECT_EQ(chosen.plan.of(op::ProgramKind::decode).left_out,
            (std::vector<LeftOut>{{chosen.op, 'a', 1, 4}}));
  EXPECT_NE(to_text(chosen.plan, chosen.model)
                .find("decode: blocks.0.mlp.down: factor a of 1 stays whole: 4 ranks do not"),
            std::string::npos);
}

// --- every grid

/// True if equal parts of the dim are what its cuts give; only vocabularies have padding.
bool is_even(std::int64_t size, const std::vector<op::Cut>& cuts, const Mesh& mesh) {
  std::int64_t parts = 1;
  for (const op::Cut& cut : cuts) parts *= mesh.axes[cut.axis.index()].size;
  return size % parts == 0;
}

TEST(DeriveShardings, on_every_grid_every_op_can_run_on_what_it_wants_and_gives_what_is_claimed) {
  std::size_t plans = 0, nodes = 0;
  const auto check = [&](const GptSetup& setup) {
    const auto model = setup.graphs();
    const Plan plan = setup.planned();
    for (const graph::Graph& graph : model.graphs) {
      const GraphShardings& states = plan.of(graph.kind);
      ASSERT_EQ(states.nodes.size(), graph.nodes.size());
      for (std::size_t i = 0; i < graph.nodes.size(); ++i, ++nodes) {
        const auto rule = op::factors(graph.nodes[i].op, graph.shapes(graph.nodes[i].reads));
        auto result = op::propagate(rule.of_any_form(), states.nodes[i].reads,
                                    states.nodes[i].outputs, plan.meshes[0]);
        ASSERT_EQ(result.problem, "");
        for (op::Sharding& output : result.outputs)
          if (output.replicated()) output.dims.clear();
        EXPECT_EQ(result.outputs, states.nodes[i].outputs) << op::name(graph.nodes[i].op);
      }
      for (std::size_t i = 0; i < graph.values.size(); ++i)
        for (std::size_t dim = 0; dim < states.values[i].dims.size(); ++dim) {
          const auto& cuts = states.values[i].dims[dim];
          EXPECT_TRUE(is_even(graph.values[i].shape[dim], cuts, plan.meshes[0]) ||
                      graph.values[i].shape[dim] == setup.gpt.vocab_size)
              << graph.values[i].name;
        }
    }
    ++plans;
  };
  for (const std::int64_t x : {1, 2, 4, 8})
    for (const std::int64_t y : {1, 2, 4, 8})
      for (const std::int64_t z : {1, 2, 4})
        for (const std::int64_t data : {1, 2}) {
          if (x * y * z * data > 16) continue;
          SCOPED_TRACE(format("x {} y {} z {} data {}", x, y, z, data));
          GptSetup setup;
          setup.set_grid({.x = x, .y = y, .z = z, .data = data});
          if (32 % (y * z) == 0) check(setup);
          check(fourteen_heads(setup.plan.grid));
        }
  std::printf("states: %zu plans, %zu nodes\n", plans, nodes);
}

}  // namespace
}  // namespace fourfold::plan
