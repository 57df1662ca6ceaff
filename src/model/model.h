// What everyone may ask of a model, whatever its family. A family is a pair of files that answers
// the same questions for its own spec: gpt.h, vgg.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/optimizer_spec.h"
#include "model/batch_shape.h"
#include "model/model_spec.h"

namespace fourfold::model {

/// All graphs of the model over common parameters: "init", "train" (with gradients and update),
/// "evaluate", "digest"; of a model that writes text, where asked for, also "prefill" and "decode".
graph::ModelGraphs build(const Spec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes = Writes::nothing);

/// Number of parameters by part of the model, in the order of the model; parts of equal layers are
/// added up.
std::vector<ParameterCount> count_parameters(const Spec& spec);

/// Floating-point operations of one training step, forward and backward, without recomputation.
double model_flops_per_step(const Spec& spec, std::int64_t global_batch, std::int64_t length);

/// "GPT: 4 layers, 4 heads, 128 wide ...": for people.
std::string describe(const Spec& spec);

/// The units of activation checkpointing.
std::int64_t num_layers(const Spec& spec);

/// A model that ranks divide as they divide this one, and that is quick to plan. What data would
/// say is filled in.
Spec smallest_alike(const Spec& spec);

}  // namespace fourfold::model
