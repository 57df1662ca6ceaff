// Training in bf16 with float32 weights, moments and sums of gradients: it learns what float32
// learns; neither micro-batches nor grids add error to a sum of gradients; checkpoints go from one
// precision to the other. With the reference kernels, which define what bf16 gives, and with those
// of the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "base/format.h"
#include "checkpoint/restore.h"
#include "checkpoint/save.h"
#include "data/synthetic.h"
#include "support/compare.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "support/simulated_disk.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;
using test::SmallRun;
using test::Tensors;

constexpr double float_epsilon = 0x1p-23, bf16_epsilon = 0x1p-8;

/// How the residual stream is kept beside bf16.
enum class Stream { narrow, wide };
enum class Kernels { reference, own };

/// Two blocks, four heads, eight samples of four tokens.
RunSetup small_model(DType compute = DType::bf16, Stream stream = Stream::narrow,
                     Kernels kernels = Kernels::reference) {
  RunSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 4,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 4,
               .vocab_size = 37,
               .dropout = 0.1,
               .wide_residual = stream == Stream::wide};
  setup.plan = {.global_batch_size = 8, .micro_batch_size = 4, .seq_length = 4};
  setup.plan.compute = compute;
  setup.reference_kernels = kernels == Kernels::reference;
  return setup;
}

double loss_of(const op::ResultBlock& result) {
  return result.loss_sum / static_cast<double>(result.valid_count);
}

// --- what is learned

/// Consecutive samples of a stream that can be learned; the labels are the tokens one further on.
class StreamFeeder : public run::Feeder {
 public:
  StreamFeeder(std::int64_t vocab_size, std::int64_t samples_per_step)
      : tokens_(data::synthetic_tokens(vocab_size)), samples_per_step_(samples_per_step) {}
  void feed(const Input& input, const run::Samples& samples, std::span<std::byte> into) override {
    const std::int64_t sample = samples.step * samples_per_step_ + samples.first;
    auto at = static_cast<std::size_t>(sample * input.sample_shape[0]);
    if (input.name == "labels") ++at;
    std::memcpy(into.data(), tokens_.data() + at, into.size());
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t samples_per_step_;
};

/// Two blocks that learn within some hundred steps.
RunSetup quick_learner(Kernels kernels) {
  RunSetup setup = small_model(DType::f32, Stream::narrow, kernels);
  setup.gpt.max_position_embeddings = setup.plan.seq_length = 16;
  setup.gpt.vocab_size = 16;
  setup.gpt.dropout = 0;
  return setup;
}

/// Means over equal parts of a run, so that each is the loss of some thousand tokens.
std::vector<double> losses_of(RunSetup setup, DType compute, std::int64_t parts,
                              std::int64_t steps_of_part) {
  setup.plan.compute = compute;
  SmallRun run(setup);
  run.init(false);
  StreamFeeder feeder(setup.gpt.vocab_size, setup.plan.global_batch_size);
  std::vector<double> losses(static_cast<std::size_t>(parts), 0);
  for (std::int64_t step = 0; step < parts * steps_of_part; ++step)
    losses[static_cast<std::size_t>(step / steps_of_part)] +=
        loss_of(run.step(feeder, step, 3e-3)) / static_cast<double>(steps_of_part);
  return losses;
}

void expect_to_learn(const RunSetup& setup, std::int64_t steps_of_part) {
  constexpr std::int64_t parts = 10;
  const std::vector<double> wanted = losses_of(setup, DType::f32, parts, steps_of_part),
                            got = losses_of(setup, DType::bf16, parts, steps_of_part);
  EXPECT_LT(wanted.back(), 0.6 * wanted[0]) << "something is learned";
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NE(got[i], wanted[i]) << "bf16 is not float32";
    EXPECT_NEAR(got[i], wanted[i], 0.01 * wanted[i]) << "part " << i + 1;
    worst = std::max(worst, std::abs(got[i] - wanted[i]) / wanted[i]);
  }
  std::printf("loss %.4f to %.4f; bf16 differs by at most %.2f %% in %d parts of %d steps\n",
              wanted[0], wanted.back(), 100 * worst, static_cast<int>(parts),
              static_cast<int>(steps_of_part));
}

