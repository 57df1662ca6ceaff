// A family of Hugging Face's models: which of ours it is, its config.json and its tensors. One
// interface for all of them; each stands in a pair of files of its own: gpt2.h, llama.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/element_type.h"
#include "interop/config_reader.h"
#include "interop/hub_tensors.h"
#include "model/model_spec.h"

namespace fourfold::interop {

/// The facts that a config.json states besides the model.
struct HubExtras {
  checkpoint::ElementType dtype = DType::f32;  // of the tensors; a floating type
  std::int64_t end_of_text = -1;               // id of the token; below 0: none
  std::int64_t begin_of_text = -1;             // "; as `generate` begins without a prompt
};

/// A model of others in our words.
struct ImportedModel {
  model::Spec spec;
  std::vector<std::string> notes;  // what a person should know of the translation
};

/// The word of model_type, and the class that reads such a model.
struct HubClass {
  std::string_view model_type, name;
};

struct HubFamily {
  std::string_view title;  // "GPT-2": for people
  std::vector<HubClass> classes;
  std::string_view prefix;  // of the names of all tensors but the head's; files may lack it
  /// Reads the keys of a model of one of `classes`. Keys that are left out have the values of
  /// transformers; keys that change nothing in the function are not looked at; what means
  /// something that our model cannot do is refused by its key.
  ImportedModel (*parse)(ConfigReader& reader, std::string_view model_type);
  /// True if it has models of this spec's family.
  bool (*is_of)(const model::Spec& spec);
  /// The class that an exported model is of. Errors: UserError(bad_config) where none computes the
  /// same.
  HubClass (*class_of)(const model::Spec& spec);
  /// Its config.json.
  Json (*config)(const model::Spec& spec, const HubExtras& extras);
  /// All tensors of theirs, in the order of the model, the embedding of tokens first; the head only
  /// where it is not tied. Those that together hold one of ours stand together.
  std::vector<HubTensor> (*tensors)(const model::Spec& spec);
  /// What old files hold beside the parameters, by its name without the prefix.
  bool (*is_left_aside)(std::string_view name);
};

inline constexpr std::string_view hub_head = "lm_head.weight";

/// The one that has such models; null: none has.
const HubFamily* hub_family_of(const model::Spec& spec);
/// A name in a file without the family's prefix, where it has one.
std::string_view without_prefix(const HubFamily& family, std::string_view name);

bool has_tied_head(const model::Spec& spec);
/// True if its class has biases that the model has not.
bool has_added_biases(const model::Spec& spec);
/// The model with a head of its own.
model::Spec untied(model::Spec spec);

/// A model, and the family that it is of.
struct HubModel : ImportedModel {
  const HubFamily* family = nullptr;
};

/// Errors: UserError(no_checkpoint) that begins with `file`, one line a key whose value is wrong or
/// means something that our models cannot do.
HubModel parse_hub_config(std::string_view text, std::string_view file);

/// "float32": how config.json names a floating type.
std::string_view torch_name(checkpoint::ElementType type);
/// The first keys of every config.json, and the last ones.
Json first_keys(const HubClass& of);
void set_last_keys(Json& json, const HubExtras& extras);
/// Largest sizes of the keys of model.* here.
inline constexpr std::int64_t most_width = 1'000'000, most_layers = 1'000, most_tokens = 1'000'000,
                              most_vocabulary = 10'000'000;

}  // namespace fourfold::interop
