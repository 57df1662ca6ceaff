// B batch, H and W height and width, C channels, E width of what is told of time and class.
#include "model/unet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "graph/builder.h"
#include "model/diffusion.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;
using Values = std::vector<ValueId>;

class Unet {
 public:
  Unet(const UnetSpec& spec, Builder& builder, Use use, std::int64_t samples)
      : spec_(spec), b_(builder), use_(use), samples_(samples) {}

  ValueId output(const NoisedPictures& x) {
    told_ = told_of_time(x);
    b_.set_label("conv");
    ValueId h = convolution({x.pictures}, "in", spec_.channels);
    h = way_down(h);
    h = middle(h);
    h = way_up(h);
    b_.set_label("head");
    const std::int64_t channels = spec_.picture[2] * (spec_.diffusion.learn_sigma ? 2 : 1);
    return convolution(silu_of_norm({h}, "out.norm"), "out", channels, Start::zero);
  }

 private:
  /// How the weights of a product begin: as PyTorch's layers do, or as 0, so that what they are
  /// added to passes first.
  enum class Start : std::uint8_t { uniform, zero };

  std::size_t levels() const { return spec_.channel_mult.size(); }
  std::int64_t width_of(std::size_t level) const {
    return spec_.channels * spec_.channel_mult[level];
  }
  const Shape& shape(ValueId x) const { return b_.graph().value(x).shape; }

  ValueId way_down(ValueId h) {
    skips_ = {h};
    for (std::size_t level = 0; level < levels(); ++level) {
      for (std::int64_t i = 0; i < spec_.layers_per_level; ++i) {
        h = layer({h}, format("down.{}.{}", level, i), width_of(level));
        skips_.push_back(h);
      }
      if (level + 1 == levels()) continue;
      h = halve(h, format("down.{}.half", level));
      skips_.push_back(h);
    }
    return h;
  }

  ValueId middle(ValueId h) {
    const std::int64_t width = shape(h)[3];
    b_.set_layer(next_layer_++);
    h = attention(residual({h}, "middle.0", width), "middle.attention");
    b_.set_layer(next_layer_++);
    h = residual({h}, "middle.1", width);
    b_.set_layer(std::nullopt);
    return h;
  }

  ValueId way_up(ValueId h) {
    for (std::size_t level = levels(); level-- > 0;) {
      for (std::int64_t i = 0; i <= spec_.layers_per_level; ++i) {
        h = layer({h, skips_.back()}, format("up.{}.{}", level, i), width_of(level));
        skips_.pop_back();
      }
      if (level > 0) h = twice(h, format("up.{}.twice", level));
    }
    return h;
  }

  ValueId layer(const Values& x, const std::string& name, std::int64_t width) {
    b_.set_layer(next_layer_++);
    ValueId h = residual(x, name, width);
    if (std::ranges::count(spec_.attention_resolutions, shape(h)[1]) > 0)
      h = attention(h, name + ".attention");
    b_.set_layer(std::nullopt);
    return h;
  }

  /// What all residual blocks are told: (B, E).
  ValueId told_of_time(const NoisedPictures& x) {
    b_.set_label("time");
    const std::int64_t inside = 4 * spec_.channels;
    // Times are scaled to 1000 steps, whatever their number, as Nichol, Dhariwal 2021 do.
    const op::TimeEmbedding row{.width = spec_.channels,
                                .steps = spec_.diffusion.steps,
                                .scale = 1000.0 / static_cast<double>(spec_.diffusion.steps)};
    ValueId told = b_.apply_one(row, {x.t}, "time");
    told = silu(linear(told, "time.0", {inside}), "time.0");
    told = linear(told, "time.1", {inside});
    if (spec_.class_conditional) {
      const Shape table{spec_.num_classes, inside};
      const ValueId weight = b_.parameter(
          "class.weight", table,
          op::InitNormal{.stream = random_stream("class.weight"), .stddev = 1, .shape = table});
      require(x.labels.has_value(), "a network that is told classes has them");
      const ValueId of_class = b_.apply_one(op::Embedding{}, {*x.labels, weight}, "class");
      told = b_.apply_one(op::Add{}, {told, of_class}, "told");
    }
    return silu(told, "told");
  }