TEST(MixedPrecision, learns_what_float32_learns_within_a_hundredth) {
  expect_to_learn(quick_learner(Kernels::reference), 15);
}

TEST(MixedPrecision, learns_what_float32_learns_with_the_kernels_of_the_cpu) {
  expect_to_learn(quick_learner(Kernels::own), 30);
}

// --- sums of gradients

Tensors gradients_on(RunSetup setup, const plan::Grid& grid, std::int64_t accumulation,
                     std::function<bool(std::int64_t)> masked = {}, double* loss = nullptr) {
  test::set_grid(setup, grid, accumulation);
  setup.masked = std::move(masked);
  GridRun run(setup);
  Tensors gradients;
  run.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    const auto result =
        run.step_with_gradients(rank, feeder, SmallRun::block(0, 1e-3, 1), gradients);
    if (rank.rank == 0 && loss != nullptr) *loss = loss_of(result);
    // A whole step, to be compared with its simulation.
    rank.executor.run(op::ProgramKind::train, SmallRun::block(1, 1e-3, 1), &feeder);
  });
  return gradients;
}

/// The norm of what each sample gives to a gradient, summed: what rounding a sum of them is
/// relative to. A label that is masked gives nothing, and the others what they always give.
std::map<std::string, double> sizes_of_terms(const RunSetup& setup) {
  std::map<std::string, double> sizes;
  for (std::int64_t sample = 0; sample < setup.plan.global_batch_size; ++sample) {
    const auto others = [&](std::int64_t i) { return i / setup.plan.seq_length != sample; };
    for (const auto& [name, gradient] : gradients_on(setup, {}, 1, others))
      sizes[name] += test::norm(gradient);
  }
  return sizes;
}

/// Where every rank computes whole samples, an activation and its gradient have the same bits
/// however the batch is divided, and only the order of float32 sums differs.
void expect_float_sums(const Tensors& got, const Tensors& wanted,
                       const std::map<std::string, double>& sizes, double terms) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, gradient] : wanted)
    EXPECT_LE(test::relative_error(got.at(name), gradient, 0) * test::norm(gradient),
              8 * float_epsilon * std::sqrt(terms) * sizes.at(name))
        << name;
}

struct Form {
  Stream stream = Stream::narrow;
  Kernels kernels = Kernels::reference;
};

class MixedPrecisionOnGrids : public testing::TestWithParam<Form> {
 protected:
  RunSetup setup() const { return small_model(DType::bf16, GetParam().stream, GetParam().kernels); }
};
INSTANTIATE_TEST_SUITE_P(Residual, MixedPrecisionOnGrids,
                         testing::Values(Form{Stream::narrow, Kernels::reference},
                                         Form{Stream::wide, Kernels::reference},
                                         Form{Stream::narrow, Kernels::own},
                                         Form{Stream::wide, Kernels::own}),
                         [](const auto& tested) {
                           return std::string(tested.param.stream == Stream::wide ? "wide"
                                                                                  : "narrow") +
                                  (tested.param.kernels == Kernels::own ? "_own" : "");
                         });

TEST_P(MixedPrecisionOnGrids, gradients_are_summed_in_float32_over_micro_batches_and_ranks) {
  const RunSetup setup = this->setup();
  const auto terms = static_cast<double>(setup.plan.global_batch_size * setup.plan.seq_length);
  const auto sizes = sizes_of_terms(setup);
  const Tensors wanted = gradients_on(setup, {}, 1);
  for (const std::int64_t accumulation : {2, 4, 8}) {
    SCOPED_TRACE(format("{} micro-batches", accumulation));
    expect_float_sums(gradients_on(setup, {}, accumulation), wanted, sizes, terms);
  }
  const std::vector<plan::Grid> grids = {{.x = 1, .y = 1, .z = 2, .data = 1},
                                         {.x = 1, .y = 1, .z = 1, .data = 4},
                                         {.x = 1, .y = 1, .z = 2, .data = 2},
                                         {.x = 1, .y = 1, .z = 4, .data = 1}};
  for (const plan::Grid& grid : grids) {
    RunSetup sharded = setup;
    sharded.plan.shard_states = grid.data == 2;
    SCOPED_TRACE(format("z {} data {}", grid.z, grid.data));
    expect_float_sums(gradients_on(sharded, grid, 2), wanted, sizes, terms);
  }
}

