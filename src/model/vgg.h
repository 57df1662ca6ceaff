// VGG written in graph/: 3 x 3 convolutions with ReLU, max-pooling, linear layers with dropout
// (Simonyan, Zisserman 2015, arXiv:1409.1556, section 2), without their local response
// normalisation. No ranks, no devices. model.h says what each function gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/optimizer_spec.h"
#include "model/batch_shape.h"
#include "model/vgg_spec.h"

namespace fourfold::model {

/// Inputs: "pictures", bytes, and "labels", a class each. Requires a picture, classes, and no more
/// pooling than halves a side of the picture to one pixel. Writes no text.
graph::ModelGraphs build(const VggSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes = Writes::nothing);

std::vector<ParameterCount> count_parameters(const VggSpec& spec);

/// Two operations for each product of the convolutions and linear layers, three times: forward,
/// the gradients of inputs and those of weights; the first convolution has no gradient of its
/// input.
double model_flops_per_step(const VggSpec& spec, std::int64_t global_batch, std::int64_t length);

std::string describe(const VggSpec& spec);
/// The stretches between poolings.
std::int64_t num_layers(const VggSpec& spec);
VggSpec smallest_alike(VggSpec spec);

DataFacts data_facts(const VggSpec& spec);
void settle(VggSpec& spec, const DataFacts& facts);

}  // namespace fourfold::model
