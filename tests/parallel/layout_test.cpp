// Layouts written by hand, on meshes whose axes have names of their own, for a model that is no
// GPT; and ATP's meshes.
#include <gtest/gtest.h>

#include <cstdio>
#include <mutex>
#include <sstream>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/update.h"
#include "program/text.h"
#include "support/compare.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "verify/verify_job.h"

namespace fourfold::layout_test {
namespace {

using graph::Builder;
using graph::ValueId;
using test::GridRun;
using test::RunSetup;
using test::Tensors;

// C channels, F inner ones, V classes.
constexpr std::int64_t samples = 6, length = 4, C = 12, F = 24, V = 18;

/// A table, a norm, two products with a GELU between them, and classes.
graph::ModelGraphs mlp() {
  Builder b(op::ProgramKind::train);
  const auto weight = [&](const std::string& name, const Shape& shape) {
    return b.parameter(name, shape, op::InitNormal{random_stream(name), 0.3, shape});
  };
  const auto product = [&](ValueId x, const std::string& name, const Shape& shape) {
    return b.apply_one(op::Contract{.a_rows = 2}, {x, weight(name, shape)}, name + ".out");
  };
  ValueId x =
      b.apply_one(op::Embedding{},
                  {b.input("tokens", {samples, length}, op::Element::i32), weight("table", {V, C})},
                  "looked_up");
  const ValueId gain = b.parameter("gain", {C}, op::Fill{1, {C}});
  x = b.apply(op::LayerNorm{1e-5, false}, {x, gain}, "norm")[0];
  x = product(x, "up", {C, F});
  x = b.apply_one(op::AddBias{}, {x, b.parameter("up.bias", {F}, op::Fill{0.1, {F}})}, "biased");
  x = b.apply_one(op::Gelu{}, {x}, "gelu");
  x = product(x, "down", {F, C});
  const ValueId scores = product(x, "classes", {C, V}),
                labels = b.input("labels", {samples, length}, op::Element::i32);
  const auto loss = b.apply(op::CrossEntropy{}, {scores, labels}, "loss");
  b.apply_to(op::LossSum{}, {loss[0], labels},
             {b.field("result.loss_sum"), b.field("result.valid_count")});
  b.set_phase(graph::Phase::backward);
  const ValueId gradient =
      b.apply_one(op::CrossEntropyGradient{.scale = 1.0 / static_cast<double>(samples * length)},
                  {scores, labels, loss[1]}, "scores/grad");
  graph::differentiate(b, scores, gradient);
  graph::add_update(b, graph::optimizer_of({}), samples * length);
  std::vector<graph::Graph> graphs = {b.take()};
  graphs.insert(graphs.begin(), graph::init_graph(graphs));
  return {std::move(graphs), 0};
}

constexpr AxisId a(0), b(1);

op::Sharding cut(std::vector<std::vector<AxisId>> dims) {
  op::Sharding sharding;
  for (const auto& axes : dims) {
    auto& cuts = sharding.dims.emplace_back();
    for (const AxisId axis : axes) cuts.push_back({axis, std::nullopt});
  }
  return sharding.replicated() ? op::Sharding{} : sharding;
}

plan::ParameterLayout parameter(const op::Sharding& use, const op::Sharding& rest) {
  return {rest, rest, use, false};
}

Mesh mesh_of(std::int64_t on_a, std::int64_t on_b) {
  Mesh mesh{"main", {{"a", on_a}, {"b", on_b}}, {}};
  for (std::int64_t rank = 0; rank < on_a * on_b; ++rank)
    mesh.ranks.push_back(Rank(static_cast<std::size_t>(rank)));
  return mesh;
}

struct Outcome {
  std::vector<double> losses;
  Tensors weights;
};

Outcome train(const Mesh& mesh, const plan::Layout& layout) {
  RunSetup setup;
  setup.gpt.vocab_size = V;
  setup.plan = {.global_batch_size = samples, .micro_batch_size = samples, .seq_length = length};
  setup.plan.grid.data = static_cast<std::int64_t>(mesh.ranks.size());  // so many threads
  std::int64_t replicas = 1;
  for (const AxisId axis : layout.samples) replicas *= mesh.axes[axis.index()].size;
  const plan::Batching batching{samples, samples / replicas, replicas, 1, length};
  const graph::ModelGraphs model = mlp();
  const auto plan = plan::make_plan(model, mesh, layout, batching, DType::f64, {});
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&plan))
    for (const plan::Problem& problem : infeasible->problems)
      if (const auto* broken = std::get_if<plan::BrokenRule>(&problem))
        ADD_FAILURE() << broken->op << ": " << broken->problem;
  program::Job job = compile::compile(model, std::get<plan::Plan>(plan), kernels::cpu::target(1));
  for (const auto& fault : verify::verify(job))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  GridRun grid(setup, std::move(job));
  Outcome outcome;
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    for (std::int64_t step = 0; step < 4; ++step) {
      const auto result =
          rank.executor.run(op::ProgramKind::train, test::SmallRun::block(step, 1e-2, 1), &feeder);
      EXPECT_EQ(result.applied, 1);
      if (rank.rank == 0)
        outcome.losses.push_back(result.loss_sum / static_cast<double>(result.valid_count));
    }
    for (const program::Buffer& buffer : rank.bundle.at(op::ProgramKind::train).buffers)
      if (buffer.role == program::BufferRole::parameter)
        grid.collect(rank, buffer, buffer.name, outcome.weights);
  });
  return outcome;
}

