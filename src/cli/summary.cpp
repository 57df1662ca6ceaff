#include "cli/summary.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "model/gpt.h"

namespace fourfold::cli {
namespace {

std::string line(std::string_view label, const std::string& text) {
  return format("{:<11} {}\n", label, text);
}

std::string model_lines(const config::Config& config) {
  const model::GptSpec& m = config.model;
  const auto parts = model::count_parameters(m);
  std::int64_t total = 0;
  std::string list;
  for (const auto& part : parts) {
    total += part.parameters;
    list += format("{}{} {}", list.empty() ? "" : ", ", part.part,
                   format_count(static_cast<double>(part.parameters)));
  }
  return line("model",
              format("GPT: {} layers, {} heads, {} wide, ffn {}, vocabulary {}{}{}", m.num_layers,
                     m.num_attention_heads, m.hidden_size, m.ffn_hidden_size, m.vocab_size,
                     m.bias ? "" : ", no biases", m.tied_head ? ", tied head" : "")) +
         line("parameters", format("{} = {}", format_grouped(total), list));
}

std::string batch_lines(const plan::Plan& plan) {
  const plan::Batching& b = plan.batching;
  std::string mesh;
  for (const Axis& axis : plan.meshes[0].axes) mesh += format(" {} {}", axis.name, axis.size);
  return line("batch",
              format(
                  "{} = {} micro x {} accumulation x {} replicas, {} tokens each: {} tokens a step",
                  b.global_batch, b.micro_batch, b.accumulation, b.replicas, b.length,
                  format_grouped(b.global_batch * b.length))) +
         line("mesh", format("{} rank{}:{}", plan.world, plan.world == 1 ? "" : "s", mesh));
}

std::string memory_lines(const program::Bundle& bundle) {
  std::string classes;
  for (const auto& entry : program::persistent_memory_by_role(bundle.programs[0])) {
    if (entry.bytes < 1024) continue;  // blocks and counters
    classes += format("{} {}, ", program::to_string(entry.role), format_bytes(entry.bytes));
  }
  return line("memory", format("{} = {}activations, gradients and scratch {}",
                               format_bytes(bundle.persistent_bytes + bundle.transient_bytes),
                               classes, format_bytes(bundle.transient_bytes)));
}

}  // namespace

std::string summary(const Job& job) {
  const config::Config& config = job.config;
  const double model_flops = model::model_flops_per_step(
      config.model, job.plan.batching.global_batch, job.plan.batching.length);
  const double hardware_flops = program::total_flops(job.bundle.at("train"));
  const std::int64_t blocks = job.plan.checkpointing.blocks;
  const std::string checkpointing = blocks == 0   ? "none"
                                    : blocks == 1 ? "full"
                                                  : format("every {}", blocks);
  return line("run", format("{}: {} steps into {}", config.name, config.train.steps, config.dir)) +
         model_lines(config) + batch_lines(job.plan) + memory_lines(job.bundle) +
         line("precision", format("{}, activation checkpointing {}", to_string(job.plan.compute),
                                  checkpointing)) +
         line("step", format("{} instructions, {} model flops, {} executed",
                             job.bundle.at("train").instructions.size(), format_count(model_flops),
                             format_count(hardware_flops))) +
         line("kernels",
              format("{}, {} thread{}", config.kernels == "reference" ? "reference" : "cpu",
                     job.target.threads, job.target.threads == 1 ? "" : "s"));
}

}  // namespace fourfold::cli
