// Training steps against PyTorch: the files of data/, made by make_goldens.py.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "generate/pictures.h"
#include "golden/golden.h"
#include "support/compare.h"

namespace fourfold {
namespace {

using test::distance;
using test::Golden;
using test::KeyBias;
using test::relative_error;
using test::without;

struct Case {
  std::string file;
  DType compute;
  std::int64_t accumulation;
  bool reference;
  std::int64_t checkpointing;
};

std::vector<const program::Buffer*> averages_of(const test::SmallRun& run) {
  std::vector<const program::Buffer*> averages;
  for (const program::Buffer& buffer : run.bundle().at(op::ProgramKind::train).buffers)
    if (buffer.role == program::BufferRole::average) averages.push_back(&buffer);
  return averages;
}
std::string start_of(const program::Buffer& average) {
  return "initial/" + std::string(program::averaged_name(average.name));
}

class GoldenRun : public testing::TestWithParam<Case> {};

TEST_P(GoldenRun, ten_steps_equal_pytorch) {
  const Case& c = GetParam();
  const Golden golden(c.file);
  test::RunSetup setup = golden.run_setup(c.compute, c.accumulation);
  setup.reference_kernels = c.reference;
  setup.plan.checkpointing.layers = c.checkpointing;
  test::SmallRun run(setup);
  run.init(false);
  for (const program::Buffer* b : run.parameters())
    run.set_doubles(*b, golden.tensor<double>("initial/" + b->name));

  for (const program::Buffer* b : averages_of(run))
    run.set_doubles(*b, golden.tensor<double>(start_of(*b)));

  const bool is_double = c.compute == DType::f64;
  const double loss_bound = is_double ? 1e-11 : 1e-5, gradient_bound = loss_bound;
  const double weight_bound = is_double ? 1e-11 : 2e-5;
  const auto loss = golden.tensor<double>("loss"), norms = golden.tensor<double>("grad_norm");
  const auto lr = golden.tensor<double>("lr");

  double worst_gradient = 0, worst_weight = 0;
  for (std::size_t step = 0; step < loss.size(); ++step) {
    test::FixedFeeder feeder = golden.batch(step);
    std::map<std::string, std::vector<double>> gradients;
    const auto keep_gradients = [&](const program::Program& p, std::size_t i) {
      if (program::name(p.instructions[i]) != "update_control") return;
      for (const program::Buffer* b : run.parameters())
        gradients[b->name] = run.doubles("gradient/" + b->name);
    };
    const auto result = run.executor().run_stepwise(
        op::ProgramKind::train, test::SmallRun::block(static_cast<std::int64_t>(step), lr[step], 1),
        &feeder, keep_gradients);
    EXPECT_EQ(result.applied, 1);
    const auto valid = static_cast<double>(result.valid_count);
    EXPECT_LE(std::abs(result.loss_sum / valid - loss[step]), loss_bound * std::abs(loss[step]))
        << "step " << step;
    EXPECT_LE(std::abs(result.grad_norm - norms[step]), gradient_bound * norms[step])
        << "step " << step;
    if (step > 0) continue;
    EXPECT_LT(setup.optimizer.grad_clip, norms[0]) << "clipping is active";
    const double nominal_over_valid = static_cast<double>(golden.labels_of_step()) / valid;
    for (auto& [name, gradient] : gradients) {
      for (double& g : gradient) g *= nominal_over_valid;
      auto expected = golden.tensor<double>("gradient/" + name);
      const KeyBias keys = golden.idle_keys(name, gradient.size());
      for (std::size_t i = keys.begin; i < keys.end; ++i)
        EXPECT_LE(std::abs(gradient[i]), gradient_bound * norms[0]) << name << " " << i;
      const double error =
          relative_error(without(gradient, keys), without(expected, keys), 1e-6 * norms[0]);
      EXPECT_LE(error, gradient_bound) << name;
      worst_gradient = std::max(worst_gradient, error);
    }
  }
  for (const program::Buffer* b : run.parameters()) {
    const auto got = run.doubles(*b), expected = golden.tensor<double>("final/" + b->name);
    const KeyBias keys = golden.idle_keys(b->name, got.size());
    const double error =
        relative_error(without(got, keys), without(expected, keys), 1e-6 * norms[0]);
    EXPECT_LE(error, weight_bound) << b->name;
    worst_weight = std::max(worst_weight, error);
  }
  for (const program::Buffer* b : averages_of(run)) {
    const auto got = run.doubles(*b), expected = golden.tensor<double>(b->name);
    const KeyBias keys = golden.idle_keys(b->name, got.size());
    EXPECT_LE(relative_error(without(got, keys), without(expected, keys), 1e-6 * norms[0]),
              weight_bound)
        << b->name;
  }
  RecordProperty("worst_gradient", std::to_string(worst_gradient));
  std::printf("worst relative error: gradient %.2e, weight after ten steps %.2e\n", worst_gradient,
              worst_weight);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* file :
       {"gpt-tied-bias", "gpt-tied-nobias", "gpt-untied-bias", "gpt-untied-nobias"})
    for (const DType compute : {DType::f32, DType::f64})
      for (const std::int64_t accumulation : {1, 4})
        cases.push_back({file, compute, accumulation, false, 0});
  for (const char* file :
       {"gpt-sgd", "gpt-sgd-nesterov", "llama-groups", "llama-qwen2", "llama-qwen3", "llama-biases",
        "vgg-adamw", "vgg-sgd", "vgg-sgd-nesterov", "unet-sigma", "unet-plain"})
    for (const bool reference : {false, true})
      for (const DType compute : {DType::f32, DType::f64})
        cases.push_back({file, compute, 2, reference, 0});
  // In float32 rounding turns the steps of single weights by Lion.
  for (const bool reference : {false, true})
    cases.push_back({"gpt-lion", DType::f64, 2, reference, 0});
  cases.push_back({"gpt-tied-bias", DType::f64, 2, true, 0});
  cases.push_back({"gpt-untied-bias", DType::f32, 1, true, 0});
  cases.push_back({"gpt-tied-bias", DType::f64, 4, false, 1});
  cases.push_back({"llama-qwen3", DType::f64, 4, false, 1});
  // One micro-batch of its first step has no valid label.
  cases.push_back({"vgg-adamw", DType::f64, 4, false, 1});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenRun, testing::ValuesIn(all_cases()), [](const auto& entry) {
  std::string name = entry.param.file + (entry.param.compute == DType::f64 ? "_f64" : "_f32") +
                     "_accumulation" + std::to_string(entry.param.accumulation) +
                     (entry.param.reference ? "_reference" : "") +
                     (entry.param.checkpointing > 0 ? "_recomputed" : "");
  for (char& letter : name)
    if (letter == '-') letter = '_';
  return name;
});

/// Pictures out of noise, by both samplers with four steps.
TEST(GoldenSamples, of_a_unet_equal_those_of_a_python_reference) {
  for (const char* file : {"unet-sigma", "unet-plain"})
    for (const DType compute : {DType::f32, DType::f64})
      for (const bool is_ddim : {true, false}) {
        const Golden golden(file);
        test::RunSetup setup = golden.run_setup(compute, 1);
        setup.unet->diffusion.sampling = {is_ddim ? model::Sampler::ddim : model::Sampler::ddpm, 4,
                                          is_ddim ? 0.5 : 0};
        test::SmallRun run(setup);
        run.init(false);
        for (const program::Buffer* b : run.parameters())
          run.set_doubles(*b, golden.tensor<double>("initial/" + b->name));
        const generate::PictureSpec spec{
            .count = 4, .steps = 4, .seed = 1, .label = std::nullopt, .num_labels = 5};
        generate::make_pictures(spec, run.executor());
        const auto id = run.bundle().at(op::ProgramKind::denoise).find_buffer("denoised");
        const auto got = run.doubles(run.bundle().at(op::ProgramKind::denoise).buffer(id.value()));
        const auto expected = golden.tensor<double>(is_ddim ? "samples/ddim" : "samples/ddpm");
        EXPECT_LE(relative_error(got, expected, 0), compute == DType::f64 ? 1e-11 : 1e-4)
            << file << (is_ddim ? " ddim" : " ddpm");
      }
}

using Gradients = std::map<std::string, std::vector<double>>;

/// Those of step 0, of the mean over valid labels.
enum class Weights : std::uint8_t { as_they_are, rounded };  // to bf16

Gradients first_gradients(const Golden& golden, const test::RunSetup& setup,
                          Weights kept = Weights::as_they_are) {
  test::SmallRun run(setup);
  run.init(false);
  for (const program::Buffer* b : run.parameters()) {
    std::vector<double> values = golden.tensor<double>("initial/" + b->name);
    if (kept == Weights::rounded)
      for (double& value : values)
        value = static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(value))));
    run.set_doubles(*b, values);
  }
  Gradients gradients;
  test::FixedFeeder feeder = golden.batch(0);
  const auto result =
      run.executor().run_stepwise(op::ProgramKind::train, test::SmallRun::block(0, 0, 1), &feeder,
                                  [&](const program::Program& p, std::size_t i) {
                                    if (program::name(p.instructions[i]) != "update_control")
                                      return;
                                    for (const program::Buffer* b : run.parameters())
                                      gradients[b->name] = run.doubles("gradient/" + b->name);
                                  });
  const double nominal_over_valid =
      static_cast<double>(golden.labels_of_step()) / static_cast<double>(result.valid_count);
  for (auto& [name, gradient] : gradients)
    for (double& g : gradient) g *= nominal_over_valid;
  return gradients;
}

