// Chooses the next token from the logits: a pure function. Not the loop around it: generate.h.
#pragma once

#include <cstdint>
#include <span>

#include "generate/sample_spec.h"

namespace fourfold::generate {

/// A token drawn from softmax(logits / temperature), all in double, by inverting the cumulative
/// distribution in the order of the ids at `uniform` in [0, 1). Temperature 0 takes the largest
/// logit. With top_k > 0 only the top_k largest logits take part; with top_p < 1, of these the
/// fewest largest whose share of their probability reaches top_p (Holtzman et al. 2020), at least
/// one. Of equal logits the lower id counts as the larger. -inf is a token that cannot come.
/// Errors: UserError(numeric_stop) for NaN, +inf, or no token that can come. Requires: logits,
/// temperature >= 0, top_k >= 0, 0 < top_p <= 1. Cost: V, with top_p < 1 V log V.
std::int32_t sample_token(std::span<const double> logits, const SampleSpec& spec, double uniform);

}  // namespace fourfold::generate
