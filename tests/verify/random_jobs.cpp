#include "verify/random_jobs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <variant>
#include <vector>

#include "base/format.h"
#include "graph/update.h"
#include "model/model.h"
#include "support/chance.h"
#include "support/layouts.h"

namespace fourfold::test {
namespace {

using namespace layouts;

class JobMaker : Chance {
 public:
  JobMaker(std::uint64_t seed, const DrawLimits& limits) : Chance(seed), limits_(limits) {}

  /// Nothing where the draw has no plan.
  std::optional<DrawnJob> make() {
    const std::optional<Assignment> values = draw_choices();
    if (!values) return std::nullopt;
    const Choice choice(*values);
    DrawnJob drawn;
    RunSetup& setup = drawn.setup;
    setup = laid_out(choice);
    set_ways(setup.plan, choice);
    drawn.name = choice.name() + "; " + set_sizes(setup, choice);
    graph::ModelGraphs graphs = setup.graphs();
    drawn.reads_averages = chance(0.5);
    if (drawn.reads_averages) graph::read_averages(graphs);
    const auto planned = plan::plan_model(graphs, setup.plan);
    if (std::holds_alternative<plan::Infeasible>(planned)) return std::nullopt;
    const auto& [model, plan] = std::get<plan::PlannedModel>(planned);
    drawn.job = compile::compile(
        model, plan,
        setup.reference_kernels ? kernels::cpu::reference_target() : kernels::cpu::target(1),
        {.without = left_out(choice)});
    return drawn;
  }

 private:
  using Number = std::int64_t;

  /// A value of each factor, in an order by chance. Each factor has the usual value in some of the
  /// jobs that leave it open, so that few choices meet as well as many.
  std::optional<Assignment> draw_choices() {
    Assignment row(num_factors, open_value);
    std::vector<std::size_t> order(num_factors);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::shuffle(order, random_);
    const double usual_share = pick<double>({0.1, 0.4, 0.7});
    row[precision_factor] = limits_.is_exact || chance(0.8) ? 0 : pick<int>({1, 2});
    for (const std::size_t factor : order) {
      if (row[factor] != open_value) continue;
      std::vector<int> values(texts()[factor].values.size());
      std::iota(values.begin(), values.end(), 0);
      std::ranges::shuffle(values, random_);
      const bool is_size = factor >= x_factor && factor <= data_factor;
      if (factor > variant_factor && !is_size && chance(usual_share))
        std::iter_swap(values.begin(), std::ranges::find(values, 0));
      if (factor == model_factor && chance(0.2)) values = {0};
      const auto fits = std::ranges::find_if(values, [&](int value) {
        row[factor] = value;
        return is_legal(row, limits_.most_ranks);
      });
      if (fits == values.end()) return std::nullopt;
    }
    return row;
  }

  /// Makes the model and the batch small; in words.
  std::string set_sizes(RunSetup& setup, const Choice& choice) {
    const Number micros = choice.size(micros_factor);
    plan::PlanSpec& spec = setup.plan;
    const Number shares = spec.grid.z * spec.grid.data * spec.chunks;
    const Number samples = shares * pick<Number>({1, 1, 2, 3});  // of a micro-batch
    spec.global_batch_size = micros * samples;
    spec.micro_batch_size = samples / (spec.grid.z * spec.grid.data);
    if (setup.unet)
      set_unet(*setup.unet);
    else if (setup.vgg)
      set_vgg(*setup.vgg);
    else
      set_gpt(setup, choice);
    graph::OptimizerSpec& optimizer = setup.optimizer;
    optimizer.grad_clip = pick<double>({0, 0.25, 1});
    optimizer.weight_decay = pick<double>({0, 0.1, 0.1});
    if (setup.masked) {
      const Number length = spec.seq_length, few = std::max<Number>(1, samples / 3);
      setup.masked = [length, samples, few](Number i) { return i / length % samples >= few; };
    }
    return format("{} samples, clip {}, decay {}", spec.global_batch_size, optimizer.grad_clip,
                  optimizer.weight_decay);
  }