  ValueId residual(const Values& x, const std::string& name, std::int64_t width) {
    b_.set_label("conv");
    ValueId h = convolution(silu_of_norm(x, name + ".norm1"), name + ".conv1", width);
    b_.set_label("time");
    const std::string of_time = name + ".time";
    if (spec_.scale_shift_norm) {
      const ValueId modulation = linear(told_, of_time, {2, width});
      h = norm({h}, name + ".norm2")[0];
      b_.set_label("norm");
      h = b_.apply_one(op::ScaleShift{}, {h, modulation}, name + ".modulated");
    } else {
      const ValueId term = linear(told_, of_time, {width});
      h = b_.apply_one(op::AddToPixels{}, {h, term}, name + ".told");
      h = norm({h}, name + ".norm2")[0];
    }
    b_.set_label("norm");
    h = dropout(silu(h, name + ".norm2"), name);
    b_.set_label("conv");
    h = convolution({h}, name + ".conv2", width, Start::zero);
    const bool passes = x.size() == 1 && shape(x[0])[3] == width;
    const ValueId shortcut =
        passes ? x[0] : convolution(x, name + ".shortcut", width, Start::uniform, 1);
    return b_.apply_one(op::Add{}, {shortcut, h}, name);
  }

  ValueId attention(ValueId x, const std::string& name) {
    b_.set_label("attention");
    const std::int64_t width = shape(x)[3], heads = spec_.num_heads;
    const ValueId h = norm({x}, name + ".norm")[0];
    b_.set_label("attention");
    const ValueId qkv = linear(h, name + ".qkv", {3, heads, width / heads});
    const op::SampleWindow window{0, samples_, 0};
    const ValueId y = b_.apply(op::Attention{.stream = {}, .window = window, .causal = false},
                               {qkv}, name + ".core")[0];
    const ValueId out = linear(y, name + ".out", {width}, 2, Start::zero);
    return b_.apply_one(op::Add{}, {x, out}, name);
  }

  ValueId halve(ValueId x, const std::string& name) {
    b_.set_label("resample");
    if (spec_.resample_with_convolution)
      return convolution({x}, name, shape(x)[3], Start::uniform, 3, 2);
    return b_.apply_one(op::AveragePool{.size = 2, .stride = 2}, {x}, name);
  }

  ValueId twice(ValueId x, const std::string& name) {
    b_.set_label("resample");
    const ValueId y = b_.apply_one(op::Upsample{.factor = 2}, {x}, name + ".repeated");
    if (!spec_.resample_with_convolution) return y;
    return convolution({y}, name, shape(y)[3]);
  }

