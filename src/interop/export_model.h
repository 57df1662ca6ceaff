// A trained model in the files of other tools. Not where it comes from (checkpoint/stored_model.h),
// and no tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/stored_model.h"
#include "interop/gpt2_config.h"
#include "model/gpt_spec.h"

namespace fourfold::interop {

struct Gpt2Options {
  checkpoint::ElementType dtype = DType::f32;   // a floating type
  bool untie = false;                           // writes the head of a tied model too
  std::int64_t max_file_bytes = INT64_MAX;      // of tensors in a file
  std::int64_t end_of_text = -1;                // id of the token; below 0: none
  std::vector<std::int32_t> ends_of_text = {};  // all, where there are several
  std::int64_t begin_of_text = -1;              // "; as `generate` begins without a prompt
};

/// Writes what transformers' GPT2LMHeadModel.from_pretrained reads into a folder that is there:
/// config.json, generation_config.json, and the tensors in model.safetensors, or in several files
/// and an index. Biases that the model has not are zeros there. A tensor that is larger than
/// max_file_bytes has a file of its own. Errors: UserError(bad_config) for values that the dtype
/// cannot hold; UserError(no_checkpoint) for tensors that are missing or other than the
/// spec says, all listed; UserError(storage). Memory: two tensors.
void export_gpt2(checkpoint::StoredModel& model, const model::GptSpec& spec,
                 const Gpt2Options& options, const std::string& folder);

/// All parameters under our names in one file; floating ones in `dtype` where it is given.
void export_safetensors(checkpoint::StoredModel& model,
                        std::optional<checkpoint::ElementType> dtype, const std::string& path);

}  // namespace fourfold::interop
