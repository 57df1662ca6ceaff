#include "search/resharding_forms.h"

#include "base/error.h"

namespace fourfold::search {

GptLayerMemory gpt_layer_memory(const GptLayerShape& shape) {
  const std::int64_t weights = 12 * shape.hidden * shape.hidden;
  require(weights % shape.tensor_ranks == 0, "the ranks of a tensor divide a layer's weights");
  const std::int64_t parameters = weights / shape.tensor_ranks,
                     activations = shape.micro_batch * shape.sequence * shape.hidden;
  constexpr std::int64_t half_bytes = 2, float_bytes = 4;
  return {.parameters = parameters,
          .optimizer_parameters = 2 * parameters,
          .activation_elements = activations,
          .weights_and_optimizer_bytes = parameters * (half_bytes + 3 * float_bytes),
          .activation_bytes = activations * half_bytes};
}

}  // namespace fourfold::search