  /// Group norm over the channels of all inputs, which may share groups; a value for each.
  Values norm(const Values& x, const std::string& name) {
    b_.set_label("norm");
    std::int64_t width = 0;
    for (const ValueId input : x) width += shape(input)[3];
    const std::int64_t pixels = shape(x[0])[1] * shape(x[0])[2];
    Values moments, out;
    for (std::size_t i = 0; i < x.size(); ++i)
      moments.push_back(
          b_.apply_one(op::GroupNormMoments{}, {x[i]}, numbered(name + ".moments", i, x.size())));
    const ValueId statistics =
        b_.apply_one(op::GroupNormStatistics{.groups = spec_.norm_groups,
                                             .parts = static_cast<std::int64_t>(x.size()),
                                             .pixels = pixels},
                     moments, name + ".statistics");
    op::GroupNormApply row{.groups = spec_.norm_groups, .width = width};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Shape channels{shape(x[i])[3]};
      const ValueId gain = constant(numbered(name + ".gain", i, x.size()), channels, 1);
      const ValueId bias = constant(numbered(name + ".bias", i, x.size()), channels, 0);
      out.push_back(
          b_.apply_one(row, {x[i], statistics, gain, bias}, numbered(name + ".y", i, x.size())));
      row.before += channels[0];
    }
    return out;
  }

  Values silu_of_norm(const Values& x, const std::string& name) {
    Values y = norm(x, name);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = silu(y[i], numbered(name, i, y.size()));
    b_.set_label("conv");
    return y;
  }

  /// The sum of the convolutions of all inputs, and a bias.
  ValueId convolution(const Values& x, const std::string& name, std::int64_t width,
                      Start start = Start::uniform, std::int64_t kernel = 3,
                      std::int64_t stride = 1) {
    std::int64_t inputs = 0;
    for (const ValueId input : x) inputs += shape(input)[3];
    const std::int64_t fan_in = kernel * kernel * inputs;
    std::optional<ValueId> sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const ValueId w = weight(numbered(name + ".weight", i, x.size()),
                               {width, kernel, kernel, shape(x[i])[3]}, fan_in, start);
      const ValueId y = b_.apply_one(op::Convolution{.stride = stride, .padding = kernel / 2},
                                     {x[i], w}, numbered(name + ".product", i, x.size()));
      sum = sum ? b_.apply_one(op::Add{}, {*sum, y}, name + ".sum") : y;
    }
    return biased(*sum, name, {width}, fan_in, start);
  }

  /// The last `contracted` dims of x by a weight with these and `out`, and a bias.
  ValueId linear(ValueId x, const std::string& name, const Shape& out, std::int64_t contracted = 1,
                 Start start = Start::uniform) {
    const Shape in = shape(x);
    const std::size_t kept = in.rank() - static_cast<std::size_t>(contracted);
    Shape of_weight;
    for (std::size_t dim = kept; dim < in.rank(); ++dim) of_weight.push_back(in[dim]);
    const std::int64_t fan_in = of_weight.elements();
    for (const std::int64_t size : out) of_weight.push_back(size);
    const ValueId w = weight(name + ".weight", of_weight, fan_in, start);
    const op::Contract row{.a_rows = static_cast<std::int64_t>(kept), .b_rows = contracted};
    return biased(b_.apply_one(row, {x, w}, name + ".product"), name, out, fan_in, start);
  }

  ValueId biased(ValueId x, const std::string& name, const Shape& of_bias, std::int64_t fan_in,
                 Start start) {
    const ValueId bias = weight(name + ".bias", of_bias, fan_in, start);
    b_.set_labels(bias, "bias", "bias");
    return b_.apply_one(op::AddBias{}, {x, bias}, name);
  }

  /// As PyTorch starts layers: uniform from -b to b, b = 1 / sqrt(fan-in of the whole).
  ValueId weight(const std::string& name, const Shape& shape, std::int64_t fan_in, Start start) {
    if (start == Start::zero) return constant(name, shape, 0);
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    return b_.parameter(name, shape, op::InitUniform{random_stream(name), bound, shape});
  }

  ValueId constant(const std::string& name, const Shape& shape, double value) {
    const ValueId id = b_.parameter(name, shape, op::Fill{.value = value, .shape = shape});
    return id;
  }

  ValueId silu(ValueId x, const std::string& name) {
    return b_.apply_one(op::Silu{}, {x}, name + ".silu");
  }

  ValueId dropout(ValueId x, const std::string& name) {
    if (use_ != Use::train || spec_.dropout == 0) return x;
    const std::string of = name + ".dropout";
    const op::SampleWindow window{0, samples_, 0};
    return b_.apply_one(op::Dropout{random_stream(of), spec_.dropout, window},
                        {x, b_.field("step.seed"), b_.field("step.step")}, of);
  }

  /// "conv1.weight" of one, "conv1.weight.0" of several.
  static std::string numbered(const std::string& name, std::size_t index, std::size_t count) {
    return count == 1 ? name : format("{}.{}", name, index);
  }

  const UnetSpec& spec_;
  Builder& b_;
  Use use_;
  std::int64_t samples_, next_layer_ = 0;
  ValueId told_;
  Values skips_;  // what the way down has made, for the way up
};

