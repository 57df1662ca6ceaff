// Chunks of a micro-batch (ATP, Cheng et al. 2023, section 4.1): the run of whole micro-batches up
// to the order of sums, with the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "program/traffic.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "verify/verify_job.h"

namespace fourfold::chunks_test {
namespace {

using test::GridRun;
using test::RunSetup;
using test::Tensors;
using test::TrainingOutcome;
using test::Worst;

/// The 31 grids of up to 8 ranks with 1, 2 or 4 along each axis; without long tests a few.
std::vector<plan::Grid> grids(bool is_slow) {
  if (!is_long_run() && is_slow) return {{.x = 2, .z = 2, .data = 1}};
  if (!is_long_run()) return {{.x = 2, .z = 2, .data = 1}, {.y = 2, .data = 2}};
  std::vector<plan::Grid> all;
  for (const std::int64_t x : {1, 2, 4})
    for (const std::int64_t y : {1, 2, 4})
      for (const std::int64_t z : {1, 2, 4})
        for (const std::int64_t data : {1, 2, 4})
          if (x * y * z * data <= 8) all.push_back({.x = x, .y = y, .z = z, .data = data});
  return all;
}

/// What each class of traffic carries, in however many calls. Collectives are not joined: those of
/// several labels would count with one of them.
std::vector<std::tuple<std::string, std::string, std::string, std::int64_t>> bytes_of(
    const RunSetup& setup) {
  std::vector<std::tuple<std::string, std::string, std::string, std::int64_t>> all;
  const program::Job job = GridRun::compile_job(setup, {{"join_collectives"}, {}});
  for (const program::Traffic& entry : program::traffic(job.classes[0].at(op::ProgramKind::train)))
    all.emplace_back(entry.axis, entry.kind, entry.label, entry.payload_bytes);
  return all;
}

/// The largest error of a tensor; the floor is 1e-6 times the norm of all.
double error_of(const Tensors& got, const Tensors& wanted) {
  double total = 0, worst = 0;
  for (const auto& [name, values] : wanted) total = std::hypot(total, test::norm(values));
  for (const auto& [name, values] : wanted) {
    const test::KeyBias keys = test::key_bias(name, values.size());
    worst = std::max(worst, test::relative_error(test::without(got.at(name), keys),
                                                 test::without(values, keys), 1e-6 * total));
  }
  return worst;
}

/// On each grid where they divide the samples of a rank.
void expect_alike(RunSetup setup, const std::string& what, bool is_slow, double most_later) {
  std::map<std::int64_t, std::size_t> compared;  // by number of chunks
  Worst worst;
  double of_weights = 0;
  const Tensors rough = test::rough_weights(setup);
  for (const plan::Grid& grid : grids(is_slow)) {
    test::set_grid(setup, grid);
    setup.plan.chunks = 1;
    const TrainingOutcome whole = test::run_job(setup, GridRun::compile_job(setup), rough);
    const auto bytes = bytes_of(setup);
    for (const std::int64_t chunks : {2, 4}) {
      if (setup.plan.micro_batch_size % chunks != 0) continue;
      setup.plan.chunks = chunks;
      SCOPED_TRACE(test::name_of(setup.plan));
      const program::Job job = GridRun::compile_job(setup);
      for (const verify::Fault& fault : verify::verify(job))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
      const TrainingOutcome got = test::run_job(setup, job, rough);
      compare(got, whole, most_later, worst);
      const double error = error_of(got.weights, whole.weights);
      EXPECT_LE(error, 1e-10) << "weights after " << test::num_steps << " steps";
      of_weights = std::max(of_weights, error);
      EXPECT_EQ(bytes_of(setup), bytes);
      ++compared[chunks];
    }
  }
  EXPECT_GE(compared[2], grids(is_slow).size());
  EXPECT_GE(compared[4], is_long_run() ? 29U : grids(is_slow).size());
  test::print(worst, format("{}: {} grids in 2 chunks and {} in 4, weights {:.1e}", what,
                            compared[2], compared[4], of_weights));
}

TEST(Chunks, of_a_gpt_make_the_run_of_whole_micro_batches) {
  expect_alike(test::first_model(), "gpt", false, 1e-12);
}

TEST(Chunks, of_a_unet_make_the_run_of_whole_micro_batches) {
  expect_alike(test::diffusion_model(), "unet", true, 1e-10);
}

/// What changes which values there are, and when: recomputation, states that are cut, sequences,
/// documents, rounded weights.
TEST(Chunks, go_with_all_that_a_plan_may_have) {
  RunSetup recomputed = test::first_model();
  recomputed.plan.checkpointing = {.layers = 1};
  test::set_grid(recomputed, {.x = 2, .z = 2, .data = 1});
  RunSetup selective = test::first_model();
  selective.plan.checkpointing = {.layers = 1, .keeps_products = true};
  selective.plan.shard_states = true;
  test::set_grid(selective, {.y = 2, .data = 2});
  RunSetup sequence = test::first_model();
  sequence.plan.strategy = plan::Strategy::megatron;
  sequence.plan.shard_sequence = sequence.masks_documents = sequence.restarts_positions = true;
  test::set_grid(sequence, {.x = 2, .data = 1});
  RunSetup heads = test::second_model();  // the samples of the attention core are cut further
  test::set_grid(heads, {.x = 4, .y = 2, .z = 1, .data = 1});
  RunSetup one_step = test::first_model();
  test::set_grid(one_step, {.x = 2, .data = 1}, 1);
  RunSetup by_loss = test::diffusion_model();
  by_loss.unet->diffusion.time_sampling = model::TimeSampling::importance;
  test::set_grid(by_loss, {.z = 2, .data = 1});
  RunSetup pictures = test::picture_model();
  test::set_grid(pictures, {.x = 2, .data = 1});
  Worst worst;
  for (RunSetup setup : {recomputed, selective, sequence, heads, one_step, by_loss, pictures}) {
    const Tensors rough = test::rough_weights(setup);
    const TrainingOutcome whole = test::run_job(setup, GridRun::compile_job(setup), rough);
    const auto bytes = bytes_of(setup);
    setup.plan.chunks = 2;
    SCOPED_TRACE(test::name_of(setup.plan));
    const program::Job job = GridRun::compile_job(setup);
    for (const verify::Fault& fault : verify::verify(job))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
    const TrainingOutcome got = test::run_job(setup, job, rough);
    compare(got, whole, 1e-10, worst);
    EXPECT_LE(error_of(got.weights, whole.weights), 1e-10);
    EXPECT_EQ(bytes_of(setup), bytes);
  }
  test::print(worst, "plans of all kinds in 2 chunks");
}

/// Sums of rounded terms in another order: the losses of a step agree to some roundings.
TEST(Chunks, in_bf16_gather_rounded_weights_once) {
  for (const bool shards_states : {false, true}) {
    RunSetup setup = test::second_model();
    setup.plan.compute = DType::bf16;
    setup.reference_kernels = true;
    setup.plan.shard_states = shards_states;
    test::set_grid(setup, {.x = 2, .z = 2, .data = 1});
    const Tensors rough = test::rough_weights(setup);
    const auto seen = test::Gradients::in_the_moments;
    const TrainingOutcome whole = test::run_job(setup, GridRun::compile_job(setup), rough, seen);
    const auto bytes = bytes_of(setup);
    setup.plan.chunks = 2;
    const program::Job job = GridRun::compile_job(setup);
    for (const verify::Fault& fault : verify::verify(job))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
    const TrainingOutcome got = test::run_job(setup, job, rough, seen);
    for (std::size_t step = 0; step < whole.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], whole.losses[step], 8 * 0x1p-8 * whole.losses[step]);
    EXPECT_EQ(bytes_of(setup), bytes);
  }
}

}  // namespace
}  // namespace fourfold::chunks_test
