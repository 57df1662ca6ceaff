// Where collectives stand: gradients are reduced where their rule says so and nowhere else,
// activations as soon as they are made, weights before their first use.
#include "compile/insert_conversions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "compile/use_cut_forms.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

using program::TaskKind;
using Axes = std::set<std::string>;

/// 14 heads, an odd vocabulary: heads share x only where it divides them, samples take y.
GridSetup odd_setup(const plan::Grid& grid) {
  GridSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 14,
               .hidden_size = 112,
               .ffn_hidden_size = 224,
               .max_position_embeddings = 8,
               .vocab_size = 37,
               .tied_head = false};
  setup.plan.micro_batch_size = 16;
  setup.set_grid(grid, 2);
  return setup;
}

std::vector<GridSetup> setups() {
  std::vector<GridSetup> list;
  for (const plan::Grid& grid : grids_of({1, 2, 4}, 16)) {
    list.push_back(odd_setup(grid));
    GridSetup setup;
    setup.set_grid(grid, 3);
    if (grid.x * grid.y <= 8) list.push_back(setup);
    setup.plan.shard_states = true;
    setup.plan.checkpointing.layers = 1;
    if (grid.x * grid.y <= 8) list.push_back(setup);
    if (grid.y != 1 || grid.z != 1) continue;
    setup.plan.strategy = plan::Strategy::megatron;
    setup.plan.shard_sequence = true;
    list.push_back(setup);
  }
  return list;
}

std::string name_of(const GridSetup& setup) {
  return format("{}, {} heads{}{}", text_of(setup.plan.grid), setup.gpt.num_attention_heads,
                setup.plan.shard_states ? ", states sharded" : "",
                setup.plan.shard_sequence ? ", sequence sharded" : "");
}

// --- gradients

/// The axes on which an op's output is a term of a sum: those that cut a factor of its reads that
/// the output lacks.
Axes summed_axes(const op::FactorRule& rule, const plan::NodeShardings& states, std::size_t output,
                 const Mesh& mesh) {
  const std::string& kept = rule.operands[states.reads.size() + output].letters();
  Axes axes;
  for (std::size_t i = 0; i < states.reads.size(); ++i)
    for (std::size_t dim = 0; dim < states.reads[i].dims.size(); ++dim)
      if (kept.find(rule.operands[i][dim][0]) == std::string::npos)
        for (const op::Cut& cut : states.reads[i].dims[dim])
          axes.insert(mesh.axes[cut.axis.index()].name);
  return axes;
}

/// By gradient.
std::map<std::string, Axes> axes_by_rule(const graph::Graph& train, const plan::Plan& plan) {
  std::map<std::string, Axes> result;
  const plan::GraphShardings& states = plan.of(op::ProgramKind::train);
  for (std::size_t i = 0; i < train.nodes.size(); ++i) {
    const graph::Node& node = train.nodes[i];
    const op::FactorRule rule = op::factors(node.op, train.shapes(node.reads));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const graph::Value& value = train.value(node.outputs[o]);
      if (value.role != graph::ValueRole::gradient) continue;
      const Axes axes = summed_axes(rule, states.nodes[i], o, plan.meshes[0]);
      const auto place = result.try_emplace(value.name, axes).first;
      EXPECT_EQ(place->second, axes) << "all uses of " << value.name << " are summed alike";
    }
  }
  return result;
}

struct Reductions {
  std::map<std::int64_t, std::multiset<std::string>> in_micro;  // axes, by micro-batch
  std::multiset<std::string> at_end;
  bool operator==(const Reductions&) const = default;
};

/// "gradient/x" of "gradient/x/part/scattered.z".
std::string gradient_of(const std::string& buffer) {
  return buffer.substr(0, buffer.find('/', std::string_view("gradient/").size()));
}

std::map<std::string, Reductions> reductions(const program::Program& program) {
  std::map<std::string, Reductions> result;
  for (const program::Task& task : program.tasks)
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const auto note = [&](program::GroupId group, const program::Slice& tensor) {
        const std::string& name = program.buffer(tensor.buffer).name;
        if (!name.starts_with("gradient/")) return;
        Reductions& list = result[gradient_of(name)];
        // A sum over all micro-batches is reduced at the end, in buckets that begin a little
        // earlier.
        const bool is_at_end = task.kind == TaskKind::update ||
                               program.buffer(tensor.buffer).role == program::BufferRole::gradient;
        auto& when = is_at_end ? list.at_end : list.in_micro[task.micro.value()];
        for (const AxisId axis : program.groups[group.index()].axes)
          when.insert(program.meshes[0].axes[axis.index()].name);
      };
      std::visit(
          [&](const auto& what) {
            if constexpr (requires { what.reduction; })
              program::for_each_tensor(
                  what, [&](const program::Slice& from, const auto&) { note(what.group, from); });
          },
          program.instructions[i].what);
    }
  return result;
}

