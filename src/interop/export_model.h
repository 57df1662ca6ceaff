// A trained model in the files of other tools. Not where it comes from (checkpoint/stored_model.h),
// and no tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/stored_model.h"
#include "interop/hub_family.h"

namespace fourfold::interop {

struct HubOptions {
  checkpoint::ElementType dtype = DType::f32;   // a floating type
  bool untie = false;                           // writes the head of a tied model too
  std::int64_t max_file_bytes = INT64_MAX;      // of tensors in a file
  std::int64_t end_of_text = -1;                // id of the token; below 0: none
  std::vector<std::int32_t> ends_of_text = {};  // all, where there are several
  std::int64_t begin_of_text = -1;              // "; as `generate` begins without a prompt
};

/// Writes what from_pretrained of a class of transformers reads into a folder that is there:
/// config.json, generation_config.json, and the tensors in model.safetensors, or in several files
/// and an index. Biases that the class has and the model has not are zeros there. A tensor that is
/// larger than max_file_bytes has a file of its own. Errors: UserError(bad_config) for values that
/// the dtype cannot hold, and for a model that no class computes; UserError(no_checkpoint) for
/// tensors that are missing or other than the spec says, all listed; UserError(storage). Memory:
/// a few tensors. Requires that a family has such models.
void export_hub(checkpoint::StoredModel& model, const model::Spec& spec, const HubOptions& options,
                const std::string& folder);

/// All parameters under our names in one file; floating ones in `dtype` where it is given.
void export_safetensors(checkpoint::StoredModel& model,
                        std::optional<checkpoint::ElementType> dtype, const std::string& path);

}  // namespace fourfold::interop
