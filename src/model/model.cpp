#include "model/model.h"

#include "model/gpt.h"
#include "model/llama.h"
#include "model/unet.h"
#include "model/vgg.h"

namespace fourfold::model {
namespace {

template <class Found, class AnySpec>
Found* find_diffusion(AnySpec& spec) {
  return std::visit(
      []<class Of>(Of& of) -> Found* {
        if constexpr (Of::family.makes == Makes::pictures)
          return &of.diffusion;
        else
          return nullptr;
      },
      spec);
}

}  // namespace

graph::ModelGraphs build(const Spec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes) {
  return std::visit([&](const auto& of) { return build(of, batch, optimizer, writes); }, spec);
}

graph::ModelGraphs build_serial(const Spec& spec, const BatchShape& batch,
                                const graph::OptimizerSpec& optimizer, Writes writes) {
  graph::ModelGraphs graphs = build(spec, batch, optimizer, writes);
  BatchShape step = batch;
  step.samples = batch.global_batch;
  step.chunks = 1;
  for (graph::Graph& graph : graphs.graphs)
    if (graph.kind == op::ProgramKind::train)
      graph = build(spec, step, optimizer).at(op::ProgramKind::train);
  return graphs;
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

const Family& family(const Spec& spec) {
  return families[spec.index()];
}

DataFacts data_facts(const Spec& spec) {
  return std::visit([](const auto& of) { return data_facts(of); }, spec);
}

bool needs_data(const Spec& spec) {
  const DataFacts facts = data_facts(spec);
  return facts.num_labels == 0 || (family(spec).reads == Reads::pictures && facts.picture.empty());
}

Spec settled(Spec spec, const DataFacts& facts) {
  std::visit([&](auto& of) { settle(of, facts); }, spec);
  return spec;
}

std::int64_t longest_text(const Spec& spec) {
  return std::visit(
      []<class Of>(const Of& of) -> std::int64_t {
        if constexpr (Of::family.reads == Reads::text)
          return longest_text(of);
        else
          return 0;
      },
      spec);
}

Spec with_longest_text(Spec spec, std::int64_t tokens) {
  std::visit(
      [tokens]<class Of>(Of& of) {
        if constexpr (requires { shorten(of, tokens); }) shorten(of, tokens);
      },
      spec);
  return spec;
}

std::int64_t stream_width(const Spec& spec) {
  return std::visit(
      []<class Of>(const Of& of) -> std::int64_t {
        if constexpr (Of::family.has_residual_stream)
          return stream_width(of);
        else
          return 0;
      },
      spec);
}

Spec with_wide_residual(Spec spec, bool is_wide) {
  std::visit(
      [is_wide]<class Of>(Of& of) {
        if constexpr (Of::family.has_residual_stream) of.wide_residual = is_wide;
      },
      spec);
  return spec;
}

Spec with_layers(Spec spec, std::int64_t layers) {
  std::visit(
      [layers]<class Of>(Of& of) {
        if constexpr (Of::family.has_equal_layers) of.num_layers = layers;
      },
      spec);
  return spec;
}

const DiffusionSpec* diffusion(const Spec& spec) {
  return find_diffusion<const DiffusionSpec>(spec);
}

DiffusionSpec* diffusion(Spec& spec) {
  return find_diffusion<DiffusionSpec>(spec);
}

bool is_told_labels(const Spec& spec) {
  return std::visit(
      []<class Of>(const Of& of) {
        if constexpr (Of::family.makes == Makes::pictures)
          return is_told_labels(of);
        else
          return false;
      },
      spec);
}

}  // namespace fourfold::model