  void set_gpt(RunSetup& setup, const Choice& choice) {
    model::GptSpec& gpt = setup.gpt;
    const bool is_odd = choice.is(model_factor, "gpt of odd sizes");
    const bool has_threes = choice.is(x_factor, "3") || choice.is(y_factor, "3");
    struct Sizes {
      Number hidden, heads;
    };
    const Sizes sizes = is_odd       ? pick<Sizes>({{28, 14}, {56, 14}, {20, 10}})
                        : has_threes ? pick<Sizes>({{24, 12}, {48, 24}, {36, 12}})
                                     : pick<Sizes>({{16, 8}, {24, 12}, {32, 8}, {32, 16}});
    gpt.hidden_size = sizes.hidden;
    gpt.num_attention_heads = sizes.heads;
    gpt.ffn_hidden_size = sizes.hidden * pick<Number>({2, 2, 3});
    if (!choice.is_unusual(pipeline_factor)) gpt.num_layers = pick<Number>({1, 2, 2, 3});
    gpt.vocab_size = pick<Number>({19, 24, 37});
    gpt.dropout = pick<double>({0, 0.1, 0.3});
    if (chance(0.3)) gpt.tied_head = !gpt.tied_head;
    if (chance(0.2)) gpt.bias = !gpt.bias;
    setup.plan.seq_length = pick<Number>({2, 3, 4, 4});
    gpt.max_position_embeddings = setup.plan.seq_length + pick<Number>({0, 0, 2});
    if (chance(0.2)) setup.masks_documents = !setup.masks_documents;
    if (chance(0.2)) setup.restarts_positions = !setup.restarts_positions;
  }

  void set_vgg(model::VggSpec& vgg) {
    const bool is_large = vgg.picture[0] == 8;
    vgg.widths = is_large ? std::vector<Number>{12, 0, 24, 0, 12, 0, 24}
                          : pick<std::vector<Number>>({{12, 0, 24, 12, 0}, {24, 0, 24, 0}});
    vgg.hidden = pick<std::vector<Number>>({{24}, {48, 24}});
    vgg.num_classes = pick<Number>({13, 24});
    vgg.dropout = pick<double>({0, 0.1, 0.5});
  }

  void set_unet(model::UnetSpec& unet) {
    unet.channels = pick<Number>({8, 8, 16});
    unet.num_heads = pick<Number>({4, 8});
    unet.norm_groups = pick<Number>({4, 8});
    unet.dropout = pick<double>({0, 0.1});
    unet.scale_shift_norm = chance(0.6);
    unet.resample_with_convolution = chance(0.6);
    unet.diffusion.learn_sigma = chance(0.6);
    if (unet.diffusion.learn_sigma && chance(0.5)) unet.diffusion.bound_weight = 0.1;
    if (chance(0.3)) unet.diffusion.schedule = model::NoiseSchedule::linear;
    if (chance(0.3)) unet.attention_resolutions = {};
    unet.diffusion.average_decay = pick<double>({0, 0.9, 0.99});
    unet.diffusion.sampling.steps = pick<Number>({0, 5});
    if (chance(0.5)) unet.diffusion.sampling.sampler = model::Sampler::ddpm;
    unet.diffusion.sampling.eta = pick<double>({0, 0.5});
  }

  DrawLimits limits_;
};

}  // namespace

DrawnJob draw_job(std::uint64_t seed, const DrawLimits& limits) {
  constexpr std::uint64_t most_draws = 1000;
  for (std::uint64_t draw = 0; draw < most_draws; ++draw)
    if (auto drawn = JobMaker(seed + (draw << 32), limits).make()) {
      drawn->seed = seed;
      return *std::move(drawn);
    }
  throw InternalError("no draw of a seed has a plan");
}

graph::ModelGraphs serial_graphs(const DrawnJob& drawn) {
  const RunSetup& setup = drawn.setup;
  graph::ModelGraphs graphs =
      model::build_serial(setup.model(),
                          {setup.samples(), setup.plan.seq_length, setup.plan.global_batch_size,
                           setup.masks_documents, setup.restarts_positions, setup.plan.chunks},
                          setup.optimizer, setup.writes);
  if (drawn.reads_averages) graph::read_averages(graphs);
  return graphs;
}

}  // namespace fourfold::test
