#include "training_run/warning_of_averages.h"

#include <cmath>

#include "base/format.h"
#include "base/units.h"
#include "model/model.h"

namespace fourfold::training_run {

std::optional<std::string> warning_of_averages(const config::Config& config) {
  constexpr double most = 0.1;
  const auto steps = static_cast<double>(config.train.steps);
  const model::Spec model = config.model();
  const model::DiffusionSpec* diffusion = model::diffusion(model);
  const double decay = diffusion == nullptr ? 0 : diffusion->average_decay;
  const double left = std::pow(decay, steps);
  if (left <= most) return std::nullopt;
  return format(
      "diffusion.average_decay {} over {} steps leaves {:.1f}% of the untrained weights in the "
      "averages, which are judged and saved; set it to {:.4f} or less, or train for {} steps",
      decay, format_grouped(config.train.steps), 100 * left,
      std::floor(1e4 * std::pow(most, 1 / steps)) / 1e4,
      format_grouped(std::llround(std::ceil(std::log(most) / std::log(decay)))));
}

}  // namespace fourfold::training_run
