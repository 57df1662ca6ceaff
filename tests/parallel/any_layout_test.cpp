// A job of any layout computes the function of the serial run, and no bit depends on when and where
// an instruction is carried out. The jobs have every pair of choices, with FOURFOLD_LONG every
// triple; each is compiled, proved, written as text, read back, and run on threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "base/format.h"
#include "program/text.h"
#include "program/traffic.h"
#include "support/covering_array.h"
#include "support/layouts.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "verify/verify_job.h"

namespace fourfold::test::layouts {
namespace {

const CoveringArray& jobs_of(std::size_t strength) {
  static std::map<std::size_t, CoveringArray> arrays;
  const auto found = arrays.find(strength);
  if (found != arrays.end()) return found->second;
  return arrays.emplace(strength, CoveringArrayMaker(factors(), strength, 1).make()).first->second;
}

program::Job compiled(const RunSetup& setup, const compile::PassOptions& passes = {}) {
  const graph::ModelGraphs graphs = setup.graphs();
  const auto planned = plan::plan_model(graphs, setup.plan);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&planned))
    throw std::runtime_error(
        format("there is no plan: problem {}", infeasible->problems.at(0).index()));
  const auto& [model, plan] = std::get<plan::PlannedModel>(planned);
  return compile::compile(
      model, plan,
      setup.reference_kernels ? kernels::cpu::reference_target() : kernels::cpu::target(1), passes);
}

/// The place where gradients of the first step are seen. Stages have them at different times, so
/// that their moments show them.
Gradients seen_in(const Choice& choice) {
  if (!choice.is_unusual(pipeline_factor)) return Gradients::in_the_step;
  return choice.is_unusual(optimizer_factor) ? Gradients::nowhere : Gradients::in_the_moments;
}

void expect_sound(const program::Job& job) {
  for (const verify::Fault& fault : verify::verify(job))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  const std::string text = program::to_text(job);
  const program::Job read = program::parse_job(text, "job");
  EXPECT_TRUE(read == job) << "as text and read back";
}

/// The parameters that a pin names lie as it says, on every mesh that has one of them; what has one
/// rank on an axis is not cut by it.
void expect_as_pinned(const program::Job& job, const plan::Pin& pin) {
  std::size_t count = 0;
  for (const program::Bundle& bundle : job.classes) {
    const program::Program& train = bundle.at(op::ProgramKind::train);
    for (const program::Buffer& buffer : train.buffers) {
      if (buffer.role != program::BufferRole::parameter || !plan::matches(pin.pattern, buffer.name))
        continue;
      ++count;
      const Mesh& mesh = train.meshes[buffer.sharding.mesh.index()];
      for (std::size_t dim = 0; dim < pin.dims.size(); ++dim) {
        std::vector<std::string> axes, wanted;
        if (dim < buffer.sharding.dims.size())
          for (const op::Cut& cut : buffer.sharding.dims[dim])
            axes.push_back(mesh.axes[cut.axis.index()].name);
        for (const std::string& name : pin.dims[dim].axes)
          if (std::ranges::find(mesh.axes, name, &Axis::name)->size > 1) wanted.push_back(name);
        EXPECT_EQ(axes, wanted) << buffer.name << ", dim " << dim;
      }
    }
  }
  EXPECT_GT(count, 0U) << pin.pattern;
}

using Bytes = std::vector<std::tuple<std::string, std::string, std::string, std::int64_t>>;
/// The payload of each class of traffic, in however many calls. Collectives are not joined, as one
/// of several labels would count with the first of them.
Bytes bytes_of(const RunSetup& setup) {
  Bytes all;
  const program::Job job =
      compiled(setup, {.without = {"join_collectives"}, .only = op::ProgramKind::train});
  for (const program::Traffic& entry : program::traffic(job.classes[0].at(op::ProgramKind::train)))
    all.emplace_back(entry.axis, entry.kind, entry.label, entry.payload_bytes);
  return all;
}

