// What everyone may ask of a model, whatever its family. A family is a pair of files that answers
// the same questions for its own spec: gpt.h, vgg.h. Those that only some families answer (the text
// they are fed, the pictures they make) are asked of these alone, as the family says.
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

/// As `build`, but with the training graph of the serial program of a step: one micro-batch of all
/// its samples, in one chunk.
graph::ModelGraphs build_serial(const Spec& spec, const BatchShape& batch,
                                const graph::OptimizerSpec& optimizer,
                                Writes writes = Writes::nothing);

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

/// What the family of a model is.
const Family& family(const Spec& spec);

/// What a model takes the data to be.
DataFacts data_facts(const Spec& spec);
/// True if data_facts waits for the data.
bool needs_data(const Spec& spec);
/// The model that takes the data to be this. Whether they fit its other sizes is not looked at.
Spec settled(Spec spec, const DataFacts& facts);

/// Tokens of the longest text that a model can be fed; 0 of one that is fed none.
std::int64_t longest_text(const Spec& spec);
/// The model for texts of at most so many tokens; one that has learned its positions keeps all.
Spec with_longest_text(Spec spec, std::int64_t tokens);
/// The width of the residual stream, which an axis that cuts it has to divide; 0 where there is
/// none.
std::int64_t stream_width(const Spec& spec);
/// The model whose residual stream, if it has one, is kept in the type of sums or not.
Spec with_wide_residual(Spec spec, bool is_wide);
/// The model with so many layers. One whose layers are not alike keeps its own.
Spec with_layers(Spec spec, std::int64_t layers);

/// How a model that makes pictures is trained and makes them; null of any other.
const DiffusionSpec* diffusion(const Spec& spec);
DiffusionSpec* diffusion(Spec& spec);
/// True if a model that makes pictures is told what they are to show.
bool is_told_labels(const Spec& spec);

}  // namespace fourfold::model
