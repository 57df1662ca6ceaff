// The U-Net of Nichol, Dhariwal 2021 (arXiv:2102.09672, appendix A), which predicts the noise of a
// picture, written in graph/: residual blocks told of the time, attention among the pixels of small
// pictures, and a way up whose blocks read what the way down has made. No ranks, no devices.
// model.h says what each function gives.
//
// The graph has no concatenation: a block that reads two values has a parameter for each where
// other programs have one: "conv1.weight.0" and "conv1.weight.1", which joined along the channels
// read are the weight of the whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/optimizer_spec.h"
#include "model/batch_shape.h"
#include "model/unet_spec.h"

namespace fourfold::model {

/// Inputs: "pictures", bytes, and "labels", a class each. Requires a picture whose sides the levels
/// halve evenly, classes, and channels that the groups of norms divide.
graph::ModelGraphs build(const UnetSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes = Writes::nothing);

std::vector<ParameterCount> count_parameters(const UnetSpec& spec);

/// The operations of all products and of attention, forward and backward, as the graph has them.
double model_flops_per_step(const UnetSpec& spec, std::int64_t global_batch, std::int64_t length);

std::string describe(const UnetSpec& spec);
/// The residual blocks, each with the attention after it.
std::int64_t num_layers(const UnetSpec& spec);
UnetSpec smallest_alike(UnetSpec spec);

DataFacts data_facts(const UnetSpec& spec);
void settle(UnetSpec& spec, const DataFacts& facts);

/// True if the model is told the class of a picture.
bool is_told_labels(const UnetSpec& spec);

}  // namespace fourfold::model