// --- gradients that are rounded before ranks add them up

/// What rounding adds to a gradient, relative to the sizes of its terms: along each axis a term is
/// rounded before it moves, and the sum once, as threads add in float32; each time by at most u of
/// what there is.
double error_of_reductions(const plan::Grid& grid) {
  double factor = 1;
  for (const std::int64_t ranks : {grid.z, grid.data})
    if (ranks > 1) factor *= std::pow(1 + bf16_epsilon, 2);
  return factor - 1;
}

const std::vector<plan::Grid> grids_that_reduce = {{.x = 1, .y = 1, .z = 2, .data = 1},
                                                   {.x = 1, .y = 1, .z = 1, .data = 4},
                                                   {.x = 1, .y = 1, .z = 2, .data = 2}};

TEST_P(MixedPrecisionOnGrids, rounded_gradients_differ_by_two_roundings_for_each_axis) {
  RunSetup setup = this->setup();
  const auto sizes = sizes_of_terms(setup);
  for (const plan::Grid& grid : grids_that_reduce) {
    setup.plan.shard_states = grid.data == 2;
    SCOPED_TRACE(format("z {} data {}", grid.z, grid.data));
    setup.plan.rounds_gradients = false;
    const Tensors wanted = gradients_on(setup, grid, 2);
    setup.plan.rounds_gradients = true;
    const Tensors got = gradients_on(setup, grid, 2);
    ASSERT_EQ(got.size(), wanted.size());
    EXPECT_NE(got, wanted) << "rounding shows";
    for (const auto& [name, gradient] : wanted)
      EXPECT_LE(test::relative_error(got.at(name), gradient, 0) * test::norm(gradient),
                error_of_reductions(grid) * sizes.at(name))
          << name;
  }
}

/// The losses of some steps of SGD on one batch, and the norm of each step's gradient.
struct Descent {
  std::vector<double> losses, norms;
};

Descent descent_on(RunSetup setup, const plan::Grid& grid, double lr, std::int64_t steps) {
  test::set_grid(setup, grid, 2);
  GridRun run(setup);
  Descent descent;
  run.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto result =
          rank.executor.run(op::ProgramKind::train, SmallRun::block(step, lr, 1), &feeder);
      if (rank.rank != 0) continue;
      descent.losses.push_back(loss_of(result));
      descent.norms.push_back(result.grad_norm);
    }
  });
  return descent;
}

/// After k steps of SGD weights differ by at most k lr e, where e is the error of a gradient, and
/// the loss by that times its gradient; and by the rounding of activations, which see other
/// weights. The terms of all steps are as large as those of the first: the batch is one, and the
/// norm of its gradient does not grow.
TEST(MixedPrecision, losses_with_rounded_gradients_stay_within_the_error_of_their_reductions) {
  constexpr std::int64_t steps = 6;  // the last loss follows five updates
  constexpr double lr = 0.5;
  RunSetup setup = small_model();
  setup.gpt.dropout = 0;
  setup.optimizer = graph::OptimizerSpec::of(op::Sgd{.mu = 0}, 0, 0);
  double size = 0;
  for (const auto& [name, of_tensor] : sizes_of_terms(setup)) size = std::hypot(size, of_tensor);
  for (const plan::Grid& grid : grids_that_reduce) {
    SCOPED_TRACE(format("z {} data {}", grid.z, grid.data));
    setup.plan.rounds_gradients = false;
    const Descent wanted = descent_on(setup, grid, lr, steps);
    setup.plan.rounds_gradients = true;
    const Descent got = descent_on(setup, grid, lr, steps);
    const double norm = *std::ranges::max_element(wanted.norms);
    EXPECT_EQ(got.losses[0], wanted.losses[0]) << "nothing has been reduced yet";
    EXPECT_NE(got.losses[1], wanted.losses[1]) << "rounding shows";
    EXPECT_LE(norm, 1.1 * wanted.norms[0]);
    double bound = 0;
    for (std::size_t step = 1; step < got.losses.size(); ++step) {
      bound = static_cast<double>(step) * lr * error_of_reductions(grid) * size * norm +
              bf16_epsilon * wanted.losses[step];
      EXPECT_NEAR(got.losses[step], wanted.losses[step], bound) << "step " << step;
    }
    EXPECT_GT((wanted.losses[0] - wanted.losses.back()) / 2, bound)
        << "what is learned from the terms of one rank of two alone is outside of the bound";
    std::printf("z %d data %d: loss %.4f to %.4f, with rounded gradients %.4f; bound %.4f\n",
                static_cast<int>(grid.z), static_cast<int>(grid.data), wanted.losses[0],
                wanted.losses.back(), got.losses.back(), bound);
  }
}

