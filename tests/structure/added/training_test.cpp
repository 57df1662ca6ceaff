// The ops that test_additions.py adds to a copy of the tree, in a model that is trained on grids of
// ranks: compiled in the copy alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/gradients.h"
#include "graph/update.h"
#include "program/all_rows.h"
#include "program/jobs.h"
#include "program/text.h"
#include "support/compare.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using graph::Builder;
using graph::ValueId;
using test::GridRun;
using test::RunSetup;
using test::Tensors;

// C channels, F inner ones, V classes.
constexpr std::int64_t samples = 16, length = 4, C = 12, F = 24, V = 20;

/// A table, a norm, two products with a Swish and another norm between them, and classes.
graph::ModelGraphs model(const plan::Batching& batching) {
  Builder b(op::ProgramKind::train);
  const Shape fed{batching.samples(), length};
  const auto weight = [&](const std::string& name, const Shape& shape) {
    return b.parameter(name, shape, op::InitNormal{random_stream(name), 0.3, shape});
  };
  const auto product = [&](ValueId x, const std::string& name, const Shape& shape) {
    return b.apply_one(op::Contract{.a_rows = 2}, {x, weight(name, shape)}, name + ".out");
  };
  ValueId x =
      b.apply_one(op::Embedding{},
                  {b.input("tokens", fed, op::Element::i32), weight("table", {V, C})}, "looked_up");
  x = b.apply(op::SquareNorm{1e-3}, {x}, "norm")[0];
  x = product(x, "up", {C, F});
  x = b.apply_one(op::Swish{1.5}, {x}, "swish");
  x = b.apply(op::SquareNorm{}, {x}, "inner_norm")[0];
  x = product(x, "down", {F, C});
  const ValueId scores = product(x, "classes", {C, V}),
                labels = b.input("labels", fed, op::Element::i32);
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

struct Outcome {
  std::vector<double> losses;
  Tensors weights;
  std::string text;  // of the training program
};

RunSetup setup_of(const plan::Grid& grid) {
  RunSetup setup;
  setup.gpt.vocab_size = V;
  setup.plan = {.global_batch_size = samples, .seq_length = length, .compute = DType::f64};
  test::set_grid(setup, grid);
  return setup;
}

program::Job compiled(const RunSetup& setup) {
  const auto batching = std::get<plan::Batching>(plan::solve_batching(setup.plan));
  const graph::ModelGraphs graphs = model(batching);
  const auto plan = plan::make_plan(graphs, setup.plan);
  return compile::compile(graphs, std::get<plan::Plan>(plan), kernels::cpu::target(1));
}

/// What the verifier finds in the bundles of all ranks once each was changed.
std::vector<verify::Fault> faults_of(const program::Job& job,
                                     const std::function<void(program::Bundle&)>& change) {
  std::vector<program::Bundle> bundles;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    change(bundles.emplace_back(program::bundle_of(job, Rank(rank))));
  return verify::verify(program::job_of(std::move(bundles)));
}

Outcome train(const plan::Grid& grid) {
  const RunSetup setup = setup_of(grid);
  program::Job job = compiled(setup);
  for (const verify::Fault& fault : verify::verify(job))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  Outcome outcome;
  outcome.text = program::to_text(job.classes[0].at(op::ProgramKind::train));
  GridRun run(setup, std::move(job));
  run.run([&](GridRun::RankRun& rank) {
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
        run.collect(rank, buffer, buffer.name, outcome.weights);
  });
  return outcome;
}

bool has_row(const std::string& text, const std::string& row) {
  return text.find(" " + row + " ") != std::string::npos;
}

TEST(AddedOps, train_on_grids_of_2_x_2_x_2_ranks_as_in_the_serial_run) {
  const Outcome serial = train({});
  EXPECT_LT(serial.losses.back(), serial.losses.front());
  EXPECT_TRUE(has_row(serial.text, "swish") && has_row(serial.text, "swish_gradient"));
  EXPECT_TRUE(has_row(serial.text, "square_norm") && has_row(serial.text, "square_norm_gradient"));
  EXPECT_FALSE(has_row(serial.text, "row_dot"));
  double worst = 0;
  for (const plan::Grid& grid : {plan::Grid{.x = 2, .y = 2, .z = 2}, {.x = 2, .y = 2, .data = 2}}) {
    SCOPED_TRACE(grid.z == 2 ? "x y z" : "x y data");
    const Outcome got = train(grid);
    for (const char* row : {"swish", "swish_gradient", "row_dot", "square_norm_apply",
                            "square_norm_gradient_apply", "all_reduce"})
      EXPECT_TRUE(has_row(got.text, row)) << row;
    EXPECT_FALSE(has_row(got.text, "square_norm")) << "the norm is in its cut form";
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

TEST(AddedOps, are_verified_to_count_the_channels_of_all_ranks) {
  const RunSetup setup = setup_of({.x = 2, .y = 2, .z = 2});
  const auto count_local_channels = [](program::Bundle& bundle) {
    for (program::Program& program : bundle.programs)
      for (program::Instruction& instruction : program.instructions)
        if (auto* compute = std::get_if<program::Compute>(&instruction.what))
          if (auto* norm = compute->op.get_if<op::SquareNormApply>()) norm->width /= 2;
  };
  const auto faults = faults_of(compiled(setup), count_local_channels);
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [](const verify::Fault& fault) {
    return fault.rule == "part" && fault.message.find("width is") != std::string::npos;
  }));
}

TEST(AddedOps, stand_in_the_text_that_is_read_back_and_fuzzed) {
  const std::string text = program::to_text(program::all_rows());
  for (const char* row : {"swish", "swish_gradient", "square_norm", "square_norm_gradient",
                          "row_dot", "square_norm_apply", "square_norm_gradient_apply"})
    EXPECT_TRUE(has_row(text, row)) << row;
  EXPECT_EQ(program::to_text(program::parse_program(text, "all.txt")), text);
}

TEST(AddedOps, have_the_gradients_that_are_compared_with_central_differences) {
  EXPECT_TRUE(graph::has_gradient(op::Swish{}));
  EXPECT_TRUE(graph::has_gradient(op::SquareNorm{}));
}

}  // namespace
}  // namespace fourfold
