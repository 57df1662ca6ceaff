// The compiled training step as one function: its gradients, and what must not change its bits.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "support/compare.h"
#include "support/small_run.h"

namespace fourfold {
namespace {

using test::RunSetup;
using test::SmallRun;

double loss_of(SmallRun& run, run::Feeder& feeder) {
  // Learning rate 0: weights stay, and the dropout masks are those of step 0.
  const auto result = run.step(feeder, 0, 0);
  return result.loss_sum / static_cast<double>(result.valid_count);
}

/// The gradients of the mean loss over valid tokens, by parameter.
std::map<std::string, std::vector<double>> gradients_of(SmallRun& run, run::Feeder& feeder,
                                                        double nominal_count) {
  std::map<std::string, std::vector<double>> gradients;
  const auto keep = [&](const program::Program& p, std::size_t i) {
    if (program::name(p.instructions[i]) != "update_control") return;
    for (const program::Buffer* b : run.parameters())
      gradients[b->name] = run.doubles("gradient/" + b->name);
  };
  const auto result =
      run.executor().run_stepwise(op::ProgramKind::train, SmallRun::block(0, 0, 1), &feeder, keep);
  for (auto& [name, gradient] : gradients)
    for (double& g : gradient) g *= nominal_count / static_cast<double>(result.valid_count);
  return gradients;
}

struct Variant {
  bool tied, bias;
  double dropout;
  std::int64_t micro, checkpointing;
  std::int64_t chunks = 0;  // above 0: in cut forms
};

std::string name_of(const testing::TestParamInfo<Variant>& variant) {
  const Variant& v = variant.param;
  return std::string(v.tied ? "tied" : "untied") + (v.bias ? "" : "_without_biases") +
         (v.dropout > 0 ? "_dropout" : "") + "_micro_batches_of_" + std::to_string(v.micro) +
         (v.checkpointing > 0 ? "_recomputed" : "") + (v.chunks > 0 ? "_in_chunks" : "");
}

class WholeModel : public testing::TestWithParam<Variant> {};

TEST_P(WholeModel, every_gradient_agrees_with_central_differences) {
  const Variant& v = GetParam();
  RunSetup setup;
  setup.gpt.tied_head = v.tied;
  setup.gpt.bias = v.bias;
  setup.gpt.dropout = v.dropout;
  setup.plan.compute = DType::f64;
  setup.plan.micro_batch_size = v.micro;
  setup.plan.checkpointing.layers = v.checkpointing;
  setup.chunks = v.chunks;
  SmallRun run(setup);
  run.init(true);
  test::FixedFeeder feeder = test::random_batch(setup);
  const auto nominal = static_cast<double>(setup.plan.global_batch_size * setup.plan.seq_length);
  const auto gradients = gradients_of(run, feeder, nominal);
  double total = 0;
  for (const auto& [name, gradient] : gradients) total = std::hypot(total, test::norm(gradient));

  double worst = 0;
  for (const program::Buffer* b : run.parameters()) {
    std::vector<double> weights = run.doubles(*b), differences(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      // Four points, so that truncation falls as h^4 and rounding as 1e-16 / h is all that counts.
      const double h = 1e-4 * std::max(1.0, std::abs(weights[i])), weight = weights[i];
      const auto at = [&](double steps) {
        weights[i] = weight + steps * h;
        run.set_doubles(*b, weights);
        return loss_of(run, feeder);
      };
      differences[i] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h);
      weights[i] = weight;
    }
    run.set_doubles(*b, weights);
    const auto& gradient = gradients.at(b->name);
    const test::KeyBias keys = test::key_bias(b->name, gradient.size());
    for (std::size_t i = keys.begin; i < keys.end; ++i)
      EXPECT_LE(std::abs(gradient[i]), 1e-12 * total);
    const double error = test::relative_error(test::without(differences, keys),
                                              test::without(gradient, keys), 1e-3 * total);
    EXPECT_LE(error, 1e-6) << b->name;
    worst = std::max(worst, error);
  }
  std::printf("worst relative error against central differences: %.2e\n", worst);
}

INSTANTIATE_TEST_SUITE_P(Gpt, WholeModel,
                         testing::Values(Variant{true, true, 0, 4, 0},
                                         Variant{false, true, 0, 2, 0},
                                         Variant{true, false, 0.2, 1, 0},
                                         Variant{true, true, 0.2, 2, 1},
                                         Variant{true, true, 0.2, 2, 1, 4}),
                         name_of);

/// Norms of several numbers of parts and the loss of a cut vocabulary, on one rank: the same
/// function, so what differs is rounding.
TEST(Form, in_parts_gives_the_loss_and_the_gradients_of_the_plain_one) {
  RunSetup setup;
  setup.gpt.dropout = 0.1;
  setup.plan.compute = DType::f64;
  const auto nominal = static_cast<double>(setup.plan.global_batch_size * setup.plan.seq_length);
  struct Outcome {
    double train_loss, evaluation_loss;
    std::map<std::string, std::vector<double>> gradients;
  };
  const auto outcome = [&] {
    SmallRun run(setup);
    run.init(true);
    test::FixedFeeder feeder = test::random_batch(setup);
    const double loss = loss_of(run, feeder), evaluation_loss = run.evaluate(feeder).loss_sum;
    return Outcome{loss, evaluation_loss, gradients_of(run, feeder, nominal)};
  };
  const Outcome plain = outcome();
  double total = 0;
  for (const auto& [name, gradient] : plain.gradients)
    total = std::hypot(total, test::norm(gradient));
  double worst = 0;
  for (const std::int64_t chunks : {1, 2, 4, 8}) {
    setup.chunks = chunks;
    const Outcome parts = outcome();
    EXPECT_NEAR(parts.train_loss / plain.train_loss, 1, 1e-13);
    EXPECT_NEAR(parts.evaluation_loss / plain.evaluation_loss, 1, 1e-13);
    ASSERT_EQ(parts.gradients.size(), plain.gradients.size());
    for (const auto& [name, gradient] : plain.gradients) {
      const test::KeyBias keys = test::key_bias(name, gradient.size());
      const double error = test::relative_error(test::without(parts.gradients.at(name), keys),
                                                test::without(gradient, keys), 1e-6 * total);
      EXPECT_LE(error, 1e-13) << name << ", " << chunks << " chunks";
      worst = std::max(worst, error);
    }
  }
  std::printf("worst relative error between the forms: %.2e\n", worst);
}

/// All state after some steps with dropout and accumulation.
std::vector<std::byte> state_after(const RunSetup& setup, std::int64_t steps) {
  SmallRun run(setup);
  run.init(true);
  for (std::int64_t step = 0; step < steps; ++step) {
    test::FixedFeeder feeder = test::random_batch(setup, static_cast<std::uint64_t>(step));
    EXPECT_EQ(run.step(feeder, step).applied, 1);
  }
  return run.state();
}

RunSetup rich_setup(DType compute) {
  RunSetup setup;
  setup.gpt.num_layers = 4;
  setup.gpt.dropout = 0.1;
  setup.plan.compute = compute;
  setup.plan.global_batch_size = 6;
  return setup;
}

TEST(Recomputation, changes_no_bit) {
  for (const DType compute : {DType::f32, DType::f64}) {
    RunSetup setup = rich_setup(compute);
    const auto expected = state_after(setup, 3);
    for (const std::int64_t blocks : {1, 2, 3, 4}) {
      setup.plan.checkpointing.layers = blocks;
      EXPECT_EQ(state_after(setup, 3), expected) << "every " << blocks;
    }
    setup.plan.checkpointing = {.layers = 1, .keeps_products = true};
    EXPECT_EQ(state_after(setup, 3), expected) << "selective";
  }
}

TEST(Fusion, changes_no_bit) {
  for (const DType compute : {DType::f32, DType::f64})
    for (const std::int64_t blocks : {0, 1}) {
      RunSetup setup = rich_setup(compute);
      setup.plan.checkpointing.layers = blocks;
      const std::size_t joined =
          SmallRun::compile_bundle(setup).at(op::ProgramKind::train).instructions.size();
      const auto expected = state_after(setup, 3);
      setup.fusion = false;
      EXPECT_EQ(state_after(setup, 3), expected);
      EXPECT_LT(joined,
                SmallRun::compile_bundle(setup).at(op::ProgramKind::train).instructions.size());
    }
}

TEST(Fusion, of_products_changes_no_bit_where_own_loops_compute_both) {
  for (const DType compute : {DType::f32, DType::f64}) {
    RunSetup setup = rich_setup(compute);
    const machine::Choice own{.op = "*", .dtype = std::nullopt, .implementation = "vector"};
    setup.edit_target = [&](machine::Target& target) { target.choices = {own}; };
    const std::size_t apart =
        SmallRun::compile_bundle(setup).at(op::ProgramKind::train).instructions.size();
    const auto expected = state_after(setup, 3);
    setup.edit_target = [&](machine::Target& target) {
      target.choices = {own};
      // Before the chains that take the bias away from the product.
      target.fusions.insert(target.fusions.begin(),
                            {"contract+add_bias&gelu", "contract+gelu_gradient&bias_gradient",
                             "contract+gelu_gradient"});
      target.fusions.emplace_back("contract+add_bias");
    };
    EXPECT_LT(SmallRun::compile_bundle(setup).at(op::ProgramKind::train).instructions.size(),
              apart);
    EXPECT_EQ(state_after(setup, 3), expected);
  }
}

TEST(Runs, of_one_setup_are_bit_equal_and_of_two_seeds_are_not) {
  for (const DType compute : {DType::f32, DType::f64}) {
    const RunSetup setup = rich_setup(compute);
    EXPECT_EQ(state_after(setup, 3), state_after(setup, 3));
  }
  SmallRun a(rich_setup(DType::f32)), b(rich_setup(DType::f32));
  a.init(false, 1);
  b.init(false, 2);
  EXPECT_NE(a.state(), b.state());
}

TEST(Runs, stepwise_execution_gives_the_same_bits) {
  const RunSetup setup = rich_setup(DType::f32);
  SmallRun a(setup), b(setup);
  a.init(true);
  b.init(true);
  test::FixedFeeder feeder = test::random_batch(setup);
  a.step(feeder, 0);
  b.executor().run_stepwise(op::ProgramKind::train, SmallRun::block(0, 1e-2, 1), &feeder,
                            [](const program::Program&, std::size_t) {});
  EXPECT_EQ(a.state(), b.state());
}

TEST(Accumulation, gives_the_gradients_of_the_whole_batch) {
  RunSetup setup = rich_setup(DType::f64);
  std::map<std::string, std::vector<double>> expected;
  for (const std::int64_t micro : {6, 3, 1}) {
    setup.plan.micro_batch_size = micro;
    SmallRun run(setup);
    run.init(true);
    test::FixedFeeder feeder = test::random_batch(setup);
    const auto gradients = gradients_of(run, feeder, 36);
    if (expected.empty()) expected = gradients;
    for (const auto& [name, gradient] : gradients) {
      const test::KeyBias keys = test::key_bias(name, gradient.size());
      EXPECT_LE(test::relative_error(test::without(gradient, keys),
                                     test::without(expected.at(name), keys), 1e-6),
                1e-12)
          << name << " micro " << micro;
    }
  }
}

TEST(Digest, is_equal_for_equal_state_and_sees_a_single_flipped_bit) {
  SmallRun run(rich_setup(DType::f32));
  run.init(true);
  const auto digests = [&] {
    run.executor().run(op::ProgramKind::digest, SmallRun::block(0, 0, 1));
    std::map<std::string, std::vector<std::byte>> all;
    for (const program::Buffer& b : run.bundle().at(op::ProgramKind::digest).buffers)
      if (b.role == program::BufferRole::output) {
        const auto bytes = run.executor().bytes(b);
        all[b.name].assign(bytes.data(), bytes.data() + bytes.size());
      }
    return all;
  };
  const auto before = digests();
  EXPECT_EQ(before, digests());
  run.executor().bytes(run.buffer("blocks.1.mlp.up.weight"))[17] ^= std::byte{4};
  const auto after = digests();
  for (const auto& [name, digest] : before)
    EXPECT_EQ(digest != after.at(name), name == "digest/blocks.1.mlp.up.weight") << name;
}

}  // namespace
}  // namespace fourfold
