// A specification that is run computes what the serial job of the same model computes, in as many
// micro-batches as that has: all programs, up to the rounding of sums in another order.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/outcome.h"
#include "unit/specification/specified_jobs.h"

namespace fourfold::test {
namespace {

constexpr std::int64_t steps = 3;

class RunSpecification : public testing::TestWithParam<std::size_t> {
 protected:
  SpecifiedJob job() const { return specified_jobs().at(GetParam()); }
};

TEST_P(RunSpecification, trains_the_losses_and_weights_of_the_serial_job) {
  const SpecifiedJob of = job();
  const Tensors weights = rough_weights(of.setup);
  const TrainingOutcome serial = run_job(of.setup, GridRun::compile_job(of.setup), weights,
                                         Gradients::in_the_step, steps),
                        specified = run_job(of.setup, of.specification(), weights,
                                            Gradients::in_the_step, steps);
  Worst worst;
  compare(specified, serial, 1e-10, worst);
  EXPECT_LE(error_of(specified.weights, serial.weights), 1e-10);
  print(worst, of.name);
}

/// What all programs leave, after two steps of training.
struct Left {
  Tensors learned;                               // weights, moments, averages
  Tensors results;                               // caches, logits, the bound
  std::map<std::string, std::uint64_t> counted;  // digests of counters
};

Left left_by(const SpecifiedJob& of, const program::Job& job, const Tensors& weights) {
  GridRun grid(of.setup, job);
  Left left;
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    const program::Program& train = rank.bundle.at(op::ProgramKind::train);
    for (const program::Buffer& buffer : train.buffers)
      if (buffer.role == program::BufferRole::parameter)
        GridRun::scatter(rank, buffer, weights.at(buffer.name));
    auto feeder = random_batch(of.setup);
    for (std::int64_t step = 0; step < 2; ++step)
      rank.executor.run(op::ProgramKind::train, SmallRun::block(step, lr, 1), &feeder);
    for (const program::Buffer& buffer : train.buffers)
      if (program::is_learned(buffer.role)) grid.collect(rank, buffer, buffer.name, left.learned);
    for (const auto& [name, digest] : GridRun::digests(rank))
      if (name == "digest/updates" || name == "digest/non_finite") left.counted[name] = digest;

    op::StepBlock block = SmallRun::block(2, 0, 1);
    for (const op::ProgramKind kind : {op::ProgramKind::prefill, op::ProgramKind::decode,
                                       op::ProgramKind::bound, op::ProgramKind::denoise}) {
      const program::Program* program = rank.bundle.find(kind);
      if (program == nullptr) continue;
      block.position = kind == op::ProgramKind::decode ? 3 : 0;
      block.index = kind == op::ProgramKind::decode ? 0 : 5;
      const op::ResultBlock result = rank.executor.run(kind, block, &feeder);
      const std::string name(op::to_string(kind));
      if (kind == op::ProgramKind::bound) {
        left.results[name] = {result.loss_sum};
        continue;
      }
      for (const program::Buffer& buffer : program->buffers)
        if (buffer.role == program::BufferRole::cache || buffer.role == program::BufferRole::output)
          grid.collect(rank, buffer, name + " " + buffer.name, left.results);
    }
  });
  return left;
}

TEST_P(RunSpecification, leaves_the_state_texts_and_pictures_of_the_serial_job) {
  const SpecifiedJob of = job();
  const Tensors weights = rough_weights(of.setup);
  const Left serial = left_by(of, GridRun::compile_job(of.setup), weights),
             specified = left_by(of, of.specification(), weights);
  EXPECT_EQ(specified.learned.size(), serial.learned.size());
  EXPECT_LE(error_of(specified.learned, serial.learned), 1e-10);
  EXPECT_EQ(serial.counted.size(), 2U);
  EXPECT_EQ(specified.counted, serial.counted);
  EXPECT_EQ(serial.results.empty(), of.setup.vgg.has_value()) << "a VGG makes nothing";
  ASSERT_EQ(specified.results.size(), serial.results.size());
  for (const auto& [name, wanted] : serial.results) {
    EXPECT_GT(norm(wanted), 0) << name;
    EXPECT_LE(relative_error(specified.results.at(name), wanted, 0), 1e-10) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RunSpecification,
                         testing::Range(std::size_t{0}, specified_jobs().size()),
                         [](const auto& of) { return specified_jobs().at(of.param).name; });

}  // namespace
}  // namespace fourfold::test
