// What other methods send in a training step for the same linears, in closed form: Megatron, ZeRO-3
// and FSDP, two and two and a half dimensions, Google's two-dimensional weights, and pipelines of
// stages that are Megatron's. Pure functions over numbers, for comparison: the program trains by
// none of those in two and a half dimensions.
//
// Volumes are what one rank sends in forward and backward pass, in elements.
#pragma once

#include <cstdint>
#include <vector>

#include "search/axonn_forms.h"

namespace fourfold::search {

/// Megatron (Shoeybi et al. 2019, arXiv:1909.08053): AxoNN's equations with y = z = 1.
double megatron_volume(double ranks, double data, const std::vector<Linear>& linears);

/// How often parameters that lie cut over all ranks are gathered in one micro-batch.
enum class Gathers : std::uint8_t {
  kept,   // once: what the forward pass gathered stays, as AxoNN has it
  again,  // again in the backward pass: ZeRO-3 (Rajbhandari et al. 2020, arXiv:1910.02054)
};
/// Parameters cut over `ranks`: gathered, and their gradients reduce-scattered, in each of `micros`
/// micro-batches. It is x = y = data = 1 of AxoNN where gathers are kept.
double sharded_volume(double ranks, double parameters, double micros, Gathers gathers);

/// What is sent along the rows, columns and depth of a mesh of q x q x depth ranks.
struct DimVolumes {
  double rows = 0, columns = 0, depth = 0;
  double total() const { return rows + columns + depth; }
};
/// SUMMA on q x q ranks (Optimus: Xu et al. 2021, arXiv:2104.05343): each of the three products of
/// a linear sends two matrices, (q - 1) blocks of 1 / q^2 each: the input twice and its gradient
/// along rows, the weight twice and its gradient along columns. With `depth` copies of the weight,
/// each of which has that share of the input's rows (Tesseract: Wang et al. 2021,
/// arXiv:2105.14500), its gradients are all-reduced along the depth.
DimVolumes summa_volume(double q, double depth, const std::vector<Linear>& linears);

/// The time of ATP's equation 2, in seconds by 2 L b s h elements at one rate, on q^2 ranks of the
/// mesh that resembles Google's (Pope et al. 2022, arXiv:2211.05102): (q/2, 2q), as ATP prints it,
/// and its transpose (2q, q/2), which is better: (30 q - 18) / q^2 and (15 q - 18) / q^2.
double google_cost(double q);
double google_transposed_cost(double q);

/// Three dimensions: stages of `tensor` ranks as Megatron has them, in `data` copies. Each stage
/// has `chunks` runs of layers that are no neighbours (interleaving).
struct PipelineShape {
  double tensor = 1, stages = 1, data = 1, chunks = 1;
  double micros = 1;  // micro-batches of a step in each copy
};
/// The time that stages wait, by the time in which they compute (Narayanan et al. 2021,
/// arXiv:2104.04473, section 2.2): (p - 1) / (v m).
double waiting_share(const PipelineShape& shape);

/// How a stage sends an activation that all of its tensor ranks have.
enum class Boundary : std::uint8_t {
  whole,     // each of them sends all of it
  scattered  // each of them a share, and the receivers gather (section 4.1 of the same)
};
/// What a rank sends to other stages in a step: the activations of each of its runs of layers, and
/// as many gradients. An activation of all copies has `elements`.
double boundary_volume(const PipelineShape& shape, double elements, Boundary boundary);

}  // namespace fourfold::search
