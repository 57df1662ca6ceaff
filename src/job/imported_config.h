// The configuration from which an imported model is trained further.
#pragma once

#include <string>

#include "model/model_spec.h"
#include "tokenizer/tokenizer_files.h"

namespace fourfold::job {

/// As YAML. `run_dir`: where the model and its tokenizer lie. The text to train on stays open.
std::string imported_yaml(const model::Spec& spec, const tokenizer::FoundTokenizer& found,
                          const std::string& run_dir);

}  // namespace fourfold::job
