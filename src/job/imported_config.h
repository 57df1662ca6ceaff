// The configuration from which an imported model is trained further.
#pragma once

#include <string>

#include "config/config.h"
#include "data/tokenizer_files.h"
#include "model/gpt_spec.h"

namespace fourfold::job {

/// `run_dir`: where the model and its tokenizer lie. The text to train on stays open.
config::Config imported_config(const model::GptSpec& spec, const data::FoundTokenizer& found,
                               const std::string& run_dir);

}  // namespace fourfold::job
