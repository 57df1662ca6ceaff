// An optimizer that works on whole matrices: several nodes update one tensor, and any layout
// trains by it as one rank does. It is made up of rows that exist: the sum of a matrix's gradient
// goes through one step of the iteration of Newton and Schulz, as in Muon (Jordan et al. 2024),
// before momentum; vectors take momentum alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/format.h"
#include "compile/compile.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/update.h"
#include "plan/plan.h"
#include "program/jobs.h"
#include "specification/specify.h"
#include "support/compare.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "support/stages.h"
#include "verify/equal.h"
#include "verify/verify_job.h"

namespace fourfold::update_nodes_test {
namespace {

using graph::Builder;
using graph::UpdateNodes;
using graph::UpdateValues;
using graph::ValueId;
using test::GridRun;
using test::RunSetup;
using test::Tensors;

// C channels, F inner ones, V classes.
constexpr std::int64_t samples = 16, length = 4, C = 12, F = 24, V = 20;

/// O = X X^T X, of the gradient X, in the type of the computation.
ValueId orthogonalized(Builder& b, const graph::Value& weight, ValueId gradient) {
  const ValueId x = b.apply_one(op::Cast{}, {gradient}, weight.name + "/x");
  const ValueId square =
      b.apply_one(op::Contract{.transpose_b = true}, {x, x}, weight.name + "/square");
  const ValueId cube = b.apply_one(op::Contract{}, {square, x}, weight.name + "/cube");
  return b.apply_one(op::Widen{}, {cube}, weight.name + "/direction");
}

graph::Optimizer made_up_optimizer() {
  graph::Optimizer momentum = graph::optimizer_of(graph::OptimizerSpec::of(op::Sgd{}, 0.1)),
                   optimizer = momentum;
  optimizer.add_nodes = [momentum](Builder& b, const UpdateValues& values) {
    UpdateValues last = values;
    if (const graph::Value weight = b.graph().value(values.weight); weight.shape.rank() == 2)
      last.gradient = orthogonalized(b, weight, values.gradient);
    momentum.add_nodes(b, last);
  };
  return optimizer;
}

/// A table, a norm, two products with a GELU between them, and classes.
graph::ModelGraphs model(std::int64_t fed_samples, std::vector<UpdateNodes>* nodes = nullptr) {
  Builder b(op::ProgramKind::train);
  const Shape fed{fed_samples, length};
  const auto weight = [&](const std::string& name, const Shape& shape) {
    return b.parameter(name, shape, op::InitNormal{random_stream(name), 0.3, shape});
  };
  const auto product = [&](ValueId x, const std::string& name, const Shape& shape) {
    return b.apply_one(op::Contract{.a_rows = 2}, {x, weight(name, shape)}, name + ".out");
  };
  b.set_layer(0);
  ValueId x =
      b.apply_one(op::Embedding{},
                  {b.input("tokens", fed, op::Element::i32), weight("table", {V, C})}, "looked_up");
  x = b.apply(op::LayerNorm{1e-5, false}, {x, b.parameter("gain", {C}, op::Fill{1, {C}})},
              "norm")[0];
  x = product(product(x, "first.weight", {C, C}), "second.weight", {C, C});
  x = product(x, "up.weight", {C, F});
  x = b.apply_one(op::AddBias{}, {x, b.parameter("up.bias", {F}, op::Fill{0.1, {F}})}, "biased");
  x = b.apply_one(op::Gelu{}, {x}, "gelu");
  b.set_layer(1);
  x = product(x, "down.weight", {F, C});
  const ValueId scores = product(x, "classes.weight", {C, V}),
                labels = b.input("labels", fed, op::Element::i32);
  const auto loss = b.apply(op::CrossEntropy{}, {scores, labels}, "loss");
  b.apply_to(op::LossSum{}, {loss[0], labels},
             {b.field("result.loss_sum"), b.field("result.valid_count")});
  b.set_layer(std::nullopt);
  b.set_phase(graph::Phase::backward);
  const ValueId gradient =
      b.apply_one(op::CrossEntropyGradient{.scale = 1.0 / static_cast<double>(samples * length)},
                  {scores, labels, loss[1]}, "scores/grad");
  graph::differentiate(b, scores, gradient);
  auto added = graph::add_update(b, made_up_optimizer(), samples * length);
  if (nodes != nullptr) *nodes = std::move(added);
  std::vector<graph::Graph> graphs = {b.take()};
  graphs.insert(graphs.begin(), graph::init_graph(graphs));
  return {std::move(graphs), 2};
}

TEST(UpdateNodes, are_told_for_each_parameter) {
  std::vector<UpdateNodes> nodes;
  const graph::ModelGraphs graphs = model(samples, &nodes);
  const graph::Graph& train = graphs.graphs.back();
  std::size_t end = 0;
  for (const UpdateNodes& one : nodes) {
    const graph::Value& weight = train.value(one.weight);
    SCOPED_TRACE(weight.name);
    EXPECT_EQ(one.end - one.begin, weight.shape.rank() == 2 ? 5U : 1U);
    if (end != 0) {
      EXPECT_EQ(one.begin, end);
    }
    end = one.end;
    EXPECT_EQ(train.nodes[end - 1].outputs[0], one.weight);
  }
  EXPECT_EQ(nodes.size(), 8U);
}

struct Outcome {
  std::vector<double> losses;
  Tensors state;  // weights and moments, which tell small directions from each other
};

/// What one rank computes, over residues.
const program::Job& specification() {
  static const program::Job job = specification::specify(model(samples));
  return job;
}

Outcome train(const RunSetup& setup) {
  const auto& stages = setup.plan.pipeline.grids;
  const std::int64_t fed =
      test::stages::samples_of(setup, stages.empty() ? setup.plan.grid : stages[0]);
  const auto [graphs, plan] =
      std::get<plan::PlannedModel>(plan::plan_model(model(fed), setup.plan));
  program::Job job = compile::compile(graphs, plan, kernels::cpu::target(1));
  for (const verify::Fault& fault : verify::verify(job))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  for (const verify::Fault& fault : verify::compare(job, specification()).faults)
    ADD_FAILURE() << "over residues: " << fault.message;
  Outcome outcome;
  GridRun run(setup, std::move(job));
  run.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    for (std::int64_t step = 0; step < 4; ++step) {
      const auto result =
          rank.executor.run(op::ProgramKind::train, test::SmallRun::block(step, 0.1, 1), &feeder);
      EXPECT_EQ(result.applied, 1);
      if (rank.rank == 0)
        outcome.losses.push_back(result.loss_sum / static_cast<double>(result.valid_count));
    }
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
      if (program::is_learned(buffer.role)) run.collect(rank, buffer, buffer.name, outcome.state);
  });
  return outcome;
}

