// What relations between keys are written with: verdicts, and choices that work. Included by the
// rules*.cpp files only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "config/number.h"
#include "config/rules.h"

namespace fourfold::config {

using Verdict = std::optional<Finding>;

/// The divisors of `number` nearest to `wanted`, at most six, in order: "8, 16, 32".
std::string divisors_near(std::int64_t number, std::int64_t wanted);

/// The multiples of `factor` around `wanted`: "128 or 132".
std::string multiples_near(std::int64_t factor, std::int64_t wanted);

Verdict divides(std::string_view whole_key, std::int64_t whole, std::string_view part_key,
                std::int64_t part);

/// Layers that are computed again together are at most all of a model.
Verdict checkpoints_fit_layers(const plan::Checkpointing& checkpointing, std::int64_t num_layers);

template <class T>
Verdict at_most(std::string_view small_key, T small, std::string_view large_key, T large) {
  if (small <= large) return std::nullopt;
  const std::string a = format_number(static_cast<double>(small)),
                    b = format_number(static_cast<double>(large));
  return Finding{format("{} = {} is larger than {} = {}", small_key, a, large_key, b),
                 format("set {} to at most {}, or {} to at least {}", small_key, b, large_key, a)};
}

// The rules, in parts as the rows of the schema are.
std::vector<Rule> parallel_rules();
std::vector<Rule> data_rules();
std::vector<Rule> train_rules();
std::vector<Rule> optimizer_rules();

}  // namespace fourfold::config
