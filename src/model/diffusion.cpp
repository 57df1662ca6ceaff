// B batch, H and W height and width, C channels, T times.
#include "model/diffusion.h"

#include <algorithm>

#include "graph/autodiff.h"
#include "graph/update.h"
#include "op/blocks.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;
using graph::ValueRole;

/// How the times of samples come about.
enum class Times : std::uint8_t { drawn, drawn_by_loss, given };

/// Times that were drawn by the losses of earlier steps.
struct ByLoss {
  ValueId losses, weights;  // (T, 2 + entries); (B)
};

/// The forward part, and what the backward part reads of it.
struct Forward {
  ValueId output, t;
  std::vector<ValueId> of_loss;
  op::DiffusionLoss loss;
  std::optional<ByLoss> by_loss;
  std::optional<ValueId> terms = std::nullopt;  // of op::KeepLosses
};

op::DiffusionLoss loss_of(const DiffusionSpec& spec) {
  op::DiffusionLoss loss{.learned = spec.learn_sigma};
  if (spec.learn_sigma) loss.bound = spec.bound_weight * static_cast<double>(spec.steps);
  return loss;
}

ValueId add_schedule(Builder& b, const DiffusionSpec& spec, std::int64_t used) {
  return b.apply_one(
      op::DiffusionSchedule{spec.steps, used, spec.schedule == NoiseSchedule::cosine}, {},
      "schedule");
}

struct Fed {
  ValueId x_0, labels;
};

Fed add_inputs(Builder& b, const Denoiser& model) {
  const Shape& picture = model.picture;
  b.set_label("pictures");
  const ValueId bytes =
      b.input("pictures", {model.samples, picture[0], picture[1], picture[2]}, op::Element::u8);
  const ValueId labels = b.input("labels", {model.samples}, op::Element::i32);
  // From -1 to 1, in which the levels of a byte are 2 / 255 apart: op::DiffusionLoss counts on it.
  const op::Numbers half(static_cast<std::size_t>(picture[2]), 0.5);
  return {b.apply_one(op::Normalize{half, half}, {bytes}, "normalized"), labels};
}

struct TimesOfSamples {
  ValueId t;
  std::optional<ByLoss> by_loss = std::nullopt;
};

TimesOfSamples add_times(Builder& b, const Denoiser& model, Times times, ValueId schedule) {
  const Shape samples{model.samples};
  if (times == Times::given)
    return {b.apply_one(op::TimesOfStep{samples}, {schedule, b.field("step.index")}, "t")};
  const RandomStream stream = random_stream("diffusion.times");
  const op::SampleWindow window{0, model.samples, 0};
  std::vector<ValueId> of_step = {b.field("step.seed"), b.field("step.step"),
                                  b.field("step.first_sample")};
  if (times == Times::drawn)
    return {b.apply_one(op::DrawTimes{stream, model.spec.steps, window, samples},
                        std::move(of_step), "t")};
  const Shape kept{model.spec.steps, 2 + op::KeepLosses::entries};
  const ValueId losses = b.given("losses_of_times", kept, op::Element::accumulate,
                                 ValueRole::average, op::Op(op::Fill{.value = 0, .shape = kept}));
  of_step.push_back(losses);
  const auto drawn = b.apply(op::DrawTimesByLoss{stream, window, samples}, std::move(of_step), "t");
  return {drawn[0], ByLoss{losses, drawn[1]}};
}

Forward add_forward(Builder& b, const Denoiser& model, Use use, Times times,
                    const op::DiffusionLoss& loss) {
  const auto [x_0, labels] = add_inputs(b, model);
  b.set_label("noise");
  const ValueId schedule = add_schedule(b, model.spec, model.spec.steps);
  const auto [t, by_loss] = add_times(b, model, times, schedule);
  const op::AddNoise row{.stream = random_stream("diffusion.noise"),
                         .window = {0, model.samples, 0}};
  const auto noised = b.apply(
      row,
      {x_0, t, schedule, b.field("step.seed"), b.field("step.step"), b.field("step.first_sample")},
      "noised");
  const ValueId output = model.output(b, use, {noised[0], t, labels});

  b.set_label("loss");
  Forward forward{.output = output,
                  .t = t,
                  .of_loss = {output, x_0, noised[0], noised[1], t, labels, schedule},
                  .loss = loss,
                  .by_loss = by_loss};
  ValueId sample_loss = b.apply_one(loss, forward.of_loss, "loss");
  if (by_loss) {
    const auto weighed =
        b.apply(op::WeighLosses{}, {sample_loss, labels, by_loss->weights}, "weighted_loss");
    sample_loss = weighed[0];
    forward.terms = weighed[1];
    forward.of_loss.push_back(by_loss->weights);
  }
  b.apply_to(op::LossSum{}, {sample_loss, labels},
             {b.field("result.loss_sum"), b.field("result.valid_count")});
  return forward;
}