// --- activations

/// A loss and the gradients that lead to it.
struct Terms {
  double loss = 0;
  Tensors gradients;
};

Terms terms_on(const RunSetup& setup, const plan::Grid& grid) {
  Terms terms;
  terms.gradients = gradients_on(setup, grid, 2, {}, &terms.loss);
  return terms;
}

/// As many roundings as a token passes on its way through the model and back are between a loss or
/// a gradient and that of a run which rounds other numbers; that one has as many, so they add up as
/// their root.
void expect_within_roundings(const RunSetup& setup, const Terms& got, const Terms& wanted) {
  double total = 0;
  for (const auto& [name, gradient] : wanted.gradients)
    total = std::hypot(total, test::norm(gradient));
  const double roundings = 2 * (static_cast<double>(setup.gpt.num_layers) * 10 + 4);
  const double bound = 4 * bf16_epsilon * std::sqrt(roundings);
  EXPECT_LT(bound, 0.15) << "a missing reduction is an error of order one";
  EXPECT_NEAR(got.loss, wanted.loss, bf16_epsilon * wanted.loss);
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
  for (const auto& [name, gradient] : wanted.gradients) {
    const test::KeyBias keys = test::key_bias(name, gradient.size());
    EXPECT_LE(test::relative_error(test::without(got.gradients.at(name), keys),
                                   test::without(gradient, keys), 0.01 * total),
              bound)
        << name;
  }
}

/// Terms of activations are rounded to bf16 on each rank of x and y before they are added up.
TEST_P(MixedPrecisionOnGrids, grids_that_cut_products_differ_by_roundings_of_activations) {
  const RunSetup setup = this->setup();
  const Terms wanted = terms_on(setup, {});
  for (const plan::Grid& grid : {plan::Grid{.x = 2, .y = 1, .z = 1, .data = 1},
                                 plan::Grid{.x = 1, .y = 2, .z = 1, .data = 1},
                                 plan::Grid{.x = 2, .y = 2, .z = 1, .data = 1},
                                 plan::Grid{.x = 2, .y = 1, .z = 2, .data = 2},
                                 plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
    SCOPED_TRACE(format("x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data));
    expect_within_roundings(setup, terms_on(setup, grid), wanted);
  }
}

/// Sums in float32 in another order round to another number of bf16 now and then.
TEST(MixedPrecision, the_kernels_of_the_cpu_differ_from_the_reference_by_roundings) {
  for (const Stream stream : {Stream::narrow, Stream::wide})
    for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 2, .y = 1, .z = 2, .data = 1}}) {
      SCOPED_TRACE(
          format("{} x {} z {}", stream == Stream::wide ? "wide" : "narrow", grid.x, grid.z));
      const RunSetup setup = small_model(DType::bf16, stream, Kernels::own);
      const Terms got = terms_on(setup, grid);
      expect_within_roundings(setup, got, terms_on(small_model(DType::bf16, stream), grid));
      EXPECT_EQ(terms_on(setup, grid).gradients, got.gradients) << "run to run";
    }
}

// --- the residual stream

/// The residual stream as it begins and after each addition, and all gradients of a step.
struct Course {
  std::vector<std::vector<double>> stream;
  Tensors gradients;
};

