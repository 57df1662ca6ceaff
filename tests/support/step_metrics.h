// What the steps of a run say of its model, as its metrics.jsonl has it: the numbers that depend on
// neither time nor grid. Header only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace fourfold::test {

struct StepMetrics {
  double loss = 0, grad_norm = 0;
  double val_loss = 0;  // 0 where the step has none
};

/// Empty where there is no run.
inline std::vector<StepMetrics> steps_of(const std::string& run_dir) {
  std::vector<StepMetrics> steps;
  const std::string path = run_dir + "/metrics.jsonl";
  if (!file_exists(path)) return steps;
  const std::string text = read_file(path);
  for (const auto& line : split(text, '\n')) {
    if (line.empty()) continue;
    const Json json = parse_json(line, path);
    const Json* val_loss = json.find("val_loss");
    steps.push_back({json.find("loss")->as_double(), json.find("grad_norm")->as_double(),
                     val_loss == nullptr ? 0 : val_loss->as_double()});
  }
  return steps;
}

/// The largest relative difference of any number, which the test fails beyond `most`.
inline double expect_equal_steps(const std::vector<StepMetrics>& got,
                                 const std::vector<StepMetrics>& expected, double most) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
    for (const auto member :
         {&StepMetrics::loss, &StepMetrics::grad_norm, &StepMetrics::val_loss}) {
      const double a = got[i].*member, b = expected[i].*member;
      if (a == b) continue;
      const double error = std::abs(a - b) / std::abs(b);
      EXPECT_LE(error, most) << "step " << i + 1 << ": " << a << " instead of " << b;
      // Written so that a NaN stays.
      if (!(error <= worst)) worst = error;
    }
  return worst;
}

}  // namespace fourfold::test
