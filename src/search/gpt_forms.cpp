#include "search/gpt_forms.h"

namespace fourfold::search {
namespace {

/// `passes` of the layers, each of 24 B s L h^2, the head's three being the same either way.
double flops_of(const GptSizes& sizes, double passes) {
  const auto& [layers, hidden, batch, length, vocabulary] = sizes;
  return 24 * passes * batch * length * layers * hidden * hidden *
         (1 + length / (6 * hidden) + vocabulary / (4 * passes * layers * hidden));
}

}  // namespace

double gpt_parameters(const GptSizes& sizes) {
  return (12 * sizes.layers * sizes.hidden + sizes.vocabulary) * sizes.hidden;
}

double gpt_model_flops(const GptSizes& sizes) {
  return flops_of(sizes, 3);
}

double gpt_recomputed_flops(const GptSizes& sizes) {
  return flops_of(sizes, 4);
}

double step_seconds(double flops, double devices, double peak_flops_per_s, double share) {
  return flops / (devices * peak_flops_per_s * share);
}

}  // namespace fourfold::search
