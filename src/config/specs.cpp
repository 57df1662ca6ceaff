// What a configuration hands on to other rooms.
#include <algorithm>

#include "config/config.h"
#include "data/format.h"
#include "model/model.h"

namespace fourfold::config {
namespace {

/// As many of a rank's samples as it processes at once: all of them or, in a pipeline, so few that
/// each mesh has at least four micro-batches in a step, and so waits for a fifth of it at most.
/// Where stages share meshes, these divide the micro-batches if they can.
std::int64_t micro_batch_of(std::int64_t samples, const plan::PipelineSpec& pipeline) {
  if (pipeline.stages == 1) return samples;
  const std::int64_t meshes = std::max<std::int64_t>(pipeline.meshes(), 1),
                     group = pipeline.stages_per_mesh > 1 ? meshes : 1;
  std::int64_t micro = std::max<std::int64_t>(samples / (4 * meshes), 1);
  while (micro > 1 && samples % (micro * group) != 0) --micro;
  return micro;
}

}  // namespace

plan::PlanSpec Config::plan_spec() const {
  plan::PlanSpec spec = plan;
  const std::int64_t whole = spec.global_batch_size, replicas = spec.grid.data * spec.grid.z;
  // Where it cannot be divided, 1: the batch is then found wrong, not the micro-batch.
  spec.micro_batch_size = micro_batch_size.value_or(
      whole % replicas == 0 ? micro_batch_of(whole / replicas, spec.pipeline) : 1);
  for (plan::Grid& grid : spec.pipeline.grids) grid.order = spec.grid.order;
  spec.seq_length = family().reads == model::Reads::text ? data.seq_length : 1;
  return spec;
}

data::DataSpec Config::data_spec() const {
  data::DataSpec spec = data;
  const auto [num_labels, picture] = model::data_facts(model());
  const bool is_text = family().reads == model::Reads::text;
  spec.seed = seed;
  spec.samples_per_step = plan.global_batch_size;
  spec.vocab_size = is_text && !data::row_of(spec.format).has_words ? num_labels : 0;
  spec.is_of_pictures = !is_text;
  if (picture.size() == 3) spec.picture = {picture[0], picture[1], picture[2]};
  spec.num_classes = is_text ? 0 : num_labels;
  return spec;
}

train::TrainSpec Config::train_spec() const {
  train::TrainSpec spec = train;
  spec.run_name = name;
  spec.run_dir = dir;
  spec.seed = seed;
  return spec;
}

generate::SampleSpec Config::sample_spec() const {
  generate::SampleSpec spec = sample;
  spec.seed = seed;
  spec.capacity = model::longest_text(model::with_longest_text(model(), data.seq_length));
  return spec;
}

}  // namespace fourfold::config
