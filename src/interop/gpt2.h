// Hugging Face's GPT-2, from and to our GptSpec.
#pragma once

#include "interop/hub_family.h"

namespace fourfold::interop {

/// Both sides store weights [in, out] and Q, K, V one after another, each with its heads one after
/// another, so the bytes are the same ones, but for a head that is not tied. It says nothing of
/// biases: a model without them is one whose biases are zero.
const HubFamily& gpt2_family();

}  // namespace fourfold::interop
