// The configuration in which one rank uses a trained model, however many have trained it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace fourfold::job {

/// What computes: run.threads and run.device of the command, not of the training.
struct Server {
  int threads = 0;
  std::string device;
};

/// For writing text.
config::Config writing_config(config::Config trained, const Server& server);

/// For making so many pictures, at most 16 at once.
config::Config picture_config(config::Config trained, const Server& server, std::int64_t count);

/// For judging a text of so many labels, in windows of so many tokens; none: as trained. Errors:
/// UserError(bad_config) for a window that is longer than the model can look at.
config::Config scoring_config(config::Config trained, const Server& server,
                              std::optional<std::int64_t> window, std::int64_t labels);

}  // namespace fourfold::job
