#include "config/settled.h"

#include <utility>

#include "base/error.h"
#include "model/model.h"

namespace fourfold::config {

Settled::Settled(Config config) : config_(std::move(config)) {
  require(!model::needs_data(config_.model()), "a settled run's model needs no data");
  require(config_.open_axes == OpenAxes{}, "a settled run's grid is stated");
}

}  // namespace fourfold::config
