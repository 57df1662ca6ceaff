// With which text the samples of a run begin. Not what the model writes then (generate/).
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "data/source.h"

namespace fourfold::training_run {

/// Settles sample.prompt of a run that writes samples. Where it is not set and the tokenizer has no
/// ids for its default, samples begin with the first token of the text. Returns what people
/// should know of the prompt. Errors: UserError(bad_data) for one that is set and has no ids.
std::vector<std::string> settle_prompt(config::Config& config, const data::Source& source);

}  // namespace fourfold::training_run