/// Parameters that lie as their names say, whatever the mesh.
plan::Layout whole() {
  plan::Layout layout;
  for (const std::string name : {"table", "gain", "up", "up.bias", "down", "classes"})
    layout.parameters[name];
  return layout;
}

TEST(Layout, written_by_hand_on_axes_a_3_and_b_2_equals_the_serial_run) {
  const Outcome serial = train(mesh_of(1, 1), whole());
  EXPECT_LT(serial.losses.back(), serial.losses.front());

  plan::Layout both = whole();  // channels on b, inner ones on a, classes on both
  both.parameters["table"] = parameter(cut({{}, {b}}), cut({{a}, {b}}));
  both.parameters["up"] = parameter(cut({{b}, {a}}), cut({{b}, {a}}));
  both.parameters["down"] = parameter(cut({{a}, {b}}), cut({{a}, {b}}));
  both.parameters["classes"] = parameter(cut({{}, {a, b}}), cut({{b}, {a}}));

  plan::Layout divided = whole();  // samples on a, inner channels on b, one product whole
  divided.samples = {a};
  divided.parameters["up"] = parameter(cut({{}, {b}}), cut({{a}, {b}}));
  divided.parameters["down"] = parameter(cut({{b}, {}}), cut({{b, a}, {}}));

  plan::Layout kept = both;  // the second dim of samples on b between the table and its reader
  kept.activations["looked_up"] = {{2}, {{b, {1}, true}}};

  const std::pair<std::string, plan::Layout> layouts[] = {
      {"channels on both axes", both}, {"samples and channels", divided}, {"time between", kept}};
  double worst = 0;
  for (const auto& [name, layout] : layouts) {
    SCOPED_TRACE(name);
    const Outcome got = train(mesh_of(3, 2), layout);
    for (std::size_t step = 0; step < serial.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step] / serial.losses[step], 1, 1e-13) << "step " << step + 1;
    for (const auto& [tensor, expected] : serial.weights) {
      const double error = test::relative_error(got.weights.at(tensor), expected, 0);
      EXPECT_LE(error, 1e-10) << tensor;
      worst = std::max(worst, error);
    }
  }
  std::printf("worst relative error of a weight after four steps: %.2e\n", worst);
}

// --- ATP

/// A program's text without the lines that name a mesh, or a rank with its place on the mesh.
std::string without_mesh(const program::Program& program) {
  std::istringstream lines(program::to_text(program));
  std::string text, line;
  while (std::getline(lines, line))
    if (line.find("mesh") == std::string::npos && !line.starts_with("  rank ")) text += line + "\n";
  return text;
}

TEST(Atp, of_one_column_is_megatron_but_for_the_order_of_axes) {
  RunSetup setup = test::first_model();
  setup.plan.strategy = plan::Strategy::megatron;
  test::set_grid(setup, {.x = 6, .data = 1});
  const program::Bundle megatron = GridRun::compile_job(setup).classes[0];
  setup.plan.strategy = plan::Strategy::atp;
  setup.plan.grid.order = {"y", "x", "z", "data"};
  const program::Bundle atp = GridRun::compile_job(setup).classes[0];
  for (const program::Program& program : megatron.programs)
    EXPECT_EQ(without_mesh(atp.at(program.kind)), without_mesh(program))
        << op::to_string(program.kind);
}

}  // namespace
}  // namespace fourfold::layout_test