/// Both round the same products, attention and branches to bf16, and neither the residual stream.
/// Beside them this program rounds the tables, gains and biases: at most as many numbers again, so
/// that errors, which are independent of one another, add up to sqrt(2) of PyTorch's.
TEST(GoldenAutocast, a_wide_residual_stream_is_as_near_to_float64_as_pytorch) {
  for (const auto& [file, reference] :
       {std::pair{"gpt-tied-bias", true}, {"gpt-untied-nobias", true}, {"gpt-tied-bias", false}}) {
    const Golden golden(file), autocast(std::string(file) + "-autocast");
    test::RunSetup setup = golden.run_setup(DType::bf16, 1);
    setup.reference_kernels = reference;
    const Gradients narrow = first_gradients(golden, setup);
    setup.gpt.wide_residual = true;
    const Gradients wide = first_gradients(golden, setup);
    Gradients exact, peer;
    for (const auto& [name, gradient] : wide) {
      exact[name] = golden.tensor<double>("gradient/" + name);
      peer[name] = autocast.tensor<double>("gradient/" + name);
    }
    const double of_peer = distance(peer, exact), of_wide = distance(wide, exact);
    std::printf(
        "%s: from float64 by %.4f narrow, %.4f wide, %.4f autocast; autocast and wide %.4f\n", file,
        distance(narrow, exact), of_wide, of_peer, distance(wide, peer));
    EXPECT_LE(of_wide, std::sqrt(2.0) * of_peer) << file;
  }
}

