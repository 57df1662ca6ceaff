// Jobs of one rank and their specifications, of models that have what a model may have. Header
// only.
#pragma once

#include <string>
#include <vector>

#include "specification/specify.h"
#include "support/grids.h"

namespace fourfold::test {

struct SpecifiedJob {
  std::string name;
  RunSetup setup;

  graph::ModelGraphs serial_graphs() const {
    return model::build_serial(
        setup.model(),
        {setup.samples(), setup.plan.seq_length, setup.plan.global_batch_size,
         setup.masks_documents, setup.restarts_positions, setup.plan.chunks},
        setup.optimizer, setup.writes);
  }
  program::Job specification(DType type = DType::f64) const {
    return specification::specify(serial_graphs(), type);
  }
};

/// All of them in float64, in several micro-batches.
inline std::vector<SpecifiedJob> specified_jobs() {
  RunSetup gpt;
  gpt.gpt = eight_heads();
  gpt.gpt.dropout = 0.1;
  gpt.plan = {.global_batch_size = 16, .micro_batch_size = 4, .seq_length = 8};
  gpt.plan.compute = DType::f64;

  RunSetup untied = gpt;
  untied.gpt.tied_head = false;
  untied.gpt.wide_residual = true;
  untied.plan.seq_length = 6;
  untied.masks_documents = untied.restarts_positions = true;

  RunSetup in_chunks = gpt;
  in_chunks.gpt.bias = false;
  in_chunks.gpt.dropout = 0;
  in_chunks.plan.micro_batch_size = 8;
  in_chunks.plan.chunks = 2;
  in_chunks.optimizer = graph::OptimizerSpec::of(op::Sgd{.nesterov = true});

  RunSetup llama = untied;
  llama.llama = model::LlamaSpec{.num_layers = 2,
                                 .num_attention_heads = 6,
                                 .num_key_value_heads = 2,
                                 .head_dim = 4,
                                 .hidden_size = 32,
                                 .ffn_hidden_size = 48,
                                 .max_position_embeddings = 8,
                                 .vocab_size = 37,
                                 .attention_bias = model::AttentionBias::all,
                                 .mlp_bias = true,
                                 .head_norm = true};

  RunSetup vgg = picture_model();
  vgg.plan.global_batch_size = 12;
  vgg.plan.micro_batch_size = 4;

  RunSetup unet = diffusion_model();
  unet.plan.global_batch_size = 8;
  unet.plan.micro_batch_size = 4;

  RunSetup by_loss = unet;
  by_loss.unet->class_conditional = false;
  by_loss.unet->scale_shift_norm = false;
  by_loss.unet->diffusion.learn_sigma = false;
  by_loss.unet->diffusion.time_sampling = model::TimeSampling::importance;
  by_loss.unet->diffusion.sampling = {.sampler = model::Sampler::ddpm, .steps = 0};
  return {{"gpt", gpt},
          {"gpt_of_documents", untied},
          {"gpt_in_chunks", in_chunks},
          {"llama", llama},
          {"vgg", vgg},
          {"unet", unet},
          {"unet_by_loss", by_loss}};
}

}  // namespace fourfold::test
