// What a layer of a GPT and one more micro-batch in flight take of a GPU's memory, by the closed
// forms of Zhuang et al. 2023 (arXiv:2211.05322): why eager-1F1B can afford its warm-up. Not what a
// program needs: that is compiled.
#pragma once

#include <cstdint>

namespace fourfold::search {

/// A layer with the sequence length S, the hidden size H, a micro-batch of B samples on each GPU,
/// and its weights divided among `tensor_ranks` GPUs.
struct GptLayerShape {
  std::int64_t sequence = 1, hidden = 1, micro_batch = 1, tensor_ranks = 1;
};

/// Their Table 1: numbers of one GPU in training with 2-byte
/// weights and activations.
struct GptLayerMemory {
  std::int64_t parameters;                   // 12 H^2 / TMP: 4 H^2 of attention, 8 H^2 of the MLP
  std::int64_t optimizer_parameters;         // 24 H^2 / TMP: two moments
  std::int64_t activation_elements;          // B S H: what a stage sends
  std::int64_t weights_and_optimizer_bytes;  // 168 H^2 / TMP: 2 of each weight, and 4 of its copy
                                             // and of either moment
  std::int64_t activation_bytes;             // 2 B S H
};
/// Requires tensor ranks that divide 12 H^2.
GptLayerMemory gpt_layer_memory(const GptLayerShape& shape);

}  // namespace fourfold::search