TEST(Gradients, are_reduced_once_on_the_axes_that_their_rule_sums_over_and_on_no_other) {
  std::size_t gradients = 0, sums = 0;
  const auto list = setups();
  for (const GridSetup& setup : list) {
    SCOPED_TRACE(name_of(setup));
    const graph::ModelGraphs model = setup.graphs();
    const plan::Plan plan = setup.solved(model);
    const auto expected = axes_by_rule(model.at(op::ProgramKind::train), plan);
    auto got =
        reductions(compile(model, plan, GridSetup::target()).classes[0].at(op::ProgramKind::train));
    for (const auto& [name, axes] : expected) {
      const Reductions& found = got[name];
      std::multiset<std::string> once = found.at_end;
      for (std::int64_t micro = 0; micro < plan.batching.accumulation; ++micro) {
        const auto place = found.in_micro.find(micro);
        const auto in_micro =
            place == found.in_micro.end() ? std::multiset<std::string>() : place->second;
        EXPECT_EQ(in_micro, found.in_micro.empty() ? std::multiset<std::string>()
                                                   : found.in_micro.begin()->second)
            << name << ": all micro-batches alike";
        if (micro == 0) once.insert(in_micro.begin(), in_micro.end());
      }
      EXPECT_EQ(once, std::multiset<std::string>(axes.begin(), axes.end())) << name;
      ++gradients;
      sums += axes.size();
      got.erase(name);
    }
    EXPECT_TRUE(got.empty()) << "what is reduced is the gradient of a parameter";
  }
  std::printf("gradients: %zu plans, %zu gradients, %zu reductions\n", list.size(), gradients,
              sums);
}

Axes axes_of(const GridSetup& setup, const std::string& parameter) {
  const auto model = setup.graphs();
  return axes_by_rule(model.at(op::ProgramKind::train), setup.solved(model))
      .at("gradient/" + parameter);
}

TEST(Gradients, are_summed_over_what_cuts_the_batch) {
  const GridSetup setup = odd_setup({.x = 2, .y = 2, .z = 2, .data = 2});
  for (const std::string name :
       {"wte.weight", "wpe.weight", "blocks.0.ln1.gain", "blocks.0.attn.qkv.weight",
        "blocks.0.attn.out.bias", "blocks.1.mlp.up.bias", "blocks.1.mlp.down.weight", "ln_f.bias",
        "head.weight"})
    EXPECT_EQ(axes_of(setup, name), (Axes{"data", "z"})) << name;
  // 7 heads of each x cannot be shared by two y: samples are, and this bias is added to them.
  EXPECT_EQ(axes_of(setup, "blocks.0.attn.qkv.bias"), (Axes{"data", "y", "z"}));
  const GridSetup wide = odd_setup({.x = 4, .y = 2, .z = 1, .data = 2});  // nor do 14 by four x
  EXPECT_EQ(axes_of(wide, "blocks.0.attn.qkv.bias"), (Axes{"data", "x"}));
  const GridSetup wider = odd_setup({.x = 4, .y = 4, .z = 1, .data = 1});  // nor by four y
  EXPECT_EQ(axes_of(wider, "blocks.0.attn.qkv.bias").count("y"), 1U);
  EXPECT_EQ(axes_of(wide, "blocks.0.attn.qkv.weight"), (Axes{"data"}));
  GridSetup sequence;
  sequence.plan.strategy = plan::Strategy::megatron;
  sequence.plan.shard_sequence = true;
  sequence.set_grid({.x = 2, .data = 2});
  EXPECT_EQ(axes_of(sequence, "blocks.0.ln1.gain"), (Axes{"data", "x"}));
  EXPECT_EQ(axes_of(sequence, "blocks.0.mlp.down.bias"), (Axes{"data", "x"}));
  EXPECT_EQ(axes_of(sequence, "blocks.0.mlp.up.bias"), (Axes{"data"}));
}

TEST(Gradients, of_weights_are_scattered_in_every_micro_batch_and_summed_over_data_at_the_end) {
  GridSetup setup;
  setup.set_grid({.x = 2, .y = 2, .z = 2, .data = 2}, 3);
  const auto got = reductions(setup.train());
  const std::multiset<std::string> z = {"z"};
  const Reductions weight = {{{0, z}, {1, z}, {2, z}}, {"data"}}, gain = {{}, {"data", "z"}};
  EXPECT_EQ(got.at("gradient/blocks.0.mlp.up.weight"), weight);
  EXPECT_EQ(got.at("gradient/wte.weight"), weight) << "both uses of a tied table together";
  EXPECT_EQ(got.at("gradient/blocks.0.ln1.gain"), gain);
}

// --- the steps of the graph

