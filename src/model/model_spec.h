// The families of models: which there are, and the spec of each.
#pragma once

#include <cstdint>
#include <variant>

#include "model/gpt_spec.h"
#include "model/unet_spec.h"
#include "model/vgg_spec.h"

namespace fourfold::model {

/// The spec of one family.
using Spec = std::variant<GptSpec, VggSpec, UnetSpec>;

enum class Kind : std::uint8_t { gpt, vgg, unet };

}  // namespace fourfold::model