/// A Llama has no biases beside its gains, and its products are fewer: what the rounding of gains
/// and tables alone does to the gradients, in float64, is counted apart.
TEST(GoldenAutocast, a_llama_is_as_near_to_float64_as_pytorch_and_its_rounded_weights_together) {
  const Golden golden("llama-groups"), autocast("llama-groups-autocast");
  const Gradients rounded =
      first_gradients(golden, golden.run_setup(DType::f64, 1), Weights::rounded);
  for (const bool reference : {true, false}) {
    test::RunSetup setup = golden.run_setup(DType::bf16, 1);
    setup.reference_kernels = reference;
    setup.llama->wide_residual = true;
    const Gradients wide = first_gradients(golden, setup);
    Gradients exact, peer;
    for (const auto& [name, gradient] : wide) {
      exact[name] = golden.tensor<double>("gradient/" + name);
      peer[name] = autocast.tensor<double>("gradient/" + name);
    }
    const double of_peer = distance(peer, exact), of_weights = distance(rounded, exact),
                 of_wide = distance(wide, exact);
    std::printf("llama-groups: from float64 by %.4f, %.4f autocast, %.4f rounded weights alone\n",
                of_wide, of_peer, of_weights);
    EXPECT_LE(of_wide, std::hypot(std::sqrt(2.0) * of_peer, of_weights));
  }
}

}  // namespace
}  // namespace fourfold
