// Cases of convolutions for libraries: those of convolution_cases(), and each forward one again
// with the bias after it in one chain.
#pragma once

#include <variant>
#include <vector>

#include "numerics/harness.h"
#include "support/chains.h"

namespace fourfold::numerics {

inline std::vector<Case> all_convolutions() {
  std::vector<Case> cases = convolution_cases();
  for (const Case& sample : convolution_cases())
    if (const auto* forward = sample.op.get_if<op::Convolution>()) {
      const std::int64_t outputs = sample.reads[1].shape[0];
      cases.push_back({sample.name + " with a bias",
                       op::chain_of({{*forward, {0, 1, 3}}, {op::AddBias{}, {3, 2, 3}}}),
                       {sample.reads[0], sample.reads[1], uniform({outputs}, "bias")},
                       {},
                       sample.reduction + 1});
    }
  return cases;
}

}  // namespace fourfold::numerics
