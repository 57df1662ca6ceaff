// With which text the samples of a run begin. Not what the model writes then (generate/).
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "data/source.h"

namespace fourfold::training_run {

struct SettledPrompt {
  std::string text;
  std::vector<std::string> notes = {};  // what people should know of it
};
/// The sample.prompt of a run that writes samples. Where it is not set and the tokenizer has no ids
/// for its default, samples begin with the first token of the text. Errors: UserError(bad_data) for
/// one that is set and has no ids.
SettledPrompt settle_prompt(const config::Config& config, const data::Source& source);

}  // namespace fourfold::training_run
