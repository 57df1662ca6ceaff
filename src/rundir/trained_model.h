// A model that was trained or imported: its configuration, its tokenizer and where its parameters
// are. Not what is computed with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "checkpoint/stored_model.h"
#include "config/config.h"

namespace fourfold::rundir {

struct TrainedModel {
  config::Config config;        // in fp32 where kernels of a CPU are to compute what was bf16
  std::string path;             // for messages
  std::string tokenizer;        // as text; empty: none
  std::string tokenizer_place;  // where that stands, for messages
  std::string origin;           // "the final weights", "the checkpoint of step 1200"
  std::unique_ptr<checkpoint::StoredModel> parameters;

  /// The text of its tokenizer. Errors: UserError(bad_config) where the model is not one of text.
  const std::string& text_tokenizer() const;
};

/// Refuses a step of which the store of `run` has no checkpoint, and names those that it has.
/// Errors: UserError(no_checkpoint).
void require_step(const checkpoint::Store& store, const std::string& run, std::int64_t step);

/// `path`: a run directory, what `fourfold import` made, or one checkpoint. `step`: of the
/// checkpoint; none: the final weights or, of a run that has none, the newest checkpoint. Errors:
/// UserError(no_checkpoint).
TrainedModel open_trained_model(const std::string& path, std::optional<std::int64_t> step);

}  // namespace fourfold::rundir