std::vector<double> doubles_of(std::span<const std::byte> bytes, DType dtype) {
  if (dtype != DType::bf16) return GridRun::doubles_of(bytes, dtype);
  std::vector<double> values(bytes.size() / sizeof(BFloat16));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(reinterpret_cast<const BFloat16*>(bytes.data())[i]);
  return values;
}

Course course_of(DType compute, Stream stream) {
  RunSetup setup = small_model(compute, stream);
  setup.gpt.num_layers = 8;
  setup.gpt.dropout = 0;
  setup.plan.micro_batch_size = setup.plan.global_batch_size;
  test::set_grid(setup, {}, 1);
  GridRun run(setup);
  Course course;
  run.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    run.step_with_gradients(rank, feeder, SmallRun::block(0, 0, 1), course.gradients);
    rank.executor.run_stepwise(
        op::ProgramKind::train, SmallRun::block(0, 0, 1), &feeder,
        [&](const program::Program& program, std::size_t index) {
          const auto* compute_of = std::get_if<program::Compute>(&program.instructions[index].what);
          if (compute_of == nullptr) return;
          const program::Buffer& written = program.buffer(compute_of->slices.back().buffer);
          if (written.name == "positions" || written.name.ends_with(".residual"))
            course.stream.push_back(doubles_of(rank.executor.bytes(written), written.dtype));
        });
    // A whole step, to be compared with its simulation.
    rank.executor.run(op::ProgramKind::train, SmallRun::block(1, 0, 1), &feeder);
  });
  return course;
}

/// Float64 has the values that both approximate. A number that is rounded to bf16, unit roundoff u
/// = 2^-8, is wrong by u / sqrt(12) to u / sqrt(3) of itself, as a root mean square over numbers
/// that lie anywhere between two of bf16; errors of n roundings that are independent of one another
/// add up as sqrt(n) (Higham, Mary 2019, "A new approach to probabilistic rounding error
/// analysis").
/// - Kept in bf16, the stream is rounded when positions are added and by each addition of a branch:
///   an error of at least u sqrt(n / 12) for n of them, whatever the branches are.
/// - Kept wide, it has the error of the two tables, rounded once, and those of the branches, each
/// of
///   at most five roundings (norm, product, core or GELU, product, bias) in proportion to its size.
TEST(MixedPrecision, a_wide_residual_stream_is_not_rounded_by_its_additions) {
  const Course exact = course_of(DType::f64, Stream::narrow),
               narrow = course_of(DType::bf16, Stream::narrow),
               wide = course_of(DType::bf16, Stream::wide);
  ASSERT_EQ(exact.stream.size(), 17U);
  ASSERT_EQ(narrow.stream.size(), 17U);
  ASSERT_EQ(wide.stream.size(), 17U);
  const double of_one = bf16_epsilon / std::sqrt(3.0);
  double branches = 0, bound = 0, of_narrow = 0, of_wide = 0;  // branches: squares of their sizes
  for (std::size_t i = 0; i < exact.stream.size(); ++i) {
    const std::vector<double>& now = exact.stream[i];
    if (i > 0) branches += std::pow(test::relative_error(exact.stream[i - 1], now, 0), 2);
    bound = of_one * std::sqrt(1 + 5 * branches);
    of_narrow = test::relative_error(narrow.stream[i], now, 0);
    of_wide = test::relative_error(wide.stream[i], now, 0);
    EXPECT_GE(of_narrow, of_one / 2 * std::sqrt(static_cast<double>(i + 1))) << "addition " << i;
    EXPECT_LE(of_wide, bound) << "addition " << i;
    EXPECT_LT(of_wide, of_narrow) << "addition " << i;
  }
  EXPECT_LT(bound, of_narrow) << "the bound tells one from the other";
  const double gradients_of_narrow = test::distance(narrow.gradients, exact.gradients),
               gradients_of_wide = test::distance(wide.gradients, exact.gradients);
  EXPECT_LT(gradients_of_wide, gradients_of_narrow);
  std::printf("from float64: stream %.4f narrow, %.4f wide; gradients %.4f narrow, %.4f wide\n",
              of_narrow, of_wide, gradients_of_narrow, gradients_of_wide);
}

// --- checkpoints

checkpoint::BufferBytes bytes_of(SmallRun& run) {
  return [&run](const program::Buffer& b) { return run.executor().bytes(b); };
}