void expect_same_bits(const TrainingOutcome& got, const TrainingOutcome& usual) {
  EXPECT_EQ(got.losses, usual.losses);
  EXPECT_EQ(got.norms, usual.norms);
  EXPECT_EQ(got.evaluation, usual.evaluation);
  for (const auto& [name, weight] : usual.weights)
    EXPECT_TRUE(got.weights.at(name) == weight) << name;
}

/// Some 50 roundings to bf16 lie between a sample and its loss.
void expect_close(const TrainingOutcome& got, const TrainingOutcome& serial) {
  for (std::size_t step = 0; step < serial.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], serial.losses[step], 8 * 0x1p-8 * serial.losses[step]);
}

/// The third one shows what the update before it made of moments that are not zero.
constexpr std::int64_t steps = 3;

void expect_equal_to_serial(const Choice& choice, Worst& worst) {
  RunSetup setup = laid_out(choice);
  const RunSetup alone = serial_setup(choice);
  const Tensors weights = rough_weights(alone);
  const Gradients seen = seen_in(choice);
  const TrainingOutcome serial = run_job(alone, compiled(alone), weights, seen, steps);
  const TrainingOutcome usual = run_job(setup, compiled(setup), weights, seen, steps);
  set_ways(setup.plan, choice);
  const program::Job job = compiled(setup, {.without = left_out(choice)});
  expect_sound(job);
  for (const plan::Pin& pin : setup.plan.pins) expect_as_pinned(job, pin);
  const TrainingOutcome got = run_job(setup, job, weights, seen, steps);
  expect_same_bits(got, usual);
  if (alone.plan.compute == DType::f64) {
    compare(got, serial, 1e-10, worst);
    EXPECT_LE(error_of(got.weights, serial.weights), 1e-10);
  } else {
    expect_close(got, serial);
  }
  if (setup.plan.chunks == 1) return;
  RunSetup whole = setup;
  whole.plan.chunks = 1;
  EXPECT_EQ(bytes_of(setup), bytes_of(whole)) << "chunks send what a whole micro-batch does";
}

/// So many cases share the jobs.
constexpr std::size_t num_cases = 48;

class JobOfAnyLayout : public testing::TestWithParam<std::size_t> {};

TEST_P(JobOfAnyLayout, computes_what_one_rank_does) {
  const CoveringArray& array = jobs_of(is_long_run() ? 3 : 2);
  Worst worst;
  std::size_t count = 0;
  for (std::size_t i = GetParam(); i < array.rows.size(); i += num_cases, ++count) {
    const Choice choice(array.rows[i]);
    SCOPED_TRACE(format("job {}: {}", i, choice.name()));
    std::printf("job %zu: %s\n", i, choice.name().c_str());
    try {
      expect_equal_to_serial(choice, worst);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  print(worst, format("{} jobs", count));
}

INSTANTIATE_TEST_SUITE_P(Covering, JobOfAnyLayout, testing::Range(std::size_t{0}, num_cases),
                         testing::PrintToStringParamName());

std::string training_text(const Assignment& row) {
  const Choice choice(row);
  RunSetup setup = laid_out(choice);
  set_ways(setup.plan, choice);
  return program::to_text(
      compiled(setup, {.without = left_out(choice), .only = op::ProgramKind::train}));
}

/// Else a job would show nothing of it. Strategies are names for grids of one rule.
TEST(AnyLayout, has_no_choice_that_changes_no_program) {
  const std::vector<Assignment>& rows = jobs_of(2).rows;
  for (std::size_t factor = second_mesh_factor; factor < num_factors; ++factor)
    for (int value = 1; value < factors().sizes[factor]; ++value) {
      bool changes = false;
      for (std::size_t i = 0; i < rows.size() && !changes; ++i) {
        if (rows[i][factor] != value) continue;
        Assignment usual = rows[i];
        usual[factor] = 0;
        changes = is_legal(usual) && training_text(rows[i]) != training_text(usual);
      }
      EXPECT_TRUE(changes) << texts()[factor].name << " "
                           << texts()[factor].values[static_cast<std::size_t>(value)];
    }
}

}  // namespace
}  // namespace fourfold::test::layouts