Denoiser denoiser_of(const UnetSpec& spec, const BatchShape& batch) {
  const auto output = [&spec, samples = batch.samples](Builder& builder, Use use,
                                                       const NoisedPictures& x) {
    return Unet(spec, builder, use, samples).output(x);
  };
  return {.output = output,
          .picture = {spec.picture[0], spec.picture[1], spec.picture[2]},
          .samples = batch.samples,
          .samples_of_step = batch.global_batch,
          .spec = spec.diffusion,
          .is_conditional = spec.class_conditional};
}

graph::Graph graph_of_one_sample(const UnetSpec& spec) {
  return training_graph(denoiser_of(spec, {}), {});
}

}  // namespace

graph::ModelGraphs build(const UnetSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes) {
  require(spec.picture.size() == 3 && spec.num_classes >= 1,
          "a U-Net knows its pictures and their classes");
  const Denoiser denoiser = denoiser_of(spec, batch);
  std::vector<graph::Graph> graphs = {
      training_graph(denoiser_of(spec, batch.of_chunk()), optimizer), evaluation_graph(denoiser)};
  if (writes == Writes::samples) {
    graphs.push_back(bound_graph(denoiser));
    graphs.push_back(denoising_graph(denoiser));
  }
  return with_state_graphs(std::move(graphs), num_layers(spec));
}

std::vector<ParameterCount> count_parameters(const UnetSpec& spec) {
  std::vector<ParameterCount> counts;
  for (const graph::Value& value : graph_of_one_sample(spec).values) {
    if (value.role != graph::ValueRole::parameter) continue;
    const std::string stem = value.name.substr(0, value.name.find('.'));
    auto of = std::ranges::find(counts, stem, &ParameterCount::name);
    if (of == counts.end()) of = counts.insert(of, {stem, 0});
    of->parameters += value.shape.elements();
  }
  return counts;
}

double model_flops_per_step(const UnetSpec& spec, std::int64_t global_batch, std::int64_t) {
  const graph::Graph graph = graph_of_one_sample(spec);
  double flops = 0;
  for (const graph::Node& node : graph.nodes) {
    if (!op::is_counted_in_flops(op::work_class(node.op))) continue;
    flops += graph::flops_of(graph, node);
  }
  return flops * static_cast<double>(global_batch);
}

std::string describe(const UnetSpec& spec) {
  std::string mult;
  for (const std::int64_t factor : spec.channel_mult)
    mult += format("{}{}", mult.empty() ? "" : ", ", factor);
  return format("U-Net: {} channels times {}, {} a level; pictures {}x{}x{}, {} steps of noise",
                spec.channels, mult, counted(spec.layers_per_level, "residual block"),
                spec.picture[0], spec.picture[1], spec.picture[2], spec.diffusion.steps);
}

std::int64_t num_layers(const UnetSpec& spec) {
  const auto levels = static_cast<std::int64_t>(spec.channel_mult.size());
  return levels * (2 * spec.layers_per_level + 1) + 2;
}

UnetSpec smallest_alike(UnetSpec spec) {
  if (spec.picture.empty()) {
    const std::int64_t side = std::int64_t{1} << (spec.channel_mult.size() - 1);
    spec.picture = {side, side, 3};
  }
  if (spec.num_classes == 0) spec.num_classes = 1;
  return spec;
}

DataFacts data_facts(const UnetSpec& spec) {
  return {.num_labels = spec.num_classes, .picture = spec.picture};
}

void settle(UnetSpec& spec, const DataFacts& facts) {
  spec.num_classes = facts.num_labels;
  spec.picture = facts.picture;
}

bool is_told_labels(const UnetSpec& spec) {
  return spec.class_conditional;
}

}  // namespace fourfold::model
