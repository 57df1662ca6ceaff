// A folder with a model of Hugging Face read into our names and shapes. No tokenizer.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/stored_model.h"
#include "interop/hub_family.h"

namespace fourfold::interop {

/// A folder whose config.json and tensors fit each other.
struct HubFolder {
  HubModel model;
  std::unique_ptr<checkpoint::StoredModel> tensors;  // under their names
};

/// Reads config.json, and model.safetensors or the files of model.safetensors.index.json. Names may
/// lack the family's prefix; what old files hold beside the parameters is left aside, and so is a
/// head that equals the embedding it is tied to. Errors: UserError(no_checkpoint) naming the file:
/// what is missing, damaged, of no family that is known, or every tensor that is missing, too many
/// or of another shape.
HubFolder open_hub_folder(const std::string& folder);

/// Writes all parameters, as float32 under our names, to a file of ours. Memory: a few tensors.
void import_hub(HubFolder& folder, const std::string& path);

}  // namespace fourfold::interop
