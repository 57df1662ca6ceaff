// B batch, H and W height and width, C channels, K classes.
#include "model/vgg.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "graph/builder.h"
#include "model/training.h"

namespace fourfold::model {
namespace {

using graph::Builder;
using graph::ValueId;

constexpr std::int64_t kernel = 3;

/// One layer with weights, as it meets its input.
struct Layer {
  std::string name;                      // "convolutions"
  std::int64_t inputs = 0, outputs = 0;  // of each product: fan-in, and channels that it gives
  std::int64_t positions = 1;            // products of a sample for each output
  std::int64_t parameters() const { return (inputs + 1) * outputs; }
  double products() const {
    return static_cast<double>(inputs) * static_cast<double>(outputs) *
           static_cast<double>(positions);
  }
};

/// Walks the layers in order; pooling halves height and width, rounding down.
std::vector<Layer> layers_of(const VggSpec& spec) {
  std::vector<Layer> layers;
  std::int64_t height = spec.picture[0], width = spec.picture[1], channels = spec.picture[2];
  for (const std::int64_t given : spec.widths) {
    if (given == 0) {
      height /= 2, width /= 2;
      continue;
    }
    layers.push_back({"convolutions", kernel * kernel * channels, given, height * width});
    channels = given;
  }
  std::int64_t inputs = height * width * channels;
  for (const std::int64_t given : spec.hidden) {
    layers.push_back({"linear layers", inputs, given});
    inputs = given;
  }
  layers.push_back({"head", inputs, spec.num_classes});
  return layers;
}

class Vgg {
 public:
  Vgg(const VggSpec& spec, Builder& builder, Use use, std::int64_t samples)
      : spec_(spec), b_(builder), use_(use), samples_(samples) {}

  /// Pictures (B, H, W, C) to logits (B, K).
  ValueId logits() {
    ValueId x = pictures();
    std::int64_t convolutions = 0, layer = 0;
    for (const std::int64_t width : spec_.widths) {
      b_.set_layer(layer);
      if (width == 0) {
        b_.set_label("pool");
        x = b_.apply_one(op::MaxPool{.size = 2, .stride = 2}, {x}, format("pool.{}", layer++));
      } else {
        x = convolution(x, format("conv.{}", convolutions++), width);
      }
    }
    b_.set_layer(std::nullopt);
    for (std::size_t i = 0; i < spec_.hidden.size(); ++i) {
      const std::string name = format("linear.{}", i);
      x = relu(linear(x, name, spec_.hidden[i]), name);
      x = dropout(x, name);
    }
    return linear(x, "head", spec_.num_classes);
  }

 private:
  ValueId pictures() {
    const std::vector<std::int64_t>& shape = spec_.picture;
    b_.set_label("pictures");
    const ValueId bytes =
        b_.input("pictures", {samples_, shape[0], shape[1], shape[2]}, op::Element::u8);
    return b_.apply_one(op::Normalize{of_channels(spec_.mean), of_channels(spec_.deviation)},
                        {bytes}, "normalized");
  }

  std::vector<double> of_channels(const std::vector<double>& numbers) const {
    const auto channels = static_cast<std::size_t>(spec_.picture[2]);
    return numbers.size() == 1 ? std::vector<double>(channels, numbers[0]) : numbers;
  }

  /// He et al. 2015 (arXiv:1502.01852), equation 10: variance 2 / fan-in keeps that of activations
  /// through layers with ReLU. The last layer begins small, as in section 3.1 of the paper of VGG,
  /// so that no class is favoured at first.
  ValueId weight(const std::string& name, const Shape& shape, std::int64_t fan_in) {
    const double stddev = name == "head.weight" ? 0.01 : std::sqrt(2 / static_cast<double>(fan_in));
    return b_.parameter(name, shape, op::InitNormal{random_stream(name), stddev, shape});
  }

  ValueId biased(ValueId x, const std::string& name, std::int64_t width) {
    const ValueId bias =
        b_.parameter(name + ".bias", {width}, op::Fill{.value = 0, .shape = {width}});
    b_.set_labels(bias, "bias", "bias");
    return b_.apply_one(op::AddBias{}, {x, bias}, name + ".biased");
  }

  ValueId relu(ValueId x, const std::string& name) {
    return b_.apply_one(op::Relu{}, {x}, name + ".relu");
  }

