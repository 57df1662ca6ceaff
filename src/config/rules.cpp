#include "config/rules.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "config/family.h"
#include "config/rules_words.h"

namespace fourfold::config {
namespace {

std::vector<Rule> family_rules() {
  std::vector<Rule> all;
  for (const model::Kind kind : model::kinds)
    for (Rule rule : family_schema(kind).rules) {
      rule.kinds = {kind};
      all.push_back(std::move(rule));
    }
  return all;
}

std::vector<Rule> all_rules() {
  std::vector<Rule> all;
  for (const auto& part : {parallel_rules, family_rules, data_rules, train_rules, optimizer_rules})
    std::ranges::move(part(), std::back_inserter(all));
  return all;
}

}  // namespace

std::string divisors_near(std::int64_t number, std::int64_t wanted) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t low = 1; low * low <= number; ++low) {
    if (number % low != 0) continue;
    divisors.push_back(low);
    if (low != number / low) divisors.push_back(number / low);
  }
  constexpr std::size_t most = 6;
  std::sort(divisors.begin(), divisors.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(std::abs(a - wanted), a) < std::pair(std::abs(b - wanted), b);
  });
  divisors.resize(std::min(divisors.size(), most));
  std::sort(divisors.begin(), divisors.end());
  std::vector<std::string> words;
  for (const std::int64_t divisor : divisors) words.push_back(format("{}", divisor));
  return join(words, ", ");
}

std::string multiples_near(std::int64_t factor, std::int64_t wanted) {
  const std::int64_t below = wanted / factor * factor;
  if (below == 0) return format("{}", factor);
  return format("{} or {}", below, below + factor);
}

Verdict divides(std::string_view whole_key, std::int64_t whole, std::string_view part_key,
                std::int64_t part) {
  if (whole % part == 0) return std::nullopt;
  return Finding{format("{} = {} is not divisible by {} = {}", whole_key, whole, part_key, part),
                 format("choices that work: {} = {}; or {} = {}", part_key,
                        divisors_near(whole, part), whole_key, multiples_near(part, whole))};
}

Verdict checkpoints_fit_layers(const plan::Checkpointing& checkpointing, std::int64_t num_layers) {
  if (checkpointing.layers <= num_layers) return std::nullopt;
  return Finding{
      format("memory.activation_checkpointing = every {} is more than model.num_layers = {}",
             checkpointing.layers, num_layers),
      format("set N to at most {}; these divide the layers evenly: {}", num_layers,
             divisors_near(num_layers, num_layers))};
}

std::span<const Rule> rules() {
  static const std::vector<Rule> table = all_rules();
  return table;
}

}  // namespace fourfold::config
