// A folder of Hugging Face's GPT-2 read into our names and shapes. No tokenizer.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/stored_model.h"
#include "interop/gpt2_config.h"

namespace fourfold::interop {

/// A folder whose config.json and tensors fit each other.
struct Gpt2Folder {
  ImportedGpt2 model;
  std::unique_ptr<checkpoint::StoredModel> tensors;  // under their names
};

/// Reads config.json, and model.safetensors or the files of model.safetensors.index.json. Names may
/// lack "transformer."; causal masks are left aside, and so is a head that equals the embedding it
/// is tied to. Errors: UserError(no_checkpoint) naming the file: what is missing, damaged, no
/// GPT-2, or every tensor that is missing, too many or of another shape.
Gpt2Folder open_gpt2_folder(const std::string& folder);

/// Writes all parameters, as float32 under our names, to a file of ours. Memory: two tensors.
void import_gpt2(Gpt2Folder& folder, const std::string& path);

}  // namespace fourfold::interop
