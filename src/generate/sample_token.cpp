#include "generate/sample_token.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::generate {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

[[noreturn]] void fail(const std::string& what) {
  throw UserError(ExitCode::numeric_stop, format("{}, expected numbers; the weights are damaged or "
                                                 "the training has diverged: use an earlier model",
                                                 what));
}

void check(std::span<const double> logits) {
  const auto bad = std::find_if(logits.begin(), logits.end(),
                                [](double x) { return std::isnan(x) || x == infinity; });
  if (bad != logits.end()) fail(format("the logit of token {} is {}", bad - logits.begin(), *bad));
  const bool all_impossible =
      std::all_of(logits.begin(), logits.end(), [](double x) { return x == -infinity; });
  if (all_impossible) fail("the logits of all tokens are -inf");
}

/// The ids that take part, in rising order.
std::vector<std::int32_t> candidates(std::span<const double> logits, std::int64_t top_k) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (top_k == 0 || top_k >= static_cast<std::int64_t>(ids.size())) return ids;
  const auto is_larger = [&](std::int32_t a, std::int32_t b) {
    const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::nth_element(ids.begin(), ids.begin() + top_k, ids.end(), is_larger);
  ids.resize(static_cast<std::size_t>(top_k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

std::int32_t sample_token(std::span<const double> logits, const SampleSpec& spec, double uniform) {
  require(!logits.empty(), "there are logits to sample from");
  require(spec.temperature >= 0 && spec.top_k >= 0, "temperature and top_k are not negative");
  require(uniform >= 0 && uniform < 1, "the random number is in [0, 1)");
  check(logits);
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (spec.temperature == 0) return static_cast<std::int32_t>(largest - logits.begin());

  const std::vector<std::int32_t> ids = candidates(logits, spec.top_k);
  const auto weight = [&](std::int32_t id) {
    return std::exp((logits[static_cast<std::size_t>(id)] - *largest) / spec.temperature);
  };
  double total = 0;
  for (const std::int32_t id : ids) total += weight(id);
  double below = 0;
  for (const std::int32_t id : ids) {
    below += weight(id);
    // The last sum equals `total`, and uniform * total rounds to less than that.
    if (uniform * total < below) return id;
  }
  fail_internal("a token is found below the total weight");
}

}  // namespace fourfold::generate