  ValueId convolution(ValueId x, const std::string& name, std::int64_t width) {
    b_.set_label("conv");
    const std::int64_t channels = b_.graph().value(x).shape[3];
    const ValueId w =
        weight(name + ".weight", {width, kernel, kernel, channels}, kernel * kernel * channels);
    const ValueId y =
        b_.apply_one(op::Convolution{.stride = 1, .padding = kernel / 2}, {x, w}, name);
    return relu(biased(y, name, width), name);
  }

  /// All dims of a sample are contracted.
  ValueId linear(ValueId x, const std::string& name, std::int64_t width) {
    b_.set_label(name == "head" ? "head" : "linear");
    Shape shape;
    for (std::size_t dim = 1; dim < b_.graph().value(x).shape.rank(); ++dim)
      shape.push_back(b_.graph().value(x).shape[dim]);
    const op::Contract product{.a_rows = 1, .b_rows = static_cast<std::int64_t>(shape.rank())};
    const std::int64_t fan_in = shape.elements();
    shape.push_back(width);
    const ValueId w = weight(name + ".weight", shape, fan_in);
    return biased(b_.apply_one(product, {x, w}, name), name, width);
  }

  ValueId dropout(ValueId x, const std::string& name) {
    if (use_ != Use::train || spec_.dropout == 0) return x;
    const op::SampleWindow window{0, samples_, 0};
    const std::string of = name + ".dropout";
    return b_.apply_one(op::Dropout{random_stream(of), spec_.dropout, window},
                        {x, b_.field("step.seed"), b_.field("step.step")}, of);
  }

  const VggSpec& spec_;
  Builder& b_;
  Use use_;
  std::int64_t samples_;
};

}  // namespace

graph::ModelGraphs build(const VggSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes) {
  require(spec.picture.size() == 3 && spec.num_classes >= 1,
          "a VGG knows its pictures and its classes");
  const auto classifier = [&](std::int64_t samples) {
    const auto logits = [&spec, samples](Builder& builder, Use use) {
      return Vgg(spec, builder, use, samples).logits();
    };
    return Classifier{.logits = logits,
                      .labels = {samples},
                      .labels_of_step = batch.global_batch,
                      .counts_correct = true};
  };
  return with_state_graphs({training_graph(classifier(batch.of_chunk().samples), optimizer),
                            evaluation_graph(classifier(batch.samples))},
                           num_layers(spec));
}

std::vector<ParameterCount> count_parameters(const VggSpec& spec) {
  std::vector<ParameterCount> counts;
  for (const Layer& layer : layers_of(spec)) {
    if (counts.empty() || counts.back().name != layer.name) counts.push_back({layer.name, 0});
    counts.back().parameters += layer.parameters();
  }
  return counts;
}

double model_flops_per_step(const VggSpec& spec, std::int64_t global_batch, std::int64_t) {
  const std::vector<Layer> layers = layers_of(spec);
  double products = -layers.front().products();
  for (const Layer& layer : layers) products += 3 * layer.products();
  return 2 * products * static_cast<double>(global_batch);
}

std::string describe(const VggSpec& spec) {
  const auto convolutions =
      std::ranges::count_if(spec.widths, [](auto width) { return width > 0; });
  std::string hidden;
  for (const std::int64_t width : spec.hidden)
    hidden += format("{}{}", hidden.empty() ? " of " : ", ", width);
  return format("VGG: {}, {}, {}{}; pictures {}x{}x{}, {} classes",
                counted(convolutions, "convolution"),
                counted(static_cast<std::int64_t>(spec.widths.size()) - convolutions, "pooling"),
                counted(static_cast<std::int64_t>(spec.hidden.size()) + 1, "linear layer"), hidden,
                spec.picture[0], spec.picture[1], spec.picture[2], spec.num_classes);
}

std::int64_t num_layers(const VggSpec& spec) {
  // What stands after the last pooling is a layer of its own.
  const auto poolings = std::ranges::count(spec.widths, 0);
  return poolings + (spec.widths.back() == 0 ? 0 : 1);
}

VggSpec smallest_alike(VggSpec spec) {
  if (spec.picture.empty()) {
    const std::int64_t side = std::int64_t{1} << std::ranges::count(spec.widths, 0);
    spec.picture = {side, side, 3};
  }
  if (spec.num_classes == 0) spec.num_classes = 1;  // padded to any grid
  return spec;
}

DataFacts data_facts(const VggSpec& spec) {
  return {.num_labels = spec.num_classes, .picture = spec.picture};
}

void settle(VggSpec& spec, const DataFacts& facts) {
  spec.num_classes = facts.num_labels;
  spec.picture = facts.picture;
}

}  // namespace fourfold::model