RunSetup setup_of(const plan::Grid& grid) {
  RunSetup setup;
  setup.gpt.vocab_size = V;
  setup.plan = {.global_batch_size = samples, .seq_length = length, .compute = DType::f64};
  test::set_grid(setup, grid);
  return setup;
}

void expect_equal(const Outcome& got, const Outcome& serial, double& worst) {
  for (std::size_t step = 0; step < serial.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step] / serial.losses[step], 1, 1e-12) << "step " << step + 1;
  for (const auto& [name, expected] : serial.state) {
    const double error = test::relative_error(got.state.at(name), expected, 0);
    EXPECT_LE(error, 1e-10) << name;
    worst = std::max(worst, error);
  }
}

TEST(UpdateNodes, train_on_any_grid_as_on_one_rank) {
  const Outcome serial = train(setup_of({}));
  EXPECT_LT(serial.losses.back(), serial.losses.front());
  double worst = 0;
  int layouts = 0;
  for (const plan::Grid& grid : test::grids_of_two()) {
    const bool divides = grid.x * grid.y * grid.z <= 4;  // 12 channels
    if (!divides || plan::num_ranks(grid) == 1 || plan::num_ranks(grid) > 8) continue;
    for (const bool shards : {false, true}) {
      if (shards && grid.data == 1) continue;
      SCOPED_TRACE(format("x {} y {} z {} data {}{}", grid.x, grid.y, grid.z, grid.data,
                          shards ? ", states are cut" : ""));
      RunSetup setup = setup_of(grid);
      setup.plan.shard_states = shards;
      expect_equal(train(setup), serial, worst);
      ++layouts;
    }
  }
  std::printf("%d layouts, worst relative error of a weight or moment after four steps: %.2e\n",
              layouts, worst);
}

TEST(UpdateNodes, train_in_stages_as_on_one_rank) {
  const std::vector<std::vector<plan::Grid>> pipelines = {
      {{.data = 1}, {.data = 1}},
      {{.x = 2, .data = 1}, {.y = 2, .data = 1}},
      {{.z = 2, .data = 1}, {.x = 2, .data = 2}}};
  double worst = 0;
  for (const std::vector<plan::Grid>& grids : pipelines) {
    SCOPED_TRACE(grids[0].x * 100 + grids[0].z * 10 + grids[0].data);
    RunSetup setup = setup_of({});
    setup.plan.micro_batch_size = 4;
    RunSetup serial = setup;
    serial.plan.micro_batch_size = test::stages::samples_of(setup, grids[0]);
    setup.plan.pipeline =
        test::stages::Pipeline{grids, {0}}.with(pipeline::Schedule::one_f_one_b, 2);
    expect_equal(train(setup), train(serial), worst);
  }
  std::printf("worst relative error of a weight or moment after four steps: %.2e\n", worst);
}

/// The serial job, in which a row of the update of `weight` reads the gradient of another.
program::Job with_gradient_of(const std::string& other, const std::string& weight) {
  const RunSetup setup = setup_of({});
  const auto [graphs, plan] = std::get<plan::PlannedModel>(
      plan::plan_model(model(setup.plan.micro_batch_size), setup.plan));
  program::Bundle bundle =
      program::bundle_of(compile::compile(graphs, plan, kernels::cpu::target(1)), Rank(0));
  program::Program& train =
      *std::ranges::find(bundle.programs, op::ProgramKind::train, &program::Program::kind);
  const auto wrong = train.find_buffer(graph::gradient_name(other));
  int changed = 0;
  for (program::Instruction& instruction : train.instructions)
    if (auto* compute = std::get_if<program::Compute>(&instruction.what);
        compute != nullptr && train.buffer(compute->slices.back().buffer).name == weight + "/x") {
      compute->slices[0] = train.whole(wrong.value());
      ++changed;
    }
  EXPECT_EQ(changed, 1);
  return program::job_of({bundle});
}

TEST(UpdateNodes, of_a_weight_start_from_its_own_gradient) {
  EXPECT_TRUE(verify::verify(with_gradient_of("first.weight", "first.weight")).empty());
  const auto faults = verify::verify(with_gradient_of("first.weight", "second.weight"));
  const auto is_told = [](const verify::Fault& fault) {
    return fault.rule == "sum" &&
           fault.message.find(
               "the gradient of second.weight has a contribution of another weight") !=
               std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(faults, is_told));
}

}  // namespace
}  // namespace fourfold::update_nodes_test