/// What the losses of all samples of a step come to, by time.
ValueId add_sums_of_losses(Builder& b, const Forward& forward) {
  const Shape kept = b.graph().value(forward.by_loss->losses).shape;
  const ValueId sums =
      b.given("losses_of_step", {kept[0], 2}, op::Element::accumulate, ValueRole::gradient);
  b.set_gradient_of(sums, forward.by_loss->losses);
  b.apply_to(op::EmbeddingGradient{.rows = kept[0], .wide = true}, {forward.t, *forward.terms},
             {sums});
  return sums;
}

}  // namespace

graph::Graph training_graph(const Denoiser& model, const graph::OptimizerSpec& optimizer) {
  Builder builder(op::ProgramKind::train);
  const bool by_loss = model.spec.time_sampling == TimeSampling::importance;
  const Forward forward =
      add_forward(builder, model, Use::train, by_loss ? Times::drawn_by_loss : Times::drawn,
                  loss_of(model.spec));
  builder.set_phase(graph::Phase::backward);
  std::optional<ValueId> sums;
  if (by_loss) sums = add_sums_of_losses(builder, forward);
  const op::DiffusionLossGradient row{.learned = forward.loss.learned,
                                      .weighted = by_loss,
                                      .simple = forward.loss.simple,
                                      .bound = forward.loss.bound,
                                      .scale = 1.0 / static_cast<double>(model.samples_of_step)};
  const ValueId gradient = builder.apply_one(row, forward.of_loss, "output/grad");
  graph::differentiate(builder, forward.output, gradient);
  graph::add_update(builder, graph::optimizer_of(optimizer), model.samples_of_step);
  if (model.spec.average_decay > 0) graph::add_averages(builder, model.spec.average_decay);
  if (by_loss) {
    builder.set_label("noise");
    builder.apply_to(op::KeepLosses{}, {*sums, builder.field("result.applied")},
                     {forward.by_loss->losses});
  }
  return builder.take();
}

graph::Graph evaluation_graph(const Denoiser& model) {
  Builder builder(op::ProgramKind::evaluate);
  add_forward(builder, model, Use::evaluate, Times::drawn, loss_of(model.spec));
  return builder.take();
}

graph::Graph bound_graph(const Denoiser& model) {
  Builder builder(op::ProgramKind::bound);
  const op::DiffusionLoss loss{
      .learned = model.spec.learn_sigma, .whole = true, .simple = 0, .bound = 1};
  add_forward(builder, model, Use::evaluate, Times::given, loss);
  return builder.take();
}

graph::Graph denoising_graph(const Denoiser& model) {
  Builder b(op::ProgramKind::denoise);
  b.set_feeds_whole();
  const Shape& picture = model.picture;
  const SamplingSpec& sampling = model.spec.sampling;
  const std::int64_t all = model.spec.steps,
                     used = sampling.steps == 0 ? all : std::min(all, sampling.steps);
  b.set_label("pictures");
  const Shape shape{model.samples, picture[0], picture[1], picture[2]};
  const ValueId x = b.given(denoised_pictures, shape, op::Element::compute, ValueRole::cache,
                            op::Op(op::Fill{.value = 0, .shape = shape}));
  std::optional<ValueId> labels;
  if (model.is_conditional) labels = b.input("labels", {model.samples}, op::Element::i32);
  b.set_label("noise");
  const ValueId schedule = add_schedule(b, model.spec, used);
  const ValueId t = add_times(b, model, Times::given, schedule).t;
  const ValueId output = model.output(b, Use::evaluate, {x, t, labels});
  b.set_label("pictures");
  const op::Denoise row{.stream = random_stream("diffusion.sampling"),
                        .learned = model.spec.learn_sigma,
                        .implicit = sampling.sampler == Sampler::ddim,
                        .eta = sampling.eta,
                        .window = {0, model.samples, 0}};
  b.apply_to(
      row,
      {output, schedule, b.field("step.index"), b.field("step.seed"), b.field("step.first_sample")},
      {x});
  return b.take();
}

}  // namespace fourfold::model