void save(SmallRun& run, test::SimulatedDisk& disk, std::int64_t step) {
  checkpoint::Store store(disk, "/ckpt");
  store.prepare();
  checkpoint::Saver saver(store, nullptr);
  checkpoint::Manifest facts;
  facts.step = step;
  saver.start(facts, run.train_program(), bytes_of(run));
  EXPECT_EQ(saver.finish().error, "");
}

void restore(SmallRun& run, test::SimulatedDisk& disk, std::int64_t step) {
  checkpoint::Store store(disk, "/ckpt");
  checkpoint::restore(store, store.open(step), {}, run.train_program(), bytes_of(run), nullptr);
}

void do_steps(SmallRun& run, const RunSetup& setup, std::int64_t first, std::int64_t end) {
  auto feeder = test::random_batch(setup);
  for (std::int64_t step = first; step < end; ++step) EXPECT_EQ(run.step(feeder, step).applied, 1);
}

TEST(MixedPrecision, a_run_that_goes_on_has_the_bits_of_one_that_never_ended) {
  const RunSetup setup = small_model();
  SmallRun unbroken(setup), first(setup), second(setup);
  unbroken.init(false);
  do_steps(unbroken, setup, 0, 6);
  first.init(false);
  do_steps(first, setup, 0, 3);
  test::SimulatedDisk disk;
  save(first, disk, 3);
  restore(second, disk, 3);
  EXPECT_EQ(second.state(), first.state());
  do_steps(second, setup, 3, 6);
  EXPECT_EQ(second.state(), unbroken.state());
}

TEST(MixedPrecision, checkpoints_go_from_float32_to_bf16_and_back_without_a_bit_changed) {
  const RunSetup of_floats = small_model(DType::f32), mixed = small_model();
  for (const bool starts_mixed : {false, true}) {
    const RunSetup &from = starts_mixed ? mixed : of_floats, &to = starts_mixed ? of_floats : mixed;
    SmallRun source(from), target(to);
    source.init(false);
    do_steps(source, from, 0, 2);
    test::SimulatedDisk disk;
    save(source, disk, 2);
    restore(target, disk, 2);
    EXPECT_EQ(target.state(), source.state());
    do_steps(target, to, 2, 3);  // and goes on
  }
}

/// The type of the residual stream is nothing of a checkpoint's.
TEST(MixedPrecision, checkpoints_go_from_one_residual_stream_to_the_other) {
  const RunSetup narrow = small_model(), wide = small_model(DType::bf16, Stream::wide);
  SmallRun source(narrow), target(wide);
  source.init(false);
  do_steps(source, narrow, 0, 2);
  test::SimulatedDisk disk;
  save(source, disk, 2);
  restore(target, disk, 2);
  EXPECT_EQ(target.state(), source.state());
  do_steps(target, wide, 2, 3);
}

TEST(MixedPrecision, both_precisions_begin_with_the_same_weights) {
  SmallRun of_floats(small_model(DType::f32)), mixed(small_model());
  of_floats.init(false);
  mixed.init(false);
  EXPECT_EQ(of_floats.state(), mixed.state());
}

/// A weight near 1 and a step far below what bf16 can tell from it.
TEST(MixedPrecision, updates_smaller_than_a_bf16_rounding_add_up) {
  const RunSetup setup = small_model();
  SmallRun run(setup);
  run.init(false);
  auto feeder = test::random_batch(setup);
  const std::vector<double> before = run.doubles("blocks.0.ln1.gain");
  constexpr double lr = 1e-4;  // AdamW's step is about lr; bf16 below 1 has steps of 2^-8
  constexpr int steps = 20;
  for (int step = 0; step < steps; ++step) run.step(feeder, step, lr);
  const std::vector<double> after = run.doubles("blocks.0.ln1.gain");
  double moved = 0;
  for (std::size_t i = 0; i < after.size(); ++i)
    moved = std::max(moved, std::abs(after[i] - before[i]));
  EXPECT_GT(moved, 0.5 * steps * lr);
  EXPECT_LT(moved, bf16_epsilon);
}

}  // namespace
}  // namespace fourfold
