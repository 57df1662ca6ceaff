#include "model/model.h"

#include "model/gpt.h"
#include "model/unet.h"
#include "model/vgg.h"

namespace fourfold::model {

graph::ModelGraphs build(const Spec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes) {
  return std::visit([&](const auto& of) { return build(of, batch, optimizer, writes); }, spec);
}

std::vector<ParameterCount> count_parameters(const Spec& spec) {
  return std::visit([](const auto& of) { return count_parameters(of); }, spec);
}

double model_flops_per_step(const Spec& spec, std::int64_t global_batch, std::int64_t length) {
  return std::visit([&](const auto& of) { return model_flops_per_step(of, global_batch, length); },
                    spec);
}

std::string describe(const Spec& spec) {
  return std::visit([](const auto& of) { return describe(of); }, spec);
}

std::int64_t num_layers(const Spec& spec) {
  return std::visit([](const auto& of) { return num_layers(of); }, spec);
}

Spec smallest_alike(const Spec& spec) {
  return std::visit([](const auto& of) { return Spec(smallest_alike(of)); }, spec);
}

}  // namespace fourfold::model
