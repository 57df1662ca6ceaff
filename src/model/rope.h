// The frequencies of rotary positions (Su et al. 2021, arXiv:2104.09864), and how they are changed
// for texts that are longer than those of the training. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "model/llama_spec.h"

namespace fourfold::model {

/// One for each pair of elements of a head: theta^(-2i / width), changed as the kind says.
/// linear: divided by the factor (Chen et al. 2023, arXiv:2306.15595). llama3: low ones are divided
/// by the factor, high ones stay, those between are blended (Llama 3.1). yarn: the same, with a
/// ramp over i in place of wavelengths (Peng et al. 2023, arXiv:2309.00071, section 3.2).
/// Requires an even width.
std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t width);

/// By which sines and cosines are multiplied: 1, but of yarn (there section 3.4).
double rope_factor(const RopeSpec& rope);

}  // namespace fourfold::model