ShardedGraph sharded_train(const GridSetup& setup) {
  const graph::ModelGraphs model = setup.graphs();
  const plan::Plan plan = setup.solved(model);
  CutGraph cut = use_cut_forms(model.at(op::ProgramKind::train), plan);
  return insert_conversions(recompute(std::move(cut.graph), plan.checkpointing), cut.shardings,
                            plan);
}

TEST(InsertConversions, an_activation_is_brought_into_the_state_in_which_it_is_kept_at_once) {
  for (const GridSetup& setup : setups()) {
    SCOPED_TRACE(name_of(setup));
    const ShardedGraph graph = sharded_train(setup);
    std::set<ValueId> fresh;  // outputs of the last node, and what moves made of them
    std::set<ValueId> raw;    // those of them that still have to become what is kept
    for (const Step& step : graph.steps) {
      if (const auto* node = std::get_if<graph::Node>(&step)) {
        EXPECT_TRUE(raw.empty()) << graph.value(*raw.begin()).name;
        fresh = {node->outputs.begin(), node->outputs.end()};
        for (const ValueId id : node->outputs)
          if (graph.value(id).name.ends_with("/raw")) raw.insert(id);
      }
      const auto* move = std::get_if<Move>(&step);
      if (move == nullptr || move->phase == graph::Phase::update) continue;
      raw.erase(move->from);
      if (fresh.contains(move->from)) fresh.insert(move->to);
      // Nothing else is reduced than what was just made.
      if (move->conversion.kind == Collective::all_reduce ||
          move->conversion.kind == Collective::reduce_scatter) {
        EXPECT_TRUE(fresh.contains(move->from)) << graph.value(move->from).name;
      }
    }
  }
}

TEST(InsertConversions, nothing_is_converted_twice_into_one_state) {
  for (const GridSetup& setup : setups()) {
    if (setup.plan.checkpointing.layers > 0) continue;
    SCOPED_TRACE(name_of(setup));
    const ShardedGraph graph = sharded_train(setup);
    std::set<std::tuple<ValueId, MoveKind, std::vector<AxisId>, std::size_t>> moves;
    for (const Step& step : graph.steps) {
      const auto* move = std::get_if<Move>(&step);
      if (move == nullptr || move->from == move->to) continue;
      const Conversion& c = move->conversion;
      EXPECT_TRUE(moves.emplace(move->from, c.kind, c.axes, c.dim).second)
          << graph.value(move->from).name;
    }
  }
}

/// How often each weight is gathered on z, by phase.
std::map<std::string, std::pair<int, int>> gathers(const GridSetup& setup) {
  const ShardedGraph graph = sharded_train(setup);
  std::map<std::string, std::pair<int, int>> counts;
  for (const Step& step : graph.steps) {
    const auto* move = std::get_if<Move>(&step);
    if (move == nullptr || move->conversion.kind != Collective::all_gather) continue;
    const ShardedValue& weight = graph.value(move->from);
    if (weight.role != graph::ValueRole::parameter || move->phase == graph::Phase::update) continue;
    auto& [forward, backward] = counts[weight.name];
    ++(move->phase == graph::Phase::forward ? forward : backward);
  }
  return counts;
}

TEST(InsertConversions,
     a_weight_is_gathered_once_and_with_recomputation_again_in_the_backward_pass) {
  GridSetup setup;
  setup.set_grid({.z = 4, .data = 1});
  const auto once = gathers(setup);
  EXPECT_EQ(once.size(), 2U + 2 * 4);  // both tables, four matrices in each of two blocks
  for (const auto& [name, counts] : once) EXPECT_EQ(counts, std::pair(1, 0)) << name;
  for (const std::int64_t blocks : {1, 2}) {
    setup.plan.checkpointing.layers = blocks;
    for (const auto& [name, counts] : gathers(setup))
      EXPECT_EQ(counts, std::pair(1, name == "wpe.weight" ? 0 : 1)) << name;
  }
}

TEST(InsertConversions, sums_are_complete_before_they_are_read) {
  for (const GridSetup& setup : setups()) {
    SCOPED_TRACE(name_of(setup));
    const ShardedGraph graph = sharded_train(setup);
    std::set<ValueId> read;
    const auto expect_unread = [&](ValueId id) {
      EXPECT_FALSE(graph::is_sum(graph.value(id).role) && read.contains(id))
          << graph.value(id).name;
    };
    for (const Step& step : graph.steps) {
      if (const auto* node = std::get_if<graph::Node>(&step)) {
        for (const ValueId id : node->outputs) expect_unread(id);
        for (const ValueId id : node->reads)
          if (std::find(node->outputs.begin(), node->outputs.end(), id) == node->outputs.end())
            read.insert(id);
      } else if (const auto* move = std::get_if<Move>(&step)) {
        expect_unread(move->to);
        if (move->sum) expect_unread(*move->sum);
        if (move->from != move->to) read.insert(move->from);
      }
    }
  }
}

}  // namespace
}  // namespace fourfold::compile
