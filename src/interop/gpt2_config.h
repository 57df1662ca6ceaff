// Hugging Face's config.json of a GPT-2, from and to our GptSpec. Not tensors: gpt2_tensors.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/element_type.h"
#include "model/gpt_spec.h"

namespace fourfold::interop {

/// What a config.json says besides the model.
struct Gpt2Extras {
  checkpoint::ElementType dtype = DType::f32;  // of the tensors; a floating type
  std::int64_t end_of_text = -1;               // id of the token; below 0: none
  std::int64_t begin_of_text = -1;             // "; as `generate` begins without a prompt
};

/// It says nothing of biases: a model without them is one whose biases are zero.
Json gpt2_config(const model::GptSpec& spec, const Gpt2Extras& extras);

/// A model of others in our words.
struct ImportedGpt2 {
  model::GptSpec spec;
  std::vector<std::string> notes;  // what a person should know of the translation
};

/// Keys that are left out have the values of transformers' GPT2Config; keys that change nothing in
/// the function are not looked at. Errors: UserError(no_checkpoint) that begins with `file`, one
/// line a key whose value is wrong or means something that this model cannot do.
ImportedGpt2 parse_gpt2_config(std::string_view text, std::string_view file);

}  // namespace fourfold::interop
